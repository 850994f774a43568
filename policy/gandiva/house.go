package gandiva

import (
	"cmp"
	"slices"

	"github.com/norn-scheduler/norn/cluster"
	"github.com/norn-scheduler/norn/job"
	"github.com/norn-scheduler/norn/place"
	"github.com/norn-scheduler/norn/policy/kit/beside"
)

// housing finds a server for each job that lives nowhere, in the order in which
// they came. A job that finds none waits, and blocks no other.
func (g *policy) housing() {
	clear(g.refused)
	clear(g.crowded)
	for _, m := range g.queue {
		why, refused := g.refused[m.j.Class()]
		if !refused && g.house(m) {
			continue
		}
		if !refused {
			why = g.unhoused(m)
			g.refused[m.j.Class()] = why
		}
		g.wanted = g.wanted || !why.Never()
		g.p.Wait(m.j.ID, why)
	}
}

// unassign takes groups off servers that can no longer have them, because
// others have got GPUs there. A job that ran until now looks for another server
// at the next moment.
func (g *policy) unassign() {
	g.again = false
	had := len(g.queue)
	for _, s := range g.servers {
		if !s.held {
			continue
		}
		for _, k := range slices.Clone(s.groups) {
			switch {
			case !k.ready() || g.canHold(s, k.lead):
			case !k.lead.j.Waiting():
				g.again = true
			default:
				g.evict(k)
			}
		}
	}
	if len(g.queue) > had {
		slices.SortFunc(g.queue, func(a, b *member) int { return cmp.Compare(a.j.ID, b.j.ID) })
	}
}

// evict takes a group that waits off its server; each of its jobs looks for another one.
func (g *policy) evict(k *group) {
	k.home.remove(k)
	g.queue = append(g.queue, k.lead)
	if m := k.guest; m != nil {
		k.guest, m.note.link = nil, apart
		g.keep(m)
		g.queue = append(g.queue, m)
	}
}

// house finds a server for a job. It tries a server for jobs of its size that
// is not full, an empty one, any with as many idle GPUs, and idle GPUs of
// several. If there are none, it takes the least loaded server for jobs of its
// size, where the job takes turns.
func (g *policy) house(m *member) bool {
	var s *server
	if !g.crowded[m.j.Class()] {
		if s = g.find(m, nil); s == nil && (g.cfg.Spread || !g.fitsAny(m)) && g.scatter(m) {
			return true
		}
		g.crowded[m.j.Class()] = s == nil // and so it stays while jobs are housed
	}
	if s == nil {
		s = g.least(m)
	}
	if s == nil && g.impatient(m) {
		s = g.leastOfAll(m)
	}
	if s == nil {
		return false
	}
	g.moveIn(m, s.first(), false)
	g.add(s, g.groupOf(m))
	slices.SortFunc(s.groups, before)
	return true
}

// fitsAny tells whether any server could hold a job if nobody else lived there.
func (g *policy) fitsAny(m *member) bool {
	return slices.ContainsFunc(g.servers, func(s *server) bool { return s.pool == m.j.Pool() && g.canHold(s, m) })
}

// moveIn notes where a job lives from now on, at the end of the list there.
func (g *policy) moveIn(m *member, home cluster.NodeID, parts bool) {
	m.note.home, m.note.parts, m.note.stamp = home, parts, g.v.Now
	if m.note.link != failed {
		m.note.link = apart
	}
	g.keep(m)
}

// find is the server on which a job would not have to take turns, other than some
// server; nil: there is none.
func (g *policy) find(m *member, not *server) *server {
	if s := g.least(m); s != nil && s != not && s.idle() >= m.size {
		return s
	}
	if s := g.empty(m, not); s != nil {
		return s
	}
	return g.tightest(m, func(s *server) bool { return s != not && len(s.nodes) == 1 })
}

// least is the least loaded server for jobs of a size.
func (g *policy) least(m *member) *server {
	var best *server
	for _, s := range g.servers {
		if s.affinity == m.size && (best == nil || s.load < best.load) && s.pool == m.j.Pool() && g.canHold(s, m) {
			best = s
		}
	}
	return best
}

// empty is the first empty server that can hold a job, or one made of several whole
// nodes if the job is larger than any node.
func (g *policy) empty(m *member, not *server) *server {
	c := g.v.Cluster()
	large := m.size > c.MaxNodeGPUs(g.v.Scope(m.j), g.v.Class(m.j.Class()).Mask)
	var nodes []cluster.NodeID
	gpus := 0
	for _, s := range g.servers {
		if s.load > 0 || s == not || s.pool != m.j.Pool() || len(s.nodes) > 1 {
			continue
		}
		if !large {
			if g.canHold(s, m) {
				return s
			}
			continue
		}
		if s.held || !g.suits(s, m) {
			continue
		}
		nodes = append(nodes, s.first())
		if gpus += s.room.gpus; gpus >= m.size {
			all := g.merge(nodes)
			g.dropMerged()
			return all
		}
	}
	return nil
}

// suits tells whether a task of a job could run on each GPU of a node, and all of
// them together have the CPUs and the memory.
func (g *policy) suits(s *server, m *member) bool {
	if s.room.gpus == 0 {
		return false
	}
	part := *m
	part.size = s.room.gpus
	return g.canHold(s, &part)
}

// tightest is the server with the fewest idle GPUs that suffice.
func (g *policy) tightest(m *member, among func(*server) bool) *server {
	var best *server
	for _, s := range g.servers {
		if s.idle() >= m.size && (best == nil || s.idle() < best.idle()) && s.pool == m.j.Pool() && among(s) && g.canHold(s, m) {
			best = s
		}
	}
	return best
}

// scatter starts a job on idle GPUs of several servers, those with the most first. It
// does not take turns there, and is brought together when there is room.
func (g *policy) scatter(m *member) bool {
	if g.frozen(m) || m.size < 2 {
		return false
	}
	var from []*server
	sum := 0
	for _, s := range g.servers {
		if s.idle() > 0 && len(s.nodes) == 1 && s.pool == m.j.Pool() && g.suitsOne(s, m) {
			from = append(from, s)
			sum += s.idle()
		}
	}
	if sum < m.size {
		return false
	}
	slices.SortStableFunc(from, func(a, b *server) int { return cmp.Compare(b.idle(), a.idle()) })
	var parts cluster.Alloc
	need := m.size
	for _, s := range from {
		part := *m
		role := &m.j.Spec().Demand.Roles[0]
		if part.size = g.tasksOn(s.first(), role, min(need, s.idle())); part.size <= 0 {
			continue
		}
		if !g.makeRoom(s, &part) {
			continue
		}
		parts.Pieces = append(parts.Pieces, g.exact.alloc.Pieces...)
		parts.Shares = append(parts.Shares, g.exact.alloc.Shares...)
		if need -= part.size; need == 0 {
			break
		}
	}
	if need > 0 {
		return false
	}
	inOrder(&parts)
	g.exact.alloc.CopyFrom(&parts)
	if !g.p.Start(m.j.ID, &g.exact) {
		return false
	}
	g.moveIn(m, parts.Pieces[0].Node, true)
	g.occupy(&parts)
	return true
}

// suitsOne tells whether a task of a job could run on a server.
func (g *policy) suitsOne(s *server, m *member) bool {
	part := *m
	part.size = 1
	return g.canHold(s, &part)
}

// inOrder puts the pieces of an alloc in the order of their nodes.
func inOrder(a *cluster.Alloc) {
	var out cluster.Alloc
	for len(out.Pieces) < len(a.Pieces) {
		best, from, at := -1, 0, 0
		for i, p := range a.Pieces {
			if (best < 0 || p.Node < a.Pieces[best].Node) && (len(out.Pieces) == 0 || p.Node > out.Pieces[len(out.Pieces)-1].Node) {
				best, from = i, at
			}
			at += int(p.Shares)
		}
		out.Pieces = append(out.Pieces, a.Pieces[best])
		out.Shares = append(out.Shares, a.Shares[from:from+int(a.Pieces[best].Shares)]...)
	}
	a.CopyFrom(&out)
}

// unhoused says why a job found no server.
func (g *policy) unhoused(m *member) job.Reason {
	if why := g.p.Never(m.j.ID, place.Pack); why.Code != job.NoReason {
		return why
	}
	why := job.Reason{Code: job.NeedOneNode, Need: int32(m.size), Job: job.None}
	sum, kept := 0, 0
	for _, s := range g.servers {
		switch idle := max(0, s.idle()); {
		case s.pool != m.j.Pool() || !g.accepts(m, s.first()):
		case len(s.nodes) > 1:
			kept += idle
		default:
			why.Have = max(why.Have, int32(idle))
			sum += idle
		}
	}
	switch {
	case sum < m.size && sum+kept >= m.size:
		return beside.Because("too few GPUs are free: %d; %d more are idle on nodes that larger gangs have whole", sum, kept)
	case sum < m.size:
		why.Code, why.Have = job.NeedGPUs, int32(sum)
	case int(why.Have) >= m.size:
		why.Code = job.NeedCPU
	}
	return why
}

// relieve lets those who wait for a turn go where they need not, from the
// highest server first and who waits longest first. A job that ran until now
// goes elsewhere only when it looks for something better.
func (g *policy) relieve() {
	high := g.high[:0]
	for _, s := range g.servers {
		if s.load > s.room.gpus {
			high = append(high, s)
		}
	}
	slices.SortStableFunc(high, func(a, b *server) int { return cmp.Compare(b.height(), a.height()) })
	g.high = high
	clear(g.full)
	for _, s := range high {
		g.list = append(g.list[:0], s.groups...)
		for _, k := range g.list {
			if s.load <= s.room.gpus {
				break
			}
			if k.lead.has != nil && !g.due() { // its turn has just ended
				continue
			}
			if !k.ready() || g.frozen(k.lead) || k.guest != nil && g.frozen(k.guest) || g.full[k.lead.j.Class()] {
				continue
			}
			if to := g.find(k.lead, s); to != nil && (k.guest == nil || g.canHold(to, k.guest)) {
				g.rehouse(k, to)
			} else if k.guest == nil {
				g.full[k.lead.j.Class()] = true
			}
		}
	}
}

// rehouse lets a group live on another server from now on.
func (g *policy) rehouse(k *group, to *server) {
	from := k.home
	from.remove(k)
	g.add(to, k)
	g.note(k, func(n *note) { n.home = to.first() })
	slices.SortFunc(to.groups, before)
}
