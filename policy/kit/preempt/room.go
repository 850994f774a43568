package preempt

import (
	"slices"
	"time"

	"github.com/norn-scheduler/norn/cluster"
	"github.com/norn-scheduler/norn/cluster/unit"
	"github.com/norn-scheduler/norn/job"
	"github.com/norn-scheduler/norn/policy/param"
	"github.com/norn-scheduler/norn/sched"
)

// Victims says when jobs are stopped that are no longer chosen. It matters for jobs that
// lose what they have not saved (job.LastSave).
type Victims uint8

// The moments.
const (
	AtOnce       Victims = iota // as soon as they are not chosen
	AtCheckpoint                // when the GPU time that is lost by it and by waiting longer is least
)

// VictimsParam binds the setting victims.
func VictimsParam(to *Victims) param.Param {
	return param.Choice("victims", to, []param.Option[Victims]{{Name: "order", Value: AtOnce}, {Name: "checkpoint", Value: AtCheckpoint}},
		"when a job is stopped that loses what it has not saved: at once, as the order has it, or when the work that is lost and the wait for its next checkpoint are least together")
}

// bargain starts the chosen jobs one after another. Each takes the places of the jobs to
// be stopped, from the last in the order on, if now is the best moment to stop them;
// otherwise it waits, and they run on. So no job is stopped whose place nobody takes.
func (r *Policy) bargain(v *sched.View, p *sched.Plan) {
	left := r.lastFirst(v, r.stops)
	r.stops = r.stops[:0]
	for _, s := range r.starts {
		if r.begin(v, p, s) {
			r.placed(s.id, true)
			continue
		}
		why, at := p.Why(), unit.Never
		left = slices.DeleteFunc(left, func(id job.ID) bool { return p.Alloc(id) == nil }) // others had room made for them
		n, ok := r.makeRoom(v, p, s, left, func(victims []job.ID) bool {
			at = best(v, s.id, victims)
			return at <= v.Now
		})
		if ok {
			for _, id := range left[:n] {
				r.stopped(id)
			}
			r.stops, left = append(r.stops, left[:n]...), left[n:]
		} else if at < unit.Never {
			why.At, r.wake = at, min(r.wake, at)
			p.Wait(s.id, why)
		}
		r.placed(s.id, ok || r.room(v, p, s))
	}
	r.spared = append(r.spared[:0], left...)
}

// makeRoom stops the first victims, as few as suffice, and starts a job in their place,
// provided that agree says yes to them. Else nothing is planned. n is how many it took.
func (r *Policy) makeRoom(v *sched.View, p *sched.Plan, s start, victims []job.ID, agree func([]job.ID) bool) (n int, ok bool) {
	need := int64(v.Class(v.Job(s.id).Class()).Amount.GPU) - int64(v.Free())*int64(unit.One)
	ok = p.Try(func() bool {
		for n < len(victims) {
			need -= int64(p.Alloc(victims[n]).Milli())
			p.Stop(victims[n], job.Reason{Code: job.MakesRoom, Job: s.id})
			if n++; need <= 0 && r.begin(v, p, s) {
				return agree(victims[:n])
			}
		}
		return false
	})
	return n, ok
}

// lastFirst sorts running jobs by their places in the order, the last one first.
func (r *Policy) lastFirst(v *sched.View, jobs []job.ID) []job.ID {
	byKey := make([]start, 0, len(jobs))
	for _, id := range jobs {
		byKey = append(byKey, start{id, r.chosenKey(v, v.Job(id))})
	}
	slices.SortFunc(byKey, func(a, b start) int { return compare(b.key, b.id, a.key, a.id) })
	out := make([]job.ID, 0, len(jobs))
	for _, s := range byKey {
		out = append(out, s.id)
	}
	return out
}

// best is the moment at which it costs least to stop the victims for a starter: the GPU time
// that they have to work again, and that for which the starter waits with its GPUs. It is now,
// or when one of them has saved its state.
func best(v *sched.View, starter job.ID, victims []job.ID) time.Duration {
	at := v.Now
	least := bill(v, starter, victims, at)
	for _, id := range victims {
		next, ok := v.Job(id).NextSave()
		if !ok {
			continue
		}
		if cost := bill(v, starter, victims, next); cost < least {
			at, least = next, cost
		}
	}
	return at
}

// bill is what it costs to stop the victims at a moment from now on, in GPU-seconds.
func bill(v *sched.View, starter job.ID, victims []job.ID, at time.Duration) float64 {
	sum := float64(v.Job(starter).GPUs()) * (at - v.Now).Seconds()
	for _, id := range victims {
		j := v.Job(id)
		if j.Spec().Stop != job.LastSave {
			continue
		}
		lost := j.AtStake() + at - v.Now
		if next, ok := j.NextSave(); ok && at >= next {
			lost = at - next
			if every := time.Duration(float64(j.Saves().Every) / j.Speed()); every > 0 {
				lost %= every
			}
		}
		sum += float64(j.Allocated()) / 1000 * lost.Seconds()
	}
	return sum
}

// stillSpared adds to the jobs to be stopped those that were spared before.
func (r *Policy) stillSpared(v *sched.View) {
	for _, id := range r.spared {
		if v.Job(id).Running() && r.sel.Has(id) && !r.sel.Chosen(id) {
			r.stops = append(r.stops, id)
		}
	}
	r.spared = r.spared[:0]
}

// room starts a job that found enough GPUs, but no CPU or memory beside them, in the place
// of running jobs that come after it in the order. It stops the last of them first, and only
// those on the nodes where it starts.
func (r *Policy) room(v *sched.View, p *sched.Plan, s start) bool {
	if p.Why().Code != job.NeedCPU {
		return false
	}
	after := r.after(v, p, s)
	for n := 1; ; n *= 2 {
		n = min(n, len(after))
		victims := r.onNodes(v, p, s, after[:n])
		if len(victims) > 0 {
			took, ok := r.makeRoom(v, p, s, victims, func([]job.ID) bool { return true })
			if ok {
				for _, id := range victims[:took] {
					r.stopped(id)
				}
			}
			return ok
		}
		if n == len(after) {
			return false
		}
	}
}

// after lists the running jobs that come after a job in the order and may be stopped for
// it, the last one first.
func (r *Policy) after(v *sched.View, p *sched.Plan, s start) []job.ID {
	var out []job.ID
	for j := range v.Running() {
		if p.Alloc(j.ID) == nil || p.Alloc(j.ID) != v.Alloc(j.ID) || stays(v, j.ID) {
			continue
		}
		if key := r.chosenKey(v, j); compare(s.key, s.id, key, j.ID) < 0 {
			out = append(out, j.ID)
		}
	}
	return r.lastFirst(v, out)
}

// onNodes lists those of the victims that are on the nodes where a job would start if all
// of them were stopped; none if it would not start then.
func (r *Policy) onNodes(v *sched.View, p *sched.Plan, s start, victims []job.ID) (on []job.ID) {
	p.Try(func() bool {
		for _, id := range victims {
			p.Stop(id, job.Reason{Code: job.MakesRoom, Job: s.id})
		}
		if !r.begin(v, p, s) {
			return false
		}
		there := p.Alloc(s.id)
		for _, id := range victims {
			if meet(v.Alloc(id), there) {
				on = append(on, id)
			}
		}
		return false
	})
	return on
}

// meet tells whether two allocations have a node in common.
func meet(a, b *cluster.Alloc) bool {
	return slices.ContainsFunc(a.Pieces, func(p cluster.Piece) bool {
		return slices.ContainsFunc(b.Pieces, func(q cluster.Piece) bool { return p.Node == q.Node })
	})
}
