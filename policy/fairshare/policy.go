package fairshare

import (
	"time"

	"github.com/norn-scheduler/norn/cluster"
	"github.com/norn-scheduler/norn/dense"
	"github.com/norn-scheduler/norn/job"
	"github.com/norn-scheduler/norn/place"
	"github.com/norn-scheduler/norn/policy/share"
	"github.com/norn-scheduler/norn/queue"
	"github.com/norn-scheduler/norn/sched"
	"github.com/norn-scheduler/norn/unit"
)

type policy struct {
	cfg    Config
	usage  *usage
	ranks  ranks
	ranked bool // the ranks are those of the last boundary and of all accounts

	book    share.Book
	lanes   share.Lanes // equal jobs of one account: the oldest goes first
	active  dense.Set   // lanes that are not empty
	barred  sched.Barred
	full    []bool // classes of which no job fits until something is freed
	fresh   bool   // something was freed, or a job has come that might fit
	heads   []head // scratch of a walk: a heap
	blocked job.ID
	ending  time.Duration // when the blocked job is expected to fit; 0: nobody knows
	kept    cluster.Alloc // what is reserved for the blocked job
}

// Decide implements sched.Policy.
func (f *policy) Decide(v *sched.View, p *sched.Plan) {
	f.book.Open(v, p)
	f.account(v)
	f.follow(v, p)
	f.blocked, f.ending = job.None, 0
	if f.lanes.Len() > 0 && (f.fresh || f.cfg.Mode != Skip) {
		f.start(v, p)
	}
	f.remember(v, p)
}

// start starts jobs in order of priority.
func (f *policy) start(v *sched.View, p *sched.Plan) {
	f.fresh = false
	var why job.Reason
	f.walk(v, p, func(id job.ID) queue.Step {
		if p.Start(id, f.cfg.Place) {
			return queue.Took
		}
		f.full[v.Job(id).Class()] = true
		if f.cfg.Mode == Skip {
			return queue.SkipClass
		}
		f.blocked, why = id, p.Why()
		return queue.Stop
	})
	if f.cfg.Mode == EASY && f.blocked != job.None {
		f.backfill(v, p, why)
	}
}

// account keeps the usage of all accounts true.
func (f *policy) account(v *sched.View) {
	if f.usage.know(v, f.cfg.Users) {
		f.ranked = false
	}
	if v.First {
		f.usage.recall(v)
		f.ranked = false
		return
	}
	if f.usage.advance(ms(v.Now)) {
		f.ranked = false
	}
	for _, ch := range v.Changes() {
		if ch.Kind == sched.Stopped || ch.Kind == sched.Ended {
			f.usage.hold(ch.Job, 0, ms(v.Now))
		}
	}
}

// remember writes on jobs what their earlier attempts come to, since a view does
// not show it.
func (f *policy) remember(v *sched.View, p *sched.Plan) {
	for _, ch := range v.Changes() {
		j := v.Job(ch.Job)
		if _, ran := j.FirstStart(); ran && ch.Kind == sched.Stopped && p.Holding(ch.Job) == nil {
			p.Remember(ch.Job, f.usage.stopped(v, j).memo())
		}
	}
}

// follow takes in what happened since the last decision.
func (f *policy) follow(v *sched.View, p *sched.Plan) {
	for len(f.full) < v.Classes() {
		f.full = append(f.full, false)
	}
	if v.NodesChanged() || f.cfg.Place == place.Random { // so that a new policy draws as often
		f.freed()
	}
	for _, id := range f.barred.Reconsider(v) {
		f.wait(v, p, v.Job(id))
	}
	for _, ch := range v.Changes() {
		switch ch.Kind {
		case sched.Stopped:
			f.freed()
			f.wait(v, p, v.Job(ch.Job))
		case sched.Arrived:
			f.wait(v, p, v.Job(ch.Job))
		case sched.Ended:
			f.freed()
			f.remove(ch.Job)
			f.barred.Remove(ch.Job)
		}
	}
}

// freed forgets what did not fit.
func (f *policy) freed() {
	clear(f.full)
	f.fresh = true
}

// wait puts a job into its lane, unless it can never run.
func (f *policy) wait(v *sched.View, p *sched.Plan, j sched.Job) {
	f.remove(j.ID)
	if f.barred.Bars(p, j.ID, f.cfg.Place) || f.book.Forbids(p, j, v.Class(j.Class()).Amount.GPU) {
		return
	}
	lane, _ := f.lanes.Lane(share.LaneKey{Tenant: j.Tenant(), Class: j.Class(), Account: f.usage.of[j.ID], Priority: j.Spec().Priority})
	f.lanes.Add(j.ID, lane, queue.Key{})
	f.active.Add(int(lane))
	f.fresh = f.fresh || !f.full[j.Class()]
}

func (f *policy) remove(id job.ID) {
	if lane, ok := f.lanes.Remove(id); ok {
		if _, more := f.lanes.Head(lane); !more {
			f.active.Remove(int(lane))
		}
	}
}

// backfill starts jobs behind the blocked one that do not delay it: they end
// before it can start, or keep off the devices that it will start on. Once one
// job of a class did not fit beside those, no other does.
func (f *policy) backfill(v *sched.View, p *sched.Plan, why job.Reason) {
	at, on, ok := p.Expect(f.blocked, f.cfg.Place)
	if !ok {
		return // nobody knows when it can start, so anybody might delay it
	}
	why.At, f.ending = at, at
	p.Hold(f.blocked, why)
	f.kept.CopyFrom(on)
	var beside dense.Set // classes that do not fit beside it
	left := f.cfg.Depth
	f.walk(v, p, func(id job.ID) queue.Step {
		if id == f.blocked {
			return queue.SkipJob
		}
		if left--; left < 0 {
			return queue.Stop
		}
		class := v.Job(id).Class()
		if left, known := v.Job(id).Remaining(); known && v.Now+left <= at {
			if p.Start(id, f.cfg.Place) {
				return queue.Took
			}
			f.full[class] = true
			return queue.SkipClass
		}
		if beside.Has(int(class)) {
			return queue.SkipJob
		}
		took := false
		p.Without(&f.kept, func() { took = p.Start(id, f.cfg.Place) })
		if took {
			return queue.Took
		}
		beside.Add(int(class))
		p.Hold(id, job.Reason{Code: job.Reserved, Job: f.blocked, At: at})
		return queue.SkipJob
	})
}

// NextWake is the next boundary, where jobs wait in an order that may change
// there.
func (f *policy) NextWake(*sched.View) time.Duration {
	if f.lanes.Len() == 0 || f.cfg.Mode == Skip {
		return unit.Never
	}
	return time.Duration((f.usage.boundary+1)*f.usage.period) * time.Millisecond
}

// Why implements sched.Explainer.
func (f *policy) Why(v *sched.View, id job.ID) job.Reason {
	f.book.Close()
	j := v.Job(id)
	class := v.Class(j.Class())
	room, binds := f.book.Room(j.Tenant())
	free := v.Cluster().FreeGPUs(j.Pool(), class.Mask)
	switch {
	case class.Amount.GPU > room:
		return f.book.Quota(binds)
	case f.blocked == id || f.blocked == job.None || f.cfg.Mode == EASY && j.GPUs() > free:
		return job.Reason{Code: job.NeedGPUs, Need: int32(j.GPUs()), Have: int32(free), Job: job.None}
	case f.ending > 0:
		return job.Reason{Code: job.Reserved, Job: f.blocked, At: f.ending}
	}
	return job.Reason{Code: job.Behind, Job: f.blocked}
}
