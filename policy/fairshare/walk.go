package fairshare

import (
	"math"

	"github.com/norn-scheduler/norn/cluster/unit"
	"github.com/norn-scheduler/norn/job"
	"github.com/norn-scheduler/norn/policy/kit/queue"
	"github.com/norn-scheduler/norn/sched"
	"github.com/norn-scheduler/norn/tenant"
)

// head is the first job of a lane and where it stands: those of tenants that
// have less than they are guaranteed before all others, then by tier, then by priority.
type head struct {
	id       job.ID
	lane     int32
	owed     bool
	tier     int32
	priority float64
}

func (a head) before(b head) bool {
	switch {
	case a.owed != b.owed:
		return a.owed
	case a.tier != b.tier:
		return a.tier > b.tier
	case a.priority != b.priority:
		return a.priority > b.priority
	}
	return a.id < b.id
}

// walk visits waiting jobs in order of priority, as queue.Queue does. Jobs whose
// limits do not allow them to start are left out, and so are those of classes
// that are full, but for the first of all where that blocks the others.
func (f *policy) walk(v *sched.View, p *sched.Plan, visit func(job.ID) queue.Step) {
	f.gather(v)
	for len(f.heads) > 0 {
		top := f.heads[0]
		lane := f.lanes.At(top.lane)
		amount := v.Class(lane.Class).Amount
		room, binds := f.book.Room(lane.Tenant)
		owed := f.owed(lane.Tenant, v, lane.Class)
		switch {
		case amount.GPU > 0 && amount.GPU > room:
			p.Wait(top.id, f.book.Quota(binds))
			f.pop()
			continue
		case f.out(lane.Class) || !f.allowed(p, top, amount.GPU):
			f.pop()
			continue
		case owed != top.owed: // others of its tenant have started meanwhile
			f.heads[0].owed = owed
			f.sift(0)
			continue
		}
		next, more := f.lanes.After(top.lane, top.id)
		switch visit(top.id) {
		case queue.Stop:
			return
		case queue.SkipClass:
			more = false
		case queue.Took:
			f.took(v, p, top.id)
		}
		if !more {
			f.pop()
			continue
		}
		f.heads[0] = f.headOf(v, next, top.lane)
		f.sift(0)
	}
}

// allowed tells whether the policy that is built on this one lets a job start, and tells the job why not.
func (f *policy) allowed(p *sched.Plan, h head, gpus unit.Milli) bool {
	if f.extra == nil {
		return true
	}
	why, ok := f.extra.Allows(f.lanes.At(h.lane).Sort, gpus)
	if !ok {
		p.Wait(h.id, why)
	}
	return ok
}

// took books a job that the plan has started.
func (f *policy) took(v *sched.View, p *sched.Plan, id job.ID) {
	j := v.Job(id)
	f.remove(id)
	amount := v.Class(j.Class()).Amount
	f.book.Count(j.Tenant(), amount, 1)
	if f.extra != nil {
		f.extra.Count(f.sort(j), amount.GPU, 1)
	}
	f.usage.hold(id, int64(amount.GPU), ms(v.Now))
	if _, again := j.FirstStart(); again || f.awaits { // its first start will tell when it runs, not since when it holds devices
		p.Remember(id, f.usage.started(v, j).note())
	}
}

// gather makes the heap of the heads of all lanes that are worth a look.
func (f *policy) gather(v *sched.View) {
	f.rank(v)
	f.heads = f.heads[:0]
	for lane := f.active.Min(); lane >= 0; lane = f.active.Next(lane + 1) {
		if f.out(f.lanes.At(int32(lane)).Class) {
			continue
		}
		id, _ := f.lanes.Head(int32(lane))
		f.heads = append(f.heads, f.headOf(v, id, int32(lane)))
	}
	for i := len(f.heads)/2 - 1; i >= 0; i-- {
		f.sift(i)
	}
}

// out tells whether jobs of a class need not be looked at.
func (f *policy) out(class int32) bool {
	if _, reserved := f.fill.At(); reserved {
		return f.fill.Out(class)
	}
	return f.full[class]
}

// rank makes sure that the fair-share factors are those of the last boundary.
func (f *policy) rank(v *sched.View) {
	if f.ranked {
		return
	}
	f.ranked = true
	if f.cfg.Rank == FairTree {
		f.ranks.fairTree(f.usage, v.Tenants())
	} else {
		f.ranks.classic(f.usage, v.Tenants(), f.cfg.Damping)
	}
}

func (f *policy) headOf(v *sched.View, id job.ID, lane int32) head {
	at := f.lanes.At(lane)
	h := head{id: id, lane: lane, owed: f.owed(at.Tenant, v, at.Class), priority: f.priority(v, v.Job(id), at.Account)}
	if f.extra != nil {
		var bonus float64
		h.tier, bonus = f.extra.Bonus(at.Sort)
		h.priority += bonus
	}
	return h
}

func (f *policy) owed(t tenant.ID, v *sched.View, class int32) bool {
	return f.book.Promises() && f.book.Owed(t, v.Class(class).Amount.GPU)
}

// priority is the weighted sum of the factors of a job.
func (f *policy) priority(v *sched.View, j sched.Job, account int32) float64 {
	sum := f.cfg.Fair * f.ranks.factor[account]
	if f.cfg.Age > 0 {
		sum += f.cfg.Age * min(1, float64(v.Now-j.Submit())/float64(f.cfg.MaxAge))
	}
	if total := f.book.Total.GPU; f.cfg.Size > 0 && total > 0 {
		size := float64(v.Class(j.Class()).Amount.GPU) / float64(total)
		if f.cfg.Small {
			size = 1 - size
		}
		sum += f.cfg.Size * size
	}
	if f.cfg.Priority > 0 {
		sum += f.cfg.Priority * float64(j.Spec().Priority)
	}
	if math.IsNaN(sum) { // an infinite weight and a factor of 0
		return 0
	}
	return sum
}

func (f *policy) pop() {
	f.heads[0] = f.heads[len(f.heads)-1]
	f.heads = f.heads[:len(f.heads)-1]
	f.sift(0)
}

// sift moves the head at i down to its place in the heap.
func (f *policy) sift(i int) {
	for {
		least := i
		for c := 2*i + 1; c <= 2*i+2 && c < len(f.heads); c++ {
			if f.heads[c].before(f.heads[least]) {
				least = c
			}
		}
		if least == i {
			return
		}
		f.heads[i], f.heads[least] = f.heads[least], f.heads[i]
		i = least
	}
}
