package job

import (
	"bytes"
	"strconv"
)

// Note is what a policy remembers about a job: the kind of the note, which only
// that policy reads, and its named fields as a JSON object. Notes travel in the
// event log, so that a policy that starts anew finds them again. A Note never
// changes; package sched turns the fields into a struct and back.
type Note struct {
	kind   string
	fields string
	value  any // the struct that was read from the fields last; nil: none yet
}

// NewNote makes a note from its kind and its fields, a JSON object without
// spaces in which a job is written as AppendRef does. A note without fields is
// none: nil.
func NewNote(kind string, fields []byte) *Note {
	if len(fields) <= len("{}") {
		return nil
	}
	return &Note{kind: kind, fields: string(fields)}
}

// Kind is the kind of the note, empty for no note.
func (n *Note) Kind() string {
	if n == nil {
		return ""
	}
	return n.kind
}

// Fields are the fields as a JSON object, empty for no note.
func (n *Note) Fields() string {
	if n == nil {
		return ""
	}
	return n.fields
}

// Equal tells whether two notes say the same.
func (n *Note) Equal(m *Note) bool { return n.Kind() == m.Kind() && n.Fields() == m.Fields() }

// Says tells whether the note is the one that NewNote would make.
func (n *Note) Says(kind string, fields []byte) bool {
	if len(fields) <= len("{}") {
		return n == nil
	}
	return n != nil && n.kind == kind && n.fields == string(fields)
}

// Value is the struct that Cache was given, or nil.
func (n *Note) Value() any { return n.value }

// Cache keeps the struct that the fields stand for, which must not be changed
// from then on, so that they are read only once.
func (n *Note) Cache(value any) { n.value = value }

// refOpens begins a reference to a job among the fields of a note. It can stand
// nowhere else: within a text its quotes would be escaped.
const refOpens = `{"job":`

// AppendRef appends a reference to a job as it stands in the fields of a note.
func AppendRef(b []byte, id ID) []byte {
	b = append(b, refOpens...)
	return append(strconv.AppendInt(b, int64(id), 10), '}')
}

// Renumbered is the note with every job that it refers to by another number: the
// one that now gives it, None for a job that is not known any more. A nil note
// stays nil.
func (n *Note) Renumbered(now func(ID) ID) *Note {
	if n == nil {
		return nil
	}
	rest := []byte(n.fields)
	var out []byte
	for {
		at := bytes.Index(rest, []byte(refOpens))
		if at < 0 {
			break
		}
		at += len(refOpens)
		end := at
		for end < len(rest) && rest[end] != '}' {
			end++
		}
		id, err := strconv.ParseInt(string(rest[at:end]), 10, 32)
		if err != nil { // not written by AppendRef
			id = int64(None)
		}
		out = append(out, rest[:at]...)
		out = strconv.AppendInt(out, int64(now(ID(id))), 10)
		rest = rest[end:]
	}
	if out == nil {
		return n
	}
	return &Note{kind: n.kind, fields: string(append(out, rest...))}
}
