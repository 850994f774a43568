package gandiva

import (
	"cmp"
	"slices"

	"github.com/norn-scheduler/norn/cluster"
	"github.com/norn-scheduler/norn/cluster/unit"
	"github.com/norn-scheduler/norn/job"
	"github.com/norn-scheduler/norn/place"
	"github.com/norn-scheduler/norn/policy/kit/beside"
)

// rotate ends turns: where a group waits and another has had its quantum, that goes to
// the end of the list, and the first of the list that fit are those that run.
func (g *policy) rotate() {
	for _, s := range g.servers {
		g.rotateOn(s)
	}
}

func (g *policy) rotateOn(s *server) {
	waits, over := false, false
	for _, k := range s.groups {
		waits = waits || k.ready()
		over = over || g.isOver(k)
	}
	if waits && over {
		g.turn(s)
	}
}

// ready tells whether a group could be started.
func (k *group) ready() bool { return !k.runs && !k.away && !k.gone }

// isOver tells whether the turn of a running group has ended. A pair is not disturbed
// while it is measured.
func (g *policy) isOver(k *group) bool {
	return k.runs && !k.trial && g.turnEnds(k) <= g.v.Now
}

// turn lets the next ones have the GPUs of a server. Those whose turn has not ended
// keep their places in the list.
func (g *policy) turn(s *server) {
	next := chosen{left: s.room}
	for _, k := range s.groups {
		k.stays = false
		if g.isOver(k) {
			g.note(k, func(n *note) { n.stamp = g.v.Now })
		}
		if k.runs && (k.trial || k.lead.j.Phase() != job.Running) {
			next.take(k, k.lead.has)
		}
	}
	slices.SortFunc(s.groups, before)
	for _, k := range s.groups {
		if !k.stays && !k.away && !k.gone {
			on := g.v.PinnedPlace(k.lead.j.ID)
			if k.runs {
				on = k.lead.has
			}
			next.take(k, on)
		}
	}
	for _, k := range s.groups {
		if k.runs && !k.stays {
			g.suspend(k, job.Reason{Code: job.UsedShare, Job: job.None, Need: int32(min(k.lead.j.Service(), 1<<30))})
		}
	}
}

// chosen are groups that run next. Those that run and those that are frozen are tied to
// their devices.
type chosen struct {
	left  room
	taken []cluster.DeviceID
}

// take chooses a group if there is room for it, on the given devices if there are any.
func (c *chosen) take(k *group, on *cluster.Alloc) {
	if on != nil && slices.ContainsFunc(on.Shares, func(s cluster.Share) bool { return s.Milli <= beside.Whole && slices.Contains(c.taken, s.Device) }) {
		return
	}
	if k.stays = c.left.take(k); k.stays && on != nil {
		for i := range on.Shares {
			c.taken = append(c.taken, on.Shares[i].Device)
		}
	}
}

// take takes what a group needs from what is left, if there is enough.
func (r *room) take(k *group) bool {
	cpu, memory := unit.Milli(0), unit.Bytes(0)
	for _, m := range [...]*member{k.lead, k.guest} {
		if m != nil {
			role := &m.j.Spec().Demand.Roles[0]
			cpu += role.CPU * unit.Milli(m.size)
			memory += role.Memory * unit.Bytes(m.size)
		}
	}
	if k.lead.size > r.gpus || r.counts[0] && cpu > r.cpu || r.counts[1] && memory > r.memory {
		return false
	}
	r.gpus, r.cpu, r.memory = r.gpus-k.lead.size, r.cpu-cpu, r.memory-memory
	return true
}

// note changes what is remembered of a group.
func (g *policy) note(k *group, change func(*note)) {
	for _, m := range [...]*member{k.lead, k.guest} {
		if m != nil {
			change(&m.note)
			g.keep(m)
		}
	}
}

// suspend takes a group off its GPUs, and notes what was measured of a job that had
// them for itself.
func (g *policy) suspend(k *group, why job.Reason) {
	g.measure(k)
	for _, m := range [...]*member{k.lead, k.guest} {
		if m != nil {
			g.p.Stop(m.j.ID, why)
		}
	}
	k.runs = false
}

// measure notes the rate of a job that had its GPUs for itself until now, and their use.
func (g *policy) measure(k *group) {
	j := k.lead.j
	if k.guest != nil || j.Phase() != job.Running || j.Ready() >= g.v.Now || j.Tasks() != k.lead.size || k.lead.shares() {
		return
	}
	use := g.useOf(k.lead)
	k.lead.note.rate, k.lead.note.use, k.lead.note.used = j.Speed(), max(0, use), use >= 0
	g.keep(k.lead)
}

// useOf is how much of its GPUs a job uses when alone: as was measured, or as it
// tells; below 0 when nobody knows.
func (g *policy) useOf(m *member) float64 {
	sum, known := 0.0, m.has != nil
	if m.has != nil {
		for i := range m.has.Shares {
			used := g.v.Used(m.has.Shares[i].Device)
			known = known && used.Known
			sum += used.Use
		}
		if known {
			return sum / float64(len(m.has.Shares))
		}
	}
	if h := m.j.Spec().Hints; h != nil && h.GPUUse > 0 {
		return h.GPUUse
	}
	return -1
}

// serveOthers starts jobs that cannot take turns, in the order in which they came,
// where GPUs are idle. Jobs that have grown make room for them.
func (g *policy) serveOthers() {
	g.wanted = false
	for _, m := range g.others {
		if why := g.p.Never(m.j.ID, place.Pack); why.Code != job.NoReason {
			g.p.Wait(m.j.ID, why)
			continue
		}
		before := g.p.Alloc(m.j.ID)
		ok := g.p.Start(m.j.ID, place.Pack)
		if !ok && g.shrinkAll(m.j.Pool()) {
			ok = g.p.Start(m.j.ID, place.Pack)
		}
		g.wanted = g.wanted || !ok
		if ok && before == nil {
			g.occupy(g.p.Alloc(m.j.ID))
		}
	}
}

// occupy takes what others have got off what the groups of servers have.
func (g *policy) occupy(a *cluster.Alloc) {
	shares := a.Shares
	for _, p := range a.Pieces {
		if s := g.at[p.Node]; s != nil {
			s.held = true
			s.room.cpu -= p.CPU
			s.room.memory -= p.Memory
			for _, share := range shares[:p.Shares] {
				if c := g.v.Cluster(); !c.Type(c.TypeOf(share.Device)).Host {
					s.room.gpus -= int((share.Milli + 999) / 1000)
				}
			}
		}
		shares = shares[p.Shares:]
	}
}

// fill starts groups that wait where GPUs are free, in the order of the lists.
func (g *policy) fill() {
	for _, s := range g.servers {
		for _, k := range s.groups {
			if k.ready() {
				k.runs = g.start(s, k)
			}
		}
	}
}

// start starts a group on its server. Jobs that have grown there make room.
func (g *policy) start(s *server, k *group) bool {
	m := k.lead
	if !g.frozen(m) && !g.makeRoom(s, m) {
		return false
	}
	if !g.p.Start(m.j.ID, &g.exact) {
		if !g.frozen(m) {
			k.why = g.p.Why()
		}
		return false
	}
	if k.guest == nil {
		return true
	}
	beside := g.p.Try(func() bool { return g.squeezeIn(k.guest, m) })
	if !beside { // it has a turn of its own
		guest := k.guest
		k.guest, guest.note.link = nil, apart
		g.keep(guest)
		g.add(s, g.groupOf(guest))
	}
	return true
}

// makeRoom finds GPUs for a job on a server, where jobs that have grown give some back
// if need be.
func (g *policy) makeRoom(s *server, m *member) bool {
	return g.choose(s, m) || g.shrink(s) && g.choose(s, m)
}

// choose finds GPUs for a job on its server; the answer is in g.exact.
func (g *policy) choose(s *server, m *member) bool {
	c, role := g.v.Cluster(), &m.j.Spec().Demand.Roles[0]
	class, a := g.v.Class(m.j.Class()), &g.exact.alloc
	a.Reset()
	need := m.size
	for _, n := range s.nodes {
		most := g.tasksOn(n, role, need)
		piece := cluster.Piece{Node: n}
		for _, gid := range c.NodeGroups(n) {
			t := c.GroupType(gid)
			take := min(most-int(piece.Tasks), c.GroupFree(gid))
			if take <= 0 || c.Type(t).Host || !class.Mask.Has(t) || c.Type(t).Memory > 0 && role.GPUMemory > c.Type(t).Memory {
				continue
			}
			had := len(a.Shares)
			a.Shares = c.AppendWhole(a.Shares, gid, take, role.GPUMemory)
			piece.Tasks += int32(take)
			piece.Shares += int32(len(a.Shares) - had)
		}
		if piece.Tasks > 0 {
			piece.CPU, piece.Memory = role.CPU*unit.Milli(piece.Tasks), role.Memory*unit.Bytes(piece.Tasks)
			a.Pieces = append(a.Pieces, piece)
			need -= int(piece.Tasks)
		}
	}
	return need == 0
}

// tasksOn is how many tasks the CPUs and the memory of a node suffice for.
func (g *policy) tasksOn(n cluster.NodeID, role *job.Role, most int) int {
	return g.v.Cluster().TasksBeside(n, role.CPU, role.Memory, most)
}

// explain tells those who wait why, and notes where anybody waits for a turn.
func (g *policy) explain() {
	for _, s := range g.servers {
		s.waits = false
		for _, k := range s.groups {
			if k.runs || k.away {
				continue
			}
			s.waits = s.waits || !k.gone
			why := k.why
			if why.Code != job.Occupied {
				why = job.Reason{Code: job.Because, Job: job.None, Text: g.waitsFor(s)}
			}
			for _, m := range [...]*member{k.lead, k.guest} {
				if m != nil {
					g.p.Wait(m.j.ID, why)
				}
			}
		}
	}
}

// waitsFor says what a group waits for.
func (g *policy) waitsFor(s *server) string {
	text, known := g.texts[s.first()]
	if !known {
		text = "waits for its turn on " + cmp.Or(g.v.Cluster().Node(s.first()).Name, "its node")
		if g.texts == nil {
			g.texts = map[cluster.NodeID]string{}
		}
		g.texts[s.first()] = text
	}
	return text
}
