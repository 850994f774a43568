package fidelity

import (
	"time"

	"github.com/norn-scheduler/norn/eventlog"
	"github.com/norn-scheduler/norn/job"
	"github.com/norn-scheduler/norn/state"
)

// History is what happened in one world. It watches a run as an engine.Sink.
type History struct {
	Zero    time.Time     // live: when the trace began
	Offset  time.Duration // of that since the origin of the log
	Jobs    []Life        // by number
	Moments []Moment      // what came from the world, and what was decided, in order
	Odd     []Odd         // what does not happen in a run that nothing disturbs
}

// Life is what happened to one job.
type Life struct {
	Key         string
	GPUs        int
	Submit, End time.Duration
	Begins      []time.Duration // when it was launched, or went on
	Leaves      []Leave         // when it left because it had to
}

// Leave is one stop of a job that ran: when it was decided, and when its devices
// were free.
type Leave struct{ Decided, Gone time.Duration }

// JCT is the time from submission to the end.
func (l *Life) JCT() time.Duration { return l.End - l.Submit }

// Held is the time with devices, those in which it was leaving them included.
func (l *Life) Held() time.Duration {
	var sum time.Duration
	for i, at := range l.Begins {
		until := l.End
		if i < len(l.Leaves) {
			until = l.Leaves[i].Gone
		}
		sum += until - at
	}
	return sum
}

// Moment is one thing that happened: the n-th of its kind to a job, from 1.
type Moment struct {
	What
	At time.Duration
}

// The names of a Moment, which are the same in both worlds.
type What struct {
	Kind Kind
	Job  job.ID
	N    int
}

// Kind is what happened.
type Kind uint8

// The events of the world, and the decisions of the policy.
const (
	Submitted Kind = iota
	Left           // its devices, as it had to
	Ended
	Start // decided
	Stop  // decided
)

// Decided tells whether it was a choice of the policy.
func (k Kind) Decided() bool { return k >= Start }

func (k Kind) String() string {
	return [...]string{"submission", "leaving", "end", "start", "stop"}[k]
}

// Odd is something that a run has in which all goes as it should not.
type Odd struct {
	At   time.Duration
	Job  job.ID
	Text string
}

// Event implements engine.Sink.
func (h *History) Event(ev *eventlog.Event, s *state.State) {
	at := ev.Time - h.Offset
	switch ev.Kind {
	case eventlog.Submit:
		h.Jobs = append(h.Jobs, Life{Key: ev.Spec.Key, GPUs: ev.Spec.Demand.GPUs(), Submit: at, End: -1})
		h.add(Submitted, ev.Job, at)
	case eventlog.Start:
		h.Jobs[ev.Job].Begins = append(h.Jobs[ev.Job].Begins, at)
		if ev.Alloc != nil { // else it had been decided before
			h.add(Start, ev.Job, at)
		}
	case eventlog.Assign:
		h.add(Start, ev.Job, at)
	case eventlog.Preempt:
		if l := &h.Jobs[ev.Job]; len(l.Begins) > len(l.Leaves) {
			l.Leaves = append(l.Leaves, Leave{at, at})
		}
		h.add(Stop, ev.Job, at)
	case eventlog.Gone:
		l := &h.Jobs[ev.Job]
		l.Leaves[len(l.Leaves)-1].Gone = at
		h.add(Left, ev.Job, at)
	case eventlog.End:
		h.Jobs[ev.Job].End = at
		h.add(Ended, ev.Job, at)
	case eventlog.Evict, eventlog.Fail, eventlog.Hold, eventlog.Cancel:
		h.odd(ev, at)
	}
}

// odd notes what ought not to happen. A job that was thrown back has left.
func (h *History) odd(ev *eventlog.Event, at time.Duration) {
	text := ev.Kind.String()
	if ev.Reason.Text != "" {
		text += ": " + ev.Reason.Text
	}
	h.Odd = append(h.Odd, Odd{at, ev.Job, text})
	l := &h.Jobs[ev.Job]
	switch {
	case ev.Kind == eventlog.Cancel:
		l.End = at
	case ev.Kind == eventlog.Hold:
	case len(l.Begins) > len(l.Leaves):
		l.Leaves = append(l.Leaves, Leave{at, at})
	case len(l.Leaves) > 0:
		l.Leaves[len(l.Leaves)-1].Gone = at
	}
	if ev.Kind == eventlog.Evict || ev.Kind == eventlog.Fail {
		h.add(Left, ev.Job, at)
	}
}

// add notes a moment, which is the n-th of its kind to the job.
func (h *History) add(k Kind, id job.ID, at time.Duration) {
	n := 1
	for i := range h.Moments {
		if w := &h.Moments[i].What; w.Job == id && w.Kind == k {
			n++
		}
	}
	h.Moments = append(h.Moments, Moment{What{k, id, n}, at})
}
