package rmixer

import (
	"time"

	"github.com/norn-scheduler/norn/cluster"
	"github.com/norn-scheduler/norn/cluster/unit"
	"github.com/norn-scheduler/norn/job"
	"github.com/norn-scheduler/norn/policy/kit/queue"
	"github.com/norn-scheduler/norn/policy/rmixer/memory"
	"github.com/norn-scheduler/norn/sched"
)

type policy struct {
	cfg        Config
	models     []memory.Model
	byName     map[string]*memory.Model
	devices    devices
	open       batch
	list       list
	sorting    sorting
	gangs      queue.Queue
	infeasible sched.Infeasible
	tracker
	fresh fresh
	alloc cluster.Alloc // scratch
	group []*job.Job    // scratch
	near  []*item       // scratch
}

// fresh is the standings that this plan has written on jobs.
type fresh struct {
	standings []standing
	plan      []int32 // by job: the plan that has written it
	now       int32
}

func (f *fresh) of(id job.ID) (standing, bool) {
	if int(id) >= len(f.plan) || f.plan[id] != f.now {
		return standing{}, false
	}
	return f.standings[id], true
}

func (f *fresh) set(id job.ID, s standing) {
	if n := int(id) + 1 - len(f.plan); n > 0 {
		n = max(n, 256, len(f.plan))
		f.plan, f.standings = append(f.plan, make([]int32, n)...), append(f.standings, make([]standing, n)...)
	}
	f.plan[id], f.standings[id] = f.now, s
}

// Decide implements sched.Policy.
func (r *policy) Decide(v *sched.View, p *sched.Plan) {
	r.fresh.now++
	r.devices.load(v, &r.cfg)
	r.learn(v)
	r.follow(v, p)
	r.close(v, p)
	r.measure(v, p)
	r.gangs.Walk(nil, func(id job.ID) queue.Step {
		if r.startGang(p, id) {
			return queue.Took
		}
		return queue.SkipClass
	})
	if !r.cfg.Jobs.rounds() || r.devices.running == 0 {
		r.dispatch(v, p)
	}
}

// startGang starts a gang on GPUs that it has for itself.
func (r *policy) startGang(p *sched.Plan, id job.ID) bool {
	return p.Try(func() bool {
		if !p.Start(id, r.cfg.Place) {
			return false
		}
		a := p.Alloc(id)
		if !r.devices.clear(a) {
			return false
		}
		r.devices.reserve(a)
		return true
	})
}

// recall is the standing of a job, as this plan leaves it.
func (r *policy) recall(j sched.Job) standing {
	if s, ok := r.fresh.of(j.ID); ok {
		return s
	}
	return recall(j)
}

// note writes the standing of a job on it, if it has changed.
func (r *policy) note(v *sched.View, p *sched.Plan, id job.ID, s standing) {
	_, again := r.fresh.of(id)
	if r.fresh.set(id, s); again || recall(v.Job(id)) != s {
		p.Remember(id, &s)
	}
}

// follow takes in what happened since the last decision.
func (r *policy) follow(v *sched.View, p *sched.Plan) {
	if v.NodesChanged() && !v.First { // the first call lists all jobs
		r.infeasible.Reconsider(v)
		for j := range v.Waiting() {
			r.add(v, p, j)
		}
	}
	for _, ch := range v.Changes() {
		switch j := v.Job(ch.Job); {
		case ch.Kind == sched.Ended:
			r.remove(ch.Job)
			r.infeasible.Remove(ch.Job)
		case (ch.Kind == sched.Arrived || ch.Kind == sched.Stopped) && j.Waiting():
			r.add(v, p, j)
		}
	}
}

func (r *policy) remove(id job.ID) {
	r.gangs.Remove(id)
	r.list.remove(id)
	r.open.remove(id)
}

// add puts a waiting job where it waits.
func (r *policy) add(v *sched.View, p *sched.Plan, j sched.Job) {
	r.remove(j.ID)
	if !r.hosted(j.Spec()) && r.infeasible.Rejects(p, j.ID, r.cfg.Place) {
		return
	}
	r.infeasible.Remove(j.ID)
	alone := !single(j.Spec())
	s := r.recall(j)
	if n := j.Preemptions(); j.OutOfMemory() && s.evicted != n {
		s.ooms, s.evicted = min(s.ooms+1, 60), n
		s.hopeless = s.hopeless || s.whole || alone
		s.whole = false
		r.note(v, p, j.ID, s)
	}
	switch {
	case s.hopeless:
		p.Wait(j.ID, job.Reason{Code: job.Impossible, Job: job.None})
	case alone:
		r.gangs.Add(j.ID, j.Class(), queue.Key{})
	case !s.closed:
		r.open.add(j.ID, j.Since())
	default:
		r.list.add(r.item(j, s))
	}
}

// dispatch gives jobs of the list to devices as long as any device takes one: GPUs
// first, host devices only when no GPU does.
func (r *policy) dispatch(v *sched.View, p *sched.Plan) {
	if !r.side(v, p, false) {
		return
	}
	r.side(v, p, true)
}

// side gives jobs to all GPUs or all host devices, in the order of the device policy.
// It returns false when the plan is invalid.
func (r *policy) side(v *sched.View, p *sched.Plan, host bool) bool {
	free := &r.devices.waiting
	for i := range r.devices.all {
		if d := &r.devices.all[i]; d.host == host && r.ready(v, d) {
			free.Set(int32(i), d.order(r.cfg.Devices))
		}
	}
	defer func() {
		for free.Len() > 0 {
			free.Pop()
		}
	}()
	for free.Len() > 0 && r.list.n > 0 {
		i, _ := free.Min()
		d := &r.devices.all[i]
		it := r.pick(v, p, d)
		if it == nil {
			free.Pop() // nothing of what is left fits there, now or later in this plan
			continue
		}
		if !r.assign(v, p, d, *it) {
			return false
		}
		if r.ready(v, d) {
			free.Set(i, d.order(r.cfg.Devices))
		} else {
			free.Pop()
		}
	}
	return true
}

// ready tells whether a device may take a job: it has a free worker, and no more of
// its memory is in use than was booked.
func (r *policy) ready(v *sched.View, d *device) bool {
	return r.vacant(v, d) && r.beyond(v, d) <= unit.Bytes(r.cfg.Guard)*unit.MiB
}

// vacant tells whether a device has a free worker.
func (r *policy) vacant(v *sched.View, d *device) bool {
	return !d.gang && len(d.jobs) < d.workers && v.Cluster().DeviceFree(d.id) >= unit.Milli(d.share)
}

// pick is the job that a device takes next, or nil.
func (r *policy) pick(v *sched.View, p *sched.Plan, d *device) *item {
	fits := func(it *item) bool { return r.fits(v, p, d, it) }
	if r.cfg.Jobs.tails() && d.host {
		// The last of the list that fits, from the tail only, and while enough are
		// left; but one that no GPU takes, always.
		left := float64(r.devices.running + r.list.n)
		open := left > r.cfg.Beta*float64(r.devices.workers[0])
		return r.list.last(d.room(), func(it *item) bool { return (open && it.tail || !r.onGPU(p, it)) && fits(it) })
	}
	switch {
	case r.cfg.Jobs == DyPair:
		return r.together(v, p, d)
	case r.cfg.Jobs.complements():
		if it := r.list.first(d.most(), d.room(), fits); it != nil {
			return it
		}
	case r.cfg.Jobs.alternates() && d.front > d.back:
		return r.list.last(d.room(), fits)
	}
	return r.list.first(anyClass, d.room(), fits)
}

// fits tells whether a job can run on a device beside what runs there.
func (r *policy) fits(v *sched.View, p *sched.Plan, d *device, it *item) bool {
	if d.host && !it.host || !d.host && (!v.Class(it.kind).Mask.Has(d.typ) || !r.onGPU(p, it)) {
		return false
	}
	if !v.Cluster().In(d.node, v.Class(it.kind).Scope) {
		return false
	}
	if _, ok := d.take(it.need, r.mayTakeAll(v, p, d, it)); !ok {
		return false
	}
	role := &v.Class(it.kind).Demand.Roles[0]
	cpu, counted := v.Cluster().CPUFree(d.node)
	if counted && cpu < role.CPU {
		return false
	}
	free, counted := v.Cluster().MemoryFree(d.node)
	return !counted || free >= role.Memory
}

// onGPU tells whether a job of the list can run on a GPU, however empty the cluster is.
// One that cannot is there for the processors.
func (r *policy) onGPU(p *sched.Plan, it *item) bool {
	if it.gpu == unasked {
		it.gpu = cannot
		if !it.host || p.Never(it.key.ID, r.cfg.Place).Code == job.NoReason {
			it.gpu = can
		}
		r.list.items[it.key.ID].gpu = it.gpu
	}
	return it.gpu == can
}

// mayTakeAll tells whether a job may be given all memory of a device that has less
// than is to be booked for it: one whose memory ran out before, only where there is
// no larger device.
func (r *policy) mayTakeAll(v *sched.View, p *sched.Plan, d *device, it *item) bool {
	s := r.recall(v.Job(it.key.ID))
	return s.ooms == 0 || d.total >= r.devices.largest(v.Class(it.kind).Mask, r.onGPU(p, it), it.host)
}

// assign starts a job on a device.
func (r *policy) assign(v *sched.View, p *sched.Plan, d *device, it item) bool {
	id := it.key.ID
	s := r.recall(v.Job(id))
	booked, _ := d.take(it.need, true)
	s.whole = d.total > 0 && booked == d.whole() && d.total >= r.devices.largest(v.Class(it.kind).Mask, r.onGPU(p, &it), it.host)
	s.front = r.cfg.Jobs.alternates() && d.front <= d.back
	r.note(v, p, id, s)
	role := &v.Class(it.kind).Demand.Roles[0]
	r.alloc.Reset()
	r.alloc.Pieces = append(r.alloc.Pieces, cluster.Piece{Node: d.node, Tasks: 1, Shares: 1, CPU: role.CPU, Memory: role.Memory})
	r.alloc.Shares = append(r.alloc.Shares, cluster.Share{Device: d.id, Milli: min(d.share, int32(role.GPU)), Memory: booked})
	if !p.StartOn(id, &r.alloc) {
		return false
	}
	r.list.remove(id)
	r.devices.running++
	d.gets(id, s, booked)
	return true
}

// NextWake implements sched.Waker.
func (r *policy) NextWake(v *sched.View) time.Duration {
	return max(v.Now+1, r.closes(v))
}
