package philly

import (
	"github.com/norn-scheduler/norn/cluster"
	"github.com/norn-scheduler/norn/cluster/unit"
	"github.com/norn-scheduler/norn/job"
	"github.com/norn-scheduler/norn/place"
)

// where is the strategy of each level.
var where = [levels]place.Strategy{Server: fewestServers{}, Rack: oneRack{}, Anywhere: place.Pack}

// oneRack takes GPUs of one rack, on as few servers as can be.
type oneRack struct{}

// String implements place.Strategy.
func (oneRack) String() string { return "one rack" }

// Place implements place.Strategy.
func (oneRack) Place(r *place.Request) (job.Reason, bool) {
	why, ok := place.Rack.Place(r)
	if !ok {
		return why, false
	}
	for i := range r.Out.Pieces {
		if r.Cluster.Node(r.Out.Pieces[i].Node).Domain != r.Cluster.Node(r.Out.Pieces[0].Node).Domain {
			return needsRack(r, r.Mask), false
		}
	}
	return job.Reason{}, true
}

// needsRack is the reason for which a gang waits that would fit into several
// racks.
func needsRack(r *place.Request, mask cluster.TypeMask) job.Reason {
	most := 0
	for d := range cluster.DomainID(r.Cluster.Domains()) {
		if len(r.Cluster.DomainNodes(d)) > 0 {
			most = max(most, r.Cluster.DomainFree(d, r.Pool, mask))
		}
	}
	r.Out.Reset()
	return job.Reason{Code: job.NeedRack, Need: int32(r.GPUs()), Have: int32(most), Job: job.None}
}

// fewestServers takes the fullest server that has room for the gang or, where no
// server is large enough, the fewest servers of one rack: the rack with the
// fewest free GPUs that has them. Gangs of anything but whole GPUs may take the
// fewest servers of several racks.
type fewestServers struct{}

// String implements place.Strategy.
func (fewestServers) String() string { return "fewest servers of one rack" }

// Place implements place.Strategy.
func (fewestServers) Place(r *place.Request) (job.Reason, bool) {
	why, ok := place.Consolidated.Place(r)
	if !ok || len(r.Out.Pieces) < 2 || !countsGPUsAlone(r.Demand) || r.Cluster.Domains() < 2 {
		return why, ok
	}
	mask := cluster.TypeMask(1) << r.Cluster.TypeOf(r.Out.Shares[0].Device)
	servers := len(r.Out.Pieces)
	best, bestFree := cluster.DomainID(cluster.None), 0
	for d := range cluster.DomainID(r.Cluster.Domains()) {
		if len(r.Cluster.DomainNodes(d)) == 0 {
			continue
		}
		free := r.Cluster.DomainFree(d, r.Pool, mask)
		if free >= int(r.Tasks) && (best == cluster.None || free < bestFree) && inRack(r, d, mask, servers) {
			best, bestFree = d, free
		}
	}
	if best == cluster.None {
		return needsRack(r, mask), false
	}
	inRack(r, best, mask, servers)
	return job.Reason{}, true
}

// countsGPUsAlone tells whether a gang is just a number of whole GPUs.
func countsGPUsAlone(d *job.Demand) bool {
	role := &d.Roles[0]
	return role.GPU == unit.One && role.CPU == 0 && role.Memory == 0 && d.Roles[1].Tasks == 0
}

// inRack finds room for the gang on at most so many servers of one rack: the
// server with the most free GPUs first, and the fullest that suffices for what
// is left.
func inRack(r *place.Request, rack cluster.DomainID, mask cluster.TypeMask, servers int) bool {
	c, need := r.Cluster, int(r.Tasks)
	r.Out.Reset()
	for ; need > 0 && servers > 0; servers-- {
		group, best := cluster.GroupID(cluster.None), 0
		for _, node := range c.DomainNodes(rack) {
			if !c.In(node, r.Pool) || !c.Usable(node) {
				continue
			}
			for _, g := range c.NodeGroups(node) {
				free := c.GroupFree(g)
				if free == 0 || !mask.Has(c.GroupType(g)) || taken(r, node) {
					continue
				}
				if group == cluster.None || better(free, best, need) {
					group, best = g, free
				}
			}
		}
		if group == cluster.None {
			break
		}
		n, before := min(need, best), len(r.Out.Shares)
		r.Out.Shares = c.AppendWhole(r.Out.Shares, group, n, r.Demand.Roles[0].GPUMemory)
		r.Out.Pieces = append(r.Out.Pieces, cluster.Piece{Node: c.GroupNode(group), Tasks: int32(n), Shares: int32(len(r.Out.Shares) - before)})
		need -= n
	}
	if need > 0 {
		r.Out.Reset()
	}
	return need == 0
}

// better tells whether a server with that many free GPUs suits a need better
// than the best so far: the fullest that has enough, or else the emptiest.
func better(free, best, need int) bool {
	if free >= need && best >= need {
		return free < best
	}
	return free > best
}

// taken tells whether a node is part of the answer already.
func taken(r *place.Request, node cluster.NodeID) bool {
	for i := range r.Out.Pieces {
		if r.Out.Pieces[i].Node == node {
			return true
		}
	}
	return false
}
