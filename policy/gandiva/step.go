package gandiva

import (
	"cmp"
	"slices"

	"github.com/norn-scheduler/norn/cluster"
	"github.com/norn-scheduler/norn/cluster/unit"
	"github.com/norn-scheduler/norn/policy/kit/beside"
	"github.com/norn-scheduler/norn/sched"
)

// steps is the policy as it decides without a survey of all jobs.
type steps struct{ *policy }

// rests tells whether a decision leaves a state in which nothing is to be done until
// a job comes or the policy looks for something better. All jobs have GPUs of one server
// for themselves, and none is leaving, is measured, or has grown. Who lives where
// is then known to the next decision, which need not survey all jobs.
func (g steps) rests() bool {
	if len(g.others)+len(g.spread)+len(g.p.Waits()) > 0 || g.again || g.active.Len() != len(g.members) {
		return false
	}
	for _, s := range g.servers {
		if s.held || s.load > s.room.gpus {
			return false
		}
	}
	for i := range g.members {
		if !g.lies(&g.members[i]) {
			return false
		}
	}
	return true
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

// step decides about jobs that have come to a policy at rest, or left. It tells whether it
// has; if not, nothing has been decided, and a survey is needed.
func (g steps) step() bool {
	if !g.resting || g.v.First || g.v.NodesChanged() || g.due() || !g.follows() || !g.changes() {
		return false
	}
	g.wanted, g.again = false, false
	g.housing()
	g.relieve()
	if len(g.queue) > 1 {
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
		for _, m := range g.queue {
			g.rememberOf(m)
		}
	} else {
		g.remember()
	}
	return true
}

// stillRests is rests where only the jobs of the queue are new.
func (g steps) stillRests() bool {
	return len(g.high)+len(g.p.Waits()) == 0 && !slices.ContainsFunc(g.queue, func(m *member) bool { return !g.lies(m) || m.group.home.held })
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

// changes takes in who has come and who has left. Those who have come are in
// the queue.
func (g steps) changes() bool {
	g.queue = g.queue[:0]
	for _, ch := range g.v.Changes() {
		switch m := g.member(ch.Job); ch.Kind {
		case sched.Altered:
		case sched.Ended:
			if m == nil || m.group == nil || len(m.group.home.nodes) > 1 {
				return false
			}
			m.group.home.remove(m.group)
			m.group = nil
			g.place[ch.Job] = 0
			g.active.Remove(int(ch.Job))
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
