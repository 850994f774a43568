package place

import (
	"slices"

	"github.com/norn-scheduler/norn/cluster"
	"github.com/norn-scheduler/norn/cluster/unit"
	"github.com/norn-scheduler/norn/job"
)

// spot is a place of the level of which a gang wants to be in one: a domain, or
// a node where the level is cluster.EachNode.
type spot struct {
	domain cluster.DomainID // None: a node
	node   cluster.NodeID
	free   int
}

// Gang places a gang as a strategy says, and in one place of the topology where the
// gang asks for that (job.Demand.Within). When the strategy would choose several
// places, it is asked about one after the other, those with the fewest free devices
// first. A gang that only prefers one place goes elsewhere when none suffices.
func Gang(r *Request, s Strategy) (job.Reason, bool) {
	d := r.Demand
	why, ok := s.Place(r)
	if d.Within == "" || !ok && d.Prefer || ok && r.together() {
		return why, ok
	}
	all := r.Pool
	r.listSpots()
	for _, one := range r.spots {
		if one.free < r.leastFree() {
			continue
		}
		r.Pool = r.Cluster.Narrow(r.spotNodes(one, all))
		_, ok := s.Place(r)
		r.Cluster.Widen()
		if r.Pool = all; ok {
			return job.Reason{}, true
		}
	}
	if d.Prefer {
		return s.Place(r)
	}
	r.Out.Reset()
	need, free := int32(r.GPUs()), int32(r.Cluster.FreeGPUs(all, r.Mask))
	if free < need {
		return job.Reason{Code: job.NeedGPUs, Need: need, Have: free, Job: job.None}, false
	}
	best := 0
	for _, one := range r.spots {
		best = max(best, one.free)
	}
	return job.Reason{Code: job.NeedWithin, Need: need, Have: int32(best), Job: job.None, Text: d.Within}, false
}

// together tells whether the answer is in one place of the level.
func (r *Request) together() bool {
	for i := 1; i < len(r.Out.Pieces); i++ {
		if !r.Cluster.Together(r.Out.Pieces[0].Node, r.Out.Pieces[i].Node, r.Demand.Within) {
			return false
		}
	}
	return true
}

// leastFree is the number of wholly free devices without which a place cannot hold
// the gang. Parts of devices may lie on devices that are in use.
func (r *Request) leastFree() int {
	sum := unit.Milli(0)
	for i := range r.Demand.Roles {
		role := &r.Demand.Roles[i]
		tasks := role.Tasks
		if i == 0 {
			tasks = r.Tasks
		}
		if role.GPU >= unit.One {
			sum += role.GPU * unit.Milli(tasks)
		}
	}
	return int(sum / unit.One)
}

// listSpots lists the places of the level, those with the fewest free devices first.
func (r *Request) listSpots() {
	c := r.Cluster
	r.spots = r.spots[:0]
	if r.Demand.Within == cluster.EachNode {
		for _, id := range c.PoolNodes(r.Pool) {
			if c.Usable(id) {
				r.spots = append(r.spots, spot{cluster.None, id, c.NodeFreeGPUs(id, r.Mask)})
			}
		}
	} else {
		for d := range cluster.DomainID(c.Domains()) {
			if level, _, _ := c.Domain(d); d > 0 && level == r.Demand.Within {
				r.spots = append(r.spots, spot{d, cluster.None, c.DomainFree(d, r.Pool, r.Mask)})
			}
		}
	}
	slices.SortStableFunc(r.spots, func(a, b spot) int { return a.free - b.free })
}

// spotNodes are the nodes of a place that the gang may use.
func (r *Request) spotNodes(s spot, p cluster.PoolID) []cluster.NodeID {
	r.nodes = r.nodes[:0]
	if s.domain == cluster.None {
		r.nodes = append(r.nodes, s.node)
	} else {
		r.nodes = slices.DeleteFunc(cluster.NodesIn(r.Cluster, s.domain, r.nodes), func(id cluster.NodeID) bool { return !r.Cluster.In(id, p) })
	}
	return r.nodes
}
