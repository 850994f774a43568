package sched

import (
	"errors"
	"strconv"
	"time"

	"github.com/norn-scheduler/norn/cluster"
	"github.com/norn-scheduler/norn/cluster/unit"
	"github.com/norn-scheduler/norn/internal/jsontext"
	"github.com/norn-scheduler/norn/job"
)

// Note is what a policy remembers about a job, as a struct of its own. The
// policy writes it with Plan.Remember and reads it with Recall. The event log
// stores it by the names of its fields.
type Note interface {
	// Kind names the kind of note, such as the name of the policy. A policy does
	// not read notes of another kind.
	Kind() string

	// Fields lists the fields, each with its name and a pointer to its value. It
	// lists the same fields in the same order, whatever their values.
	Fields(f *Fields)
}

// Fields carries the fields of a Note to the log and back. Zero values are not
// written, and a missing field is read as its zero value. Zero is job.None for
// a job, cluster.None for a node or device, and -1 for a moment.
type Fields struct {
	w       jsontext.Writer
	text    []byte  // reading: the object
	found   []field // reading: its fields
	next    int     // place in found at which the next one is expected
	reading bool
	list    *[]NoteField // listing: what was listed so far
	err     error
}

// NoteField is a field of a note: its name in the log, and its kind. The kind
// is bool, number, text, duration, moment, job, node or device, or a list:
// list, numbers or jobs.
type NoteField struct{ Name, Kind string }

// NoteFields lists the fields of a note, in the order of the log.
func NoteFields(n Note) []NoteField {
	var out []NoteField
	n.Fields(&Fields{list: &out})
	return out
}

// lists tells whether fields are only listed. If so, it adds this one to the
// list.
func (f *Fields) lists(name, kind string) bool {
	if f.list != nil {
		*f.list = append(*f.list, NoteField{name, kind})
	}
	return f.list != nil
}

// field is the place of one field in the text.
type field struct {
	name     string
	from, to int
}

// errNumber is the error of a float that JSON cannot hold.
var errNumber = errors.New("is not a finite number")

// errTime is the error of a time that the log cannot hold.
var errTime = errors.New("is a time beyond 146 years")

// encode writes the fields of a note as one JSON object.
func (f *Fields) encode(n Note) ([]byte, error) {
	*f = Fields{w: jsontext.Writer{B: append(f.w.B[:0], '{')}}
	n.Fields(f)
	f.w.B = append(f.w.B, '}')
	if f.err == nil {
		f.err = f.w.Err
	}
	return f.w.B, f.err
}

// decode reads the fields of a note. An empty text gives each field its zero
// value.
func (f *Fields) decode(text string, n Note) error {
	*f = Fields{text: []byte(text), found: f.found[:0], reading: true}
	if text != "" {
		t := jsontext.NewReader(f.text)
		f.err = t.Object(func(key []byte) error {
			at := field{name: string(key), from: t.At()}
			err := t.Skip()
			at.to = t.At()
			f.found = append(f.found, at)
			return err
		})
	}
	n.Fields(f)
	return f.err
}

// value is a reader at the value of a field, or nil when the text does not have
// the field.
func (f *Fields) value(name string) *jsontext.Reader {
	for range f.found {
		if f.next == len(f.found) {
			f.next = 0
		}
		at := f.found[f.next]
		f.next++
		if at.name == name {
			return jsontext.NewReader(f.text[at.from:at.to])
		}
	}
	return nil
}

// fail keeps the first error, with the name of its field.
func (f *Fields) fail(name string, err error) {
	if err != nil && f.err == nil {
		f.err = &FieldError{Field: name, Err: err}
	}
}

// FieldError is the error of a note that cannot be written or read.
type FieldError struct {
	Field string
	Err   error
}

// Error names the field.
func (e *FieldError) Error() string { return "field " + e.Field + ": " + e.Err.Error() }

// Unwrap is the error without the name of the field.
func (e *FieldError) Unwrap() error { return e.Err }

// each writes a value unless it is zero, or reads it.
func each[T comparable](f *Fields, name, kind string, v *T, zero T, write func(T), read func(*jsontext.Reader) (T, error)) {
	switch {
	case f.lists(name, kind):
	case !f.reading && *v != zero:
		f.w.Key(name)
		write(*v)
	case f.reading:
		*v = zero
		if t := f.value(name); t != nil {
			x, err := read(t)
			if f.fail(name, err); err == nil {
				*v = x
			}
		}
	}
}

// Bool is a yes or no.
func (f *Fields) Bool(name string, v *bool) {
	each(f, name, "bool", v, false, func(x bool) { f.w.B = strconv.AppendBool(f.w.B, x) }, (*jsontext.Reader).Bool)
}

// Float is a finite number. It is kept exactly.
func (f *Fields) Float(name string, v *float64) {
	if !f.reading && *v-*v != 0 {
		f.fail(name, errNumber)
		return
	}
	each(f, name, "number", v, 0, func(x float64) { f.w.Number(x) }, (*jsontext.Reader).Float)
}

// Text is a string.
func (f *Fields) Text(name string, v *string) {
	each(f, name, "text", v, "", func(x string) { f.w.B = jsontext.AppendText(f.w.B, x) }, func(t *jsontext.Reader) (string, error) {
		x, err := t.Text()
		return string(x), err
	})
}

// Duration is a length of time, kept to the nanosecond.
func (f *Fields) Duration(name string, v *time.Duration) { f.time(name, "duration", v, 0) }

// Moment is a time since the start of the run, or -1 for none. unit.Never is a
// moment that does not come.
func (f *Fields) Moment(name string, v *time.Duration) { f.time(name, "moment", v, -1) }

// never is the text for unit.Never.
const never = "never"

func (f *Fields) time(name, kind string, v *time.Duration, zero time.Duration) {
	if !f.reading && max(*v, -*v) > unit.MaxScaled && *v != unit.Never {
		f.fail(name, errTime)
		return
	}
	each(f, name, kind, v, zero, f.appendTime, readTime)
}

func (f *Fields) appendTime(x time.Duration) {
	switch {
	case x == unit.Never:
		f.w.B = jsontext.AppendText(f.w.B, never)
		return
	case x < 0:
		f.w.B, x = append(f.w.B, '-'), -x
	}
	f.w.B = unit.AppendSeconds(f.w.B, x)
}

func readTime(t *jsontext.Reader) (time.Duration, error) {
	text, err := t.Raw()
	if err != nil {
		return 0, err
	}
	sign := time.Duration(1)
	switch text[0] {
	case '"':
		if string(text) != `"`+never+`"` {
			return 0, t.Wrong("seconds, or never")
		}
		return unit.Never, nil
	case '-':
		sign, text = -1, text[1:]
	}
	x, err := jsontext.NewReader(text).Scaled(int64(time.Second))
	return sign * time.Duration(x), err
}

// Ref is another job, job.None for none. The engine renumbers it when the job
// gets another number in a new log.
func (f *Fields) Ref(name string, v *job.ID) {
	each(f, name, "job", v, job.None, func(x job.ID) { f.w.B = job.AppendRef(f.w.B, x) }, readRef)
}

// readRef reads what job.AppendRef writes.
func readRef(t *jsontext.Reader) (id job.ID, err error) {
	id = job.None
	err = t.Object(func(key []byte) error {
		if string(key) != "job" {
			return t.Skip()
		}
		n, err := t.Int(-1, 1<<31-1)
		id = job.ID(n)
		return err
	})
	return id, err
}

// Node is a node, cluster.None for none.
func (f *Fields) Node(name string, v *cluster.NodeID) { whole(f, name, "node", v, cluster.None) }

// Device is a device, cluster.None for none.
func (f *Fields) Device(name string, v *cluster.DeviceID) { whole(f, name, "device", v, cluster.None) }

// integer is any integer. The largest half of a uint64 is written as a negative
// number.
type integer interface {
	~int | ~int8 | ~int16 | ~int32 | ~int64 | ~uint8 | ~uint16 | ~uint32 | ~uint64
}

// Int is a whole number.
func Int[T integer](f *Fields, name string, v *T) { whole(f, name, "number", v, 0) }

func whole[T integer](f *Fields, name, kind string, v *T, zero T) {
	each(f, name, kind, v, zero, func(x T) { f.w.B = strconv.AppendInt(f.w.B, int64(x), 10) }, func(t *jsontext.Reader) (T, error) {
		x, err := t.Int(-1<<63, 1<<63-1)
		if int64(T(x)) != x {
			return zero, t.Wrong("a smaller number")
		}
		return T(x), err
	})
}

// List is a list of structs, each of which lists its own fields. A list that was
// read must not be changed in place.
func List[T any](f *Fields, name string, v *[]T, fields func(e *T, f *Fields)) {
	write := func(e *T) {
		f.w.B = append(f.w.B, '{')
		fields(e, f)
		f.w.B = append(f.w.B, '}')
	}
	read := func(t *jsontext.Reader) (e T, err error) {
		text, err := t.Raw()
		if err == nil {
			var inner Fields
			err = inner.decode(string(text), fieldsOf(func(f *Fields) { fields(&e, f) }))
		}
		return e, err
	}
	list(f, name, "list", v, write, read)
}

// fieldsOf is a Note that is not kept: the fields of one element of a list.
type fieldsOf func(f *Fields)

func (fieldsOf) Kind() string        { return "" }
func (fs fieldsOf) Fields(f *Fields) { fs(f) }

// Floats is a list of finite numbers.
func (f *Fields) Floats(name string, v *[]float64) {
	write := func(x *float64) {
		if *x-*x != 0 {
			f.fail(name, errNumber)
			return
		}
		f.w.Number(*x)
	}
	list(f, name, "numbers", v, write, (*jsontext.Reader).Float)
}

// Refs is a list of other jobs. A job that is no longer known is read as
// job.None.
func (f *Fields) Refs(name string, v *[]job.ID) {
	list(f, name, "jobs", v, func(id *job.ID) { f.w.B = job.AppendRef(f.w.B, *id) }, readRef)
}

// list writes a list unless it is empty, or reads it.
func list[T any](f *Fields, name, kind string, v *[]T, write func(*T), read func(*jsontext.Reader) (T, error)) {
	switch {
	case f.lists(name, kind):
	case f.reading:
		*v = nil
		if t := f.value(name); t != nil {
			f.fail(name, t.Array(func() error {
				x, err := read(t)
				*v = append(*v, x)
				return err
			}))
		}
	case len(*v) > 0:
		f.w.Key(name)
		f.w.B = append(f.w.B, '[')
		for i := range *v {
			if i > 0 {
				f.w.B = append(f.w.B, ',')
			}
			write(&(*v)[i])
		}
		f.w.B = append(f.w.B, ']')
	}
}

// Written is a note as the log holds it. It fails on a number that is not
// finite, with an error that names the field. A note whose fields are all zero
// becomes nil.
func Written(n Note) (*job.Note, error) {
	var f Fields
	text, err := f.encode(n)
	if err != nil {
		return nil, err
	}
	return job.NewNote(n.Kind(), text), nil
}

// Recall is what the policy remembers about a job, read into its own struct N.
// Its slices must not be changed. If the job has no note of that kind, or one
// that cannot be read, ok is false and all fields are zero.
func Recall[N any, P interface {
	*N
	Note
}](j Job) (n N, ok bool) {
	if j.r.Note == nil {
		n, _ = NoteOf[N, P](j.none) // read once, not for each job
		return n, false
	}
	return NoteOf[N, P](j.r.Note)
}

// Remember notes n on a job as Plan.Remember does, and spares Recall from
// decoding it. It is meant for notes that are written often. Slices of n must
// not be changed from then on.
func Remember[N any, P interface {
	*N
	Note
}](p *Plan, id job.ID, n N) {
	was := len(p.notes)
	if p.Remember(id, P(&n)); len(p.notes) > was && p.notes[was].Note != nil {
		p.notes[was].Note.Cache(&n)
	}
}

// NoteOf reads a note of a log into its struct N, as Recall does for the note
// of a job.
func NoteOf[N any, P interface {
	*N
	Note
}](from *job.Note) (n N, ok bool) {
	if from != nil {
		if seen, is := from.Value().(*N); is {
			return *seen, from.Kind() != ""
		}
	}
	return readNote[N, P](from)
}

// readNote reads a note that has not been read before.
func readNote[N any, P interface {
	*N
	Note
}](from *job.Note) (n N, ok bool) {
	var f Fields
	seen := new(N)
	if ok = from.Kind() == P(seen).Kind() && f.decode(from.Fields(), P(seen)) == nil; !ok {
		_ = f.decode("", P(seen)) // cannot fail: each field gets its zero value
	}
	if ok || from != nil && from.Kind() == "" {
		from.Cache(seen)
	}
	return *seen, ok
}
