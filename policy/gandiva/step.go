package gandiva

import (
	"cmp"
	"slices"

	"github.com/norn-scheduler/norn/cluster"
	"github.com/norn-scheduler/norn/cluster/unit"
	"github.com/norn-scheduler/norn/job"
	"github.com/norn-scheduler/norn/policy/kit/beside"
	"github.com/norn-scheduler/norn/sched"
)

// steps is the policy as it decides without a survey of all jobs.
type steps struct{ *policy }

// rests tells whether a decision leaves a state in which nothing is to be done until a job
// comes or the policy looks for something better. All jobs have GPUs, in their servers for
// themselves or as pairs, or on parts of several nodes, and none is leaving, is measured, or
// has grown. The next decision then knows the servers of all jobs, and need not survey them.
func (g steps) rests() bool {
	if len(g.others)+len(g.p.Waits()) > 0 || g.again || g.active.Len() != len(g.members) {
		return false
	}
	g.mixed = false
	for _, s := range g.servers {
		if s.load > s.room.gpus {
			return false
		}
	}
	for i := range g.members {
		m := &g.members[i]
		if g.lies(m) {
			continue
		}
		if !g.isSpread(m) && !g.isPaired(m) {
			return false
		}
		g.mixed = true
	}
	return true
}

// isSpread tells whether a job runs on parts of several nodes, and stays there.
func (g steps) isSpread(m *member) bool {
	return m.plain && m.note.parts && m.group == nil && g.stays(m) && m.has.Nodes() > 1 && g.v.Cluster().UsableAlloc(m.has)
}

// isPaired tells whether a job is one of a pair that stays together.
func (g steps) isPaired(m *member) bool {
	k := m.group
	if k == nil && m.note.link == paired {
		if host := g.member(m.note.with); host != nil {
			k = host.group
		}
	}
	if k == nil || k.home == nil || !k.runs || k.guest == nil || k.trial || k.away || k.gone || k.lead != m && k.guest != m {
		return false
	}
	return k.lead.plain && k.guest.plain && k.guest.note.link == paired && !k.lead.note.parts && g.stays(k.lead) && g.stays(k.guest)
}

// stays tells whether a job held what it asks for as the decision began, and still does.
func (g steps) stays(m *member) bool {
	return m.has != nil && m.note.link != trying && m.has.Tasks(0) == m.size && g.p.Alloc(m.j.ID) == m.has
}

// lies tells whether a job has GPUs of its server for itself, and stays there.
func (g steps) lies(m *member) bool {
	k, on := m.group, g.p.Alloc(m.j.ID)
	if k == nil || k.home == nil || !k.runs || k.guest != nil || k.away || k.gone || !m.plain || on == nil || m.note.parts {
		return false
	}
	if m.note.link == trying || m.note.link == paired || m.grown() || on.Tasks(0) != m.size {
		return false
	}
	return !slices.ContainsFunc(on.Shares, func(s cluster.Share) bool { return s.Milli < beside.Whole })
}

// step decides about jobs that have come to a policy at rest, have failed and wait again, or
// have left, and sees that there is nothing better to do. It tells whether it has; if not,
// nothing has been decided, and a survey is needed.
func (g steps) step() bool {
	if !g.resting || g.v.First || g.v.NodesChanged() || !g.follows() || !g.changes() || g.due() && !g.isBest() {
		return false
	}
	g.wanted, g.again = false, false
	g.turnStopped()
	g.housing()
	g.relieve()
	if len(g.queue) > 1 || len(g.stopped) > 0 {
		g.fill()
	} else if len(g.queue) == 1 && g.queue[0].group != nil {
		k := g.queue[0].group
		k.runs = g.start(k.home, k)
	}
	g.resting = g.stillRests()
	if g.resting {
		g.wake = unit.Never
		if g.active.Len() > 0 && g.cfg.Every < unit.Never {
			g.wake = g.nextLook()
		}
	} else {
		g.explain()
		g.wake = g.nextMoment()
	}
	if g.resting {
		g.rememberTouched()
	} else {
		g.remember()
	}
	return true
}

// stillRests is rests where only the jobs of the queue and those that had stopped are new.
func (g steps) stillRests() bool {
	restless := func(m *member) bool { return !g.lies(m) }
	return len(g.high)+len(g.p.Waits()) == 0 && !slices.ContainsFunc(g.queue, restless) && !slices.ContainsFunc(g.stopped, restless)
}

// isBest tells whether a policy at rest that looks for something better would find nothing.
// Nobody has come, there are neither pairs nor gangs on parts of several nodes, no server can
// be emptied, and no job could grow.
func (g steps) isBest() bool {
	if g.mixed || len(g.queue)+len(g.stopped) > 0 {
		return false
	}
	for i := range g.members {
		m := &g.members[i]
		if _, most := m.j.Spec().Demand.Roles[0].Range(); g.cfg.Grow && m.group != nil && !m.note.vain && m.j.Tasks() < int(most) {
			return false
		}
	}
	return !slices.ContainsFunc(g.servers, func(s *server) bool { return s.mayEmpty(g.cfg.Defrag) && g.refuges(s) != nil })
}

// turnStopped ends the turns of those who have had a quantum beside jobs that had stopped.
func (g steps) turnStopped() {
	slices.SortFunc(g.stopped, func(a, b *member) int {
		return cmp.Or(cmp.Compare(a.group.home.first(), b.group.home.first()), cmp.Compare(a.j.ID, b.j.ID))
	})
	last := (*server)(nil)
	for _, m := range g.stopped {
		s := m.group.home
		if s == last {
			continue
		}
		last = s
		for _, k := range s.groups {
			k.lead.j = g.v.Job(k.lead.j.ID)
		}
		slices.SortFunc(s.groups, before)
		g.rotateOn(s)
	}
}

// rememberTouched writes down what has changed of the notes of the jobs that were decided about
// and of those beside them.
func (g steps) rememberTouched() {
	touched := slices.Clone(g.queue)
	for _, m := range g.stopped {
		for _, k := range m.group.home.groups {
			touched = append(touched, k.lead)
		}
	}
	slices.SortFunc(touched, func(a, b *member) int { return cmp.Compare(a.j.ID, b.j.ID) })
	for _, m := range touched {
		g.rememberOf(m)
	}
}

// follows takes in who was placed since the last decision: only the jobs that it started.
func (g steps) follows() bool {
	placed := g.v.Placed()
	for ; g.placed < len(placed); g.placed++ {
		id := placed[g.placed]
		if !g.v.Covers(g.v.Job(id)) {
			continue
		}
		m := g.member(id)
		if m == nil || m.has != nil || !g.v.Job(id).Running() {
			return false
		}
		m.has = g.v.Alloc(id)
	}
	return true
}

// changes takes in who has come, who has left, and whose attempt has failed. Those who have
// come are in the queue.
func (g steps) changes() bool {
	g.queue, g.stopped = g.queue[:0], g.stopped[:0]
	for _, ch := range g.v.Changes() {
		switch m := g.member(ch.Job); ch.Kind {
		case sched.Altered:
		case sched.Ended:
			if m == nil || m.group == nil || len(m.group.home.nodes) > 1 || m.group.guest != nil || g.wholeNow(m.group.home) {
				return false
			}
			m.group.home.remove(m.group)
			m.group = nil
			g.place[ch.Job] = 0
			g.active.Remove(int(ch.Job))
		case sched.Stopped:
			if m == nil || !g.stops(m) {
				return false
			}
		case sched.Arrived:
			if m != nil || !g.arrives(g.v.Job(ch.Job)) {
				return false
			}
		default:
			return false
		}
	}
	slices.SortFunc(g.queue, func(a, b *member) int { return cmp.Compare(a.j.ID, b.j.ID) })
	return true
}

// wholeNow tells whether a gang on parts of several nodes has them whole, now that a job
// has left one of them.
func (g steps) wholeNow(s *server) bool {
	return s.held && slices.ContainsFunc(g.spread, func(m *member) bool {
		return slices.ContainsFunc(m.has.Pieces, func(p cluster.Piece) bool { return p.Node == s.first() }) && g.hasWhole(m)
	})
}

// stops takes a job off its GPUs that waits again, on the server on which it lives.
func (g steps) stops(m *member) bool {
	j, k := g.v.Job(m.j.ID), m.group
	isPair := func(k *group) bool { return k.guest != nil }
	if !j.Waiting() || k == nil || len(k.home.nodes) > 1 || k.home.held || slices.ContainsFunc(k.home.groups, isPair) || g.v.PinnedPlace(j.ID) != nil {
		return false
	}
	n, _ := sched.Recall[note](j)
	if n.stamp = min(n.stamp, g.v.Now); n.link == trying || n.link == paired || n.parts || n.home != k.home.first() || !g.canHold(k.home, m) {
		return false
	}
	m.j, m.note, m.changed, m.has = j, n, false, nil
	k.runs, k.why = false, job.Reason{}
	if !slices.Contains(g.stopped, m) {
		g.stopped = append(g.stopped, m)
	}
	return true
}

// arrives lists a job that has come, if it is like any other and there is room in the
// list.
func (g steps) arrives(j sched.Job) bool {
	if len(g.members) == cap(g.members) || !j.Waiting() || !plain(j) || g.v.PinnedPlace(j.ID) != nil {
		return false
	}
	n, noted := sched.Recall[note](j)
	if noted {
		return false
	}
	for len(g.place) < g.v.Jobs() {
		g.place = append(g.place, make([]int32, max(1024, g.v.Jobs()-len(g.place)))...)
	}
	n.stamp = min(n.stamp, g.v.Now)
	g.members = append(g.members, member{j: j, plain: true, note: n, size: j.GPUs()})
	m := &g.members[len(g.members)-1]
	g.place[j.ID] = int32(len(g.members))
	g.active.Add(int(j.ID))
	g.queue = append(g.queue, m)
	return g.served(m)
}

// remember writes down what has changed of the notes.
func (g *policy) remember() {
	for i := range g.members {
		g.rememberOf(&g.members[i])
	}
}

func (g *policy) rememberOf(m *member) {
	if m.changed {
		m.changed = false
		g.p.Remember(m.j.ID, &m.note)
	}
}

// roomToCome is how many more jobs may come to a policy at rest until it surveys all again.
const roomToCome = 256
