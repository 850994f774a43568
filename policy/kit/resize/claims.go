package resize

import (
	"cmp"
	"math"
	"slices"

	"github.com/norn-scheduler/norn/cluster"
	"github.com/norn-scheduler/norn/cluster/unit"
	"github.com/norn-scheduler/norn/job"
	"github.com/norn-scheduler/norn/place"
	"github.com/norn-scheduler/norn/sched"
)

// Claim is a job whose number of tasks is chosen in a round.
type Claim struct {
	Job         sched.Job
	Least, Most int // tasks; the same for a job with one size
	Each        int // GPUs of a task, rounded up
	Tasks       int // the choice

	Sizes []int // the only numbers of tasks that it may have, from the smallest; nil: all from Least to Most
}

// allows tells whether the job may have so many tasks.
func (c *Claim) allows(tasks int) bool { return c.Sizes == nil || slices.Contains(c.Sizes, tasks) }

// Rigid tells whether the job has one size only.
func (c *Claim) Rigid() bool { return c.Least == c.Most }

// GPUs is what the job needs at its least size.
func (c *Claim) GPUs() int {
	if c.Rigid() {
		return c.Job.Spec().Demand.GPUs()
	}
	return c.Least * c.Each
}

// Claims lists the jobs of a pool, by number, but for those running ones that stay, and the
// GPUs that they share.
func Claims(v *sched.View, pool cluster.PoolID, stays func(sched.Job) bool) (claims []*Claim, gpus int) {
	gpus = v.Cluster().TotalGPUs(pool, 0)
	add := func(j sched.Job) {
		least, most := j.Spec().Demand.Roles[0].Range()
		each := int((j.Spec().Demand.Roles[0].GPU + unit.One - 1) / unit.One)
		claims = append(claims, &Claim{Job: j, Least: int(least), Most: int(most), Each: each})
	}
	for j := range v.Waiting() {
		if j.Pool() == pool {
			add(j)
		}
	}
	for j := range v.Running() {
		switch {
		case j.Pool() != pool:
		case stays(j):
			gpus -= v.Cluster().UsableDevices(v.Alloc(j.ID))
		default:
			add(j)
		}
	}
	slices.SortFunc(claims, func(a, b *Claim) int { return cmp.Compare(a.Job.ID, b.Job.ID) })
	return claims, max(0, gpus)
}

// CarryOut plans the choice: a job that keeps its size keeps its GPUs, the others leave,
// and the smallest of them are placed first. A job that is to wait is told why, or finds
// room after all.
func CarryOut(p *sched.Plan, claims []*Claim, where place.Strategy) {
	var change []*Claim
	for _, c := range claims {
		switch {
		case c.Job.Running() && c.Job.Tasks() == c.Tasks:
			continue
		case c.Job.Running() && c.Tasks == 0:
			p.Stop(c.Job.ID, job.Reason{Code: job.MakesRoom, Job: job.None})
		case c.Job.Running():
			p.Stop(c.Job.ID, job.Reason{Code: job.Resized, Need: int32(c.Tasks), Job: job.None})
		}
		change = append(change, c)
	}
	size := func(c *Claim) int { // who is to wait comes last
		if c.Tasks == 0 {
			return math.MaxInt
		}
		return c.Tasks
	}
	slices.SortStableFunc(change, func(a, b *Claim) int { return cmp.Or(cmp.Compare(size(a), size(b)), cmp.Compare(a.Job.ID, b.Job.ID)) })
	for _, c := range change {
		for n := max(c.Tasks, c.Least); n >= c.Least; n-- {
			if c.allows(n) && p.StartSize(c.Job.ID, n, where) {
				break
			}
		}
	}
}

// CarryOutInPlace is CarryOut for jobs whose tasks join and leave: a job that grows keeps its
// devices and gets more, one that shrinks leaves some of them. Where that is not possible it has
// others.
func CarryOutInPlace(v *sched.View, p *sched.Plan, claims []*Claim, where place.Strategy) {
	var rest []*Claim
	for _, c := range claims {
		was := v.Alloc(c.Job.ID)
		if c.Job.Running() && c.Tasks > 0 && c.Tasks < was.Tasks(0) && Shrink(p, c.Job.ID, leavers(was, was.Tasks(0)-c.Tasks)) {
			continue
		}
		rest = append(rest, c)
	}
	var grows []*Claim
	rest = slices.DeleteFunc(rest, func(c *Claim) bool {
		grown := c.Job.Running() && c.Tasks > v.Alloc(c.Job.ID).Tasks(0)
		if grown {
			grows = append(grows, c)
		}
		return grown
	})
	CarryOut(p, rest, where)
	for _, c := range grows {
		if !grow(v, p, c, where) {
			CarryOut(p, []*Claim{c}, where)
		}
	}
}

// grow gives a running job more tasks beside those that it has, fewer than it is to have where
// there is no room for all.
func grow(v *sched.View, p *sched.Plan, c *Claim, where place.Strategy) bool {
	id, was := c.Job.ID, v.Alloc(c.Job.ID)
	for n := c.Tasks - was.Tasks(0); n >= c.Least; n-- {
		if c.allows(was.Tasks(0)+n) && p.Try(func() bool {
			var more cluster.Alloc
			p.Stop(id, job.Reason{Code: job.Resized, Need: int32(was.Tasks(0) + n), Job: job.None})
			p.Without(was, func() {
				if p.StartSize(id, n, where) {
					more.CopyFrom(p.Alloc(id))
					p.Stop(id, job.Reason{Code: job.Resized, Need: int32(was.Tasks(0) + n), Job: job.None})
				}
			})
			return len(more.Pieces) > 0 && p.StartOn(id, joined(was, &more))
		}) {
			return true
		}
	}
	return false
}

// joined is what two Allocs of one role are together.
func joined(a, b *cluster.Alloc) *cluster.Alloc {
	var out cluster.Alloc
	add := func(of *cluster.Alloc, node cluster.NodeID) {
		shares := of.Shares
		for _, q := range of.Pieces {
			mine := shares[:q.Shares]
			shares = shares[q.Shares:]
			if q.Node != node {
				continue
			}
			out.Shares = append(out.Shares, mine...)
			if n := len(out.Pieces); n > 0 && out.Pieces[n-1].Node == node {
				last := &out.Pieces[n-1]
				last.Tasks, last.Shares, last.CPU, last.Memory = last.Tasks+q.Tasks, last.Shares+q.Shares, last.CPU+q.CPU, last.Memory+q.Memory
			} else {
				out.Pieces = append(out.Pieces, q)
			}
		}
	}
	var nodes []cluster.NodeID
	for _, of := range []*cluster.Alloc{a, b} {
		for _, q := range of.Pieces {
			if !slices.Contains(nodes, q.Node) {
				nodes = append(nodes, q.Node)
			}
		}
	}
	slices.Sort(nodes)
	for _, n := range nodes {
		add(a, n)
		add(b, n)
	}
	return &out
}

// leavers are so many tasks of the first role that leave an Alloc: those first that are fewest on a
// node, of nodes with as many those on the last one.
func leavers(a *cluster.Alloc, tasks int) (seats []Seat) {
	pieces := slices.DeleteFunc(slices.Clone(a.Pieces), func(p cluster.Piece) bool { return p.Role != 0 })
	slices.Reverse(pieces)
	slices.SortStableFunc(pieces, func(p, q cluster.Piece) int { return cmp.Compare(p.Tasks, q.Tasks) })
	for i := 0; tasks > 0; i++ {
		gone := min(tasks, int(pieces[i].Tasks))
		seats, tasks = append(seats, Seat{Node: pieces[i].Node, Tasks: gone}), tasks-gone
	}
	return seats
}

// BestSpeed is the speed that is believed of a job with so many tasks on whatever type is
// best, on one node where such a node has the GPUs: the largest has so many (LargestNode).
func BestSpeed(v *sched.View, j sched.Job, tasks, largest int) float64 {
	best, c := 0.0, v.Cluster()
	each := int((j.Spec().Demand.Roles[0].GPU + unit.One - 1) / unit.One)
	for t := range cluster.TypeID(c.Types()) {
		if !c.Type(t).Host {
			best = max(best, v.TypeSpeed(j, t, tasks, tasks*each > largest))
		}
	}
	return best
}

// LargestNode is the GPUs of the largest node on which a job may run, at least 1.
func LargestNode(v *sched.View, j sched.Job) int {
	most := 1
	for _, n := range v.Cluster().PoolNodes(v.Scope(j)) {
		most = max(most, v.Cluster().NodeGPUs(n))
	}
	return most
}
