package lucid

import (
	"math"
	"slices"

	"github.com/norn-scheduler/norn/cluster"
	"github.com/norn-scheduler/norn/cluster/unit"
	"github.com/norn-scheduler/norn/job"
	"github.com/norn-scheduler/norn/policy/kit/beside"
	"github.com/norn-scheduler/norn/sched"
)

// shares tells whether a job is of those that may share: it must not be one that is never
// stopped.
func shares(j sched.Job) bool { return beside.Plain(j) && j.Spec().Stop != job.Pinned }

// side is a job as one of a pair; ok is false when it should not share: nothing was
// told of it, it was taken from a pair before, or it must never be stopped.
func (l *policy) side(p *sched.Plan, j sched.Job, rank float64) (s Side, ok bool) {
	score, memory, known := l.cfg.Analyser.Of(j.Spec())
	if known && shares(j) {
		n, _ := sched.Noted[note](p, j)
		ok = !n.apart
	}
	return Side{j.GPUs(), score, memory, rank}, ok
}

// seeker is what jobs that look for a partner may have in common.
type seeker struct {
	class int32
	score Score
}

// share starts a job on the GPUs of the first partner that suits. Jobs look in the order of
// their ranks: where one has found none, no like one that takes as much memory finds one.
func (l *policy) share(v *sched.View, p *sched.Plan, j sched.Job, rank float64, scores int) bool {
	side, ok := l.side(p, j, rank)
	if !ok {
		return false
	}
	like := seeker{j.Class(), side.Score}
	if least, failed := l.lonely[like]; failed && side.Memory >= least {
		return false
	}
	at := company{j.Pool(), side.GPUs}
	limits := Limits{Scores: scores, Ratio: l.cfg.Ratio}
	for i := 0; i < len(l.runs.open[at]); i++ {
		o := l.runs.open[at][i]
		there := v.Job(o.id)
		if there.Phase() != job.Running || there.Since() != o.since {
			l.runs.leaves(at, i)
			i--
			continue
		}
		other := Side{side.GPUs, o.score, o.memory, l.rank(v, there)}
		limits.Memory = math.MaxInt64
		if !limits.Allow(side, other) || !l.opens(v, p, there) { // which is quick to tell
			continue
		}
		limits.Memory = unit.Bytes(l.cfg.Memory * float64(unit.GiB))
		host := v.Alloc(o.id)
		if !l.suits(v, j, host, &limits) || !limits.Allow(side, other) {
			continue
		}
		l.join(j, host)
		beside.Join(p, j.ID, &l.alloc)
		l.runs.leaves(at, i)
		l.runs.began(o.id, p.Alloc(o.id))
		l.runs.began(j.ID, p.Alloc(j.ID))
		return true
	}
	l.lonely[like] = side.Memory
	return false
}

// leaves takes a partner out of those of its company.
func (f *followed) leaves(at company, i int) { f.open[at] = slices.Delete(f.open[at], i, i+1) }

// opens tells whether a settled job may be shared with as the plan stands: it goes on, is
// outside the profiler, has its GPUs for itself, and was not taken from a pair before.
func (l *policy) opens(v *sched.View, p *sched.Plan, j sched.Job) bool {
	a := v.Alloc(j.ID)
	if p.Alloc(j.ID) == nil || l.reserved[a.Pieces[0].Node] || !v.Cluster().UsableAlloc(a) || !beside.Alone(p, a) {
		return false
	}
	n, _ := sched.Noted[note](p, j)
	return !n.apart
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

// restore gives jobs that have become alone the other half of their GPUs.
func (l *policy) restore(v *sched.View, p *sched.Plan) {
	others := func(s cluster.Share) bool { return len(p.On(s.Device)) != 1 }
	for j := range each(v, &l.runs.parted) {
		a := p.Alloc(j.ID)
		if a == nil || j.Phase() != job.Running || !shares(j) || slices.ContainsFunc(a.Shares, others) {
			continue
		}
		if beside.GiveEach(p, j.ID, beside.Whole) {
			l.runs.parted.Remove(int(j.ID))
			l.runs.fresh.Add(int(j.ID))
		}
	}
}
