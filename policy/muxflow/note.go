package muxflow

import (
	"time"

	"github.com/norn-scheduler/norn/policy/kit/beside"
	"github.com/norn-scheduler/norn/sched"
)

// note is what is remembered of a job: of a service how its GPU stands and what it
// uses, of an offline job that it was evicted.
type note struct {
	over   bool          // service: its GPU was used too much
	times  int           // service: so often
	since  time.Duration // service: over: since when its GPU has been calm; else since when it has been slow; -1: it is not
	day    int           // service: the half day, from the start of the run, in which peak was the most it used
	peak   int           // service: per cent of its GPU
	before int           // service: the most in the half day before

	evicted bool // offline job: it took more memory than its part
}

// NewNote is a note of this policy, for the table of policies.
func NewNote() sched.Note { return new(note) }

// Kind implements sched.Note.
func (n *note) Kind() string { return "muxflow" }

// Fields implements sched.Note.
func (n *note) Fields(f *sched.Fields) {
	f.Bool("over", &n.over)
	sched.Int(f, "times", &n.times)
	f.Moment("since", &n.since)
	sched.Int(f, "day", &n.day)
	sched.Int(f, "peak", &n.peak)
	sched.Int(f, "before", &n.before)
	f.Bool("evicted", &n.evicted)
}

// evicted tells whether a job was evicted because it took more memory than its part,
// which is noted when it waits for that reason: it runs on GPUs without a service only.
func evicted(p *sched.Plan, j sched.Job) bool {
	return beside.Evicted(p, j, note{since: -1, evicted: true}, func(n note) bool { return n.evicted })
}
