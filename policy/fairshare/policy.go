package fairshare

import (
	"time"

	"github.com/norn-scheduler/norn/cluster/unit"
	"github.com/norn-scheduler/norn/job"
	"github.com/norn-scheduler/norn/place"
	"github.com/norn-scheduler/norn/policy/kit/backfill"
	"github.com/norn-scheduler/norn/policy/kit/queue"
	"github.com/norn-scheduler/norn/policy/kit/quota"
	"github.com/norn-scheduler/norn/sched"
	"github.com/norn-scheduler/norn/state/dense"
)

type policy struct {
	cfg    Config
	usage  *usage
	ranks  ranks
	ranked bool // the ranks are those of the last boundary and of all accounts

	book       quota.Book
	lanes      quota.Lanes // equal jobs of one account: the oldest goes first
	active     dense.Set   // lanes that are not empty
	infeasible sched.Infeasible
	full       []bool // classes of which no job fits until something is freed; when skipping
	fresh      bool   // something was freed, or a job has come that might fit
	heads      []head // scratch of a walk: a heap
	blocked    job.ID // the first job that did not fit, when not skipping
	easy       backfill.EASY
}

// Decide implements sched.Policy.
func (f *policy) Decide(v *sched.View, p *sched.Plan) {
	if f.usage == nil {
		f.usage = newUsage(f.cfg.Period, f.cfg.halfLife(v.Tenants().HalfLife()))
	}
	f.book.Open(v, p)
	f.account(v)
	f.follow(v, p)
	f.blocked = job.None
	f.easy.Clear()
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
		if f.cfg.Mode == Skip {
			f.full[v.Job(id).Class()] = true
			return queue.SkipClass
		}
		f.blocked, why = id, p.Why()
		return queue.Stop
	})
	if f.cfg.Mode != EASY || f.blocked == job.None || !f.easy.Reserve(v, p, f.blocked, f.cfg.Place, why) {
		return
	}
	left := f.cfg.Depth
	f.walk(v, p, func(id job.ID) queue.Step {
		if left--; left < 0 {
			return queue.Stop
		}
		return f.easy.Visit(v, p, id)
	})
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
	note := func(j sched.Job) {
		if _, ran := j.FirstStart(); ran && p.Alloc(j.ID) == nil {
			p.Remember(j.ID, f.usage.stopped(v, j).note())
		}
	}
	for _, ch := range v.Changes() {
		if ch.Kind == sched.Stopped {
			note(v.Job(ch.Job))
		}
	}
	if !v.First {
		return
	}
	for id := range job.ID(v.Jobs()) { // those that are held are not among the changes
		if j := v.Job(id); j.Phase() == job.Held && v.Covers(j) {
			note(j)
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
	for _, id := range f.infeasible.Reconsider(v) {
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
			f.infeasible.Remove(ch.Job)
		case sched.Altered:
			if f.cfg.Mode == EASY && f.lanes.Has(ch.Job) {
				f.easy.Add(v.Job(ch.Job))
			}
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
	if f.infeasible.Rejects(p, j.ID, f.cfg.Place) || f.book.Forbids(p, j, v.Class(j.Class()).Amount.GPU) {
		return
	}
	lane, _ := f.lanes.Lane(quota.LaneKey{Tenant: j.Tenant(), Class: j.Class(), Account: f.usage.of[j.ID], Priority: j.Spec().Priority})
	f.lanes.Add(j.ID, lane, queue.Key{})
	f.active.Add(int(lane))
	if f.cfg.Mode == EASY {
		f.easy.Add(j)
	}
	f.fresh = f.fresh || !f.full[j.Class()]
}

func (f *policy) remove(id job.ID) {
	f.easy.Remove(id)
	if lane, ok := f.lanes.Remove(id); ok {
		if _, more := f.lanes.Head(lane); !more {
			f.active.Remove(int(lane))
		}
	}
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
	free := v.Cluster().FreeGPUs(class.Scope, class.Mask)
	at, reserved := f.easy.At()
	switch {
	case class.Amount.GPU > room:
		return f.book.Quota(binds)
	case f.blocked == id || f.blocked == job.None || f.cfg.Mode == EASY && j.GPUs() > free:
		return job.Reason{Code: job.NeedGPUs, Need: int32(j.GPUs()), Have: int32(free), Job: job.None}
	case reserved:
		return job.Reason{Code: job.Reserved, Job: f.blocked, At: at}
	}
	return job.Reason{Code: job.Behind, Job: f.blocked}
}
