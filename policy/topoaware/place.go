package topoaware

import (
	"time"

	"github.com/norn-scheduler/norn/cluster"
	"github.com/norn-scheduler/norn/cluster/fabric"
	"github.com/norn-scheduler/norn/cluster/unit"
	"github.com/norn-scheduler/norn/job"
	"github.com/norn-scheduler/norn/perf"
	"github.com/norn-scheduler/norn/place"
	"github.com/norn-scheduler/norn/sched"
)

// aware is a strategy that finds the place of a job that is worth most to all, for one job at a time. A gang
// whose tasks do not have one whole GPU each, and one that no node has room for, go by another strategy.
type aware struct {
	chooser
	rest place.Strategy

	now   time.Duration
	state occupancy
	k     perf.Sized // the job
	asks  float64    // the utility that it asks for

	postponed bool // the last job has a place, but one that is worth less than it asks for

	answers map[question]spot    // as the plan stands
	tops    map[question]float64 // as long as no node comes or goes
	version uint64               // of the cluster that tops are about

	free []cluster.Share // scratch
}

// question is what jobs have in common that get the same answer.
type question struct {
	k      perf.Sized
	demand *job.Demand
	pool   cluster.PoolID
	mask   cluster.TypeMask
}

// spot is a choice on a node. Its set is empty on a node that is too large to be judged.
type spot struct {
	choice
	node  cluster.NodeID
	group cluster.GroupID
	found bool
}

// begin has it look at a plan.
func (s *aware) begin(v *sched.View, p *sched.Plan) {
	s.now, s.known = v.Now, v.Sockets
	s.state = occupancy{c: v.Cluster(), on: p.On, job: func(id job.ID) *job.Job { return v.Job(id).Spec() }, alloc: p.Alloc}
	s.changed()
}

// changed has it forget what it has found on the cluster as it was.
func (s *aware) changed() {
	if s.answers == nil {
		s.answers = map[question]spot{}
	}
	clear(s.answers)
}

// ask sets the job that is placed next.
func (s *aware) ask(j *job.Job, least float64) {
	s.k, s.asks, s.postponed = perf.SizedOf(j, int(j.Demand.Roles[0].Tasks)), least, false
}

// String implements place.Strategy.
func (s *aware) String() string { return "topology-aware" }

// Place implements place.Strategy.
func (s *aware) Place(r *place.Request) (job.Reason, bool) {
	if r.Demand.Roles[0].GPU != unit.One || r.Demand.Roles[1].Tasks > 0 || r.Cluster != s.state.c {
		return s.rest.Place(r)
	}
	q := question{s.k, r.Demand, r.Pool, r.Mask}
	at, known := s.answers[q]
	if !known {
		at = s.find(r)
		s.answers[q] = at
	}
	switch {
	case !at.found:
		return s.rest.Place(r)
	case at.own < s.asks:
		if asks := min(s.asks, s.top(r, q)); at.own < asks {
			s.postponed = true
			return postponedWhy(at.own, asks), false
		}
	}
	s.write(r, &at)
	return job.Reason{}, true
}

// top is the utility of the best place that a job could have if nothing else ran: nobody waits for a better one.
func (s *aware) top(r *place.Request, q question) float64 {
	c, n := r.Cluster, int(r.Tasks)
	if v := c.Version(); s.tops == nil || s.version != v || len(s.tops) > mostFound {
		s.tops, s.version = map[question]float64{}, v
	}
	best, known := s.tops[q]
	if known {
		return best
	}
	for _, id := range c.PoolNodes(r.Pool) {
		if l := s.layoutOf(c, id); l != nil && c.Usable(id) && holds(r, c.Node(id)) {
			for _, g := range c.NodeGroups(id) {
				if !r.Mask.Has(c.GroupType(g)) || c.GroupPooled(g) {
					continue
				}
				if all := whole(c, id, g); all.Len() >= n {
					best = max(best, s.alone(s.k, l, all).own)
				}
			}
		}
	}
	s.tops[q] = best
	return best
}

// whole is the GPUs of a group that work.
func whole(c *cluster.Cluster, id cluster.NodeID, g cluster.GroupID) (all fabric.Set) {
	first, n := c.DeviceRange(id)
	for i := range n {
		if d := first + cluster.DeviceID(i); c.GroupOf(d) == g && !c.Broken(d) {
			all |= 1 << i
		}
	}
	return all
}

// holds tells whether a node has all that a gang needs beside GPUs if nobody else is there.
func holds(r *place.Request, n *cluster.NodeSpec) bool {
	role := &r.Demand.Roles[0]
	if n.CPU > 0 && role.CPU*unit.Milli(r.Tasks) > n.CPU || n.Memory > 0 && role.Memory*unit.Bytes(r.Tasks) > n.Memory {
		return false
	}
	return len(r.Slots) == 0 || n.Slots.Tasks(&r.Slots[0], int(r.Tasks)) >= int(r.Tasks)
}

// find is the place on one node that is worth most to all; of equal ones that on the node with the fewest free
// GPUs, and then the lowest number. Types are tried in the order of the job's preference.
func (s *aware) find(r *place.Request) (best spot) {
	r.Demand.EachType(r.Cluster, func(t cluster.TypeID) bool {
		for _, shelf := range r.Cluster.Shelves(r.Pool) {
			if shelf := cluster.ShelfID(shelf); r.Mask.Has(t) && r.Cluster.ShelfType(shelf) == t {
				s.shelf(r, shelf, &best)
			}
		}
		return !best.found
	})
	return best
}

// shelf looks at the nodes of a GPU type that have enough of them free.
func (s *aware) shelf(r *place.Request, shelf cluster.ShelfID, best *spot) {
	c, role, n := r.Cluster, &r.Demand.Roles[0], int(r.Tasks)
	for free := n; free < c.ShelfLevels(shelf); free++ {
		for g := c.NextGroup(shelf, free, cluster.None); g != cluster.None; g = c.NextGroup(shelf, free, g) {
			id := c.GroupNode(g)
			if c.TasksBeside(id, role.CPU, role.Memory, n) < n {
				continue
			}
			if len(r.Slots) > 0 {
				if slots := c.SlotsFree(id); slots.Tasks(&r.Slots[0], n) < n {
					continue
				}
			}
			if at := s.node(r, id, g, n); !best.found || s.better(&at, best) {
				*best = at
			}
		}
	}
}

// better tells whether a place is worth more than another one. The baselines take the machine that is worth most
// to the job, of equal ones the first.
func (s *aware) better(a, b *spot) bool {
	if s.rule == Utility {
		return a.system > b.system
	}
	return a.own > b.own || a.own == b.own && a.node < b.node
}

// node is the place on a node, of one group of its GPUs. On a node that is too large to be judged it is the one
// that every other policy would take, and worth as much as any.
func (s *aware) node(r *place.Request, id cluster.NodeID, g cluster.GroupID, n int) spot {
	l := s.layoutOf(r.Cluster, id)
	if l == nil {
		return spot{choice{0, 0, 1}, id, g, true}
	}
	first, _ := r.Cluster.DeviceRange(id)
	var among fabric.Set
	s.free = r.Cluster.AppendWhole(s.free[:0], g, r.Cluster.GroupFree(g), 0)
	for _, x := range s.free {
		among |= 1 << (x.Device - first)
	}
	return spot{s.on(s.k, &s.state, id, l, among), id, g, true}
}

// write answers a request with a place.
func (s *aware) write(r *place.Request, at *spot) {
	role, n := &r.Demand.Roles[0], r.Tasks
	r.Out.Reset()
	r.Out.Pieces = append(r.Out.Pieces, cluster.Piece{Node: at.node, Tasks: n, Shares: n, CPU: role.CPU * unit.Milli(n), Memory: role.Memory * unit.Bytes(n)})
	if at.set == 0 {
		r.Out.Shares = r.Cluster.AppendWhole(r.Out.Shares, at.group, int(n), role.GPUMemory)
		return
	}
	first, _ := r.Cluster.DeviceRange(at.node)
	for set := at.set; set != 0; set &= set - 1 {
		r.Out.Shares = append(r.Out.Shares, cluster.Share{Device: first + cluster.DeviceID(set.Low()), Milli: int32(unit.One), Memory: role.GPUMemory})
	}
}
