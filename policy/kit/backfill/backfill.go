// Package backfill lets waiting jobs go ahead of one that does not fit, as long
// as that does not delay it: EASY backfill. It is for policies that serve a queue
// in order; the order is theirs.
//
// Nouns: the blocked job is the first of the queue that does not fit. Its
// reservation is the moment at which it is expected to start, and the devices.
// A job goes ahead if it ends by then, or if it fits beside the reservation, on
// other devices.
//
// Source: Lifka, "The ANL/IBM SP Scheduling System", JSSPP 1995. There a
// reservation is a number of processors; here it is devices, because gangs may
// have to be placed together.
package backfill

import (
	"time"

	"github.com/norn-scheduler/norn/cluster"
	"github.com/norn-scheduler/norn/job"
	"github.com/norn-scheduler/norn/place"
	"github.com/norn-scheduler/norn/policy/kit/queue"
	"github.com/norn-scheduler/norn/sched"
)

// EASY is one reservation and what is known of those who wait behind it. It
// follows the queue of its policy through Add and Remove, so that a walk over the
// queue can leave out the classes of which no job can go ahead. The zero EASY is
// ready to use.
type EASY struct {
	at       time.Duration // when the blocked job is to start; 0: nobody knows
	blocked  job.ID
	reserved cluster.Alloc // on what
	place    place.Strategy
	window   time.Duration // from now until then
	classes  []class
	left     queue.Queue // jobs with an estimate, those with the least run time left first
}

// class is what a walk has found out about the waiting jobs of one class. A job
// that does not fit once does not fit later, since room only shrinks.
type class struct {
	full   bool // none fits
	beside bool // one may fit beside the reservation
}

// Add takes in a job that waits in the queue from now on, or whose estimate
// changed while it does.
func (e *EASY) Add(j sched.Job) {
	e.left.Remove(j.ID)
	if left, known := j.Remaining(); known {
		e.left.Add(j.ID, j.Class(), queue.Key{A: int64(left)})
	}
}

// Remove forgets a job that has left the queue.
func (e *EASY) Remove(id job.ID) { e.left.Remove(id) }

// Clear drops the reservation: every decision begins with none.
func (e *EASY) Clear() { e.at = 0 }

// At is when the blocked job is expected to start; ok is false when there is no
// reservation.
func (e *EASY) At() (at time.Duration, ok bool) { return e.at, e.at > 0 }

// Reserve makes the reservation for a job that was refused for the given reason
// after everybody before it had been served, and notes when it is expected to
// start. It is false when nobody knows: then anybody might delay it.
func (e *EASY) Reserve(v *sched.View, p *sched.Plan, blocked job.ID, where place.Strategy, why job.Reason) bool {
	at, on, ok := p.Expect(blocked, where)
	if !ok {
		return false
	}
	why.At = at
	p.Wait(blocked, why)
	e.at, e.blocked, e.place, e.window = at, blocked, where, at-v.Now
	e.reserved.CopyFrom(on)
	e.classes = e.classes[:0]
	for range v.Classes() {
		e.classes = append(e.classes, class{beside: true})
	}
	e.classes[v.Job(blocked).Class()].full = true
	return true
}

// Visit starts a job of the queue if that does not delay the blocked one. It is
// meant for a walk in the order of the queue after Reserve, and says how to go
// on.
func (e *EASY) Visit(v *sched.View, p *sched.Plan, id job.ID) queue.Step {
	n := v.Job(id).Class()
	if e.Out(n) {
		return queue.SkipClass
	}
	c := &e.classes[n]
	if left, known := v.Job(id).Remaining(); known && left <= e.window {
		if p.Start(id, e.place) {
			e.Remove(id)
			return queue.Took
		}
		c.full = true
	} else if c.beside {
		p.Without(&e.reserved, func() { c.beside = p.Start(id, e.place) })
		if c.beside {
			e.Remove(id)
			return queue.Took
		}
		why, fits := p.Fits(id, e.place)
		if c.full = !fits; fits {
			why = job.Reason{Code: job.Reserved, Job: e.blocked, At: e.at}
		}
		p.Wait(id, why)
	}
	if e.Out(n) {
		return queue.SkipClass
	}
	return queue.SkipJob
}

// Out tells whether no further job of a class can go ahead in this walk: none
// fits, or none fits beside the reservation and none ends in time.
func (e *EASY) Out(c int32) bool {
	if e.classes[c].full {
		return true
	}
	_, shortest, ok := e.left.FirstOf(c)
	return !e.classes[c].beside && (!ok || shortest.A > int64(e.window))
}
