// Package backfill lets waiting jobs go ahead of those that do not fit, as long as
// that does not delay them: EASY backfill, and conservative backfill. It is for
// policies that serve a queue in order; the order is theirs.
//
// Nouns: the blocked job is the first of the queue that does not fit. A
// reservation of a job is the moment at which it is expected to start, until when it
// would run, and the devices. The first so many jobs that do not fit have one each,
// in order: one in EASY backfill, all in conservative backfill. Nobody has what is
// reserved for one before it. A job goes ahead if it ends before what it takes is
// reserved, or takes nothing of that.
//
// Sources: Lifka, "The ANL/IBM SP Scheduling System", JSSPP 1995, for EASY; Mu'alem
// and Feitelson, "Utilization, Predictability, Workloads, and User Runtime Estimates
// in Scheduling the IBM SP2 with Backfilling", TPDS 2001, for conservative backfill.
// There a reservation is a number of processors; here it is devices, because gangs
// may have to be placed together. Here reservations are made anew at each decision,
// in the order of that moment.
package backfill

import (
	"math"
	"slices"
	"time"

	"github.com/norn-scheduler/norn/cluster/unit"
	"github.com/norn-scheduler/norn/job"
	"github.com/norn-scheduler/norn/place"
	"github.com/norn-scheduler/norn/policy/kit/queue"
	"github.com/norn-scheduler/norn/policy/param"
	"github.com/norn-scheduler/norn/sched"
)

// Backfill is the reservations, and what is known of those who wait. It
// follows the queue of its policy through Add and Remove, so that a walk over the
// queue can leave out the classes of which no job can go ahead. The zero Backfill is
// ready to use.
type Backfill struct {
	Most int // reservations; below 1: one

	booked  []sched.Booking // the reservations, in order of the queue
	place   place.Strategy
	classes []class
	left    queue.Queue // jobs with an estimate, those with the least run time left first
}

// Param binds the number of reservations.
func Param(most *int) param.Param {
	return param.Int("reservations", most, 1, math.MaxInt32, "jobs", "how many jobs that do not fit have a reservation, in order; no job goes ahead that would delay one of them")
}

// class is what a walk has found out about the waiting jobs of one class. A job
// that does not fit once does not fit later, since room only shrinks.
type class struct {
	full bool          // none fits
	most time.Duration // none fits that has more run time left
}

// Add takes in a job that waits in the queue from now on, or whose estimate
// changed while it does.
func (b *Backfill) Add(j sched.Job) {
	b.left.Remove(j.ID)
	if left, known := j.Remaining(); known {
		b.left.Add(j.ID, j.Class(), queue.Key{A: int64(left)})
	}
}

// Remove forgets a job that has left the queue.
func (b *Backfill) Remove(id job.ID) { b.left.Remove(id) }

// Clear drops the reservations: every decision begins with none.
func (b *Backfill) Clear() { b.booked = b.booked[:0] }

// At is when the blocked job is expected to start; ok is false when there is no
// reservation.
func (b *Backfill) At() (at time.Duration, ok bool) {
	if len(b.booked) == 0 {
		return 0, false
	}
	return b.booked[0].From, true
}

// Reserve makes the reservation for a job that was refused for the given reason
// after everybody before it had been served, and notes when it is expected to
// start. It is false when nobody knows: then anybody might delay it.
func (b *Backfill) Reserve(v *sched.View, p *sched.Plan, blocked job.ID, where place.Strategy, why job.Reason) bool {
	b.place = where
	if !b.book(v, p, blocked, why) {
		return false
	}
	b.classes = b.classes[:0]
	for range v.Classes() {
		b.classes = append(b.classes, class{most: unit.Never})
	}
	b.classes[v.Job(blocked).Class()].full = true
	return true
}

// book reserves for a job what it would have first, beside what is reserved already.
func (b *Backfill) book(v *sched.View, p *sched.Plan, id job.ID, why job.Reason) bool {
	at, on, ok := p.Expect(id, b.place, b.booked...)
	if !ok {
		return false
	}
	if why.Code != job.Reserved {
		why.At = at
	}
	p.Wait(id, why)
	n := len(b.booked)
	b.booked = slices.Grow(b.booked, 1)[:n+1] // with the memory of an earlier one
	e := &b.booked[n]
	e.Job, e.From, e.To = id, at, unit.Later(at, v.Job(id).TimeLeft())
	e.On.CopyFrom(on)
	return true
}

// Visit starts a job of the queue if that does not delay one with a reservation, or
// makes one for it. It is meant for a walk in the order of the queue after Reserve,
// and says how to go on.
func (b *Backfill) Visit(v *sched.View, p *sched.Plan, id job.ID) queue.Step {
	n := v.Job(id).Class()
	switch {
	case b.Out(n):
		return queue.SkipClass
	case id == b.booked[0].Job:
		return queue.SkipJob
	}
	c, left := &b.classes[n], v.Job(id).TimeLeft()
	until := unit.Later(v.Now, left)
	if !c.full && left <= c.most {
		if p.Beside(b.booked, v.Now, until, func() bool { return p.Start(id, b.place) }) {
			b.Remove(id)
			return queue.Took
		}
		b.refused(v, p, id, until)
	}
	if len(b.booked) < b.Most {
		b.book(v, p, id, b.why(p, id, until))
	}
	if b.Out(n) {
		return queue.SkipClass
	}
	return queue.SkipJob
}

// refused notes that a job would not fit that would run until some moment.
func (b *Backfill) refused(v *sched.View, p *sched.Plan, id job.ID, until time.Duration) {
	c := &b.classes[v.Job(id).Class()]
	before := b.inTheWay(until)
	if before == nil {
		c.full = true
		return
	}
	c.most = min(c.most, before.From-v.Now)
	why := b.why(p, id, until)
	c.full = why.Code != job.Reserved
	p.Wait(id, why)
}

// why says why a job does not start now that would run until some moment: it does not fit, or what it
// would have is reserved.
func (b *Backfill) why(p *sched.Plan, id job.ID, until time.Duration) job.Reason {
	why, fits := p.Fits(id, b.place)
	if before := b.inTheWay(until); fits && before != nil {
		why = job.Reason{Code: job.Reserved, Job: before.Job, At: before.From}
	}
	return why
}

// inTheWay is the reservation that begins last of those that begin before some moment.
func (b *Backfill) inTheWay(until time.Duration) (last *sched.Booking) {
	for i := range b.booked {
		if e := &b.booked[i]; e.From < until && (last == nil || e.From > last.From) {
			last = e
		}
	}
	return last
}

// Out tells whether no further job of a class can go ahead in this walk, or have a
// reservation: none fits, or none fits beside the reservations and none ends in time.
func (b *Backfill) Out(c int32) bool {
	switch {
	case len(b.booked) < b.Most:
		return false
	case b.classes[c].full:
		return true
	}
	_, shortest, ok := b.left.FirstOf(c)
	return b.classes[c].most < unit.Never && (!ok || shortest.A > int64(b.classes[c].most))
}
