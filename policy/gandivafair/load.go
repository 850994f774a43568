package gandivafair

import (
	"github.com/norn-scheduler/norn/cluster"
	"github.com/norn-scheduler/norn/cluster/unit"
	"github.com/norn-scheduler/norn/job"
	"github.com/norn-scheduler/norn/place"
	"github.com/norn-scheduler/norn/sched"
)

// byLoad is a strategy that balances tickets: a gang that fits one node takes the one
// with the least tickets for each of its GPUs, then the one with more of them free,
// then the one with the lower number. Other gangs, and those that ask for more than
// whole GPUs, go where the strategy below says.
type byLoad struct {
	below   place.Strategy
	tickets []float64 // by node, of the jobs that run there
}

func (b *byLoad) String() string { return b.below.String() }

// count adds up the tickets of the jobs that run on each node.
func (b *byLoad) count(v *sched.View, jobs []member) {
	b.tickets = append(b.tickets[:0], make([]float64, v.Cluster().Nodes())...)
	for i := range jobs {
		m := &jobs[i]
		if a := v.Alloc(m.job.ID); a != nil && a.Tasks(0) > 0 {
			for _, p := range a.Pieces {
				b.tickets[p.Node] += m.Tickets * float64(p.Tasks) / float64(a.Tasks(0))
			}
		}
	}
}

// load is the tickets of a node for each of its GPUs.
func (b *byLoad) load(c *cluster.Cluster, n cluster.NodeID) float64 {
	if int(n) >= len(b.tickets) {
		return 0
	}
	return b.tickets[n] / float64(max(1, c.NodeGPUs(n)))
}

// Place implements place.Strategy.
func (b *byLoad) Place(r *place.Request) (job.Reason, bool) {
	role := &r.Demand.Roles[0]
	if role.GPU != unit.One || role.CPU != 0 || role.Memory != 0 || r.Demand.Roles[1].Tasks != 0 {
		return b.below.Place(r)
	}
	c, need := r.Cluster, int(r.Tasks)
	best := cluster.NodeID(-1)
	for _, n := range c.PoolNodes(r.Pool) {
		if b.group(r, n) < 0 {
			continue
		}
		if best < 0 || b.load(c, n) < b.load(c, best) || b.load(c, n) == b.load(c, best) && c.NodeFreeGPUs(n, r.Mask) > c.NodeFreeGPUs(best, r.Mask) {
			best = n
		}
	}
	if best < 0 {
		return b.below.Place(r)
	}
	r.Out.Reset()
	r.Out.Shares = c.AppendWhole(r.Out.Shares, b.group(r, best), need, role.GPUMemory)
	r.Out.Pieces = append(r.Out.Pieces, cluster.Piece{Node: best, Tasks: r.Tasks, Shares: int32(len(r.Out.Shares))})
	return job.Reason{}, true
}

// group is GPUs of one type on a node that hold the gang, -1 where there are none.
func (b *byLoad) group(r *place.Request, n cluster.NodeID) cluster.GroupID {
	c := r.Cluster
	if !c.Usable(n) {
		return -1
	}
	for _, g := range c.NodeGroups(n) {
		if r.Mask.Has(c.GroupType(g)) && !c.GroupPooled(g) && c.GroupFree(g) >= int(r.Tasks) {
			return g
		}
	}
	return -1
}
