package trace

import (
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/norn-scheduler/norn/internal/fileio"
	"github.com/norn-scheduler/norn/job"
)

// Options says how to read a trace and what of it. The zero Options reads all
// of it as it is. They take effect in the order of the groups below. A file is
// decoded row by row, and each row is checked and simplified. Jobs are put into
// order of submission, and some are selected. Those that are left are put on a
// clock and numbered from zero.
type Options struct {
	// How a file is decoded.
	Format   string   // name of the format; empty: told from the content
	Extra    []Format // formats of the caller, which go before those of Formats
	Profile  string   // file or folder of measured speeds, for formats without run times
	GPU      string   // GPU type whose speeds count; empty: the one that the format names as nominal
	NodeGPUs int      // GPUs of a node, for formats that count nodes, 0 to 1000; 0: 1

	// How a row is checked and simplified.
	SkipBad bool         // leave out rows with errors, and count and list them, instead of failing
	Merge   bool         // replace the attempts of a job by one run as long as all of them
	GPUOnly bool         // leave CPU, memory and GPU memory out of the demands of jobs on GPUs
	AnyType bool         // leave GPU types out of the demands
	Stop    job.StopMode // how jobs stop that do not tell otherwise

	// How jobs are put into order.
	Sort bool // hold all of it in memory and sort it, also when the format says that it is in order

	// Which jobs are selected.
	GPUJobs          bool          // only jobs that ask for GPUs
	Tenants          []string      // only jobs of these; empty: all
	From, To         time.Duration // only jobs submitted in [From, To) on the clock of the trace; To 0: no end
	FromTime, ToTime time.Time     // the same by the time of day, where the trace tells it; zero: no bound
	Limit            int           // at most so many jobs; 0: all
	SomeJob          bool          // that none is given out is an error instead of the end

	// On which clock they are given out.
	Rebase bool    // zero is the first submission, also when the trace has a zero of its own
	Load   float64 // jobs arrive so many times as fast, 0 to a million; 0: 1
}

// Check fails on an option that is out of its range, and on a window that ends before it
// begins. Whether there is such a format, and such a file, is told by Open.
func (o *Options) Check() error {
	const mostGPUs, mostLoad = 1000, 1e6 // of a node; more is a slip of the pen
	switch {
	case !(o.Load >= 0 && o.Load <= mostLoad):
		return fmt.Errorf("a load of %g: it must be from 0 to %g", o.Load, mostLoad)
	case o.Limit < 0:
		return fmt.Errorf("a limit of %d jobs: it must be 0 or more", o.Limit)
	case o.NodeGPUs < 0 || o.NodeGPUs > mostGPUs:
		return fmt.Errorf("%d GPUs of a node: from 0 to %d are allowed", o.NodeGPUs, mostGPUs)
	case o.To > 0 && o.To <= o.From || !o.ToTime.IsZero() && !o.ToTime.After(o.FromTime):
		return errors.New("a window that ends before it begins: no job can be in it")
	}
	return nil
}

// Info says what a Reader has met so far. Every row is accounted for: at the
// end of the file, Rows = Jobs + Folded + LeftOut + Bad + Filtered.
type Info struct {
	File    string
	Format  string
	Title   string
	Origin  time.Time // time of day at zero, in UTC as far as the trace tells; zero: not known
	Nominal string    // when run times are not in the trace: where they come from
	Sorted  bool      // the file was not in order of submission and was sorted in memory
	Held    bool      // the file was held in memory, because its order was not known

	Rows     int // rows read, without headers and empty lines
	Jobs     int // jobs given out
	Folded   int // rows that became a part of another row's job
	LeftOut  int // rows that are no job, or none that ran
	Bad      int // rows with errors, left out
	Filtered int // jobs that were not asked for

	Problems []error       // the first rows that were left out or bad
	Reasons  []Reason      // why rows were left out or bad, in the order in which they were met
	Empty    []EmptyFields // columns that were empty in some rows
	Notes    []string      // what was assumed or guessed; the last one tells of Empty
	Ignored  []string      // columns that the format does not know
}

// EmptyFields tells how often a column was empty and what that was taken for.
type EmptyFields struct {
	Column string // as the header has it
	Means  string // such as unknown
	Rows   int
}

// Reason is why rows were left out, or what is wrong with them.
type Reason struct {
	Why   string // in a few words, the same for all of these rows
	Rows  int
	First error // about the first of them
}

// maxProblems bounds Info.Problems and Info.Reasons. The last of the reasons stands for
// all that would be too many.
const maxProblems = 20

// reason counts rows that were left out or bad.
func (i *Info) reason(why string, rows int, first error) {
	at := slices.IndexFunc(i.Reasons, func(r Reason) bool { return r.Why == why })
	switch {
	case at >= 0:
	case len(i.Reasons) < maxProblems:
		at = len(i.Reasons)
		i.Reasons = append(i.Reasons, Reason{Why: why, First: first})
	default:
		at = maxProblems - 1
		i.Reasons[at].Why = "anything else"
	}
	i.Reasons[at].Rows += rows
}

// Reader reads a trace. It implements Source.
type Reader struct {
	opt     Options
	format  Format
	info    Info
	pool    pool
	source  Source // in the order of the file
	file    io.Closer
	body    *bytesReader
	reopen  func() (io.ReadCloser, error) // nil: it cannot be read again
	ordered ordering
	ready   Entry // the first entry, read by open
	started bool
	ended   bool
	demand  *job.Demand // the last that was checked
	plain   map[*job.Demand]*job.Demand
	tenants map[string]bool
	zero    time.Duration // of the file's clock
	unix    bool
	shift   time.Duration // from the file's zero to that of what is given out
}

// Open opens the trace at path, "-" being standard input, a.zip/b.csv a file in a ZIP archive, and reads up to the first job.
// It fails on options that Check refuses, on a file that cannot be read, on a format that
// is not known or that several might be, and on what is wrong with the first rows. An
// error names the file; one about a row is an *Error, which names line and column, too.
func Open(path string, opt Options) (*Reader, error) {
	if path == "-" {
		return open(os.Stdin, nil, "standard input", opt, nil)
	}
	f, err := fileio.Open(path)
	if err != nil {
		return nil, err
	}
	var reopen func() (io.ReadCloser, error)
	if fileio.Regular(path) {
		reopen = func() (io.ReadCloser, error) { return fileio.Open(path) }
	}
	return open(f, f, path, opt, reopen)
}

// NewReader reads a trace from r, as Open does and with its errors. The name is for
// messages.
func NewReader(r io.Reader, name string, opt Options) (*Reader, error) {
	return open(r, nil, name, opt, nil)
}

func open(in io.Reader, closer io.Closer, name string, opt Options, reopen func() (io.ReadCloser, error)) (*Reader, error) {
	r := &Reader{opt: opt, file: closer, reopen: reopen, info: Info{File: name}}
	if err := r.start(in, name); err != nil {
		r.Close()
		var e *Error
		if errors.As(err, &e) {
			return nil, err
		}
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	return r, nil
}

// start finds the format and reads up to the first job.
func (r *Reader) start(in io.Reader, name string) error {
	if err := r.opt.Check(); err != nil {
		return err
	}
	for _, t := range r.opt.Tenants {
		if r.tenants == nil {
			r.tenants = map[string]bool{}
		}
		r.tenants[t] = true
	}
	body, err := unpack(in)
	if err != nil {
		return err
	}
	r.body = body
	if r.format, err = findFormat(body, &r.opt); err != nil {
		return err
	}
	r.info.Format, r.info.Title = r.format.Name, r.format.Title
	if r.opt.Profile != "" && r.format.Profile == "" {
		return fmt.Errorf("format %s makes no use of measured speeds (%s)", r.format.Name, r.opt.Profile)
	}
	input := &Input{Name: name, Options: &r.opt, Body: body.Reader, info: &r.info, pool: &r.pool, clock: r.format.Clock}
	if r.source, err = r.format.Decode(input); err != nil {
		return err
	}
	if input.ordered {
		r.format.Order = Sorted
	}
	return r.prime()
}

func findFormat(body *bytesReader, opt *Options) (Format, error) {
	if opt.Format != "" {
		return Named(opt.Format, opt.Extra)
	}
	h, err := body.head()
	if err != nil {
		return Format{}, err
	}
	return Detect(h, opt.Extra)
}

// Info tells what has been met so far.
func (r *Reader) Info() Info {
	i := r.info
	i.Problems = slices.Clone(i.Problems)
	i.Reasons = slices.Clone(i.Reasons)
	i.Empty = slices.Clone(i.Empty)
	i.Notes = slices.Clone(i.Notes)
	if note := emptyNote(i.Empty); note != "" {
		i.Notes = append(i.Notes, note)
	}
	i.Ignored = slices.Clone(i.Ignored)
	for k, name := range i.Ignored {
		i.Ignored[k] = harmless(name)
	}
	return i
}

// Begins is the time of day at the zero of what is given out, as a run of the jobs goes
// by it. It is known once the first job has been read. It is zero where the trace does
// not tell it, and where Load has jobs arrive at another speed: then the clock of a run
// is not that of the day.
func (r *Reader) Begins() time.Time {
	if r.opt.Load != 0 && r.opt.Load != 1 {
		return time.Time{}
	}
	return r.info.Origin
}

// emptyNote says which columns were empty, in how many rows, and what that was
// taken for; it is empty where none was.
func emptyNote(empty []EmptyFields) string {
	if len(empty) == 0 {
		return ""
	}
	columns := make([]string, len(empty))
	for i, e := range empty {
		columns[i] = fmt.Sprintf("%s in %d (%s)", harmless(e.Column), e.Rows, e.Means)
	}
	return "fields that are empty, by rows, and what that means: " + strings.Join(columns, ", ")
}

// Close closes the file.
func (r *Reader) Close() error {
	if r.body != nil {
		r.body.close()
	}
	r.source, r.ended = nil, true
	if r.file == nil {
		return nil
	}
	f := r.file
	r.file = nil
	return f.Close()
}

// Next implements Source. After io.EOF, Info accounts for the whole file unless
// Limit, To or ToTime ended it early.
func (r *Reader) Next(e *Entry) error {
	for {
		if r.ended || r.opt.Limit > 0 && r.info.Jobs >= r.opt.Limit {
			return io.EOF
		}
		if err := r.nextOrdered(e); err != nil {
			return r.end(r.named(err))
		}
		switch r.selects(e) {
		case pass:
			r.info.Filtered++
		case stop:
			return r.end(io.EOF)
		case take:
			r.give(e)
			return nil
		}
	}
}

// end ends the trace with an error, io.EOF being the usual one.
func (r *Reader) end(err error) error {
	r.ended = true
	if !errors.Is(err, io.EOF) || r.info.Jobs > 0 || !r.opt.SomeJob {
		return err
	}
	i := &r.info
	switch {
	case i.Filtered > 0 || i.Rows > i.LeftOut+i.Bad+i.Folded:
		return fmt.Errorf("%s: none of its jobs was asked for (a window of time, tenants, jobs with GPUs)", i.File)
	case i.Rows == 0:
		return fmt.Errorf("%s: holds no jobs, in format %s", i.File, i.Format)
	}
	return fmt.Errorf("%s: holds no jobs: of its rows, in format %s, %d are no jobs that ran and %d have errors, the first being: %w", i.File, i.Format, i.LeftOut, i.Bad, i.Problems[0])
}

// named adds the file to an error that does not name it.
func (r *Reader) named(err error) error {
	var e *Error
	if errors.Is(err, io.EOF) && !errors.Is(err, io.ErrUnexpectedEOF) {
		return io.EOF
	}
	if errors.As(err, &e) {
		return err
	}
	return fmt.Errorf("%s: %w", r.info.File, err)
}

// nextOrdered gives the entries in order of submission, on the clock of the
// file.
func (r *Reader) nextOrdered(e *Entry) error {
	if r.started {
		return r.ordered.next(r, e)
	}
	r.started = true
	*e = r.ready
	r.ready = Entry{}
	if e.Job.Demand == nil {
		return io.EOF
	}
	return nil
}

// raw gives the entries in the order of the file, checked, without the rows
// that are left out.
func (r *Reader) raw(e *Entry) error {
	for {
		err := r.source.Next(e)
		if err == nil {
			if err = r.check(e); err == nil {
				r.simplify(e)
				return nil
			}
		}
		var out *leftOut
		var bad *Error
		switch {
		case errors.Is(err, io.EOF):
			return io.EOF
		case errors.As(err, &out):
			rows := max(1, out.rows)
			r.info.LeftOut += rows
			r.info.reason(harmless(out.why), rows, err)
		case r.opt.SkipBad && errors.As(err, &bad):
			r.info.Bad++
			r.info.reason(bad.why(), 1, err)
		default:
			return err
		}
		if len(r.info.Problems) < maxProblems {
			r.info.Problems = append(r.info.Problems, err)
		}
	}
}

// line is where the last row was; 0 where the format does not tell.
func (r *Reader) line() int {
	if at, ok := r.source.(interface{ line() int }); ok {
		return at.line()
	}
	return 0
}

// century bounds the times of a trace, so that no sum of some of them can
// overflow.
const century = 100 * 365 * 24 * time.Hour

// check guards against what no format should let pass.
func (r *Reader) check(e *Entry) error {
	j, t := &e.Job, &e.Truth
	if j.Key == "" {
		j.Key = r.pool.number(r.info.Rows - 1)
	}
	bad := func(found, want string) error {
		return &Error{File: r.info.File, Line: r.line(), Column: "job " + j.Key, Found: found, Want: want}
	}
	total := t.Work
	for _, a := range t.Attempts {
		if a < 0 || a > century || total > century {
			return bad("attempts that are negative or too long", "100 years at most")
		}
		total += a
	}
	switch {
	case j.Demand == nil:
		return bad("no demand", "one")
	case t.Work < 0 || total > century:
		return bad("a run time of "+t.Work.String(), "0 to 100 years")
	case j.Submit < 0 || j.Deadline < 0 || j.Estimate < 0 || t.Wait < 0:
		return bad("a negative time", "0 or more")
	case r.format.Clock == OwnZero && (j.Submit > century || j.Deadline > 2*century):
		return bad("a submission or deadline more than 100 years after the beginning", "an earlier one")
	}
	if j.Demand != r.demand {
		if err := j.Demand.Check(); err != nil {
			return bad("a job that "+err.Error(), "a demand that can be met")
		}
		r.demand = j.Demand
	}
	return nil
}

// simplify leaves out what the caller does not want to see.
func (r *Reader) simplify(e *Entry) {
	if r.opt.Merge && len(e.Truth.Attempts) > 0 {
		e.Truth.Work = e.Truth.Total()
		e.Truth.Attempts = nil
	}
	if e.Job.Stop == job.Checkpoint {
		e.Job.Stop = r.opt.Stop
	}
	if !r.opt.GPUOnly && !r.opt.AnyType {
		return
	}
	d, ok := r.plain[e.Job.Demand]
	if !ok {
		d = r.pool.demands.Get(r.strip(*e.Job.Demand))
		if r.plain == nil {
			r.plain = map[*job.Demand]*job.Demand{}
		}
		r.plain[e.Job.Demand] = d
	}
	e.Job.Demand = d
}

// strip takes CPU, memory, counted resources and GPU types out of a demand as the options say. A
// job that asks for no GPU keeps its CPU and memory.
func (r *Reader) strip(d job.Demand) job.Demand {
	if r.opt.AnyType {
		d.Types = ""
	}
	for i := range d.Roles {
		if role := &d.Roles[i]; r.opt.GPUOnly && role.GPU > 0 {
			role.CPU, role.Memory, role.GPUMemory, role.Slots = 0, 0, 0, ""
		}
	}
	return d
}
