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

// Extra is what a policy that is built on this one knows besides of jobs. Jobs of one sort
// are alike in that.
type Extra interface {
	// Sort tells the sort of a job, 0 or more.
	Sort(j *job.Job) int32
	// Bonus is added to the priority of the jobs of a sort. Those of a higher tier go first,
	// whatever their priority.
	Bonus(sort int32) (tier int32, priority float64)
	// Stops tells whether MakeRoom may stop anybody. Who fits nowhere is looked at in each decision then.
	Stops() bool
	// MakeRoom stops running jobs for the first waiting one that does not fit, and starts it.
	// It tells which it stopped. It changes nothing where it does not start the job.
	MakeRoom(v *sched.View, p *sched.Plan, id job.ID, sort int32) (stopped []job.ID, started bool)
	// Open begins a decision.
	Open(v *sched.View)
	// Allows tells whether a job of a sort that asks for so many GPUs may start now, whatever is free. Why says
	// why not, or that it can never run.
	Allows(sort int32, gpus unit.Milli) (why job.Reason, ok bool)
	// Count notes that the plan starts such a job (sign 1), or stops it (-1).
	Count(sort int32, gpus unit.Milli, sign int)
	// Wake is when MakeRoom, as it was asked since Open, may find more to stop; unit.Never
	// where time changes nothing.
	Wake() time.Duration
}

// With makes the policy with something extra.
func (c *Config) With(x Extra) (sched.Policy, error) {
	p, err := c.Policy()
	if f, ok := p.(*policy); ok {
		f.extra = x
	}
	return p, err
}

type policy struct {
	cfg    Config
	extra  Extra // nil: nothing
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
	awaits     bool   // jobs were stopped by this decision: who starts now may have to wait until they have left
	fill       backfill.Backfill
}

// Decide implements sched.Policy.
func (f *policy) Decide(v *sched.View, p *sched.Plan) {
	if f.usage == nil {
		f.usage = newUsage(f.cfg.Period, f.cfg.halfLife(v.Tenants().HalfLife()))
	}
	f.book.Open(v, p)
	if f.extra != nil {
		f.extra.Open(v)
	}
	f.account(v)
	f.follow(v, p)
	f.blocked, f.awaits = job.None, false
	f.fill.Clear()
	if f.lanes.Len() > 0 && (f.fresh || f.cfg.Mode != Skip || f.stops()) {
		f.start(v, p)
	}
	f.remember(v, p)
}

// start starts jobs in order of priority.
func (f *policy) start(v *sched.View, p *sched.Plan) {
	f.fresh = false
	var why job.Reason
	f.walk(v, p, func(id job.ID) queue.Step {
		if p.Start(id, f.cfg.Place) || f.roomMade(v, p, id) {
			return queue.Took
		}
		if f.cfg.Mode == Skip {
			f.full[v.Job(id).Class()] = !f.stops() // others of its class may have room made for them
			return queue.SkipClass
		}
		f.blocked, why = id, p.Why()
		return queue.Stop
	})
	if f.cfg.Mode != EASY || f.blocked == job.None || !f.fill.Reserve(v, p, f.blocked, f.cfg.Place, why) {
		return
	}
	left := f.cfg.Depth
	f.walk(v, p, func(id job.ID) queue.Step {
		if left--; left < 0 {
			return queue.Stop
		}
		return f.fill.Visit(v, p, id)
	})
}

// stops tells whether running jobs may be stopped for others.
func (f *policy) stops() bool { return f.extra != nil && f.extra.Stops() }

// roomMade tells whether others were stopped for a job, which then was started.
func (f *policy) roomMade(v *sched.View, p *sched.Plan, id job.ID) bool {
	if f.extra == nil {
		return false
	}
	stopped, started := f.extra.MakeRoom(v, p, id, f.sort(v.Job(id)))
	for _, victim := range stopped {
		j := v.Job(victim)
		f.book.Count(j.Tenant(), v.Class(j.Class()).Amount, -1)
		f.extra.Count(f.sort(j), v.Class(j.Class()).Amount.GPU, -1)
	}
	if len(stopped) > 0 {
		f.awaits = true
		f.freed()
	}
	return started
}

func (f *policy) sort(j sched.Job) int32 {
	if f.extra == nil {
		return 0
	}
	return f.extra.Sort(j.Spec())
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
	for _, ch := range v.Changes() {
		if ch.Kind != sched.Stopped && ch.Kind != sched.Ended {
			continue
		}
		at := ms(v.Now)
		if j := v.Job(ch.Job); j.Waiting() { // one that was preempted at no cost has left before
			at = min(at, ms(j.Since()))
		}
		if f.usage.advance(at) {
			f.ranked = false
		}
		f.usage.hold(ch.Job, 0, at)
	}
	if f.usage.advance(ms(v.Now)) {
		f.ranked = false
	}
}

// remember writes on jobs what their earlier attempts come to, since a view does
// not show it.
func (f *policy) remember(v *sched.View, p *sched.Plan) {
	note := func(j sched.Job) {
		if _, ran := j.FirstStart(); ran && p.Alloc(j.ID) == nil && !j.Phase().Over() {
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
				f.fill.Add(v.Job(ch.Job))
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
	if f.extra != nil {
		if why, ok := f.extra.Allows(f.sort(j), v.Class(j.Class()).Amount.GPU); !ok && why.Never() {
			p.Wait(j.ID, why)
			return
		}
	}
	lane, _ := f.lanes.Lane(quota.LaneKey{Tenant: j.Tenant(), Class: j.Class(), Account: f.usage.of[j.ID], Priority: j.Spec().Priority, Sort: f.sort(j)})
	f.lanes.Add(j.ID, lane, queue.Key{})
	f.active.Add(int(lane))
	if f.cfg.Mode == EASY {
		f.fill.Add(j)
	}
	f.fresh = f.fresh || !f.full[j.Class()]
}

func (f *policy) remove(id job.ID) {
	f.fill.Remove(id)
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
	at := time.Duration((f.usage.boundary+1)*f.usage.period) * time.Millisecond
	if f.extra != nil {
		at = min(at, f.extra.Wake())
	}
	return at
}

// Why implements sched.Explainer.
func (f *policy) Why(v *sched.View, id job.ID) job.Reason {
	f.book.Close()
	j := v.Job(id)
	class := v.Class(j.Class())
	room, binds := f.book.Room(j.Tenant())
	free := v.Cluster().FreeGPUs(class.Scope, class.Mask)
	at, reserved := f.fill.At()
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
