package lucid

import (
	"cmp"
	"math"
	"slices"

	"github.com/norn-scheduler/norn/cluster"
	"github.com/norn-scheduler/norn/cluster/unit"
	"github.com/norn-scheduler/norn/job"
	"github.com/norn-scheduler/norn/policy/kit/beside"
	"github.com/norn-scheduler/norn/sched"
)

// side is a job as one of a pair; ok is false when it should not share: nothing was
// told of it, it was taken from a pair before, or it must never be stopped.
func (l *policy) side(p *sched.Plan, j sched.Job, rank float64) (s Side, ok bool) {
	score, memory, known := l.cfg.Analyser.Of(j.Spec())
	if known && beside.Plain(j) && j.Spec().Stop != job.Pinned {
		n, _ := sched.Noted[note](p, j)
		ok = !n.apart
	}
	return Side{j.GPUs(), score, memory, rank}, ok
}

// partners lists the running jobs that may be shared with, in order of their starts:
// they began before this moment, are on one node outside the profiler, and have their
// GPUs for themselves.
func (l *policy) partners(v *sched.View, p *sched.Plan) {
	l.open = l.open[:0]
	for j := range v.Running() {
		a := v.Alloc(j.ID)
		if !beside.Settled(v, p, j.ID) || a.Nodes() != 1 {
			continue
		}
		side, ok := l.side(p, j, l.rank(j))
		if !ok || l.reserved[a.Pieces[0].Node] || !v.Cluster().UsableAlloc(a) || !beside.Alone(p, a) {
			continue
		}
		l.open = append(l.open, partner{j.ID, j.Since(), side, j.Class()})
	}
	slices.SortStableFunc(l.open, func(a, b partner) int { return cmp.Compare(a.since, b.since) })
}

// share starts a job on the GPUs of the first partner that suits.
func (l *policy) share(v *sched.View, p *sched.Plan, j sched.Job, rank float64, scores int) bool {
	side, ok := l.side(p, j, rank)
	if !ok {
		return false
	}
	loose := Limits{Scores: scores, Ratio: l.cfg.Ratio, Memory: math.MaxInt64}
	for i, o := range l.open {
		if !loose.Allow(side, o.side) { // which is quick to tell
			continue
		}
		limits := loose
		limits.Memory = unit.Bytes(l.cfg.Memory * float64(unit.GiB))
		host := v.Alloc(o.id)
		if v.Job(o.id).Pool() != j.Pool() || !l.suits(v, j, host, &limits) || !limits.Allow(side, o.side) {
			continue
		}
		l.join(j, host)
		beside.Join(p, j.ID, &l.alloc)
		l.open = slices.Delete(l.open, i, i+1)
		return true
	}
	return false
}

// suits tells whether a job could run on the GPUs of another one, and puts their
// memory into the limits where it is told.
func (l *policy) suits(v *sched.View, j sched.Job, host *cluster.Alloc, limits *Limits) bool {
	c, role, class := v.Cluster(), &j.Spec().Demand.Roles[0], v.Class(j.Class())
	tasks := unit.Milli(role.Tasks)
	node := host.Pieces[0].Node
	if len(host.Shares) != int(role.Tasks) || class.NoType {
		return false
	}
	if free, ok := c.CPUFree(node); ok && free < role.CPU*tasks {
		return false
	}
	if free, ok := c.MemoryFree(node); ok && free < role.Memory*unit.Bytes(tasks) {
		return false
	}
	for i := range host.Shares {
		d := host.Shares[i].Device
		t := c.TypeOf(d)
		if !class.Mask.Has(t) || role.GPUMemory > 0 && c.DeviceMemoryFree(d) < role.GPUMemory {
			return false
		}
		if has := c.Type(t).Memory; has > 0 {
			limits.Memory = has
		}
	}
	return true
}

// join makes the alloc of a job on the GPUs of another one.
func (l *policy) join(j sched.Job, host *cluster.Alloc) {
	role := &j.Spec().Demand.Roles[0]
	l.alloc.Reset()
	for i := range host.Shares {
		beside.AddTask(&l.alloc, host.Pieces[0].Node, role, cluster.Share{Device: host.Shares[i].Device, Milli: beside.Half, Memory: role.GPUMemory})
	}
}

// restore gives a job that has become alone the other half of its GPUs.
func (l *policy) restore(p *sched.Plan, id job.ID) {
	others := func(s cluster.Share) bool { return len(p.On(s.Device)) != 1 }
	if a := p.Alloc(id); a != nil && !slices.ContainsFunc(a.Shares, others) {
		beside.GiveEach(p, id, beside.Whole)
	}
}
