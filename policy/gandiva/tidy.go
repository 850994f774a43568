package gandiva

import (
	"cmp"
	"slices"

	"github.com/norn-scheduler/norn/cluster"
	"github.com/norn-scheduler/norn/cluster/unit"
	"github.com/norn-scheduler/norn/job"
	"github.com/norn-scheduler/norn/policy/kit/beside"
)

// moved is why a running job leaves its devices for others.
var moved = job.Reason{Code: job.Moved, Job: job.None}

// together brings gangs together that lie on parts of several nodes.
func (g *policy) together() {
	for _, m := range g.spread {
		if !g.settled(m) || !g.v.Cluster().UsableAlloc(m.has) {
			continue
		}
		var to *server
		parts := m.has
		g.vacate(parts)
		ok := g.p.Try(func() bool {
			to = g.find(m, nil)
			return to != nil && len(to.nodes) < m.has.Nodes() && g.moveTo(m, to)
		})
		if !ok {
			g.occupy(parts)
			continue
		}
		g.moveIn(m, to.first(), false)
		k := g.groupOf(m)
		k.runs = true
		g.add(to, k)
		slices.SortFunc(to.groups, before)
	}
}

// vacate gives groups of servers back what others have.
func (g *policy) vacate(a *cluster.Alloc) {
	for _, p := range a.Pieces {
		if s := g.at[p.Node]; s != nil {
			s.room.cpu += p.CPU
			s.room.memory += p.Memory
			s.room.gpus += int(p.Tasks)
		}
	}
}

// calm tells whether nobody waits but those who can never run here.
func (g *policy) calm() bool {
	if g.wanted {
		return false
	}
	for _, s := range g.servers {
		if s.load > s.room.gpus || slices.ContainsFunc(s.groups, func(k *group) bool { return !k.runs }) {
			return false
		}
	}
	return true
}

// relocate moves a running job of a group of one, or leaves everything as it is.
func (g *policy) relocate(m *member, to *server) bool {
	return g.p.Try(func() bool { return g.moveTo(m, to) })
}

// moveTo takes a running job to another server.
func (g *policy) moveTo(m *member, to *server) bool {
	return g.p.Stop(m.j.ID, moved) && g.makeRoom(to, m) && g.p.StartOn(m.j.ID, &g.exact.alloc)
}

// unpack gives guests GPUs of their own when there are any.
func (g *policy) unpack() {
	for _, k := range g.groups { // as they are now: guests found groups of their own
		if k.away || k.trial || k.guest == nil || !g.settled(k.guest) || !g.settled(k.lead) {
			continue
		}
		to := g.find(k.guest, k.home)
		if to == nil || !g.relocate(k.guest, to) {
			continue
		}
		m := k.guest
		k.guest = nil
		beside.GiveEach(g.p, k.lead.j.ID, beside.Whole)
		g.moveIn(m, to.first(), false)
		own := g.groupOf(m)
		own.runs = true
		g.add(to, own)
		slices.SortFunc(to.groups, before)
	}
}

// defragment empties servers of which most is idle, the one with most idle GPUs
// first, if others can take all of their jobs: each the one with the fewest idle GPUs
// that suffice.
func (g *policy) defragment() {
	var sparse []*server
	for _, s := range g.servers {
		if s.mayEmpty(g.cfg.Defrag) {
			sparse = append(sparse, s)
		}
	}
	slices.SortStableFunc(sparse, func(a, b *server) int { return cmp.Compare(b.idle(), a.idle()) })
	for _, s := range sparse {
		if !s.isSparse(g.cfg.Defrag) {
			continue // it has taken jobs of another one
		}
		to := g.refuges(s)
		for i, k := range slices.Clone(s.groups) {
			if to != nil && g.relocate(k.lead, to[i]) {
				g.rehouse(k, to[i])
				g.again = g.again || g.wanted
			}
		}
	}
}

// grown tells whether a running job has more GPUs than it asked for.
func (m *member) grown() bool { return m.has != nil && m.j.Tasks() > m.size }

// hasGrown tells whether a job on a server has.
func (s *server) hasGrown() bool {
	return slices.ContainsFunc(s.groups, func(k *group) bool { return k.lead.grown() })
}

// refuges finds a server for each job of a server, where neither it nor one that has
// grown there is taken to run slower; nil when not all find one, or one of them must
// not be moved now.
func (g *policy) refuges(s *server) []*server {
	to := make([]*server, 0, len(s.groups))
	defer func() {
		for i, t := range to {
			t.load -= s.groups[i].lead.size
		}
	}()
	for _, k := range s.groups {
		if k.guest != nil || !g.settled(k.lead) || k.lead.grown() {
			return nil
		}
		t := g.tightest(k.lead, func(o *server) bool {
			fuller := o.idle() < s.idle() || o.idle() == s.idle() && o.first() < s.first()
			return o != s && len(o.nodes) == 1 && o.load > 0 && fuller && !g.slower(k.lead, s, o) && !o.hasGrown()
		})
		if t == nil {
			return nil
		}
		t.load += k.lead.size
		to = append(to, t)
	}
	return to
}

// mayEmpty tells whether a server should be emptied of which such a part is idle.
func (s *server) mayEmpty(part float64) bool {
	return len(s.nodes) == 1 && !s.held && s.load > 0 && s.isSparse(part)
}

// isSparse tells whether such a part of a server is idle.
func (s *server) isSparse(part float64) bool {
	return float64(s.idle()) >= part*float64(s.room.gpus)
}

// slower tells whether a job is taken to run slower on another server.
func (g *policy) slower(m *member, from, to *server) bool {
	speed := func(s *server) float64 {
		c := g.v.Cluster()
		least := -1.0
		for _, gid := range c.NodeGroups(s.first()) {
			t := c.GroupType(gid)
			if x := g.v.TypeSpeed(m.j, t, m.size, false); !c.Type(t).Host && (least < 0 || x < least) {
				least = x
			}
		}
		return least
	}
	return speed(to) < speed(from)
}

// grow gives idle GPUs of a server to elastic jobs there, in the order in which they
// were submitted.
func (g *policy) grow() {
	c := g.v.Cluster()
	for _, s := range g.servers {
		if len(s.nodes) > 1 {
			continue
		}
		for _, k := range s.groups {
			role := &k.lead.j.Spec().Demand.Roles[0]
			_, most := role.Range()
			if k.guest != nil || k.lead.note.vain || !g.settled(k.lead) || k.lead.j.Tasks() >= int(most) {
				continue
			}
			g.measure(k)
			more := g.tasksOn(s.first(), role, int(most)-k.lead.j.Tasks())
			a := &g.exact.alloc
			a.CopyFrom(k.lead.has)
			mask := g.v.Class(k.lead.j.Class()).Mask
			for _, gid := range c.NodeGroups(s.first()) {
				t := c.GroupType(gid)
				if take := min(more, c.GroupFree(gid)); take > 0 && !c.Type(t).Host && mask.Has(t) && !c.GroupPooled(gid) {
					a.Shares = c.AppendWhole(a.Shares, gid, take, role.GPUMemory)
					more -= take
				}
			}
			g.resize(k.lead, len(a.Shares))
		}
	}
}

// resize lets a job on one node run with so many of the GPUs in g.exact.
func (g *policy) resize(m *member, tasks int) {
	if tasks == m.j.Tasks() {
		return
	}
	role, a := &m.j.Spec().Demand.Roles[0], &g.exact.alloc
	a.Shares = a.Shares[:tasks]
	p := &a.Pieces[0]
	p.Tasks, p.Shares = int32(tasks), int32(tasks)
	p.CPU, p.Memory = role.CPU*unit.Milli(tasks), role.Memory*unit.Bytes(tasks)
	g.p.Stop(m.j.ID, job.Reason{Code: job.Resized, Need: int32(tasks), Job: job.None})
	g.p.StartOn(m.j.ID, a)
}

// shrink lets jobs that have grown on a server give back what they have more than
// they asked for, and tells whether any did.
func (g *policy) shrink(s *server) bool {
	any := false
	for _, k := range s.groups {
		any = g.giveBack(k) || any
	}
	return any
}

// giveBack lets a job give back what it has more than it asked for, and tells whether
// it did.
func (g *policy) giveBack(k *group) bool {
	held := g.p.Alloc(k.lead.j.ID)
	if !k.runs || k.guest != nil || held == nil || held.Tasks(0) <= k.lead.size || len(held.Shares) != held.Tasks(0) || len(held.Pieces) != 1 || k.lead.j.Phase() != job.Running {
		return false
	}
	g.exact.alloc.CopyFrom(held)
	g.resize(k.lead, k.lead.size)
	return true
}

// shrinkAll does so on all servers of a pool.
func (g *policy) shrinkAll(pool cluster.PoolID) bool {
	any := false
	for _, s := range g.servers {
		if s.pool == pool && g.shrink(s) {
			any = true
		}
	}
	return any
}
