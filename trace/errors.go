package trace

import (
	"cmp"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"unicode"
)

// Error is something wrong with one row of a trace: where it is, what was
// found there and what was expected.
type Error struct {
	File   string // as it was opened
	Line   int    // from 1; 0 where a file has no lines to speak of
	Column string // name of the column or field; empty: the whole row
	Number int    // of the column, from 1; 0 unknown
	Found  string // shortened to fit a message
	Want   string
}

// Error says it in one line, the file first.
func (e *Error) Error() string {
	var s strings.Builder
	s.WriteString(e.File)
	if e.Line > 0 {
		s.WriteString(", line " + strconv.Itoa(e.Line))
	}
	switch {
	case e.Number > 0:
		fmt.Fprintf(&s, ", column %d", e.Number)
		if e.Column != "" {
			s.WriteString(" (" + e.Column + ")")
		}
	case e.Column != "":
		s.WriteString(", " + e.Column)
	}
	s.WriteString(": ")
	if e.Found != "" {
		s.WriteString("found " + e.Found + ", ")
	}
	s.WriteString("expected " + e.Want)
	return harmless(s.String())
}

// why is what rows have in common that are wrong in the same way.
func (e *Error) why() string {
	column := e.Column
	if strings.HasPrefix(column, "job ") { // each has a name of its own
		column = "a job"
	}
	return harmless(cmp.Or(column, "a row") + ": expected " + e.Want)
}

// Want is an error of a Setter: what it expected to find.
type Want string

// Error says what was expected.
func (w Want) Error() string { return "expected " + string(w) }

// wrongColumn is what Row.Wrong tells.
type wrongColumn struct {
	column string
	want   Want
}

// Error says what was expected.
func (w *wrongColumn) Error() string { return w.column + ": " + w.want.Error() }

// leftOut is a row that a format leaves out on purpose.
type leftOut struct {
	line  int
	about string // which job it is, where no line tells; empty: not told
	why   string
	rows  int // about it; 0: one
}

// Error says why the row was left out.
func (l *leftOut) Error() string {
	switch {
	case l.about != "":
		return harmless("left out: " + l.about + ": " + l.why)
	case l.line == 0:
		return harmless("left out: " + l.why)
	}
	return harmless(fmt.Sprintf("line %d left out: %s", l.line, l.why))
}

// LeaveOut is the error with which a format says that a row is well formed but
// is no job, such as a step of a job that has its own row. The Reader counts it
// and goes on.
func LeaveOut(why string) error { return &leftOut{why: why} }

// LeaveOutJob is LeaveOut for a job of several rows, by its name. All rows are counted,
// together with those that are left out for the same reason.
func LeaveOutJob(name, why string, rows int) error {
	return &leftOut{about: name, why: why, rows: rows}
}

// quote shows what was found, not more of it than fits a message.
func quote(found []byte) string {
	const most = 60
	if len(found) == 0 {
		return "nothing"
	}
	if len(found) > most {
		return strconv.Quote(string(found[:most])) + "..."
	}
	return strconv.Quote(string(found))
}

// harmless takes out of a text what a terminal would obey, for a file may have any
// names in it.
func harmless(s string) string {
	return strings.Map(func(r rune) rune {
		if unicode.IsPrint(r) {
			return r
		}
		return '?'
	}, s)
}

// want turns the error of a Setter into words that follow "expected".
func want(err error) string {
	var w Want
	var in *wrongColumn
	switch {
	case errors.As(err, &w):
		return string(w)
	case errors.As(err, &in):
		return string(in.want)
	}
	return "something valid: " + err.Error()
}
