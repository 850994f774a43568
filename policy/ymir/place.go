package ymir

import (
	"cmp"
	"slices"

	"github.com/norn-scheduler/norn/cluster"
	"github.com/norn-scheduler/norn/cluster/unit"
	"github.com/norn-scheduler/norn/job"
	"github.com/norn-scheduler/norn/place"
	"github.com/norn-scheduler/norn/sched"
)

// carryOut plans what everybody shall have: who does not change keeps its nodes,
// the others leave, and those who shall have something are placed, the largest
// first, behind the jobs that are to be measured.
func (y *policy) carryOut(v *sched.View, p *sched.Plan, pool cluster.PoolID, all []outcome, measured []sched.Job) {
	var change []outcome
	for _, o := range all {
		if o.fresh && o.how == job.Together {
			p.Merge(o.jobs[0].ID, o.jobs[1].ID, job.Together)
		}
		if o.split {
			split(p, o.jobs[0])
		}
		if !y.unchanged(v, p, &o) {
			change = append(change, o)
		}
	}
	for i := range change {
		why := job.Reason{Code: job.Resized, Need: int32(change[i].gpus), Job: job.None}
		if change[i].gpus == 0 {
			why = job.Reason{Code: job.MakesRoom, Job: job.None}
		}
		for _, j := range change[i].jobs {
			if p.Alloc(j.ID) != nil {
				p.Stop(j.ID, why)
			}
		}
	}
	for _, j := range measured {
		y.profile(v, p, j)
	}
	slices.SortStableFunc(change, func(a, b outcome) int {
		return cmp.Or(cmp.Compare(b.gpus, a.gpus), cmp.Compare(a.jobs[0].ID, b.jobs[0].ID))
	})
	pl := &placer{y: y, v: v, p: p, pool: pool, node: y.nodeGPUs(v, pool)}
	for i := range change {
		if change[i].gpus > 0 && !pl.place(&change[i], change[i].gpus) {
			change[i].gpus = 0
		}
	}
	for i := range change { // what is left goes to who got nothing
		if change[i].gpus == 0 && !pl.place(&change[i], 1) {
			for _, j := range change[i].jobs {
				pl.hold(j)
			}
		}
	}
	for i := range all {
		if o := &all[i]; len(o.jobs) == 2 && o.how == job.After && !pl.sooner(o) && o.fresh {
			merge(v, p, o)
		}
	}
}

// merge notes that the second of two jobs is to go on from the first.
func merge(v *sched.View, p *sched.Plan, o *outcome) {
	a, b := o.jobs[0], o.jobs[1]
	p.Merge(b.ID, a.ID, job.After)
	change(p, b, func(n *note) { n.factor = o.factor })
	p.Wait(b.ID, follows(v, a, b))
}

// sooner starts the second of a temporal pair by itself where GPUs are left with which it is
// believed to end sooner than if it went on from the first.
func (pl *placer) sooner(o *outcome) bool {
	b := o.jobs[1]
	free := pl.v.Cluster().FreeGPUs(pl.v.Scope(b), pl.v.Class(b.Class()).Mask)
	first := 0 // GPUs of the first, which may be fewer than was planned for it
	if a := pl.p.Alloc(o.jobs[0].ID); a != nil {
		first = len(a.Shares)
	}
	best, least := 0, o.ends(first)
	for _, n := range o.sizes {
		if t := o.alone(n); n <= free && t < least {
			best, least = n, t
		}
	}
	if best == 0 || !pl.place(&outcome{jobs: []sched.Job{b}}, best) {
		return false
	}
	if !o.fresh {
		split(pl.p, b)
	}
	return true
}

// split has a job trained by itself that was to go on from another one.
func split(p *sched.Plan, j sched.Job) {
	p.Split(j.ID)
	change(p, j, func(n *note) { n.factor = 0 })
}

// unchanged tells whether an outcome is what there is.
func (y *policy) unchanged(v *sched.View, p *sched.Plan, o *outcome) bool {
	a := p.Alloc(o.jobs[0].ID)
	if a == nil {
		return false
	}
	want := unit.One
	if len(o.jobs) == 2 && o.how == job.Together {
		b := p.Alloc(o.jobs[1].ID)
		if b == nil || len(b.Shares) != len(a.Shares) || b.Shares[0].Device != a.Shares[0].Device {
			return false
		}
		want /= 2
	}
	if !plain(o.jobs[0]) {
		return o.gpus > 0
	}
	return len(a.Shares) == o.gpus && unit.Milli(a.Shares[0].Milli) == want
}

// placer finds devices.
type placer struct {
	y    *policy
	v    *sched.View
	p    *sched.Plan
	pool cluster.PoolID
	node int

	alloc cluster.Alloc
	index []*rooms // for each sort of jobs that was asked for
}

func (pl *placer) hold(j sched.Job) {
	if _, how := j.Merged(); how == job.After {
		return // it is told on whom it waits
	}
	pl.p.Wait(j.ID, job.Reason{Code: job.Because, Job: job.None, Text: "jobs that lose more by waiting, or are shorter, take the GPUs; divided anew at " +
		unit.Human((pl.v.Now/pl.y.cfg.Interval+1)*pl.y.cfg.Interval)})
}

// place starts an entity with so many GPUs, or with as many fewer as there is room
// for.
func (pl *placer) place(o *outcome, gpus int) bool {
	j := o.jobs[0]
	d := j.Spec().Demand
	if d.GPUs() > 0 && pl.v.Cluster().FreeMilli(pl.pool, 0) == 0 {
		return false
	}
	both := len(o.jobs) == 2 && o.how == job.Together
	defer func() { pl.looks(o) }()
	if !plain(j) || !d.Elastic() && !both {
		return pl.p.StartSize(j.ID, int(d.Roles[0].Tasks), place.Pack)
	}
	for n := gpus; n > 0; n-- {
		if n > pl.node && n%pl.node != 0 || !fits(j, n) || both && !fits(o.jobs[1], n) || pipeline(j) && n%pl.node != 0 {
			continue
		}
		if pl.find(j, n) {
			return pl.start(o)
		}
	}
	return false
}

// looks counts the devices again that an entity was given.
func (pl *placer) looks(o *outcome) {
	a := pl.p.Alloc(o.jobs[0].ID)
	if a == nil {
		return
	}
	for _, r := range pl.index {
		for i := range a.Pieces {
			r.look(pl.v, a.Pieces[i].Node)
		}
	}
}

// start starts an entity on what was found.
func (pl *placer) start(o *outcome) bool {
	if !(len(o.jobs) == 2 && o.how == job.Together) {
		return pl.p.StartOn(o.jobs[0].ID, &pl.alloc)
	}
	for i := range pl.alloc.Shares {
		pl.alloc.Shares[i].Milli /= 2
	}
	return pl.p.StartOn(o.jobs[0].ID, &pl.alloc) && pl.p.StartOn(o.jobs[1].ID, &pl.alloc)
}

// find looks for n whole devices: on one node, the one it was on, then the one with
// the most runtimes of its backbone, then the fullest; over several on wholly free
// ones.
func (pl *placer) find(j sched.Job, n int) bool {
	r := pl.rooms(j)
	pl.alloc.Reset()
	if n <= pl.node {
		id, ok := r.single(pl.v, j, n)
		if ok {
			pl.take(r.want, id, n)
		}
		return ok
	}
	left := n
	for id := range r.several(pl.v, j, n) {
		take := min(left, r.room[id].free)
		pl.take(r.want, id, take)
		if left -= take; left == 0 {
			return true
		}
	}
	return false
}

// take adds devices of a node to what is found, those with the runtime first.
func (pl *placer) take(w want, id cluster.NodeID, n int) {
	var chosen []cluster.DeviceID
	for _, warm := range []bool{true, false} {
		for d := range w.devices(pl.v, id) {
			if len(chosen) < n && warm == (pl.v.Runtime(d) == w.backbone) {
				chosen = append(chosen, d)
			}
		}
	}
	slices.Sort(chosen)
	pl.alloc.Pieces = append(pl.alloc.Pieces, cluster.Piece{Node: id, Tasks: int32(n), Shares: int32(n)})
	for _, d := range chosen {
		pl.alloc.Shares = append(pl.alloc.Shares, cluster.Share{Device: d, Milli: int32(unit.One)})
	}
}
