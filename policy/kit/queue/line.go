package queue

import (
	"github.com/norn-scheduler/norn/place"
	"github.com/norn-scheduler/norn/sched"
)

// Line is the queue of a policy that serves jobs in order of submission. Jobs that can never run are kept out of it,
// so that they block nobody. The zero Line is empty.
type Line struct {
	Queue

	infeasible sched.Infeasible
}

// Follow takes in what happened since the last decision: jobs that wait from now on, those that have left, and those
// that may run again since nodes came or went. A job that fits nowhere under a strategy is told so.
func (l *Line) Follow(v *sched.View, p *sched.Plan, where place.Strategy) {
	for _, id := range l.infeasible.Reconsider(v) {
		l.join(v.Job(id), p, where)
	}
	for _, ch := range v.Changes() {
		switch ch.Kind {
		case sched.Arrived, sched.Stopped:
			l.join(v.Job(ch.Job), p, where)
		case sched.Ended:
			l.Remove(ch.Job)
			l.infeasible.Remove(ch.Job)
		}
	}
}

func (l *Line) join(j sched.Job, p *sched.Plan, where place.Strategy) {
	if !l.infeasible.Rejects(p, j.ID, where) {
		l.Add(j.ID, j.Class(), Key{})
	}
}
