package bsbf

import (
	"cmp"
	"iter"
	"math"
	"slices"

	"github.com/norn-scheduler/norn/cluster"
	"github.com/norn-scheduler/norn/cluster/unit"
	"github.com/norn-scheduler/norn/job"
	"github.com/norn-scheduler/norn/perf"
	"github.com/norn-scheduler/norn/policy/kit/beside"
	"github.com/norn-scheduler/norn/sched"
	"github.com/norn-scheduler/norn/state/dense"
)

// look is a waiting job that looks for GPUs with a batch.
type look struct {
	v      *sched.View
	b      *board
	role   *job.Role
	mask   cluster.TypeMask
	memory unit.Bytes
	shut   []bool // by node: it has no CPU or memory left for a task, or the job may not use it; nil: all will do

	free   []cluster.DeviceID // that it could have for itself, in the order of their nodes
	means  []float64          // by host: until the pair has ended; infinite: they should not share
	best   dense.Heap         // scratch of all
	found  int                // GPUs that it could have
	shares Share
}

// look finds out whom a waiting job could join, and which GPUs are free for it.
func (f *policy) look(v *sched.View, p *sched.Plan, w waiting, batch int32) *look {
	j, c := v.Job(w.id), v.Cluster()
	l := &f.looks
	class := v.Class(j.Class())
	*l = look{v: v, b: f.see(v, p, j.Pool()), role: &j.Spec().Demand.Roles[0], mask: class.Mask, memory: memory(v, w.id, batch), free: l.free[:0], means: l.means[:0], best: l.best, shares: f.cfg.Share}
	f.refused = refused{}
	if l.role.CPU > 0 || l.role.Memory > 0 || class.Scope != class.Pool {
		l.shut = make([]bool, c.Nodes())
		for _, n := range c.PoolNodes(j.Pool()) {
			full := c.TasksBeside(n, l.role.CPU, l.role.Memory, 1) == 0
			l.shut[n] = full || !c.In(n, class.Scope)
			f.refused.beside = f.refused.beside || full
		}
	}
	if class.NoType {
		return l
	}
	with := f.slowdowns(c, kind{f.sorts.Of(j), batch})
	fast := alone(v, w.id, batch)
	for i := range l.b.hosts {
		l.means = append(l.means, math.Inf(1))
		if n, typ := l.places(&l.b.hosts[i], &f.refused); n > 0 {
			l.means[i] = f.mean(v, w, batch, fast, with, &l.b.hosts[i], typ)
			if math.IsInf(l.means[i], 1) {
				f.refused.slower = true
				continue
			}
			l.found += n
		}
	}
	l.others(&f.refused)
	l.found += len(l.free)
	return l
}

// takes tells whether the job may have a device, as far as its type and the node go.
func (l *look) takes(d cluster.DeviceID) bool {
	c := l.v.Cluster()
	return l.mask.Has(c.TypeOf(d)) && (l.shut == nil || !l.shut[c.NodeOf(d)])
}

// alike tells whether the job could share all devices of a host, or none.
func (l *look) alike(h *host) bool {
	return !h.mixed && l.shut == nil && (h.least >= l.memory || h.most < l.memory)
}

// places is the number of devices of a host that the job could share, and the type of the
// first of them.
func (l *look) places(h *host, why *refused) (n int, typ cluster.TypeID) {
	switch {
	case h.joined:
		return 0, 0
	case !l.alike(h):
		for _, d := range l.b.inOrder(l.v.Cluster(), h.devices) {
			switch {
			case l.b.devices[d].what != open || !l.takes(d):
			case l.b.devices[d].room < l.memory:
				why.memory = true
			default:
				if n++; n == 1 {
					typ = l.v.Cluster().TypeOf(d)
				}
			}
		}
		return n, typ
	case !l.mask.Has(h.typ):
		return 0, 0
	case h.most < l.memory:
		why.memory = true
		return 0, 0
	}
	return len(h.devices), h.typ
}

// others finds the free devices, and why the job cannot share those that are not.
func (l *look) others(why *refused) {
	c := l.v.Cluster()
	for d := range l.b.free {
		switch {
		case !l.takes(d):
		case c.DeviceMemoryFree(d) < l.role.GPUMemory:
			why.alone = true
		default:
			l.free = append(l.free, d)
		}
	}
	l.b.inOrder(c, l.free)
	if l.shut == nil {
		for t := range cluster.TypeID(c.Types()) {
			why.pairs = why.pairs || l.mask.Has(t) && l.b.pairs[t] > 0
			why.alone = why.alone || l.mask.Has(t) && l.b.alone[t] > 0
		}
		return
	}
	for d := range l.b.devices {
		if s := l.b.devices[d].what; (s == paired || s == closed) && l.takes(cluster.DeviceID(d)) {
			why.pairs, why.alone = why.pairs || s == paired, why.alone || s == closed
		}
	}
}

// shared tells whether the job could share a device, and with whom.
func (l *look) shared(d cluster.DeviceID) (spot, bool) {
	s := &l.b.devices[d]
	if s.what != open || s.room < l.memory || !l.takes(d) || math.IsInf(l.means[s.host], 1) {
		return spot{}, false
	}
	return spot{d, l.b.hosts[s.host].id, l.means[s.host]}, true
}

// all yields the GPUs that the job could have: free ones, then those that it would share,
// best partners first, or in the order of their nodes.
func (l *look) all() iter.Seq[spot] {
	return func(yield func(spot) bool) {
		for _, d := range l.free {
			if !yield(spot{d, job.None, 0}) {
				return
			}
		}
		if l.shares != Benefit {
			for _, n := range slices.SortedFunc(slices.Values(l.v.Cluster().PoolNodes(l.b.pool)), l.b.before) {
				for _, s := range l.on(n) {
					if s.partner != job.None && !yield(s) {
						return
					}
				}
			}
			return
		}
		l.best.Clear()
		for i, mean := range l.means {
			if !math.IsInf(mean, 1) {
				l.best.Set(int32(i), int64(math.Float64bits(mean)))
			}
		}
		for l.best.Len() > 0 {
			i, _ := l.best.Pop()
			for _, d := range l.b.inOrder(l.v.Cluster(), l.b.hosts[i].devices) {
				if s, ok := l.shared(d); ok && !yield(s) {
					return
				}
			}
		}
	}
}

// on lists the GPUs of a node in the same order.
func (l *look) on(n cluster.NodeID) (free []spot) {
	var shared []spot
	c := l.v.Cluster()
	first, count := c.DeviceRange(n)
	for d := first; d < first+cluster.DeviceID(count); d++ {
		if s, ok := l.shared(d); ok {
			shared = append(shared, s)
		} else if l.b.devices[d].what == empty && l.takes(d) && c.DeviceMemoryFree(d) >= l.role.GPUMemory {
			free = append(free, spot{d, job.None, 0})
		}
	}
	if l.shares == Benefit {
		slices.SortStableFunc(shared, func(a, b spot) int { return cmp.Or(cmp.Compare(a.mean, b.mean), cmp.Compare(a.partner, b.partner)) })
	}
	return append(free, shared...)
}

// nodes yields the nodes that have GPUs enough for a whole job. Nodes with
// enough free GPUs come first, the one with the fewest to spare before others.
// Then come those with the most free GPUs, and of equals those on which fewer
// jobs run.
func (l *look) nodes(need int) iter.Seq[cluster.NodeID] {
	c := l.v.Cluster()
	has, empty := make([]int, c.Nodes()), make([]int, c.Nodes())
	for _, d := range l.free {
		has[c.NodeOf(d)]++
		empty[c.NodeOf(d)]++
	}
	for i := range l.b.hosts {
		h := &l.b.hosts[i]
		switch {
		case math.IsInf(l.means[i], 1):
		case l.alike(h):
			for _, on := range h.nodes {
				has[on.node] += on.devices
			}
		default:
			for _, d := range h.devices {
				if _, ok := l.shared(d); ok {
					has[c.NodeOf(d)]++
				}
			}
		}
	}
	spare := func(n cluster.NodeID) int {
		if empty[n] >= need {
			return empty[n] - need
		}
		return math.MaxInt
	}
	left := slices.DeleteFunc(slices.Clone(c.PoolNodes(l.b.pool)), func(n cluster.NodeID) bool { return has[n] < need })
	return func(yield func(cluster.NodeID) bool) {
		for len(left) > 0 { // the first of them will nearly always do
			n := slices.MinFunc(left, func(a, b cluster.NodeID) int {
				if x, y := spare(a), spare(b); x != y {
					return cmp.Compare(x, y)
				}
				if empty[a] != empty[b] {
					return cmp.Compare(empty[b], empty[a])
				}
				return l.b.before(a, b)
			})
			if !yield(n) {
				return
			}
			left = slices.DeleteFunc(left, func(o cluster.NodeID) bool { return o == n })
		}
	}
}

// pick takes the first of the GPUs given that a job needs, as far as their nodes have CPU
// and memory for it; nil when they are not enough.
func (l *look) pick(need int, spots iter.Seq[spot]) []spot {
	c := l.v.Cluster()
	left := map[cluster.NodeID]int{}
	var chosen []spot
	for s := range spots {
		n := c.NodeOf(s.device)
		room, known := left[n]
		if !known {
			room = c.TasksBeside(n, l.role.CPU, l.role.Memory, need)
		}
		if left[n] = room - 1; room > 0 {
			chosen = append(chosen, s)
		}
		if len(chosen) == need {
			return chosen
		}
	}
	return nil
}

// choose finds free and shared GPUs for a job that has a batch; nil when there are not
// enough.
func (f *policy) choose(v *sched.View, p *sched.Plan, w waiting, batch int32) []spot {
	need := int(v.Job(w.id).Spec().Demand.Roles[0].Tasks)
	l := f.look(v, p, w, batch)
	if l.found < need {
		return nil
	}
	if f.cfg.OneBox && need <= l.b.widest {
		for n := range l.nodes(need) {
			if chosen := l.pick(need, slices.Values(l.on(n))); chosen != nil {
				return chosen
			}
		}
	}
	return l.pick(need, l.all())
}

// partner tells whether a running job may share: it began before this moment, and
// shares nothing yet.
func (f *policy) partner(v *sched.View, p *sched.Plan, id job.ID) bool {
	if !beside.Settled(v, p, id) || !shareable(v.Job(id)) || evicted(p, v.Job(id)) {
		return false
	}
	held := p.Alloc(id)
	return v.Cluster().UsableAlloc(held) && beside.Alone(p, held)
}

// slowdown is by how much two jobs take longer beside each other than alone, each with
// its own batch.
type slowdown struct{ a, b float64 }

// slowdowns is what is known of jobs of a kind beside hosts of each kind, which holds for
// the decision.
func (f *policy) slowdowns(c *cluster.Cluster, of kind) *beside.Known[slowdown] {
	with, ok := f.board.rates[of]
	if !ok {
		with = new(beside.Known[slowdown])
		with.Forget(c)
		f.board.rates[of] = with
	}
	return with
}

// mean is the mean time until a waiting job and a host have ended when they
// share; infinite when they should not. Each has the batch that it has alone, too, with
// which the waiting job is so fast over its own one.
func (f *policy) mean(v *sched.View, w waiting, batch int32, fast float64, with *beside.Known[slowdown], h *host, typ cluster.TypeID) float64 {
	both := with.Get(h.kind, typ, func() slowdown {
		half := func(id job.ID, b int32) perf.Sharer {
			return perf.Sharer{Job: v.Job(id).Spec(), Share: cluster.Share{Milli: beside.Half, Batch: b}}
		}
		a, b, t := half(w.id, batch), half(h.id, h.batch), v.Cluster().Type(typ)
		return slowdown{max(1, fast*slower(v.Sharing, a, b, t)), max(1, h.fast*slower(v.Sharing, b, a, t))}
	})
	pair := Pair{A: w.left / fast, B: h.left / h.fast, SlowerA: both.a, SlowerB: both.b}
	if f.cfg.Share == Benefit && !pair.Worthwhile() {
		return math.Inf(1)
	}
	return pair.Together()
}

// slower is by how much a job takes longer beside another one than alone with its own
// batch.
func slower(m perf.Sharing, j, other perf.Sharer, t cluster.GPUType) float64 {
	return 1 / perf.Among(m, j, []perf.Sharer{other}, t)
}
