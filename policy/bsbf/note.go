package bsbf

import (
	"github.com/norn-scheduler/norn/policy/kit/beside"
	"github.com/norn-scheduler/norn/sched"
)

// note is what is remembered of a job.
type note struct {
	evicted bool // the memory of a GPU that it shared did not suffice: it shares no more, else it would be evicted again, and again
}

// NewNote is a note of this policy, for the table of policies.
func NewNote() sched.Note { return new(note) }

// Kind implements sched.Note.
func (n *note) Kind() string { return "bsbf" }

// Fields implements sched.Note.
func (n *note) Fields(f *sched.Fields) { f.Bool("evicted", &n.evicted) }

// evicted tells whether a job was evicted for its memory, which is noted when it waits
// for that reason.
func evicted(p *sched.Plan, j sched.Job) bool {
	return beside.Evicted(p, j, note{evicted: true}, func(n note) bool { return n.evicted })
}
