package gandivafair

import (
	"cmp"
	"math"
	"slices"

	"github.com/norn-scheduler/norn/cluster"
	"github.com/norn-scheduler/norn/cluster/unit"
	"github.com/norn-scheduler/norn/job"
	"github.com/norn-scheduler/norn/policy/kit/rounds"
	"github.com/norn-scheduler/norn/sched"
)

// How servers are balanced, in quanta: how often it is looked whether a job is to move, for
// how long one that has moved stays, and from which ratio of ticket loads on one moves.
const (
	balanceEvery = 5
	stayFor      = 10
	unbalanced   = 1.25
)

// servers is the split stride scheduler: a gang that a node can hold lives on one, and is
// served there in the order of passes. Larger gangs are served centrally, on whole nodes
// that they take from those who live there when they are due.
type servers struct {
	r      *rounds.Round
	budget [][]unit.Milli         // by type and node: GPUs that are given out and not taken yet
	size   [][]int                // by type and node: GPUs that jobs may take turns on
	load   [][]float64            // by type and node: tickets of those who live there
	live   map[cluster.NodeID]int // how many live on a node
	passes map[cluster.NodeID][]float64
	sites  map[job.ID][]cluster.NodeID
}

// open counts what each node has to give out, of each type.
func (s *servers) open(r *rounds.Round) {
	v, c := r.View, r.View.Cluster()
	*s = servers{r: r, live: map[cluster.NodeID]int{}, passes: map[cluster.NodeID][]float64{}, sites: map[job.ID][]cluster.NodeID{}}
	for t := range cluster.TypeID(c.Types()) {
		budget, size := make([]unit.Milli, c.Nodes()), make([]int, c.Nodes())
		for pool := range v.EachPool() {
			for _, n := range c.PoolNodes(pool) {
				if !c.Usable(n) || c.Node(n).Pooled {
					continue
				}
				budget[n] = unit.Milli(c.NodeFreeGPUs(n, 1<<t)) * unit.One
				first, count := c.DeviceRange(n)
				for d := first; d < first+cluster.DeviceID(count); d++ {
					if c.TypeOf(d) == t && !c.Broken(d) {
						size[n]++
					}
				}
			}
		}
		s.budget, s.size, s.load = append(s.budget, budget), append(s.size, size), append(s.load, make([]float64, c.Nodes()))
	}
	for j := range v.Running() {
		a, stays, listed := v.Alloc(j.ID), rounds.Stays(v, j), s.listed(j)
		for i := 0; a != nil && i < len(a.Shares); i++ {
			x := &a.Shares[i]
			n, t := c.NodeOf(x.Device), c.TypeOf(x.Device)
			switch {
			case !c.UsableDevice(x.Device) || c.Node(n).Pooled:
			case listed:
				s.budget[t][n] += unit.Milli(x.Milli)
			case stays:
				s.size[t][n] = max(0, s.size[t][n]-1)
			}
		}
	}
}

// small tells whether a gang can live on a node: it has whole GPUs and one role, and a node
// of its generation could hold it.
func (s *servers) small(m *member) bool {
	r := &m.job.Spec().Demand.Roles[0]
	return r.GPU >= unit.One && r.GPU%unit.One == 0 && m.job.Spec().Demand.Roles[1].Tasks == 0 &&
		slices.ContainsFunc(s.size[m.on], func(n int) bool { return n >= m.job.GPUs() })
}

// settle finds where each gang lives: where it did, or runs, or else on the node of its
// generation with the least tickets for each of its GPUs.
func (s *servers) settle(jobs []member) {
	c := s.r.View.Cluster()
	for i := range jobs {
		m := &jobs[i]
		if m.home = cluster.None; !s.small(m) {
			continue
		}
		if h := m.note.home; h >= 0 && int(h) < c.Nodes() && s.room(m, h) {
			m.home = h
		} else if a := s.r.View.Alloc(m.job.ID); a != nil && a.Nodes() == 1 && s.room(m, a.Pieces[0].Node) {
			m.home = a.Pieces[0].Node
		}
		s.add(m, 1)
	}
	for i := range jobs {
		if m := &jobs[i]; m.home < 0 && s.small(m) {
			m.home = s.least(m)
			s.add(m, 1)
		}
	}
}

// room tells whether a node of a gang's generation could hold it.
func (s *servers) room(m *member, n cluster.NodeID) bool {
	return s.size[m.on][n] >= m.job.GPUs() && s.r.View.Cluster().In(n, s.r.View.Scope(m.job)) && s.r.View.Cluster().Usable(n)
}

// add adds the tickets of a gang to the load of the node on which it lives.
func (s *servers) add(m *member, by float64) {
	if m.home >= 0 {
		s.load[m.on][m.home] += by * m.Tickets
		s.live[m.home] += int(by)
	}
}

// perGPU is the tickets of a node for each of its GPUs of a generation.
func (s *servers) perGPU(t cluster.TypeID, n cluster.NodeID) float64 {
	return s.load[t][n] / float64(max(1, s.size[t][n]))
}

// least is the node on which a new gang lives: the one with the least tickets for each of
// its GPUs, then the one with more of them free, then the one with the lower number.
func (s *servers) least(m *member) cluster.NodeID {
	best := cluster.NodeID(cluster.None)
	for n := range cluster.NodeID(len(s.size[m.on])) {
		if !s.room(m, n) {
			continue
		}
		if best < 0 || s.perGPU(m.on, n) < s.perGPU(m.on, best) || s.perGPU(m.on, n) == s.perGPU(m.on, best) && s.budget[m.on][n] > s.budget[m.on][best] {
			best = n
		}
	}
	return best
}

// balance moves one gang of each generation from the node with the most tickets for each
// GPU to the one with the least, where that brings the two nearer to each other.
func (s *servers) balance(jobs []member) {
	for _, t := range s.r.Types {
		most, least := cluster.NodeID(cluster.None), cluster.NodeID(cluster.None)
		for n, gpus := range s.size[t] {
			n := cluster.NodeID(n)
			if gpus == 0 || !s.r.View.Cluster().Usable(n) {
				continue
			}
			if most < 0 || s.perGPU(t, n) > s.perGPU(t, most) {
				most = n
			}
			if least < 0 || s.perGPU(t, n) < s.perGPU(t, least) {
				least = n
			}
		}
		if most < 0 || !(s.perGPU(t, most) > unbalanced*s.perGPU(t, least)) {
			continue
		}
		if m := s.mover(jobs, t, most, least); m != nil {
			s.add(m, -1)
			m.home, m.note.moved = least, s.r.Number
			s.add(m, 1)
		}
	}
}

// mover is the gang whose move from one node to another brings their loads closest; nil:
// none brings them closer.
func (s *servers) mover(jobs []member, t cluster.TypeID, from, to cluster.NodeID) (best *member) {
	apart := s.perGPU(t, from) - s.perGPU(t, to)
	closest := apart * (1 - 1e-9)
	for i := range jobs {
		m := &jobs[i]
		if m.home != from || m.on != t || !s.room(m, to) || m.note.moved > 0 && s.r.Number-m.note.moved < stayFor || !s.listed(m.job) {
			continue
		}
		step := m.Tickets/float64(s.size[t][from]) + m.Tickets/float64(s.size[t][to])
		if d := math.Abs(apart - step); d < closest {
			best, closest = m, d
		}
	}
	return best
}

// listed tells whether a job may be served in this round.
func (s *servers) listed(j sched.Job) bool {
	_, ok := slices.BinarySearchFunc(s.r.Jobs, j.ID, func(o sched.Job, id job.ID) int { return cmp.Compare(o.ID, id) })
	return ok
}

// serve serves gangs in the order of passes: first the large ones that are due, then on each
// node those who live there. GPUs that are left go to any gang that can use them: a small
// gang of another node moves there.
func (s *servers) serve(order []*member) {
	for _, m := range order {
		if m.home >= 0 {
			s.passes[m.home] = append(s.passes[m.home], m.Pass)
		}
	}
	for _, m := range order {
		if m.home < 0 {
			s.central(m)
		}
	}
	for _, m := range order {
		if need := s.r.Need(m.job); m.home >= 0 && s.budget[m.on][m.home] >= need && s.r.Serve(m.job, m.on) {
			s.take(m, m.on, []cluster.NodeID{m.home}, need)
		}
	}
	for _, m := range order {
		s.anywhere(m, m.on)
		for _, t := range s.r.Types {
			if s.r.Speed(m.job, t) > 0 {
				s.anywhere(m, t)
			}
		}
	}
}

// take takes what a job needs off the nodes on which it shall run.
func (s *servers) take(m *member, t cluster.TypeID, nodes []cluster.NodeID, need unit.Milli) {
	s.sites[m.job.ID] = nodes
	for _, n := range nodes {
		part := min(need, s.budget[t][n])
		s.budget[t][n] -= part
		need -= part
	}
}

// central serves a gang that no node can hold, where it is due: its pass is not above the
// median pass of those who live on the nodes that it would take. Those are the nodes on which
// it runs, or else those with the least tickets.
func (s *servers) central(m *member) {
	need := s.r.Need(m.job)
	nodes := s.whole(m, need)
	if nodes == nil {
		if s.r.Left(m.on) >= need && s.r.Serve(m.job, m.on) { // parts of GPUs, or several roles
			s.take(m, m.on, s.roomiest(m, m.on), need)
			delete(s.sites, m.job.ID)
		}
		return
	}
	var passes []float64
	for _, n := range nodes {
		passes = append(passes, s.passes[n]...)
	}
	slices.Sort(passes)
	if len(passes) > 0 && m.Pass > passes[(len(passes)-1)/2] {
		return
	}
	if s.r.Serve(m.job, m.on) {
		s.take(m, m.on, nodes, need)
	}
}

// whole is nodes of which no GPU is taken yet that hold a large gang; nil if there are too
// few.
func (s *servers) whole(m *member, need unit.Milli) []cluster.NodeID {
	t := m.on
	var nodes []cluster.NodeID
	if a := s.r.View.Alloc(m.job.ID); a != nil && m.job.Running() {
		for _, p := range a.Pieces { // several on one node, if another policy has placed it
			if !slices.Contains(nodes, p.Node) {
				nodes = append(nodes, p.Node)
			}
		}
		if s.sum(t, nodes) >= need {
			return nodes
		}
		nodes = nodes[:0]
	}
	for n, gpus := range s.size[t] {
		if n := cluster.NodeID(n); gpus > 0 && s.budget[t][n] == unit.Milli(gpus)*unit.One && s.r.View.Cluster().In(n, s.r.View.Scope(m.job)) {
			nodes = append(nodes, n)
		}
	}
	slices.SortStableFunc(nodes, func(a, b cluster.NodeID) int { return cmp.Compare(s.perGPU(t, a), s.perGPU(t, b)) })
	return s.enough(t, nodes, need)
}

// sum is what some nodes have left of a type.
func (s *servers) sum(t cluster.TypeID, nodes []cluster.NodeID) (milli unit.Milli) {
	for _, n := range nodes {
		milli += s.budget[t][n]
	}
	return milli
}

// enough is the first of some nodes that have what a gang needs together; nil if all of
// them have too little.
func (s *servers) enough(t cluster.TypeID, nodes []cluster.NodeID, need unit.Milli) []cluster.NodeID {
	for i, n := range nodes {
		if need -= s.budget[t][n]; need <= 0 {
			return nodes[:i+1]
		}
	}
	return nil
}

// roomiest lists the nodes that have anything left of a type, the one with most first.
func (s *servers) roomiest(m *member, t cluster.TypeID) (nodes []cluster.NodeID) {
	for n, left := range s.budget[t] {
		if n := cluster.NodeID(n); left > 0 && s.r.View.Cluster().In(n, s.r.View.Scope(m.job)) {
			nodes = append(nodes, n)
		}
	}
	slices.SortStableFunc(nodes, func(a, b cluster.NodeID) int { return cmp.Compare(s.budget[t][b], s.budget[t][a]) })
	return nodes
}

// anywhere serves a gang that was not served on what is left of a type. A small one moves to
// the node with the least tickets that has room; where none has, and a large one, it is spread
// over those that have most.
func (s *servers) anywhere(m *member, t cluster.TypeID) {
	need := s.r.Need(m.job)
	if s.r.Served(m.job.ID) || s.r.Left(t) < need {
		return
	}
	nodes := s.roomiest(m, t)
	fits := slices.DeleteFunc(slices.Clone(nodes), func(n cluster.NodeID) bool { return s.budget[t][n] < need })
	if len(fits) > 0 {
		slices.SortStableFunc(fits, func(a, b cluster.NodeID) int { return cmp.Compare(s.perGPU(t, a), s.perGPU(t, b)) })
		nodes = fits[:1]
	} else if nodes = s.enough(t, nodes, need); nodes == nil {
		return
	}
	if !s.r.Serve(m.job, t) {
		return
	}
	s.take(m, t, nodes, need)
	if m.home >= 0 && t == m.on && len(nodes) == 1 {
		s.add(m, -1)
		m.home, m.note.moved = nodes[0], s.r.Number
		s.add(m, 1)
	}
}
