package crius

import (
	"cmp"
	"math"
	"math/bits"
	"slices"

	"github.com/norn-scheduler/norn/cluster"
	"github.com/norn-scheduler/norn/cluster/unit"
	"github.com/norn-scheduler/norn/job"
	"github.com/norn-scheduler/norn/perf"
	"github.com/norn-scheduler/norn/policy/kit/resize"
	"github.com/norn-scheduler/norn/sched"
)

// round is one decision for the jobs of a pool. What it changes is in the ledger first, and in the
// plan at the end.
type round struct {
	ledger
	cfg  *Config
	v    *sched.View
	p    *sched.Plan
	pool cluster.PoolID

	members []member // by number of the jobs
	types   []cluster.TypeID
	later   bool                    // jobs start apart, or have just begun, so that the next round may find more
	depth   int                     // of the search
	moves   int                     // rounds of moves in search of room
	at      map[cluster.GroupID]int // in ledger.nodes
	whys    resize.Reasons
}

// member is a job for which a cell is chosen.
type member struct {
	j      sched.Job
	sizes  []int   // tasks that it may have, increasing
	asks   cell    // what it wants to begin with
	weight float64 // its throughput at speed 1
	was    *hold   // nil: it waits
	alloc  *cluster.Alloc
	spread map[cell]float64 // speeds on several nodes
	speeds map[cell]float64 // speeds on one node, or on as few as possible
	free   bool             // it may be on any node of the pool
}

// infeasible is the throughput of a job in a cell in which it cannot run.
const infeasible = -1e9

// many is the number of jobs that run from which on the search is less deep.
const many = 150

func newRound(cfg *Config, v *sched.View, p *sched.Plan, pool cluster.PoolID) *round {
	r := &round{cfg: cfg, v: v, p: p, pool: pool, depth: cfg.Depth, moves: cfg.Moves, at: map[cluster.GroupID]int{}}
	r.survey()
	r.gather()
	for i := range r.members {
		m := &r.members[i]
		r.each, r.holds = append(r.each, int(m.j.Spec().Demand.Roles[0].GPU/unit.One)), append(r.holds, nil)
	}
	running := 0
	for i := range r.members {
		if m := &r.members[i]; m.was != nil && r.fits(i, m.was) {
			r.put(i, m.was)
			running++
		}
	}
	if running > many {
		r.depth = min(r.depth, 2)
	}
	r.weigh()
	return r
}

// survey lists the nodes, before anything in them is free.
func (r *round) survey() {
	c := r.v.Cluster()
	r.kinds = make([]kind, c.Types())
	for _, id := range c.PoolNodes(r.pool) {
		for _, g := range c.NodeGroups(id) {
			t := c.GroupType(g)
			if c.Type(t).Host || !c.Usable(id) {
				continue
			}
			k := &r.kinds[t]
			r.at[g] = len(r.nodes)
			k.nodes = append(k.nodes, len(r.nodes))
			k.size = max(k.size, c.GroupCount(g))
			r.nodes = append(r.nodes, node{id: id, group: g, typ: t, size: c.GroupCount(g)})
		}
	}
	for t := range r.kinds {
		if len(r.kinds[t].nodes) > 0 {
			r.types = append(r.types, cluster.TypeID(t))
		}
	}
}

// gather lists the jobs for which cells are chosen. They hold nothing in the plan from then on. The
// others start first, in order of submission, wherever they fit without the jobs that were submitted
// after them, and are not stopped.
func (r *round) gather() {
	var apart []sched.Job
	for j := range r.v.Waiting() {
		if j.Pool() != r.pool {
			continue
		}
		if why := resize.Never(r.v, r.p, j, r.cfg.Place); why.Code != job.NoReason {
			r.p.Wait(j.ID, why)
		} else if m, ok := r.member(j); ok {
			r.members = append(r.members, m)
		} else {
			apart = append(apart, j)
		}
	}
	for j := range r.v.Running() {
		if j.Pool() != r.pool {
			continue
		}
		if resize.Stays(r.v, j) {
			r.later = r.later || j.Ready() >= r.v.Now || j.Phase() != job.Running
			continue
		}
		m, ok := r.member(j)
		if m.alloc = r.v.Alloc(j.ID); !ok {
			continue
		}
		if m.was = r.holdOf(m.alloc, int(j.Spec().Demand.Roles[0].GPU/unit.One)); m.was != nil {
			r.members = append(r.members, m)
		}
	}
	slices.SortFunc(r.members, func(a, b member) int { return cmp.Compare(a.j.ID, b.j.ID) })
	r.later = r.later || len(apart) > 0
	for _, j := range apart {
		_ = r.p.Start(j.ID, r.cfg.Place) || r.p.Try(func() bool {
			r.stop(j.ID + 1)
			return r.p.Start(j.ID, r.cfg.Place)
		})
	}
	r.stop(0)
	for i := range r.nodes {
		n := &r.nodes[i]
		n.free = r.v.Cluster().GroupFree(n.group)
		r.kinds[n.typ].free += n.free
	}
}

// stop stops the members that run from a job on, in the plan, until it is known what they have.
func (r *round) stop(from job.ID) {
	for i := range r.members {
		if m := &r.members[i]; m.was != nil && m.j.ID >= from && r.p.Alloc(m.j.ID) != nil {
			r.p.Stop(m.j.ID, job.Reason{Code: job.MakesRoom, Job: job.None})
		}
	}
}

// holdOf is where an allocation is; nil: on GPUs of several types, or where nobody may be.
func (r *round) holdOf(a *cluster.Alloc, each int) *hold {
	c := r.v.Cluster()
	h := &hold{}
	for i := range a.Shares {
		n, ok := r.at[c.GroupOf(a.Shares[i].Device)]
		if !ok || i > 0 && r.nodes[n].typ != h.typ {
			return nil
		}
		gpus := int(a.Shares[i].Milli) / int(unit.One)
		h.typ, h.tasks = r.nodes[n].typ, h.tasks+gpus
		if k := slices.IndexFunc(h.spots, func(s spot) bool { return s.node == n }); k >= 0 {
			h.spots[k].tasks += gpus
		} else {
			h.spots = append(h.spots, spot{n, gpus})
		}
	}
	h.tasks /= each
	for k := range h.spots {
		h.spots[k].tasks /= each
	}
	slices.SortFunc(h.spots, func(a, b spot) int { return cmp.Compare(a.node, b.node) })
	return h
}

// member is a job as one for which a cell is chosen; ok is false for one of which that is not
// possible: see resize.Odd, and one that no type has the GPUs for.
func (r *round) member(j sched.Job) (m member, ok bool) {
	d, class := j.Spec().Demand, r.v.Class(j.Class())
	if resize.Odd(d) || j.Spec().Stop != job.Checkpoint {
		return m, false
	}
	m = member{j: j, sizes: r.sizes(d), speeds: map[cell]float64{}, spread: map[cell]float64{}, free: class.Scope == r.pool}
	each := int(d.Roles[0].GPU / unit.One)
	asked := min(int(d.Roles[0].Tasks), m.sizes[len(m.sizes)-1])
	sizes := slices.Clone(m.sizes) // as near as possible to what it asks for, rather less than more
	slices.SortStableFunc(sizes, func(a, b int) int {
		return cmp.Or(cmp.Compare(max(0, a-asked), max(0, b-asked)), cmp.Compare(b, a))
	})
	for _, n := range sizes {
		class.EachType(r.v.Cluster(), func(t cluster.TypeID) bool {
			if r.roomOn(&m, t, each) >= n && r.speed(&m, cell{t, n}, false) > 0 {
				m.asks, ok = cell{t, n}, true
			}
			return !ok
		})
		if ok {
			break
		}
	}
	return m, ok
}

// sizes are the numbers of tasks that a job may have: powers of two, and what it asks for.
func (r *round) sizes(d *job.Demand) (all []int) {
	least, most := d.Roles[0].Range()
	asked := int(d.Roles[0].Tasks)
	if least == most || !r.cfg.Scale {
		return []int{asked}
	}
	top := max(int(least), min(int(most), r.cfg.Largest))
	for n := 1 << bits.Len(uint(least-1)); n <= top; n *= 2 {
		all = append(all, n)
	}
	if asked <= top && !slices.Contains(all, asked) {
		all = append(all, asked)
	}
	if len(all) == 0 {
		all = append(all, top)
	}
	slices.Sort(all)
	return all
}

// roomOn is how many tasks of a member the nodes of a type have room for, if nobody else has any.
func (r *round) roomOn(m *member, t cluster.TypeID, each int) (tasks int) {
	for _, n := range r.kinds[t].nodes {
		if r.may(m, &r.nodes[n]) {
			tasks += r.nodes[n].size / each
		}
	}
	return tasks
}

// may tells whether a member may be on a node.
func (r *round) may(m *member, n *node) bool {
	return m.free || r.v.Cluster().In(n.id, r.v.Scope(m.j))
}

// accepts tells whether a member may have GPUs of a type.
func (r *round) accepts(m *member, t cluster.TypeID) bool {
	mask := r.v.Class(m.j.Class()).Mask
	return mask == 0 || mask.Has(t)
}

// speed is the speed that is believed of a member.
func (r *round) speed(m *member, c cell, spread bool) float64 {
	table := m.speeds
	if spread {
		table = m.spread
	}
	s, known := table[c]
	if !known {
		s = r.v.TypeSpeed(m.j, c.typ, c.tasks, spread)
		table[c] = s
	}
	return s
}

// weigh sets the weights of the members: samples in a second, if all of them tell that.
func (r *round) weigh() {
	rates, ok := r.v.Speeds.(interface {
		Samples(*job.Job, *cluster.Cluster) (float64, bool)
	})
	for i := 0; i < len(r.members) && ok; i++ {
		m := &r.members[i]
		m.weight, ok = rates.Samples(m.j.Spec(), r.v.Cluster())
	}
	for i := range r.members {
		if m := &r.members[i]; !ok {
			m.weight = float64(m.j.GPUs())
		}
	}
}

// throughput is that of a member in a cell on so many nodes; 0 nodes: as few as possible.
func (r *round) throughput(i int, c cell, nodes int) float64 {
	m, fewest := &r.members[i], r.fewest(i, c)
	nodes = max(nodes, fewest)
	speed := r.speed(m, c, nodes > 1)
	if steps := math.Log2(float64(nodes) / float64(max(fewest, 2))); steps > 0 {
		speed *= math.Pow(perf.Apart, steps)
	}
	if speed <= 0 || !r.inTime(m, speed) {
		return infeasible
	}
	return speed * m.weight
}

// has is the throughput of a member with what it has.
func (r *round) has(i int, h *hold) float64 {
	if h == nil {
		return 0
	}
	return r.throughput(i, h.cell, len(h.spots))
}

// inTime tells whether a member meets its deadline at a speed, if it can be met and that counts.
func (r *round) inTime(m *member, speed float64) bool {
	due := m.j.Spec().Deadline
	total, ok := m.j.Estimate()
	if !r.cfg.Deadlines || due == 0 || !ok || due <= r.v.Now+r.cfg.Period {
		return true
	}
	fastest := 0.0
	for _, t := range r.types {
		for _, n := range m.sizes {
			if r.accepts(m, t) {
				fastest = max(fastest, r.speed(m, cell{t, n}, false))
			}
		}
	}
	left := float64(total - m.j.Progress())
	end := func(speed float64) float64 { return float64(r.v.Now+r.cfg.Period) + left/speed }
	return end(speed) <= float64(due) || end(fastest) > float64(due)
}

// place finds a hold for a member: together, if need be after others have moved on their nodes, or
// else relaxed. nil: there is none.
func (r *round) place(i int, c cell) *hold {
	m := &r.members[i]
	if !r.accepts(m, c.typ) || r.throughput(i, c, 0) == infeasible || r.kinds[c.typ].free < c.tasks*r.each[i] {
		return nil
	}
	may := func(n *node) bool { return r.may(m, n) }
	if h := r.ledger.together(i, c, may); h != nil {
		return h
	}
	mark := len(r.log)
	for range r.moves {
		if !r.compact(c.typ, func(k int, n *node) bool { return r.may(&r.members[k], n) }) {
			break
		}
		if h := r.ledger.together(i, c, may); h != nil {
			return h
		}
	}
	r.undo(mark)
	for per := min(c.tasks, r.room(i, c.typ)); per > 1; {
		per = (per + 1) / 2
		if r.throughput(i, c, (c.tasks+per-1)/per) == infeasible {
			return nil
		}
		if h := r.apart(i, c, per, may); h != nil {
			return h
		}
	}
	if h := r.apart(i, c, 0, may); h != nil && r.has(i, h) != infeasible { // unequal parts, where nodes are
		return h
	}
	return nil
}

// isTogether tells whether a hold is on as few nodes as possible.
func (r *round) isTogether(i int, h *hold) bool {
	return len(h.spots) == r.fewest(i, h.cell)
}
