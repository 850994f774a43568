package mapa

import (
	"github.com/norn-scheduler/norn/cluster"
	"github.com/norn-scheduler/norn/cluster/fabric"
	"github.com/norn-scheduler/norn/cluster/unit"
	"github.com/norn-scheduler/norn/job"
	"github.com/norn-scheduler/norn/place"
)

// aware is a strategy that has another one choose the nodes of a gang, and chooses the GPUs on
// each of them by their links, for one job at a time. Tasks of parts of GPUs, gangs of
// several roles, and nodes whose links are not known get what the other strategy chose.
type aware struct {
	nodes place.Strategy
	query Query // of the job

	graphs fabric.Graphs
	free   []cluster.Share // scratch
}

// String implements place.Strategy.
func (s *aware) String() string { return s.nodes.String() }

// Place implements place.Strategy.
func (s *aware) Place(r *place.Request) (job.Reason, bool) {
	why, ok := s.nodes.Place(r)
	if role := &r.Demand.Roles[0]; ok && role.GPU >= unit.One && role.GPU%unit.One == 0 && r.Demand.Roles[1].Tasks == 0 {
		from := 0
		for i := range r.Out.Pieces {
			p := &r.Out.Pieces[i]
			s.choose(r.Cluster, p.Node, r.Out.Shares[from:from+int(p.Shares)], len(r.Out.Pieces) > 1)
			from += int(p.Shares)
		}
	}
	return why, ok
}

// choose replaces the devices of a gang on one node, which are of one group, by better ones of
// this group. A part of a gang is a chain, unless each of its GPUs talks to each.
func (s *aware) choose(c *cluster.Cluster, node cluster.NodeID, shares []cluster.Share, part bool) {
	g := s.graphs.Of(c.Node(node).Links)
	if g == nil || len(shares) == 0 {
		return
	}
	first, _ := c.DeviceRange(node)
	group := c.GroupOf(shares[0].Device)
	q := s.query
	q.GPUs, q.Free, q.Among = len(shares), 0, 0
	for _, gid := range c.NodeGroups(node) {
		if c.GroupPooled(gid) {
			return
		}
		s.free = c.AppendWhole(s.free[:0], gid, c.GroupFree(gid), 0)
		for _, x := range s.free {
			q.Free |= 1 << (x.Device - first)
			if gid == group {
				q.Among |= 1 << (x.Device - first)
			}
		}
	}
	for _, x := range shares {
		if q.Among&(1<<(x.Device-first)) == 0 {
			return // of another group, or not whole
		}
	}
	if part && q.Pattern != fabric.Clique {
		q.Pattern = fabric.Chain
	}
	set := Choose(g, &q)
	for i := range shares {
		shares[i].Device = first + cluster.DeviceID(set.Low())
		set &= set - 1
	}
}
