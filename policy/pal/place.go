package pal

import (
	"cmp"
	"slices"

	"github.com/norn-scheduler/norn/cluster"
	"github.com/norn-scheduler/norn/cluster/unit"
	"github.com/norn-scheduler/norn/job"
	"github.com/norn-scheduler/norn/place"
)

// candidate is a free GPU that a job may have.
type candidate struct {
	device cluster.DeviceID
	node   cluster.NodeID
	bin    float64
	off    int // by how many the GPUs of this bin on its node are more or fewer than the gang needs (best)
}

// aware is a strategy that chooses GPUs by their bins, for one job at a time. A gang whose tasks do
// not have one whole GPU each, and one that fits no GPU type by itself, go where Pack puts them.
type aware struct {
	apart func(t cluster.TypeID) float64   // by how much longer the job runs on several nodes; nil: this does not count
	bin   func(d cluster.DeviceID) float64 // of its class

	all  []candidate   // free, by node and then by bin
	near [][]candidate // those of the nodes that can hold the whole gang

	free  []cluster.Share // scratch
	bins  []float64
	found []candidate
}

// String implements place.Strategy.
func (s *aware) String() string {
	if s.apart == nil {
		return "pm-first"
	}
	return "pal"
}

// Place implements place.Strategy.
func (s *aware) Place(r *place.Request) (job.Reason, bool) {
	if !ofWholeGPUs(r.Demand) {
		return place.Pack.Place(r)
	}
	placed := false
	r.Demand.EachType(r.Cluster, func(t cluster.TypeID) bool {
		if r.Mask.Has(t) {
			s.look(r, t)
			if chosen := s.choose(r, t); chosen != nil {
				write(r, chosen)
				placed = true
			}
		}
		return !placed
	})
	if placed {
		return job.Reason{}, true
	}
	return place.Pack.Place(r)
}

// ofWholeGPUs tells whether a gang is tasks of one whole GPU each.
func ofWholeGPUs(d *job.Demand) bool {
	return d.Roles[0].GPU == unit.One && d.Roles[1].Tasks == 0
}

// look lists the free GPUs of a type that a gang may have: of each node as many as it has cores,
// memory and counted resources for, the best ones.
func (s *aware) look(r *place.Request, t cluster.TypeID) {
	c, role := r.Cluster, &r.Demand.Roles[0]
	s.all, s.near = s.all[:0], s.near[:0]
	for _, node := range c.PoolNodes(r.Pool) {
		if !c.Usable(node) || c.NodeFreeGPUs(node, 1<<t) == 0 {
			continue
		}
		begin := len(s.all)
		for _, g := range c.NodeGroups(node) {
			if c.GroupType(g) == t && !c.GroupPooled(g) {
				s.free = c.AppendWhole(s.free[:0], g, c.GroupFree(g), role.GPUMemory)
				for _, x := range s.free {
					s.all = append(s.all, candidate{device: x.Device, node: node, bin: s.bin(x.Device)})
				}
			}
		}
		mine := s.all[begin:]
		slices.SortFunc(mine, func(a, b candidate) int { return cmp.Or(cmp.Compare(a.bin, b.bin), cmp.Compare(a.device, b.device)) })
		most := c.TasksBeside(node, role.CPU, role.Memory, len(mine))
		if len(r.Slots) > 0 {
			free := c.SlotsFree(node)
			most = free.Tasks(&r.Slots[0], most)
		}
		s.all = s.all[:begin+most]
		if most >= int(r.Tasks) {
			s.near = append(s.near, s.all[begin:])
		}
	}
}

// choose is the GPUs that a gang gets of those that were listed; nil: there are too few.
//
// The paper goes through pairs of a bin and a way, on one node or over several, in order of the bin
// times the penalty of the way. It ends where the GPUs up to that bin hold the gang in that way. So it
// ends with the best bin that does on one node, or with the best that does over several: whichever
// product is smaller, and of equal ones on one node.
func (s *aware) choose(r *place.Request, t cluster.TypeID) []candidate {
	gang := int(r.Tasks)
	if len(s.all) < gang {
		return nil
	}
	if gang == 1 || len(s.near) == 0 || s.apart == nil {
		return s.best(gang)
	}
	node := slices.MinFunc(s.near, func(a, b []candidate) int { return cmp.Compare(a[gang-1].bin, b[gang-1].bin) })[:gang]
	if s.worst(gang)*s.apart(t) < node[gang-1].bin {
		return s.best(gang)
	}
	return node
}

// worst is the largest bin of the best GPUs for a gang, wherever they are.
func (s *aware) worst(gang int) float64 {
	s.bins = s.bins[:0]
	for i := range s.all {
		s.bins = append(s.bins, s.all[i].bin)
	}
	slices.Sort(s.bins)
	return s.bins[gang-1]
}

// best is PM-First: so many GPUs of the smallest bins. Of one bin it prefers those of nodes that have
// about as many of it as the gang needs.
func (s *aware) best(gang int) []candidate {
	limit := s.worst(gang)
	s.found = s.found[:0]
	for begin := 0; begin < len(s.all); {
		end := begin + 1
		for end < len(s.all) && s.all[end].node == s.all[begin].node && s.all[end].bin == s.all[begin].bin {
			end++
		}
		for _, c := range s.all[begin:end] {
			if c.off = max(end-begin-gang, gang-(end-begin)); c.bin <= limit {
				s.found = append(s.found, c)
			}
		}
		begin = end
	}
	slices.SortFunc(s.found, func(a, b candidate) int {
		return cmp.Or(cmp.Compare(a.bin, b.bin), cmp.Compare(a.off, b.off), cmp.Compare(a.device, b.device))
	})
	return s.found[:gang]
}

// write answers a request with whole GPUs, a task on each, in order of their numbers: equal choices are
// equal answers.
func write(r *place.Request, chosen []candidate) {
	chosen = slices.Clone(chosen)
	slices.SortFunc(chosen, func(a, b candidate) int { return cmp.Or(cmp.Compare(a.node, b.node), cmp.Compare(a.device, b.device)) })
	role, out := &r.Demand.Roles[0], &r.Out
	out.Reset()
	for _, c := range chosen {
		if n := len(out.Pieces); n == 0 || out.Pieces[n-1].Node != c.node {
			out.Pieces = append(out.Pieces, cluster.Piece{Node: c.node})
		}
		p := &out.Pieces[len(out.Pieces)-1]
		p.Tasks, p.Shares, p.CPU, p.Memory = p.Tasks+1, p.Shares+1, p.CPU+role.CPU, p.Memory+role.Memory
		out.Shares = append(out.Shares, cluster.Share{Device: c.device, Milli: int32(unit.One), Memory: role.GPUMemory})
	}
}
