package rounds

import (
	"slices"

	"github.com/norn-scheduler/norn/cluster"
	"github.com/norn-scheduler/norn/cluster/unit"
	"github.com/norn-scheduler/norn/job"
	"github.com/norn-scheduler/norn/place"
)

// site is a strategy that fills some nodes with a gang, one after the other. A gang for
// which they have no room, and one of parts of GPUs or of several roles, goes where the
// strategy below says. A plan remembers what a strategy refused by the strategy, so that each
// is one of its own.
type site struct {
	below place.Strategy
	nodes []cluster.NodeID
}

func (s *site) String() string { return s.below.String() }

// Place implements place.Strategy.
func (s *site) Place(r *place.Request) (job.Reason, bool) {
	role, left := &r.Demand.Roles[0], r.Tasks
	if role.GPU < unit.One || role.GPU%unit.One != 0 || r.Demand.Roles[1].Tasks != 0 {
		return s.below.Place(r)
	}
	r.Out.Reset()
	for _, n := range s.nodes {
		left -= s.fill(r, n, left)
	}
	if left == 0 {
		return job.Reason{}, true
	}
	r.Out.Reset()
	return s.below.Place(r)
}

// fill places so many tasks at most on the GPUs of a node, and returns how many.
func (s *site) fill(r *place.Request, n cluster.NodeID, most int32) int32 {
	c, role := r.Cluster, &r.Demand.Roles[0]
	if !c.Usable(n) || !c.In(n, r.Pool) {
		return 0
	}
	if free, ok := c.CPUFree(n); ok && role.CPU > 0 {
		most = min(most, int32(free/role.CPU))
	}
	if free, ok := c.MemoryFree(n); ok && role.Memory > 0 {
		most = min(most, int32(free/role.Memory))
	}
	each := int(role.GPU / unit.One)
	for _, g := range c.NodeGroups(n) {
		if !r.Mask.Has(c.GroupType(g)) || c.GroupPooled(g) {
			continue
		}
		if tasks := min(most, int32(c.GroupFree(g)/each)); tasks > 0 {
			r.Out.Shares = c.AppendWhole(r.Out.Shares, g, int(tasks)*each, role.GPUMemory)
			r.Out.Pieces = append(r.Out.Pieces, cluster.Piece{
				Node: n, Tasks: tasks, Shares: tasks * int32(each), CPU: role.CPU * unit.Milli(tasks), Memory: role.Memory * unit.Bytes(tasks),
			})
			return tasks
		}
	}
	return 0
}

// where is the strategy that chooses the devices of a job.
func (p *Policy) where(id job.ID) place.Strategy {
	if p.Site == nil {
		return p.Place
	}
	if nodes := p.Site(id); len(nodes) > 0 {
		return &site{p.Place, nodes}
	}
	return p.Place
}

// there tells whether a job runs on none but the nodes on which it shall run.
func (p *Policy) there(id job.ID, a *cluster.Alloc) bool {
	if p.Site == nil {
		return true
	}
	nodes := p.Site(id)
	return len(nodes) == 0 || !slices.ContainsFunc(a.Pieces, func(x cluster.Piece) bool { return !slices.Contains(nodes, x.Node) })
}
