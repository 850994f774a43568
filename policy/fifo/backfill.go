package fifo

import (
	"time"

	"github.com/norn-scheduler/norn/cluster"
	"github.com/norn-scheduler/norn/job"
	"github.com/norn-scheduler/norn/queue"
	"github.com/norn-scheduler/norn/sched"
	"github.com/norn-scheduler/norn/unit"
)

// backfill starts jobs behind a blocked one that do not delay it: they end
// before it can start, or keep off the devices that it will start on.
type backfill struct {
	at       time.Duration // when the blocked job is to start; 0: nobody knows
	reserved cluster.Alloc // on what
	classes  []class
}

// class is what is known of the waiting jobs of one class, so that most of them
// need not be looked at.
type class struct {
	shortest time.Duration // none has less left
	seen     time.Duration // the least left of those visited by this walk
	beside   bool          // may fit beside the reservation
	skipped  bool          // the walk did not visit all
}

// noted takes in a job that waits from now on, or whose estimate changed.
func (b *backfill) noted(j sched.Job) {
	for len(b.classes) <= int(j.Class()) {
		b.classes = append(b.classes, class{shortest: unit.Never})
	}
	if left, known := j.Remaining(); known {
		c := &b.classes[j.Class()]
		c.shortest = min(c.shortest, left)
	}
}

// start makes the reservation for the blocked job and walks the queue.
func (b *backfill) start(v *sched.View, p *sched.Plan, f *policy, why job.Reason) {
	at, on, ok := p.Expect(f.blocked, f.cfg.Place)
	if !ok {
		return // nobody knows when it can start, so anybody might delay it
	}
	why.At, b.at = at, at
	p.Hold(f.blocked, why)
	b.reserved.CopyFrom(on)
	for i := range b.classes {
		b.classes[i] = class{shortest: b.classes[i].shortest, seen: unit.Never, beside: true}
	}
	f.queue.Walk(nil, func(id job.ID) queue.Step {
		step := queue.SkipJob
		c := &b.classes[v.Job(id).Class()]
		if id != f.blocked {
			step = b.visit(v, p, f, id, c)
		}
		if left, known := v.Job(id).Remaining(); known && step == queue.SkipJob {
			c.seen = min(c.seen, left)
		}
		c.skipped = c.skipped || step == queue.SkipClass
		return step
	})
	for i := range b.classes {
		if c := &b.classes[i]; !c.skipped {
			c.shortest = c.seen
		}
	}
}

// visit starts a job if that delays nobody. Once one job of a class did not fit
// beside the reservation, none does for the rest of the walk, as there is ever
// less room: only a short one can still go ahead.
func (b *backfill) visit(v *sched.View, p *sched.Plan, f *policy, id job.ID, c *class) queue.Step {
	window := b.at - v.Now
	if left, known := v.Job(id).Remaining(); known && left <= window {
		if p.Start(id, f.cfg.Place) {
			return queue.Took
		}
		return queue.SkipClass
	}
	if c.beside {
		p.Without(&b.reserved, func() { c.beside = p.Start(id, f.cfg.Place) })
		if c.beside {
			return queue.Took
		}
		if _, fits := p.Fits(id, f.cfg.Place); fits {
			p.Hold(id, job.Reason{Code: job.Reserved, Job: f.blocked, At: b.at})
		}
	}
	if c.shortest > window {
		return queue.SkipClass
	}
	return queue.SkipJob
}
