package ymir

import (
	"cmp"
	"fmt"
	"math"
	"slices"

	"github.com/norn-scheduler/norn/cluster"
	"github.com/norn-scheduler/norn/job"
	"github.com/norn-scheduler/norn/place"
	"github.com/norn-scheduler/norn/sched"
)

// group is the jobs of a backbone in a pool.
type group struct {
	backbone string
	jobs     []sched.Job
	load     float64 // GPU-seconds left, on one GPU each
	most     int     // GPUs that they could use
	quota    int
}

// solve divides the GPUs of each pool among backbones, and those of a backbone
// among its jobs, and plans the difference.
func (y *policy) solve(v *sched.View, p *sched.Plan) {
	y.noted = y.noted[:0]
	for pool := range v.EachPool() {
		y.solvePool(v, p, pool)
	}
}

func (y *policy) solvePool(v *sched.View, p *sched.Plan, pool cluster.PoolID) {
	gpus := v.Cluster().TotalGPUs(pool, 0)
	var groups []*group
	inGroup := func(j sched.Job) {
		name := j.Spec().Backbone
		if y.titan() {
			name = ""
		}
		at, found := slices.BinarySearchFunc(groups, name, func(g *group, name string) int { return cmp.Compare(g.backbone, name) })
		if !found {
			groups = slices.Insert(groups, at, &group{backbone: name})
		}
		groups[at].jobs = append(groups[at].jobs, j)
	}
	for j := range v.Running() {
		switch {
		case j.Pool() != pool || p.Alloc(j.ID) == nil:
		case j.Profiling() || y.fixed(v, j):
			gpus -= v.Cluster().UsableDevices(v.Alloc(j.ID))
		default:
			inGroup(j)
		}
	}
	var measured []sched.Job
	for j := range v.Waiting() {
		switch {
		case j.Pool() != pool:
		case p.Alloc(j.ID) != nil: // started by this plan already
			gpus -= len(p.Alloc(j.ID).Shares)
		case y.unmeasured(v, p, j):
			if n := y.profileSize(v, j); n <= gpus && plain(j) {
				gpus -= n
				measured = append(measured, j)
			}
		case y.schedulable(v, j):
			if never := p.Never(j.ID, place.Pack); never.Code != job.NoReason {
				p.Wait(j.ID, never)
				continue
			}
			inGroup(j)
		}
	}
	for _, g := range groups {
		slices.SortFunc(g.jobs, func(a, b sched.Job) int { return cmp.Compare(a.ID, b.ID) })
	}
	if len(groups) > 0 {
		y.noted = append(y.noted, groups[0].jobs[0].ID)
		change(p, groups[0].jobs[0], func(n *note) { n.divided = v.Now })
	}
	y.quotas(v, groups, y.nodeGPUs(v, pool), max(0, gpus))
	var all []outcome
	for _, g := range groups {
		jobs := g.jobs
		if y.titan() {
			var others []sched.Job
			jobs, others = y.shortest(v, g.jobs, y.nodeGPUs(v, pool), g.quota)
			for _, j := range others {
				all = append(all, outcome{jobs: []sched.Job{j}})
			}
		}
		s := &solve{y: y, v: v}
		out, err := s.run(pool, g.quota, jobs)
		if err != nil {
			p.Invalidate(fmt.Errorf("GPUs for jobs of %q: %w", g.backbone, err))
			return
		}
		all = append(all, out...)
	}
	y.carryOut(v, p, pool, all, measured)
}

// fixed tells whether a running job stays as it is: one that must not be stopped,
// that has not begun, or that runs where nobody else may.
func (y *policy) fixed(v *sched.View, j sched.Job) bool {
	if j.Spec().Stop == job.Pinned || j.Phase() != job.Running {
		return true
	}
	a := v.Alloc(j.ID)
	return !v.Cluster().UsableAlloc(a) || len(a.Shares) == 0
}

// quotas divides GPUs among backbones in proportion to the work that is left of
// each, as far as each can use them, and at least one for each while there are
// enough.
func (y *policy) quotas(v *sched.View, groups []*group, node, gpus int) {
	open := 0.0
	for _, g := range groups {
		for _, j := range g.jobs {
			role := &j.Spec().Demand.Roles[0]
			least, most := role.Range()
			g.most += max(1, j.Spec().Demand.GPUs(), int(most))
			size := int(role.Tasks)
			if plain(j) {
				size = int(least)
			}
			if speed := believed(v, j, size, node); speed > 0 {
				g.load += y.left(j) / speed * float64(max(1, size))
			}
		}
		open += g.load
	}
	left := gpus
	give := func(g *group, n int) {
		n = min(n, left, g.most-g.quota)
		g.quota += n
		left -= n
	}
	for range groups { // who cannot use its part leaves it to the others
		total, before := open, left
		for _, g := range groups {
			if g.quota < g.most && total > 0 {
				give(g, int(math.Floor(float64(before)*g.load/total)))
			}
		}
		open = 0
		for _, g := range groups {
			if g.quota < g.most {
				open += g.load
			}
		}
	}
	for left > 0 {
		best := -1
		for i, g := range groups {
			if g.quota < g.most && (best < 0 || g.load/float64(g.quota+1) > groups[best].load/float64(groups[best].quota+1)) {
				best = i
			}
		}
		if best < 0 {
			return
		}
		give(groups[best], 1)
	}
	for i, g := range groups { // nobody is left out for another's sake
		if g.quota > 0 || len(g.jobs) == 0 {
			continue
		}
		rich := slices.MaxFunc(groups, func(a, b *group) int { return cmp.Compare(a.quota, b.quota) })
		if rich.quota > 1 {
			rich.quota--
			groups[i].quota++
		}
	}
}
