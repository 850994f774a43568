package gimbal

import (
	"cmp"
	"slices"

	"github.com/norn-scheduler/norn/cluster"
	"github.com/norn-scheduler/norn/cluster/unit"
	"github.com/norn-scheduler/norn/job"
	"github.com/norn-scheduler/norn/perf"
	"github.com/norn-scheduler/norn/policy/kit/beside"
	"github.com/norn-scheduler/norn/policy/lucid"
	"github.com/norn-scheduler/norn/sched"
)

// site is a GPU where a worker could sit: a free one, or beside one partner.
type site struct {
	device  cluster.DeviceID
	partner job.ID // None: it is free
	rate    float64
}

// pack starts a gang on free GPUs and on some that it shares, if that is worth something.
// Otherwise it says why not.
func (g *policy) pack(v *sched.View, p *sched.Plan, j sched.Job) job.Reason {
	need := int(j.Spec().Demand.Roles[0].Tasks)
	best := g.candidates(v, p, j, need)
	if len(best) < need {
		return beside.Because("needs %s; %d free, or with one worker and room for another, in one rack", unit.Count(need, "GPU"), len(best))
	}
	var why job.Reason
	p.Try(func() bool {
		why = g.share(v, p, j, best)
		return why.Code == job.NoReason
	})
	return why
}

// candidates are the GPUs of one rack for a gang, those first on which its workers would
// be fastest with equal parts; fewer than it needs when no rack has enough.
func (g *policy) candidates(v *sched.View, p *sched.Plan, j sched.Job, need int) (best []site) {
	c := v.Cluster()
	at := map[cluster.DomainID]int{}
	var racks [][]site // in the order of their first nodes
	g.looks++
	g.rates.Forget(c)
	if v.Class(j.Class()).NoType {
		return nil
	}
	rack, last := -1, cluster.DomainID(0)
	for _, n := range c.PoolNodes(v.Scope(j)) {
		if in := c.Node(n).Domain; rack < 0 || in != last {
			known := false
			if rack, known = at[in]; !known {
				rack = len(racks)
				at[in] = rack
				racks = append(racks, nil)
			}
			last = in
		}
		racks[rack] = g.places(v, p, j, n, need, racks[rack])
	}
	most := -1.0
	for _, list := range racks {
		if g.cfg.Packing == Equal {
			list = g.pair(v, list, need)
		}
		switch {
		case len(list) < need:
			if most < 0 && len(list) > len(best) {
				best = list
			}
		case list[need-1].rate > most:
			best, most = list[:need], list[need-1].rate
		}
	}
	return best
}

// keep adds a place to a list in order, of which no more than it needs are kept where
// the best will do, and tells whether it did.
func (g *policy) keep(list []site, x site, need int) ([]site, bool) {
	if n := len(list); g.cfg.Packing == Flexible && n == need {
		if x.rate < list[n-1].rate || !x.before(list[n-1]) {
			return list, false
		}
		list = list[:n-1]
	}
	at := len(list)
	for at > 0 && x.before(list[at-1]) {
		at--
	}
	return slices.Insert(list, at, x), true
}

// before tells whether a place is better, and among equal ones that of who came first.
func (a site) before(b site) bool {
	return a.rate > b.rate || a.rate == b.rate && a.partner < b.partner
}

// host is what a gang that looks for places needs to know of a gang beside which it could
// sit, whichever of its GPUs that is.
type host struct {
	packable bool       // as long as the decision goes on
	memory   unit.Bytes // of a GPU that it takes

	look int     // for which the rest holds
	rate float64 // with equal parts; below 0: not known yet
}

// host is what a gang needs to know of another one.
func (g *policy) host(id job.ID) *host {
	h := &g.hosts[id]
	if h.look != g.looks {
		h.look, h.rate = g.looks, -1
	}
	return h
}

// bench is GPUs of a node that follow each other and are alike, on which workers of some gang
// could sit as the plan stands. They are free, or have one worker each of one gang that others
// may join.
type bench struct {
	device  cluster.DeviceID // the first
	count   int
	typ     cluster.TypeID
	partner job.ID     // None: they are free
	memory  unit.Bytes // that is left of each
	whole   unit.Bytes // that each has; 0: not told
}

// takes has a bench take in the GPU of another one, if that comes next and is like its own.
func (b *bench) takes(o *bench) bool {
	like := *o
	like.device, like.count = b.device, b.count
	if like != *b || o.device != b.device+cluster.DeviceID(b.count) {
		return false
	}
	b.count++
	return true
}

// benches are the GPUs of each node that come into question in a decision, which are found when
// the node is first looked at.
type benches struct {
	all  []bench // by device: those of a node come first of its devices
	have []int   // of each node; below 0: not looked at yet
}

// forget begins a decision.
func (s *benches) forget(c *cluster.Cluster) {
	s.all = slices.Grow(s.all[:0], c.Devices())[:c.Devices()]
	s.have = slices.Grow(s.have[:0], c.Nodes())[:c.Nodes()]
	for n := range s.have {
		s.have[n] = -1
	}
}

// changed has the nodes of an alloc looked at again.
func (s *benches) changed(a *cluster.Alloc) {
	for i := range a.Pieces {
		s.have[a.Pieces[i].Node] = -1
	}
}

// benchesOn are the benches of a node. Others may join a gang that began before this moment, if
// what it holds can be changed.
func (g *policy) benchesOn(v *sched.View, p *sched.Plan, n cluster.NodeID) []bench {
	c, s := v.Cluster(), &g.benches
	first, count := c.DeviceRange(n)
	if s.have[n] >= 0 {
		return s.all[first : int(first)+s.have[n]]
	}
	out := s.all[first:first]
	for d := first; d < first+cluster.DeviceID(count) && c.Usable(n) && !c.Node(n).Pooled; d++ {
		typ, on := c.TypeOf(d), p.On(d)
		t := c.Type(typ)
		if c.Broken(d) || t.Host || len(on) > 1 {
			continue
		}
		x := bench{d, 1, typ, job.None, c.DeviceMemoryFree(d), t.Memory}
		if len(on) == 1 {
			if x.partner = on[0]; !g.hosts[on[0]].packable || !beside.Settled(v, p, on[0]) {
				continue
			}
		} else if c.DeviceFree(d) != unit.One || g.cfg.Packing != Flexible {
			continue
		}
		if last := len(out) - 1; last < 0 || !out[last].takes(&x) {
			out = append(out, x)
		}
	}
	s.have[n] = len(out)
	return out
}

// places adds the GPUs of a node where a worker could sit to a list: free ones, and those with one
// worker beside which there is memory for another.
func (g *policy) places(v *sched.View, p *sched.Plan, j sched.Job, n cluster.NodeID, need int, list []site) []site {
	c, role, mask, memory := v.Cluster(), &j.Spec().Demand.Roles[0], v.Class(j.Class()).Mask, perf.MemoryOf(j.Spec())
	_, count := c.DeviceRange(n)
	room := c.TasksBeside(n, role.CPU, role.Memory, count)
	benches := g.benchesOn(v, p, n)
	for i := range benches {
		b := &benches[i]
		if room <= 0 {
			break
		}
		if !mask.Has(b.typ) || b.memory < memory {
			continue
		}
		x := site{b.device, b.partner, 1}
		if b.partner != job.None {
			h := g.host(b.partner)
			if b.whole != 0 && float64(memory+h.memory) > g.cfg.Memory*float64(b.whole) {
				continue
			}
			if h.rate < 0 {
				h.rate = g.rates.Get(g.sorts.Of(v.Job(b.partner)), b.typ, func() float64 { return equalRate(v, j, b.partner, c.Type(b.typ)) })
			}
			x.rate = h.rate
		}
		most, kept := min(b.count, room), true
		for room -= most; most > 0 && kept; most-- { // where one is not among the best, nor are those like it
			list, kept = g.keep(list, x, need)
			x.device++
		}
	}
	return list
}

// equalRate is the rate of a worker beside one of another gang, both with half of the GPU.
func equalRate(v *sched.View, j sched.Job, other job.ID, t cluster.GPUType) float64 {
	half := cluster.Share{Milli: beside.Half}
	return perf.Among(v.Sharing, perf.Sharer{Job: j.Spec(), Share: half}, []perf.Sharer{{Job: v.Job(other).Spec(), Share: half}}, t)
}

// pair leaves of the places those of one gang of equal size that has all of its GPUs for
// itself, where both together hardly keep them busy, as Lucid has it.
func (g *policy) pair(v *sched.View, list []site, need int) []site {
	by := map[job.ID][]site{}
	for _, x := range list {
		by[x.partner] = append(by[x.partner], x)
	}
	for _, x := range list {
		if own := by[x.partner]; len(own) == need && v.Job(x.partner).GPUs() == need {
			return own
		}
	}
	return nil
}

// light tells whether the scores of two jobs sum to 2 at most.
func light(a, b *job.Job) bool {
	rule := lucid.NewConfig().Analyser
	x, _, known := rule.Of(a)
	y, _, told := rule.Of(b)
	return known && told && int(x)+int(y) <= 2
}

// share starts a gang on GPUs, with the parts that are best. It says why not when what
// all that runs there is worth would not grow enough.
func (g *policy) share(v *sched.View, p *sched.Plan, j sched.Job, on []site) job.Reason {
	var partners []job.ID
	for _, x := range on {
		if x.partner != job.None && !slices.Contains(partners, x.partner) {
			partners = append(partners, x.partner)
		}
	}
	if g.cfg.Packing == Equal && slices.ContainsFunc(partners, func(o job.ID) bool { return !light(j.Spec(), v.Job(o).Spec()) }) {
		return beside.Because("the gang of its size keeps its GPUs too busy")
	}
	before := g.worthOf(v, p, partners)
	if worth := g.worth(v, j); len(partners) > 0 && worth < g.cfg.Gain*before {
		return beside.Because("sharing with %s would not be worth it, even if it had its whole speed there", v.Job(partners[0]).Spec().Key)
	}
	g.gang(v, j, on)
	if !beside.Join(p, j.ID, &g.alloc) {
		return beside.Because("the GPUs that it would share are not free")
	}
	l, ids := g.local(v, p, []job.ID{j.ID})
	if g.cfg.Calibrate {
		l.Settle()
	}
	after := 0.0
	for n := range l.Gangs {
		after += l.Gangs[n].Worth * l.GangRate(n)
		if l.Gangs[n].Least > 0 && l.GangRate(n) < l.Gangs[n].Least-1e-9 {
			return beside.Because("it would slow down job %s, which is protected", l.Gangs[n].Job.Key)
		}
	}
	if after < before*(1+g.cfg.Gain) || l.GangRate(0) == 0 {
		return beside.Because("sharing with %s would not be worth it: it would run at %.2f of its speed, and all together would count %.2f times as much", v.Job(partners[0]).Spec().Key, l.GangRate(0), after/max(before, 1e-300))
	}
	if !g.apply(p, l, ids) {
		return beside.Because("the jobs on the GPUs that it would share cannot be changed now")
	}
	if g.cfg.Calibrate {
		g.calibrated(v, p, j.ID, ids)
	}
	return job.Reason{}
}

// worthOf is what some gangs count as the plan stands.
func (g *policy) worthOf(v *sched.View, p *sched.Plan, ids []job.ID) (sum float64) {
	if len(ids) == 0 {
		return 0
	}
	l, _ := g.local(v, p, ids)
	for n := range ids {
		sum += l.Gangs[n].Worth * l.GangRate(n)
	}
	return sum
}

// calibrated notes that a gang which has just come, and its partners, have been.
func (g *policy) calibrated(v *sched.View, p *sched.Plan, came job.ID, ids []job.ID) {
	for _, id := range ids {
		n, _ := sched.Recall[note](v.Job(id))
		if id == came {
			n = nothing()
		}
		n.partners = partners(p, p.Alloc(id), id)
		p.Remember(id, &n)
	}
	g.look(v)
}

// gang makes the alloc of a gang on GPUs: half of those that it shares.
func (g *policy) gang(v *sched.View, j sched.Job, on []site) {
	role := &v.Class(j.Class()).Demand.Roles[0]
	on = slices.Clone(on)
	slices.SortFunc(on, func(a, b site) int { return cmp.Compare(a.device, b.device) })
	g.alloc.Reset()
	for _, x := range on {
		milli := beside.Whole
		if x.partner != job.None {
			milli = beside.Half
		}
		beside.AddTask(&g.alloc, v.Cluster().NodeOf(x.device), role, cluster.Share{Device: x.device, Milli: milli, Memory: perf.MemoryOf(j.Spec())})
	}
}
