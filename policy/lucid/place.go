package lucid

import (
	"cmp"
	"slices"

	"github.com/norn-scheduler/norn/cluster"
	"github.com/norn-scheduler/norn/cluster/unit"
	"github.com/norn-scheduler/norn/policy/kit/beside"
	"github.com/norn-scheduler/norn/sched"
	"github.com/norn-scheduler/norn/state"
)

// reserve finds the nodes of the profiler: its own, and those that are lent to it.
func (l *policy) reserve(v *sched.View) {
	clear(l.reserved)
	for len(l.reserved) < v.Cluster().Nodes() {
		l.reserved = append(l.reserved, false)
	}
	l.profiles = false
	if l.cfg.Profile == 0 {
		return
	}
	for p := range cluster.PoolID(v.Pools()) {
		for _, id := range l.own(v, p) {
			l.reserved[id], l.profiles = true, true
		}
	}
	l.recall(v)
}

// own are the profiler's own nodes: the last ones of each pool, never all.
func (l *policy) own(v *sched.View, p cluster.PoolID) []cluster.NodeID {
	nodes := v.Cluster().PoolNodes(p)
	n := min(int(l.cfg.Profile*float64(len(nodes))+0.5), len(nodes)-1)
	return nodes[len(nodes)-max(0, n):]
}

// profilers are the nodes of a pool that are the profiler's, its own and lent ones, in order.
func (l *policy) profilers(v *sched.View, pool cluster.PoolID) []cluster.NodeID {
	nodes := slices.Clone(l.own(v, pool))
	for _, o := range l.loans {
		if l.reserved[o.node] && v.Job(o.job).Pool() == pool {
			nodes = append(nodes, o.node)
		}
	}
	slices.Sort(nodes)
	return slices.Compact(nodes)
}

// devices are the devices of a node that a task could have: free ones, or also those
// that are taken, if all counts.
func (l *policy) devices(v *sched.View, n cluster.NodeID, class *state.Class, all bool) []cluster.DeviceID {
	c := v.Cluster()
	l.found = l.found[:0]
	if !c.Usable(n) || c.Node(n).Pooled || class.NoType || !c.In(n, class.Scope) {
		return nil
	}
	role := &class.Demand.Roles[0]
	most := int(^uint(0) >> 1)
	cpu, accounted := c.CPUFree(n)
	if all {
		cpu = c.Node(n).CPU
	}
	if accounted && role.CPU > 0 {
		most = min(most, int(cpu/role.CPU))
	}
	ram, told := c.MemoryFree(n)
	if all {
		ram = c.Node(n).Memory
	}
	if told && role.Memory > 0 {
		most = min(most, int(ram/role.Memory))
	}
	first, count := c.DeviceRange(n)
	for d := first; d < first+cluster.DeviceID(count) && len(l.found) < most; d++ {
		t := c.TypeOf(d)
		if c.Broken(d) || !class.Mask.Has(t) || c.Type(t).Host {
			continue
		}
		if all || c.DeviceFree(d) == unit.One && (role.GPUMemory == 0 || c.DeviceMemoryFree(d) >= role.GPUMemory) {
			l.found = append(l.found, d)
		}
	}
	return l.found
}

// spot is a node and how many tasks it could take.
type spot struct {
	node cluster.NodeID
	room int
}

// consolidate finds room for a plain job on nodes of the profiler or on the others:
// on the node with the fewest free GPUs that suffice, or on the nodes with the most
// and the best fit for the rest.
func (l *policy) consolidate(v *sched.View, j sched.Job, reserved bool) bool {
	class, need := v.Class(j.Class()), int(j.Spec().Demand.Roles[0].Tasks)
	if n, ok := l.snug(v, j, class, need); ok && !reserved {
		l.alloc.Reset()
		l.add(v, j, class, n, need)
		return true
	}
	l.spots = l.spots[:0]
	largest, sum := 0, 0
	nodes := v.Cluster().PoolNodes(j.Pool())
	if reserved {
		nodes = l.profilers(v, j.Pool())
	}
	for _, n := range nodes {
		if l.reserved[n] != reserved {
			continue
		}
		if !reserved {
			largest = max(largest, v.Cluster().NodeGPUs(n))
		}
		if room := len(l.devices(v, n, class, false)); room > 0 {
			l.spots = append(l.spots, spot{n, room})
			sum += room
		}
	}
	if sum < need {
		return false
	}
	l.alloc.Reset()
	slices.SortStableFunc(l.spots, func(a, b spot) int { return cmp.Compare(b.room, a.room) })
	for need > 0 {
		if i := slices.IndexFunc(l.spots, func(s spot) bool { return s.room < need }); i != 0 {
			if i < 0 {
				i = len(l.spots)
			}
			best := l.spots[i-1].room // the fewest that suffice, the first node that has them
			at := slices.IndexFunc(l.spots, func(s spot) bool { return s.room == best })
			l.add(v, j, class, l.spots[at].node, need)
			return true
		}
		if len(l.spots) == 0 || l.spots[0].room < largest || reserved {
			return false // a large gang has whole nodes
		}
		l.add(v, j, class, l.spots[0].node, l.spots[0].room)
		need -= l.spots[0].room
		l.spots = l.spots[1:]
	}
	return true
}

// snug is the first of the nodes that are not the profiler's with the fewest free GPUs that
// suffice. It answers where the index of the cluster tells: for a job that asks for nothing but
// GPUs, in a pool whose GPUs are of one type.
func (l *policy) snug(v *sched.View, j sched.Job, class *state.Class, need int) (cluster.NodeID, bool) {
	c := v.Cluster()
	shelves := c.Shelves(j.Pool())
	if len(shelves) != 1 || !l.uniform(c, j.Pool()) || !class.Demand.Plain() || class.NoType || class.Scope != class.Pool {
		return cluster.None, false
	}
	shelf := cluster.ShelfID(shelves[0])
	if t := c.ShelfType(shelf); !class.Mask.Has(t) || c.Type(t).Host {
		return cluster.None, false
	}
	for free := need; free < c.ShelfLevels(shelf); free++ {
		for g := c.NextGroup(shelf, free, cluster.None); g != cluster.None; g = c.NextGroup(shelf, free, g) {
			if n := c.GroupNode(g); !l.reserved[n] {
				return n, true
			}
		}
	}
	return cluster.None, false
}

// uniform tells whether no node of a pool has several groups of GPUs.
func (l *policy) uniform(c *cluster.Cluster, pool cluster.PoolID) bool {
	if l.mixed == nil || l.version != c.Version() {
		l.mixed, l.version = map[cluster.PoolID]bool{}, c.Version()
		for n := range cluster.NodeID(c.Nodes()) {
			if len(c.NodeGroups(n)) > 1 {
				l.mixed[c.Node(n).Pool] = true
			}
		}
	}
	return !l.mixed[pool]
}

// add puts tasks on a node into the alloc.
func (l *policy) add(v *sched.View, j sched.Job, class *state.Class, n cluster.NodeID, tasks int) {
	role := &class.Demand.Roles[0]
	for _, d := range l.devices(v, n, class, false)[:tasks] {
		beside.AddTask(&l.alloc, n, role, cluster.Share{Device: d, Milli: beside.Whole, Memory: role.GPUMemory})
	}
}

// start starts a job outside the profiler's nodes. Where nothing runs there and it
// still does not fit, it may have those too, and so may jobs that are not plain.
func (l *policy) start(v *sched.View, p *sched.Plan, j sched.Job) bool {
	defer func() { l.runs.began(j.ID, p.Alloc(j.ID)) }()
	anywhere := func() bool {
		ok := p.Start(j.ID, l.cfg.Place)
		l.why = p.Why()
		return ok
	}
	if !l.profiles || !beside.Plain(j) {
		return anywhere()
	}
	if _, fits := p.Fits(j.ID, l.cfg.Place); !fits {
		return anywhere() // which says why not
	}
	if !l.refused[j.Class()] && l.consolidate(v, j, false) {
		l.busy[j.Pool()] = true
		return p.StartOn(j.ID, &l.alloc)
	}
	l.refused[j.Class()] = true // nothing but starts comes in this decision
	if !l.occupied(v, p, j.Pool()) {
		return anywhere()
	}
	l.why = beside.Because("the free GPUs are kept for measuring new jobs")
	p.Wait(j.ID, l.why)
	return false
}

// occupied tells whether any job of a pool holds more than nodes of the profiler.
func (l *policy) occupied(v *sched.View, p *sched.Plan, pool cluster.PoolID) bool {
	if busy, known := l.busy[pool]; known {
		return busy
	}
	within := v.Within(pool, nil)
	for j := range within.Running() {
		if a := p.Alloc(j.ID); a != nil && !l.inside(a) {
			l.busy[pool] = true
			return true
		}
	}
	l.busy[pool] = false
	return false
}

// inside tells whether all of an alloc lies on nodes of the profiler.
func (l *policy) inside(a *cluster.Alloc) bool {
	for i := range a.Pieces {
		if !l.reserved[a.Pieces[i].Node] {
			return false
		}
	}
	return true
}
