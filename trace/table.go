package trace

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"

	"github.com/norn-scheduler/norn/cluster/unit"
	"github.com/norn-scheduler/norn/job"
)

// Table describes a format whose rows are lines and whose columns are
// separated by a comma, in the CSV way or plainly.
type Table struct {
	Comma    byte // 0: ','
	Comment  byte // lines that begin with it are passed over; 0: none
	NoHeader bool // the columns are all of those below, in that order
	AnyCase  bool // upper and lower case are the same in the header
	Columns  []Column

	// Finish, when not nil, is called after the columns of a row have been set,
	// for what needs several of them.
	Finish func(r *Row) error
}

// Column is a column of a Table. A field that is empty is an error of its row
// unless the column says what that means (see Or); then the setter is not called,
// and Info.Empty counts the field.
type Column struct {
	Name     string // as the header has it
	Set      Setter // nil: the column is known and not used
	Optional bool   // the header may lack it
	Empty    string // what an empty field means, such as unknown; "": it is an error
}

// Setter stores the text of a field, which is not empty, in a row. An error of
// type Want says what it expected; the Reader adds where that was and what it
// found. LeaveOut leaves out the row. Values that a setter keeps for Finish
// belong into RowState.
type Setter func(r *Row, field []byte) error

// Col is a column that a file must have, with something in each row.
func Col(name string, set Setter) Column { return Column{Name: name, Set: set} }

// Opt is a column that a file may have. Where it is there, it has something in
// each row.
func Opt(name string, set Setter) Column { return Column{Name: name, Set: set, Optional: true} }

// Or is the same column, which may be empty: means says in a few words what is
// assumed then, for docs and for Info.Empty.
func (c Column) Or(means string) Column {
	c.Empty = means
	return c
}

// Unused is a column that a file must have and that nothing is taken from.
func Unused(name string) Column { return Column{Name: name} }

// Ignored is a column that a file may have and that nothing is taken from.
func Ignored(name string) Column { return Column{Name: name, Optional: true} }

// Row is the row being read.
type Row struct {
	*Entry
	Shape Shape // what the job asks for, unless Job.Demand is set
	Line  int   // of the file, from 1
	In    *Input

	hints job.Hints
	told  bool // hints are to be given to the job
	state any  // see RowState
}

// Hints are the hints of the job, made when first asked for.
func (r *Row) Hints() *job.Hints {
	r.told = true
	return &r.hints
}

// rowState is what several columns of the row at a line say together.
type rowState[T any] struct {
	line  int
	value T
}

// RowState is what several columns of a row say together, for Finish: a T that
// is zero at the beginning of each row. The setters of a table share one T. A
// variable outside of the row would keep what the row before has said.
func RowState[T any](r *Row) *T {
	s, ok := r.state.(*rowState[T])
	if !ok {
		s = &rowState[T]{line: r.Line}
		r.state = s
	}
	if s.line != r.Line {
		*s = rowState[T]{line: r.Line}
	}
	return &s.value
}

// Wrong is the error with which Finish says that a column, by its name in the
// Table, is not what it wants.
func (r *Row) Wrong(column, want string) error { return &wrongColumn{column, Want(want)} }

// Text is the string of a field, equal ones sharing memory.
func (r *Row) Text(field []byte) string { return r.In.pool.text(field) }

// Unique is the string of a field whose value does not come again.
func (r *Row) Unique(field []byte) string { return r.In.pool.unique(field) }

// CSV makes a format of a table. The function is called once for each file, for
// what setters keep from row to row, such as the sum of intervals. Values that
// they keep for one row belong into RowState. The function is also called to
// learn the columns, then with an Input of which only the Options, all zero,
// are set.
func CSV(name, title string, table func(in *Input) *Table) Format {
	shape := table(noInput())
	return Format{
		Name: name, Title: title, Columns: shape.Columns,
		Match:  shape.match,
		Decode: func(in *Input) (Source, error) { return table(in).open(in) },
	}
}

// noInput is the Input with which a table is made to learn its columns.
func noInput() *Input { return &Input{Options: &Options{}, info: &Info{}, pool: &pool{}} }

func (t *Table) comma() byte {
	if t.Comma == 0 {
		return ','
	}
	return t.Comma
}

// match counts the columns of the header that the table knows; 0 when one that
// it needs is missing. A table without a header never matches by itself.
func (t *Table) match(h *Head) int {
	if t.NoHeader {
		return 0
	}
	header, err := t.header(h)
	if err != nil {
		return 0
	}
	known := 0
	for i := range t.Columns {
		c := &t.Columns[i]
		switch {
		case columnIndex(header, c.Name, t.AnyCase) >= 0:
			known++
		case !c.Optional:
			return 0
		}
	}
	return known
}

func (t *Table) header(h *Head) ([][]byte, error) {
	for n := 0; ; n++ {
		line := h.Line(n)
		if line == nil {
			return nil, io.EOF
		}
		if t.Comment != 0 && line[0] == t.Comment {
			continue
		}
		return h.Columns(n, t.comma()), nil
	}
}

// columnIndex finds a column in a header; -1 when it is not there.
func columnIndex(header [][]byte, name string, anyCase bool) int {
	for i, h := range header {
		if h = bytes.TrimSpace(h); string(h) == name || anyCase && strings.EqualFold(string(h), name) {
			return i
		}
	}
	return -1
}

// bound is a column found in a file.
type bound struct {
	index int
	set   Setter
	empty string // what an empty field means; "": it is an error
	count int    // of the column in Info.Empty, from 1; 0: it has not been empty
}

// tableSource reads a file by a table.
type tableSource struct {
	table *Table
	in    *Input
	rec   records
	cols  []bound
	width int
	names []string
	row   Row
}

func (t *Table) open(in *Input) (Source, error) {
	s := &tableSource{table: t, in: in, rec: records{r: in.Body, comma: t.comma(), comment: t.Comment}}
	if t.NoHeader {
		for i, c := range t.Columns {
			s.names = append(s.names, c.Name)
			s.bind(i, c)
		}
		s.width = len(t.Columns)
		s.rec.width = s.width
		return s, nil
	}
	if err := s.rec.next(); err != nil {
		if errors.Is(err, io.EOF) {
			return nil, fmt.Errorf("is empty")
		}
		return nil, err
	}
	return s, s.readHeader()
}

func (s *tableSource) bind(index int, c Column) {
	if c.Set != nil {
		s.cols = append(s.cols, bound{index: index, set: c.Set, empty: c.Empty})
	}
}

// readHeader finds the columns of the table in the first record.
func (s *tableSource) readHeader() error {
	header := s.rec.fields
	s.width = len(header)
	s.rec.width = s.width
	known := make([]bool, len(header))
	for _, h := range header {
		s.names = append(s.names, string(bytes.TrimSpace(h)))
	}
	for _, c := range s.table.Columns {
		i := columnIndex(header, c.Name, s.table.AnyCase)
		if i < 0 {
			if c.Optional {
				continue
			}
			return &Error{File: s.in.Name, Line: s.rec.line, Found: "a header without it", Want: "a column " + strconv.Quote(c.Name)}
		}
		if columnIndex(header[i+1:], c.Name, s.table.AnyCase) >= 0 {
			return &Error{File: s.in.Name, Line: s.rec.line, Found: "the column " + strconv.Quote(c.Name) + " twice", Want: "it once"}
		}
		known[i] = true
		s.bind(i, c)
	}
	for i, k := range known {
		if !k && s.names[i] != "" {
			s.in.info.Ignored = append(s.in.info.Ignored, s.names[i])
		}
	}
	return nil
}

// Next implements Source.
func (s *tableSource) Next(e *Entry) error {
	err := s.rec.next()
	if err != nil && !errors.Is(err, errQuote) && !errors.Is(err, errSwallowed) {
		return err
	}
	s.in.Row()
	*e = Entry{}
	r := &s.row
	if r.told {
		r.hints, r.told = job.Hints{}, false
	}
	r.Entry, r.Line, r.In, r.Shape = e, s.rec.line, s.in, Shape{}
	switch {
	case err != nil:
		return &Error{File: s.in.Name, Line: r.Line, Want: err.Error()}
	case len(s.rec.fields) != s.width:
		return &Error{
			File: s.in.Name, Line: r.Line, Found: fmt.Sprintf("%d fields", len(s.rec.fields)),
			Want: fmt.Sprintf("%d, as many as the first line has", s.width),
		}
	}
	for i := range s.cols {
		if err := s.set(r, &s.cols[i]); err != nil {
			return s.wrong(err, &s.cols[i])
		}
	}
	return s.finish(r)
}

// wantValue is what a column wants that may not be empty.
const wantValue Want = "a value: this column may not be empty"

// set stores the field of a column, or counts it where it may be empty and is.
func (s *tableSource) set(r *Row, c *bound) error {
	field := s.rec.fields[c.index]
	if len(field) > 0 {
		return c.set(r, field)
	}
	if c.empty == "" {
		return wantValue
	}
	info := s.in.info
	if c.count == 0 {
		info.Empty = append(info.Empty, EmptyFields{Column: s.names[c.index], Means: c.empty})
		c.count = len(info.Empty)
	}
	info.Empty[c.count-1].Rows++
	return nil
}

// line is where the last row was.
func (s *tableSource) line() int { return s.row.Line }

// finish completes a row whose columns are set.
func (s *tableSource) finish(r *Row) error {
	if s.table.Finish != nil {
		if err := s.table.Finish(r); err != nil {
			return s.wrong(err, nil)
		}
	}
	if r.told {
		h := r.hints
		r.Job.Hints = &h
	}
	if r.Job.Demand != nil {
		return nil
	}
	d, err := s.in.pool.demand(&r.Shape)
	if err != nil {
		return &Error{File: s.in.Name, Line: r.Line, Found: "a job that " + err.Error(), Want: "a demand that can be met"}
	}
	r.Job.Demand = d
	return nil
}

// wrong adds to the error of a setter where it is.
func (s *tableSource) wrong(err error, c *bound) error {
	var out *leftOut
	if errors.As(err, &out) {
		return &leftOut{line: s.row.Line, why: out.why}
	}
	e := &Error{File: s.in.Name, Line: s.row.Line, Want: want(err)}
	var in *wrongColumn
	if errors.As(err, &in) {
		if i := s.indexOf(in.column); i >= 0 {
			c = &bound{index: i}
		}
	}
	if c != nil {
		e.Column, e.Number, e.Found = s.names[c.index], c.index+1, quote(s.rec.fields[c.index])
	}
	return e
}

// indexOf finds a column in the file; -1 when it is not there.
func (s *tableSource) indexOf(column string) int {
	return slices.IndexFunc(s.names, func(name string) bool {
		return name == column || s.table.AnyCase && strings.EqualFold(name, column)
	})
}

// milliOf is n whole devices.
func milliOf(n int64) unit.Milli { return unit.Milli(n) * unit.One }
