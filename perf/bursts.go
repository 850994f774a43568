package perf

import (
	"math"
	"slices"

	"github.com/norn-scheduler/norn/cluster"
	"github.com/norn-scheduler/norn/job"
)

// Most senders that are followed iteration by iteration, and how many iterations of each.
const (
	mostTogether                          = 64
	leastIterations, mostIterations, each = 10, 100, 600
)

// drift is the part of a period by which a job may begin an iteration later than it was told before it waits for
// the next moment at which it should: 5 % (CASSINI, NSDI 2024). An iteration that took longer by more than that,
// since others sent, too, is followed by the next at once.
const drift = 0.05

// timing is how a sender goes through its iterations.
type timing struct {
	iteration float64 // seconds, when it sends as fast as it can; 0: it sends all the time
	bursts    job.Bursts
	shift     float64 // of the start of its first iteration, in seconds
	period    float64 // in which it was told to begin one, in seconds; 0: it was told nothing
	takes     float64 // seconds of an iteration beside the others
}

// timingOf is that of a job that was told such a beat. One that was told none begins its first iteration at a moment
// of its own, which its number draws.
func timingOf(j *job.Job, b cluster.Beat) timing {
	h := j.Hints
	if h == nil || h.Bursts.Len() == 0 || h.Bursts.Check(h.Iteration) != nil {
		return timing{}
	}
	t := timing{iteration: h.Iteration.Seconds(), bursts: h.Bursts, takes: h.Iteration.Seconds()}
	if t.period = b.Period.Seconds(); t.period > 0 {
		t.shift = b.Shift.Seconds()
	} else {
		x := uint64(j.ID)*0x9e3779b97f4a7c15 + 0x632be59bd9b4e019
		x ^= x >> 31
		x *= 0xbf58476d1ce4e5b9
		t.shift = float64(x>>11) / (1 << 53) * t.iteration
	}
	return t
}

// follow finds how long iterations take beside each other, where links are not fast enough for all that may send
// at once. Senders that such links connect are followed together, from iteration to iteration: whoever sends at a
// moment has its max-min share. Groups in which nothing has changed are left as they are.
func (n *Network) follow() {
	was := n.groups
	n.groups = nil
	if slices.ContainsFunc(n.senders, func(s *sender) bool { return s.iteration > 0 }) {
		n.groups = n.together()
	}
	for _, s := range n.senders {
		s.grouped = false
	}
	for _, g := range n.groups {
		for _, s := range g {
			s.grouped = true
		}
		if !slices.ContainsFunc(was, func(o []*sender) bool { return slices.Equal(o, g) }) {
			n.measure(g)
		}
	}
	for _, s := range n.senders {
		if !s.grouped {
			n.found(s, s.takes, s.rate)
		}
	}
}

// measure finds what the senders of a group come to.
func (n *Network) measure(g []*sender) {
	takes, rates := make([]float64, len(g)), make([]float64, len(g))
	switch {
	case len(g) == 1:
		takes[0], rates[0] = g[0].throughout(g[0].most), g[0].most
	case len(g) > mostTogether:
		for i, s := range g {
			takes[i], rates[i] = s.throughout(s.rate), s.rate
		}
	default:
		newCourse(n, g).run(takes, rates)
	}
	for i, s := range g {
		n.found(s, takes[i], rates[i])
	}
}

// found notes the time of an iteration of a sender, and its rate.
func (n *Network) found(s *sender, takes, rate float64) {
	if math.Abs(takes-s.takes) <= 1e-9*takes && math.Abs(rate-s.gets) <= 1e-9*rate { // but for rounding it is as it was
		return
	}
	s.takes, s.gets = takes, rate
	n.changed = append(n.changed, s.id)
}

// throughout is the time of an iteration if no flow is ever faster than so many GB/s.
func (s *sender) throughout(rate float64) float64 {
	takes := s.iteration
	for i := range s.bursts[:s.bursts.Len()] {
		b := &s.bursts[i]
		takes += (b.To - b.From).Seconds() * (max(1, b.GBps/rate) - 1)
	}
	return takes
}

// together divides the senders of which one at least sends in bursts into groups by the links that may be too slow
// for all of them. The others have what they have alone.
func (n *Network) together() (groups [][]*sender) {
	peaks := make([]float64, len(n.links))
	group := make([]int, len(n.senders)) // a forest: the index of another one of the group
	for i, s := range n.senders {
		group[i] = i
		for _, u := range s.uses {
			peaks[u.link] += u.flows * s.most
		}
	}
	root := func(i int) int {
		for group[i] != i {
			group[i] = group[group[i]]
			i = group[i]
		}
		return i
	}
	first := make(map[int32]int)
	for i, s := range n.senders {
		s.slow = s.slow[:0]
		for _, u := range s.uses {
			if peaks[u.link] <= n.links[u.link].gbps*(1+1e-9) {
				continue
			}
			s.slow = append(s.slow, u)
			if other, there := first[u.link]; there {
				a, b := root(other), root(i)
				group[max(a, b)] = min(a, b)
			} else {
				first[u.link] = i
			}
		}
	}
	at := make(map[int]int)
	for i, s := range n.senders {
		r := root(i)
		if _, there := at[r]; !there {
			at[r] = len(groups)
			groups = append(groups, nil)
		}
		groups[at[r]] = append(groups[at[r]], s)
	}
	return slices.DeleteFunc(groups, func(g []*sender) bool {
		return !slices.ContainsFunc(g, func(s *sender) bool { return s.iteration > 0 })
	})
}

// course is the senders of a group as they go through their iterations.
type course struct {
	links []float64 // GB/s of those that may be too slow
	all   []walker
	left  []float64 // scratch, as are the following
	flows []float64
	now   float64
}

// walker is a sender in the course.
type walker struct {
	*sender
	uses    []crossed // by the index of the link
	step    int       // 2k: computes before burst k, or at the end of the iteration; 2k+1: sends burst k
	left    float64   // seconds to compute, or GB to send
	rate    float64   // GB/s now; 0: it computes
	fixed   bool
	began   float64 // the iteration
	counted float64 // when the first iteration that counts began
	begun   int     // iterations
	done    int     // iterations
	sent    float64 // GB, of one that sends all the time
}

func newCourse(n *Network, g []*sender) *course {
	c := &course{}
	index := map[int32]int32{}
	for _, s := range g {
		w := walker{sender: s, left: s.shift}
		for _, u := range s.slow {
			k, there := index[u.link]
			if !there {
				k = int32(len(c.links))
				index[u.link] = k
				c.links = append(c.links, n.links[u.link].gbps)
			}
			w.uses = append(w.uses, crossed{k, u.flows})
		}
		w.step = -1 // waits for its first iteration
		c.all = append(c.all, w)
	}
	c.left, c.flows = make([]float64, len(c.links)), make([]float64, len(c.links))
	return c
}

// demand is the GB/s that a walker would send now; 0: it computes.
func (w *walker) demand() float64 {
	switch {
	case w.iteration == 0:
		return w.most
	case w.step > 0 && w.step%2 == 1:
		return min(w.most, w.bursts[w.step/2].GBps)
	}
	return 0
}

// run goes through the iterations, and tells the mean time of one, and the mean rate of those that send all the
// time. A fifth of the iterations come before those that count.
func (c *course) run(takes, rates []float64) {
	goal := min(mostIterations, max(leastIterations, each/len(c.all)))
	warm := goal / 5
	from := -1.0
	for events := 0; events < 64*goal*len(c.all); events++ {
		least := goal
		for i := range c.all {
			if c.all[i].iteration > 0 {
				least = min(least, c.all[i].done)
			}
		}
		if least == goal {
			break
		}
		if least >= warm && from < 0 {
			from = c.now
			for i := range c.all {
				c.all[i].sent = 0
			}
		}
		c.share()
		c.advance(warm)
	}
	for i := range c.all {
		w := &c.all[i]
		rates[i] = w.sender.rate
		switch n := w.begun - warm; {
		case w.iteration == 0 && from >= 0:
			rates[i] = w.sent / max(1e-12, c.now-from)
		case n > 0:
			takes[i] = max(w.iteration, (w.began-w.counted)/float64(n))
		default: // it has not come so far beside jobs of far shorter iterations
			takes[i] = w.throughout(w.sender.rate)
		}
	}
}

// share gives each walker that sends its max-min share.
func (c *course) share() {
	copy(c.left, c.links)
	clear(c.flows)
	growing := 0
	for i := range c.all {
		w := &c.all[i]
		w.rate = w.demand()
		if w.fixed = w.rate == 0; !w.fixed {
			growing++
			for _, u := range w.uses {
				c.flows[u.link] += u.flows
			}
		}
	}
	for growing > 0 {
		level := math.Inf(1)
		for k, f := range c.flows {
			if f > 1e-12 {
				level = min(level, c.left[k]/f)
			}
		}
		slow := false // somebody wants less than that
		for i := range c.all {
			if w := &c.all[i]; !w.fixed && w.rate <= level {
				c.freeze(w, w.rate)
				growing--
				slow = true
			}
		}
		if slow {
			continue
		}
		for i := range c.all {
			w := &c.all[i]
			if !w.fixed && slices.ContainsFunc(w.uses, func(u crossed) bool { return c.left[u.link] <= level*c.flows[u.link]*(1+1e-12) }) {
				c.freeze(w, level)
				growing--
			}
		}
	}
}

// freeze ends the growth of the flows of a walker.
func (c *course) freeze(w *walker, rate float64) {
	w.rate, w.fixed = rate, true
	for _, u := range w.uses {
		c.left[u.link] = max(0, c.left[u.link]-u.flows*rate)
		c.flows[u.link] -= u.flows
	}
}

// advance goes to the next moment at which a walker comes to its next step.
func (c *course) advance(warm int) {
	span := math.Inf(1)
	for i := range c.all {
		switch w := &c.all[i]; {
		case w.iteration == 0:
		case w.rate > 0:
			span = min(span, w.left/w.rate)
		case w.demand() == 0:
			span = min(span, w.left)
		}
	}
	c.now += span
	for i := range c.all {
		switch w := &c.all[i]; {
		case w.iteration == 0:
			w.sent += w.rate * span
			continue
		case w.rate > 0:
			w.left -= w.rate * span
		case w.demand() == 0:
			w.left -= span
		}
		for k := 0; c.all[i].left <= 1e-12 && k < 2*job.MaxBursts+2; k++ {
			c.all[i].next(c.now, warm)
		}
	}
}

// next has a walker begin its next step.
func (w *walker) next(now float64, warm int) {
	switch n := w.bursts.Len(); {
	case w.step == 2*n: // the iteration is over
		w.done++
		took := now - w.began
		w.step, w.left = -1, 0
		if w.period == 0 || took > (1+drift)*w.iteration {
			break
		}
		if late := math.Mod(now-w.shift, w.period) / w.period; late > drift && late < 1-1e-9 {
			w.left = (1 - late) * w.period
		}
	case w.step < 0:
		if w.began, w.begun = now, w.begun+1; w.begun == warm {
			w.counted = now
		}
		w.step, w.left = 0, w.bursts[0].From.Seconds()
	default:
		w.step++
		if k := w.step / 2; w.step%2 == 1 {
			w.left = w.bursts[k].GBps * (w.bursts[k].To - w.bursts[k].From).Seconds()
		} else {
			end := w.iteration
			if k < n {
				end = w.bursts[k].From.Seconds()
			}
			w.left = end - w.bursts[k-1].To.Seconds()
		}
	}
}
