package trace

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/norn-scheduler/norn/policy/param"
)

// Format is a way in which a trace is written.
type Format struct {
	Name    string   // by which Options.Format calls for it: philly
	Aliases []string // further names
	Title   string   // whose trace it is, in a few words
	Clock   Clock
	Order   Order
	Profile string   // what Options.Profile names for it; empty: its run times are its own
	Columns []Column // of a format that is a Table; nil: it is none

	// Match tells how much of the beginning of a file the format understands:
	// the number of columns it knows, or any number for other formats; 0 means
	// that the file is in another format. The highest wins.
	Match func(h *Head) int

	// Decode starts to read a file. The source that it returns gives the jobs in
	// the order of the file; their times are as Clock says and their numbers
	// are set by the Reader. An *Error and the error of LeaveOut are about one
	// row, after which the source can go on; any other error ends it.
	Decode func(in *Input) (Source, error)
}

// Clock says how a format tells time.
type Clock uint8

// The clocks.
const (
	OwnZero Clock = iota // since a zero of the trace's own
	Unix                 // since 1970, the time of day being known
	Either               // OwnZero, unless the first submission is a billion seconds or more: then Unix
)

// Order says whether a format lists jobs in order of submission.
type Order uint8

// The orders.
const (
	AnyOrder Order = iota // not known beforehand
	Sorted
	Unsorted
)

// Formats returns the formats that this package reads, in the order in which
// help texts list them.
func Formats() []Format {
	return []Format{
		nornCSV(), nornJSON(), sacctFormat(), sacctJSON(), podsFormat(), workloadsFormat(), prometheusFormat(),
		philly(), phillyPassed(), phillyPCS(), phillyAttempts(), genParallel(),
		helios(), heliosClamped(), heliosLog(),
		itp(), pai2020(), paiSimulator(), openb(), alibabaDLRM(), alibabaGenAI(), kalos(), thetaGPU(),
		tiresias(), muri(), gavelMSR(), gavel(), shockwave(), pollux(), synergy(),
		elasticFlow(), arena(), chronus(), palPhilly(), palShockwave(), rubick(), ones(), allox(), mapa(), topologyAware(), titanWorkload(),
	}
}

// Named finds the format of that name among extra and Formats.
func Named(name string, extra []Format) (Format, error) {
	var names []string
	is := func(f Format) bool {
		names = append(names, f.Name)
		return f.Name == name || slices.Contains(f.Aliases, name)
	}
	if i := slices.IndexFunc(extra, is); i >= 0 {
		return extra[i], nil
	}
	known := Formats()
	if i := slices.IndexFunc(known, is); i >= 0 {
		return known[i], nil
	}
	return Format{}, fmt.Errorf("%q is not a format of traces; known are %s%s", name, strings.Join(names, ", "), param.Near(name, names))
}

// errUnknown says that a file is in no known format.
var errUnknown = errors.New("is in no known format of traces")

// Detect tells in which format a file is that begins like this. A format of
// extra goes before those of Formats.
func Detect(h *Head, extra []Format) (Format, error) {
	if len(bytes.TrimSpace(h.Text)) == 0 {
		return Format{}, errors.New("is empty")
	}
	for _, among := range [][]Format{extra, Formats()} {
		if f, ok, err := bestOf(h, among); ok || err != nil {
			return f, err
		}
	}
	return Format{}, fmt.Errorf("%w; it begins with %s. %s", errUnknown, quote(h.Line(0)), advice(h.Line(0)))
}

// advice says what to do about a file in no known format that begins like this.
func advice(line []byte) string {
	comma, own := bytes.IndexByte(line, ','), bytes.Contains(bytes.ToLower(line), []byte("gpus"))
	switch {
	case bytes.Contains(line, []byte("JobID")) && bytes.IndexByte(line, '|') < 0:
		return "If it comes from sacct, export it with --parsable2"
	case own && comma < 0 && bytes.ContainsAny(line, ";\t"):
		return "If it is Norn's own CSV, put commas between the fields"
	}
	return "Name the format, or give the columns names that Norn's own CSV has: at least gpus and duration"
}

// bestOf finds the format that understands most; ok is false when none does.
func bestOf(h *Head, among []Format) (best Format, ok bool, err error) {
	most, tie := 0, ""
	for _, f := range among {
		if f.Match == nil {
			continue
		}
		switch n := f.Match(h); {
		case n > most:
			best, most, tie = f, n, ""
		case n == most && n > 0 && tie == "":
			tie = f.Name
		}
	}
	if tie != "" {
		return best, false, fmt.Errorf("may be in format %s or %s: name the one it is", best.Name, tie)
	}
	return best, most > 0, nil
}

// Head is the beginning of a file, unpacked.
type Head struct {
	Text []byte
	All  bool // the file ends with it
}

// Line is the n-th line from 0 that is not empty, without its end; nil when
// the head does not hold the whole of it.
func (h *Head) Line(n int) []byte {
	text := bytes.TrimPrefix(h.Text, utf8BOM)
	for len(text) > 0 {
		end := bytes.IndexAny(text, "\r\n")
		if end < 0 {
			if !h.All {
				return nil
			}
			end = len(text)
		}
		line := text[:end]
		text = text[min(end+1, len(text)):]
		if len(bytes.TrimSpace(line)) == 0 {
			continue
		}
		if n--; n < 0 {
			return line
		}
	}
	return nil
}

// Columns splits the n-th line at the commas.
func (h *Head) Columns(n int, comma byte) [][]byte {
	line := h.Line(n)
	if line == nil {
		return nil
	}
	rec := records{comma: comma}
	if err := rec.split(line); err != nil {
		return nil
	}
	return rec.fields
}

// Input is the file that a Decode function reads from, unpacked, from its
// beginning, together with what the caller wants and what all readers share.
type Input struct {
	Name    string // of the file, for messages
	Options *Options
	Body    *bufio.Reader
	info    *Info
	pool    *pool
	clock   Clock
	ordered bool
}

// Row counts one row of the file; a format that does not use a Table calls it
// for each.
func (in *Input) Row() { in.info.Rows++ }

// Fold tells that n rows became a part of other rows' jobs.
func (in *Input) Fold(n int) { in.info.Folded += n }

// passOver tells that n rows are left out because they are about jobs with errors, beside
// the rows of these errors.
func (in *Input) passOver(n int) {
	if n > 0 {
		in.info.LeftOut += n
		in.info.reason("about jobs with errors", n, LeaveOut("rows about jobs with errors"))
	}
}

// leaveRows tells that n rows are left out, for the same reason.
func (in *Input) leaveRows(why string, n int) {
	if n <= 0 {
		return
	}
	err := LeaveOut(why)
	in.info.LeftOut += n
	in.info.reason(why, n, err)
	if len(in.info.Problems) < maxProblems {
		in.info.Problems = append(in.info.Problems, err)
	}
}

// Note tells the reader of Info about something assumed or guessed. The same
// note is kept once.
func (in *Input) Note(text string) {
	for _, n := range in.info.Notes {
		if n == text {
			return
		}
	}
	in.info.Notes = append(in.info.Notes, text)
}

// Empty counts a field of a row that is empty, or makes no sense where that can
// be borne, and tells what is assumed then. A Table does so by itself.
func (in *Input) Empty(column, means string) {
	i := slices.IndexFunc(in.info.Empty, func(e EmptyFields) bool { return e.Column == column && e.Means == means })
	if i < 0 {
		i = len(in.info.Empty)
		in.info.Empty = append(in.info.Empty, EmptyFields{Column: column, Means: means})
	}
	in.info.Empty[i].Rows++
}

// Nominal tells that the run times are nominal and where they come from.
func (in *Input) Nominal(from string) { in.info.Nominal = from }

// Origin tells the time of day at the file's own zero.
func (in *Input) Origin(t time.Time) { in.info.Origin = t }

// InOrder tells that this file is in order of submission, whatever the order of
// the format.
func (in *Input) InOrder() { in.ordered = true }

// Text is the string of v, equal ones sharing memory.
func (in *Input) Text(v []byte) string { return in.pool.text(v) }

// Unique is the string of v, for values that do not come again.
func (in *Input) Unique(v []byte) string { return in.pool.unique(v) }

// Bad is the error about a row of this file.
func (in *Input) Bad(line int, column string, found []byte, want string) error {
	return &Error{File: in.Name, Line: line, Column: column, Found: quote(found), Want: want}
}
