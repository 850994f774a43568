package gimbal

import (
	"math"
	"time"

	"github.com/norn-scheduler/norn/cluster"
	"github.com/norn-scheduler/norn/job"
	"github.com/norn-scheduler/norn/sched"
)

// note is what is remembered of a gang.
type note struct {
	partners   []neighbour   // for which it was calibrated
	correction int           // how much faster than predicted it was then, in steps of 10 %
	paused     time.Duration // since when one of its workers is paused
	swapped    time.Duration // when it was swapped, or had to leave, last
	evicted    bool          // the memory of its GPU ran out when it shared one: it shares no more
}

// neighbour is who sits beside a worker.
type neighbour struct {
	device cluster.DeviceID
	job    job.ID
}

// never is a moment that there was not.
const never = -1

// nothing is the note of a gang of which nothing is remembered.
func nothing() note { return note{paused: never, swapped: never} }

// NewNote is a note of this policy, for the table of policies.
func NewNote() sched.Note { return new(note) }

// Kind implements sched.Note.
func (n *note) Kind() string { return "gimbal" }

// Fields implements sched.Note.
func (n *note) Fields(f *sched.Fields) {
	sched.List(f, "partners", &n.partners, func(o *neighbour, f *sched.Fields) {
		f.Device("device", &o.device)
		f.Ref("job", &o.job)
	})
	sched.Int(f, "correction", &n.correction)
	f.Moment("paused", &n.paused)
	f.Moment("swapped", &n.swapped)
	f.Bool("evicted", &n.evicted)
}

// rests tells whether a gang was swapped, or had to leave, so short a time ago. At
// one moment nobody does so twice: time would stand still.
func (n note) rests(now, rest time.Duration) bool {
	return n.swapped != never && (now <= n.swapped || now-n.swapped < rest)
}

// correct is the factor by which a gang is faster than predicted.
func (n note) correct() float64 { return math.Pow(1.1, float64(n.correction)) }
