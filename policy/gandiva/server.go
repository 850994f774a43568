package gandiva

import (
	"cmp"
	"math"
	"slices"
	"time"

	"github.com/norn-scheduler/norn/cluster"
	"github.com/norn-scheduler/norn/cluster/unit"
	"github.com/norn-scheduler/norn/job"
	"github.com/norn-scheduler/norn/sched"
)

// member is an active job that can take turns.
type member struct {
	j       sched.Job
	plain   bool // it can take turns, see plain
	note    note
	changed bool           // the note
	size    int            // GPUs it asks for
	has     *cluster.Alloc // what it holds as the decision began; nil: nothing
	group   *group         // that it leads; nil: none
}

// group is what takes turns.
type group struct {
	lead  *member
	guest *member // nil: the lead has its GPUs for itself
	trial bool    // the two are being measured
	home  *server
	runs  bool       // it has its GPUs, as the plan stands
	away  bool       // it is being tried beside another group, and counts here as before
	gone  bool       // it is leaving its devices
	why   job.Reason // for which it was not started on its server, though its turn has come
	stays bool       // it is among those that run next, as its server is turned
}

// server is where groups live.
type server struct {
	nodes  []cluster.NodeID
	pool   cluster.PoolID
	room   room // what its groups have together
	load   int  // GPUs that they ask for
	groups []*group
	held   bool // others have a part of it
	gone   bool // it has become part of another one
	waits  bool // a group waits for its turn

	// affinity is the size of jobs that it is for: that of the job which was submitted
	// first of those that live there; 0 when none does.
	affinity int
	eldest   job.ID
}

// room is what a server has to give.
type room struct {
	gpus   int
	cpu    unit.Milli
	memory unit.Bytes
	counts [2]bool // CPUs, memory: whether they are accounted
}

// first is the node that a server is known by.
func (s *server) first() cluster.NodeID { return s.nodes[0] }

// height tells how many times over a server is asked for, rounded up.
func (s *server) height() int {
	if s.load == 0 {
		return 0
	}
	return (s.load + max(s.room.gpus, 1) - 1) / max(s.room.gpus, 1)
}

// idle is the GPUs that nobody who lives there asks for.
func (s *server) idle() int { return s.room.gpus - s.load }

// survey finds out who lives where.
func (g *policy) survey() {
	g.findServers()
	g.findMembers()
	g.findSets()
	for i := range g.members {
		if m := &g.members[i]; m.note.link == trying || m.note.link == paired {
			g.checkPair(m)
		}
	}
	for i := range g.members {
		g.settleIn(&g.members[i])
	}
	for i := range g.members {
		g.assign(&g.members[i])
	}
	for i := range g.members {
		g.assignGuest(&g.members[i])
	}
	slices.SortFunc(g.queue, func(a, b *member) int { return cmp.Compare(a.j.ID, b.j.ID) })
	for _, s := range g.servers {
		slices.SortFunc(s.groups, before)
	}
}

// before orders the list of a server.
func before(a, b *group) int {
	last := func(k *group) int {
		if k.runs {
			return 1
		}
		return 0
	}
	return cmp.Or(cmp.Compare(a.lead.note.stamp, b.lead.note.stamp), cmp.Compare(last(a), last(b)), cmp.Compare(a.lead.j.ID, b.lead.j.ID))
}

// findServers makes a server of each node that is in use, with what is free there.
func (g *policy) findServers() {
	c := g.v.Cluster()
	g.made.servers, g.servers, g.at = 0, g.servers[:0], slices.Grow(g.at[:0], c.Nodes())[:c.Nodes()]
	clear(g.at)
	for pool := range g.v.EachPool() {
		for _, n := range c.PoolNodes(pool) {
			if !c.Usable(n) {
				continue
			}
			s := g.newServer(n, pool)
			s.room.gpus = c.NodeFreeGPUs(n, c.GPUMask())
			s.room.cpu, s.room.counts[0] = c.CPUFree(n)
			s.room.memory, s.room.counts[1] = c.MemoryFree(n)
			over := c.Overbooked(n) // which take gives to the jobs there
			s.room.cpu, s.room.memory = s.room.cpu-over.CPU, s.room.memory-over.Memory
			g.servers, g.at[n] = append(g.servers, s), s
		}
	}
	slices.SortFunc(g.servers, func(a, b *server) int { return cmp.Compare(a.first(), b.first()) })
}

// made is the servers and groups of decisions so far, which are made use of again, and
// how many of them this one has taken.
type made struct {
	allServers []*server
	allGroups  []*group
	servers    int
	groups     int
}

// newServer is a server of one node without groups.
func (g *policy) newServer(n cluster.NodeID, pool cluster.PoolID) *server {
	if g.made.servers == len(g.made.allServers) {
		g.made.allServers = append(g.made.allServers, &server{})
	}
	s := g.made.allServers[g.made.servers]
	g.made.servers++
	*s = server{nodes: append(s.nodes[:0], n), pool: pool, groups: s.groups[:0]}
	return s
}

// newGroup lists a group of one.
func (g *policy) newGroup(lead *member) *group {
	if g.made.groups == len(g.made.allGroups) {
		g.made.allGroups = append(g.made.allGroups, &group{})
	}
	k := g.made.allGroups[g.made.groups]
	g.made.groups++
	*k = group{lead: lead}
	g.groups = append(g.groups, k)
	return k
}

// findMembers lists the active jobs.
func (g *policy) findMembers() {
	for i := range g.members {
		g.place[g.members[i].j.ID] = 0
	}
	g.members, g.groups, g.made.groups = g.members[:0], g.groups[:0], 0
	g.spread, g.others, g.queue = g.spread[:0], g.others[:0], g.queue[:0]
	if g.v.NodesChanged() {
		g.serves = g.serves[:0]
	}
	for len(g.place) < g.v.Jobs() {
		g.place = append(g.place, make([]int32, max(1024, g.v.Jobs()-len(g.place)))...)
	}
	g.members = slices.Grow(g.members, g.active.Len()+roomToCome) // so that pointers to them hold
	for i := range g.active.All() {
		j := g.v.Job(job.ID(i))
		if !j.Waiting() && !j.Running() && j.Phase() != job.Stopping {
			continue
		}
		n, _ := sched.Recall[note](j)
		g.members = append(g.members, member{j: j, plain: plain(j), note: n, size: j.GPUs()})
		g.place[i] = int32(len(g.members))
		m := &g.members[len(g.members)-1]
		m.plain = m.plain && g.served(m)
		if m.note.stamp = min(m.note.stamp, g.v.Now); j.Running() {
			m.has = g.v.Alloc(j.ID)
			m.note.parts = m.note.parts && m.has.Nodes() > 1
		}
	}
}

// member is an active job by its number; nil for one that has ended, or is not known.
func (g *policy) member(id job.ID) *member {
	if id < 0 || int(id) >= len(g.place) || g.place[id] == 0 {
		return nil
	}
	return &g.members[g.place[id]-1]
}

// keep sees to it that what is noted of a job is remembered.
func (g *policy) keep(m *member) { m.changed = true }

// findSets makes one server of the nodes that a gang has whole.
func (g *policy) findSets() {
	merged := false
	for i := range g.members {
		m := &g.members[i]
		if m.has == nil || !m.plain || m.has.Nodes() < 2 {
			continue
		}
		if parts := !g.hasWhole(m); parts != m.note.parts {
			m.note.parts = parts
			g.keep(m)
		}
		if m.note.parts {
			continue
		}
		g.nodes = g.nodes[:0]
		for _, p := range m.has.Pieces {
			g.nodes = append(g.nodes, p.Node)
		}
		g.merge(g.nodes)
		merged = true
	}
	if merged {
		g.dropMerged()
	}
}

// hasWhole tells whether a running gang of several nodes has them whole: as it was
// housed, or because it is larger than any node, needs each of them, and nobody else
// has GPUs there.
func (g *policy) hasWhole(m *member) bool {
	c := g.v.Cluster()
	if !c.UsableAlloc(m.has) {
		return false
	}
	if m.note.home >= 0 && !m.note.parts {
		return true
	}
	all, least := 0, math.MaxInt
	for _, p := range m.has.Pieces {
		n := c.NodeGPUs(p.Node)
		if c.NodeFreeGPUs(p.Node, c.GPUMask())+int(p.Tasks) < n {
			return false
		}
		all, least = all+n, min(least, n)
	}
	return m.size > c.MaxNodeGPUs(g.v.Scope(m.j), g.v.Class(m.j.Class()).Mask) && all-least < m.size
}

// merge makes one server of several; the others are listed until dropMerged.
func (g *policy) merge(nodes []cluster.NodeID) *server {
	slices.Sort(nodes)
	first := g.at[nodes[0]]
	for _, n := range nodes[1:] {
		s := g.at[n]
		if s == first {
			continue
		}
		first.nodes = append(first.nodes, s.nodes...)
		first.room.gpus += s.room.gpus
		first.room.cpu += s.room.cpu
		first.room.memory += s.room.memory
		first.held = first.held || s.held
		g.at[n], s.gone = first, true
	}
	return first
}

func (g *policy) dropMerged() {
	g.servers = slices.DeleteFunc(g.servers, func(s *server) bool { return s.gone })
}

// checkPair takes a pair apart that is none any more.
func (g *policy) checkPair(m *member) {
	host := g.member(m.note.with)
	good := host != nil && m.plain && host.plain && host.note.link != trying && host.note.link != paired
	if good {
		switch {
		case m.has != nil && host.has != nil:
			good = sameDevices(m.has, host.has)
		case m.has == nil && host.has == nil:
			good = m.note.link == paired && m.note.home == host.note.home
		default:
			good = false
		}
	}
	if good {
		return
	}
	if m.note.link = apart; host != nil && (m.j.OutOfMemory() || host.j.OutOfMemory()) {
		m.note.link = failed
	}
	g.keep(m)
}

// sameDevices tells whether two jobs have the same devices.
func sameDevices(a, b *cluster.Alloc) bool {
	return slices.EqualFunc(a.Shares, b.Shares, func(x, y cluster.Share) bool { return x.Device == y.Device })
}

// settleIn puts a running job where it lives, and sorts out who cannot take turns.
func (g *policy) settleIn(m *member) {
	switch {
	case !m.plain || m.note.parts && m.has != nil || m.has != nil && !g.v.Cluster().UsableAlloc(m.has):
		g.holdOff(m)
	case m.has != nil:
		g.settleRunning(m)
	}
}

// assign puts a job without GPUs where it lives, now that all servers are known.
func (g *policy) assign(m *member) {
	if m.has != nil || !m.plain || m.note.link == paired {
		return
	}
	if s := g.homeOf(m); s != nil {
		g.add(s, g.groupOf(m))
	} else if m.j.Waiting() {
		g.queue = append(g.queue, m)
	}
}

// lodgeGuest puts it beside its host.
func (g *policy) assignGuest(m *member) {
	if m.has != nil || !m.plain || m.note.link != paired {
		return
	}
	if host := g.member(m.note.with); host.group != nil && host.group.home != nil {
		host.group.guest = m
		host.group.gone = host.group.gone || m.j.Phase() == job.Stopping
		return
	}
	m.note.link = apart
	g.keep(m)
	g.assign(m)
}

// holdOff notes that others than groups have a part of servers.
func (g *policy) holdOff(m *member) {
	if m.has == nil {
		if m.j.Waiting() {
			g.others = append(g.others, m)
		}
		return
	}
	for _, p := range m.has.Pieces {
		if s := g.at[p.Node]; s != nil {
			s.held = true
		}
	}
	if m.plain && m.note.parts {
		g.spread = append(g.spread, m)
	}
}

// settleRunning puts a running job onto the server that it is on, or beside its host.
func (g *policy) settleRunning(m *member) {
	s := g.at[m.has.Pieces[0].Node]
	s.take(m.has, m.note.link != trying && m.note.link != paired)
	switch m.note.link {
	case paired, trying:
		k := g.groupOf(g.member(m.note.with))
		k.guest, k.trial = m, m.note.link == trying
		if old := g.homeOf(m); k.trial && old != nil {
			away := g.newGroup(m)
			away.away = true
			g.add(old, away)
		}
		return
	}
	if m.note.home != s.first() {
		m.note.home = s.first()
		g.keep(m)
	}
	k := g.groupOf(m)
	k.runs = true
	g.add(s, k)
}

// take counts what a running job of a group holds as what the groups have.
func (s *server) take(a *cluster.Alloc, gpus bool) {
	for _, p := range a.Pieces {
		s.room.cpu += p.CPU
		s.room.memory += p.Memory
	}
	if gpus {
		s.room.gpus += a.Tasks(0)
	}
}

// groupOf is the group that a job leads, made when there is none yet.
func (g *policy) groupOf(m *member) *group {
	if m.group == nil {
		m.group = g.newGroup(m)
		m.group.gone = m.j.Phase() == job.Stopping
	}
	return m.group
}

func (g *policy) add(s *server, k *group) {
	k.home = s
	s.groups = append(s.groups, k)
	s.count(k)
}

// count counts a group that lives on a server.
func (s *server) count(k *group) {
	if s.load == 0 || k.lead.j.ID < s.eldest {
		s.eldest, s.affinity = k.lead.j.ID, k.lead.size
	}
	s.load += k.lead.size
}

// remove takes a group off a server.
func (s *server) remove(k *group) {
	s.groups = slices.DeleteFunc(s.groups, func(o *group) bool { return o == k })
	s.load, s.affinity = 0, 0
	for _, o := range s.groups {
		s.count(o)
	}
}

// homeOf is the server on which a job without GPUs lives, or nil.
func (g *policy) homeOf(m *member) *server {
	n := m.note.home
	if n < 0 || int(n) >= len(g.at) || m.note.parts || g.at[n] == nil {
		return nil
	}
	if s := g.at[n]; s.first() == n && s.pool == m.j.Pool() && g.canHold(s, m) {
		return s
	}
	return nil
}

// canHold tells whether a server could have a job if nobody else lived there.
func (g *policy) canHold(s *server, m *member) bool {
	role := &m.j.Spec().Demand.Roles[0]
	if m.size > s.room.gpus {
		return false
	}
	tasks := unit.Milli(m.size)
	if s.room.counts[0] && role.CPU*tasks > s.room.cpu || s.room.counts[1] && role.Memory*unit.Bytes(tasks) > s.room.memory {
		return false
	}
	return !slices.ContainsFunc(s.nodes, func(n cluster.NodeID) bool { return !g.accepts(m, n) })
}

// accepts tells whether a job may have any of the GPUs of a node, by its labels, their
// types and their memory.
func (g *policy) accepts(m *member, n cluster.NodeID) bool {
	c, class, any := g.v.Cluster(), g.v.Class(m.j.Class()), false
	for _, gid := range c.NodeGroups(n) {
		t := c.GroupType(gid)
		if c.Type(t).Host {
			continue
		}
		if has := c.Type(t).Memory; !class.Mask.Has(t) || has > 0 && m.j.Spec().Demand.Roles[0].GPUMemory > has {
			return false
		}
		any = true
	}
	return any && !class.NoType && c.In(n, class.Scope)
}

// served tells whether any node, however it stands, is a server for a job. A
// job that may have only some of the GPUs of each lives nowhere.
func (g *policy) served(m *member) bool {
	class := int(m.j.Class())
	for len(g.serves) <= class {
		g.serves = append(g.serves, 0)
	}
	if g.serves[class] == 0 {
		g.serves[class] = -1
		if slices.ContainsFunc(g.v.Cluster().PoolNodes(m.j.Pool()), func(n cluster.NodeID) bool { return g.accepts(m, n) }) {
			g.serves[class] = 1
		}
	}
	return g.serves[class] > 0
}

// turnEnds is when the turn of a running group ends.
func (g *policy) turnEnds(k *group) time.Duration {
	if k.lead.j.Phase() != job.Running {
		return unit.Never
	}
	return g.turnEndsFrom(max(k.lead.j.Since(), k.lead.note.stamp), k)
}

// turnEndsFrom is when a turn ends that begins at a moment: after a quantum, but not
// before half of it was spent on work.
func (g *policy) turnEndsFrom(begins time.Duration, k *group) time.Duration {
	if g.cfg.Quantum >= unit.Never {
		return unit.Never
	}
	j, turn := k.lead.j, g.cfg.Quantum
	if g.cfg.Weights {
		turn *= time.Duration(1 + min(max(0, j.Spec().Priority), 1000))
	}
	return begins + max(turn, 2*g.v.Costs.Begin(j.Spec(), k.lead.size, j.Preemptions() == 0, false))
}
