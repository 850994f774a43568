package sleep

import (
	"cmp"
	"slices"
	"time"

	"github.com/norn-scheduler/norn/cluster"
	"github.com/norn-scheduler/norn/sched"
)

// sleeper sends nodes to sleep at the ends of steps, and wakes them as soon as they are needed.
type sleeper struct {
	period time.Duration
	buffer int
	keep   int
	cut    func(s *sleeper, awake, peak, used int) int // how many nodes go to sleep: of those awake, by the use of the step and that at its end

	began  bool
	ends   time.Duration // the present step
	peak   int           // its use so far
	uses   []float64     // of the steps before it
	stable int           // the step before which no node sleeps
	idle   []idle        // by node
	needs  needs
	model  forecast
}

// idle is for how many steps a node has been idle.
type idle struct {
	node  cluster.NodeID
	steps int
}

// NextWake implements sched.Sleeper: the end of the step.
func (s *sleeper) NextWake(*sched.View) time.Duration { return s.ends }

// Power implements sched.Sleeper.
func (s *sleeper) Power(v *sched.View, out []sched.PowerOrder) []sched.PowerOrder {
	c := v.Cluster()
	used := cluster.BusyNodes(c) + s.needs.look(v)
	s.peak = max(s.peak, used)
	if len(s.needs.wake) > 0 {
		s.stable = len(s.uses) + s.keep
		out = s.wakes(c, used, out)
	}
	switch {
	case !s.began:
		s.began, s.ends = true, v.Now
	case v.Now < s.ends:
		return out
	}
	s.watch(c)
	if len(out) == 0 {
		out = s.sends(s.cut(s, awake(c), s.peak, used), out)
	}
	for ; s.ends <= v.Now; s.ends += s.period {
		s.uses = append(s.uses, float64(s.peak))
		s.peak = used
	}
	return out
}

// awake is the number of nodes that are awake, or will be.
func awake(c *cluster.Cluster) (n int) {
	for id := range cluster.NodeID(c.Nodes()) {
		if c.Health(id) == cluster.Up && c.Power(id) != cluster.Asleep {
			n++
		}
	}
	return n
}

// wakes wakes the nodes that are needed, and a buffer.
func (s *sleeper) wakes(c *cluster.Cluster, used int, out []sched.PowerOrder) []sched.PowerOrder {
	for _, id := range s.needs.wake {
		out = append(out, sched.PowerOrder{Node: id})
	}
	more := used + s.buffer - awake(c) - len(out)
	for id := range cluster.NodeID(c.Nodes()) {
		if more <= 0 {
			break
		}
		if c.Health(id) == cluster.Up && c.Power(id) == cluster.Asleep && !slices.Contains(s.needs.wake, id) {
			out = append(out, sched.PowerOrder{Node: id})
			more--
		}
	}
	return out
}

// watch counts for how long nodes have been idle. One that a waiting job needs is not.
func (s *sleeper) watch(c *cluster.Cluster) {
	for len(s.idle) < c.Nodes() {
		s.idle = append(s.idle, idle{node: cluster.NodeID(len(s.idle))})
	}
	for i := range s.idle {
		n := &s.idle[i]
		if n.steps++; !c.Usable(n.node) || c.Busy(n.node) {
			n.steps = 0
		}
	}
	for _, t := range s.needs.taken {
		s.idle[t.node].steps = 0
	}
}

// sends sends so many idle nodes to sleep: those that have been idle for longest, then those of the
// highest numbers.
func (s *sleeper) sends(n int, out []sched.PowerOrder) []sched.PowerOrder {
	if n <= 0 {
		return out
	}
	all := slices.DeleteFunc(slices.Clone(s.idle), func(i idle) bool { return i.steps == 0 })
	slices.SortFunc(all, func(a, b idle) int { return cmp.Or(cmp.Compare(b.steps, a.steps), cmp.Compare(b.node, a.node)) })
	for _, i := range all[:min(n, len(all))] {
		out = append(out, sched.PowerOrder{Node: i.node, Sleep: true})
	}
	return out
}
