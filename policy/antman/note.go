package antman

import (
	"time"

	"github.com/norn-scheduler/norn/job"
	"github.com/norn-scheduler/norn/policy/kit/beside"
	"github.com/norn-scheduler/norn/sched"
)

// note is what is remembered of a job. It says one of three things: how a guest is
// paced, how fast an owner is alone, or that a job was evicted for its memory.
type note struct {
	step    time.Duration // guest: when its pace was set; -1: the job is no guest
	raised  bool          // guest: its pace was raised then
	tooMuch int           // guest: the pace that was found to be too much; 0: none was
	owners  []job.ID      // guest: who owned its GPUs then, by number
	alone   float64       // owner: its speed with all guests suspended; 0: not known yet
	evicted bool          // the memory of its devices did not suffice
}

// NewNote is a note of this policy, for the table of policies.
func NewNote() sched.Note { return new(note) }

// Kind implements sched.Note.
func (n *note) Kind() string { return "antman" }

// Fields implements sched.Note.
func (n *note) Fields(f *sched.Fields) {
	f.Moment("step", &n.step)
	f.Bool("raised", &n.raised)
	sched.Int(f, "too_much", &n.tooMuch)
	f.Refs("owners", &n.owners)
	f.Float("alone", &n.alone)
	f.Bool("evicted", &n.evicted)
}

// evicted tells whether a job was evicted for its memory, which is noted when it waits
// for that reason.
func evicted(p *sched.Plan, j sched.Job) bool {
	return beside.Evicted(p, j, note{step: -1, evicted: true}, func(n note) bool { return n.evicted })
}
