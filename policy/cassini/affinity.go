package cassini

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/norn-scheduler/norn/job"
	"github.com/norn-scheduler/norn/perf"
)

// member is a job that sends in bursts over links.
type member struct {
	id     job.ID
	hints  *job.Hints
	period time.Duration
	uses   []perf.Crossing
}

// peak is the most GB/s that a member sends over a link.
func (m *member) peak(flows float64) float64 { return m.hints.Bursts.Peak() * flows }

// user is a member on a link.
type user struct {
	*member
	flows float64
}

// fit is what was found of a link.
type fit struct {
	score  float64
	shifts []time.Duration
	link   *Link
}

// graph is the affinity graph: jobs, and the links that several of them use. Its edges tell by how much the
// iterations of a job are to be shifted on a link.
type graph struct {
	cfg     *Config
	net     *perf.Network
	members map[job.ID]*member
	users   map[int32][]user // by link, in order of their numbers
	known   map[string]fit   // of circles on a link
}

func newGraph(cfg *Config) *graph {
	return &graph{cfg: cfg, net: perf.NewNetwork(), members: map[job.ID]*member{}, users: map[int32][]user{}, known: map[string]fit{}}
}

// memberOf is a job with the links that it uses.
func (g *graph) memberOf(id job.ID, h *job.Hints, uses []perf.Crossing) *member {
	return &member{id: id, hints: h, period: CircleOf(h, 1, g.cfg.Step).Period, uses: uses}
}

func (g *graph) add(m *member) {
	g.members[m.id] = m
	for _, u := range m.uses {
		all := g.users[u.Link]
		at, _ := slices.BinarySearchFunc(all, m.id, func(x user, id job.ID) int { return cmp.Compare(x.id, id) })
		g.users[u.Link] = slices.Insert(all, at, user{m, u.Flows})
	}
}

func (g *graph) remove(m *member) {
	delete(g.members, m.id)
	for _, u := range m.uses {
		g.users[u.Link] = slices.DeleteFunc(g.users[u.Link], func(x user) bool { return x.member == m })
	}
}

// slow tells whether a link cannot carry what all its users send at their peaks.
func (g *graph) slow(link int32) bool {
	sum := 0.0
	for _, u := range g.users[link] {
		sum += u.peak(u.flows)
	}
	return sum > g.net.Capacity(link)*(1+alike)
}

// mostKnown bounds what is remembered of links.
const mostKnown = 1 << 14

// fit finds the shifts of a link.
func (g *graph) fit(link int32) fit {
	users, capacity := g.users[link], g.net.Capacity(link)
	var key strings.Builder
	fmt.Fprintf(&key, "%v", capacity)
	for _, u := range users {
		fmt.Fprintf(&key, " %d %v %s", u.period, u.flows, u.hints.Bursts.String())
	}
	if f, there := g.known[key.String()]; there {
		return f
	}
	var circles []Circle
	for _, u := range users {
		circles = append(circles, CircleOf(u.hints, u.flows, g.cfg.Step))
	}
	f := fit{link: NewLink(capacity, circles)}
	f.score, f.shifts = f.link.Fit(g.cfg.Precision)
	if len(g.known) >= mostKnown {
		clear(g.known)
	}
	g.known[key.String()] = f
	return f
}

// score is the worth of the place of a member: of the links that it shares, their mean score or the least; 1 where
// it shares none.
func (g *graph) score(m *member) float64 {
	sum, n, least := 0.0, 0, 1.0
	for _, u := range m.uses {
		if len(g.users[u.Link]) < 2 {
			continue
		}
		s := 1.0
		if g.slow(u.Link) {
			s = g.fit(u.Link).score
		}
		sum, n, least = sum+s, n+1, min(least, s)
	}
	switch {
	case n == 0:
		return 1
	case g.cfg.Score == Worst:
		return least
	}
	return sum / float64(n)
}

// edge is a link of a component with those who use it: one for all links that the same jobs use, that with the least
// score.
type edge struct {
	users []user
	fit   fit
}

// component is jobs that links connect on which shifts make a difference.
type component struct {
	members []*member // in order of their numbers
	edges   []edge    // in the order in which they were found
	loop    bool      // there are two ways from a job to another one
}

// component finds that of a member.
func (g *graph) component(from *member) component {
	seen, links := map[job.ID]bool{from.id: true}, map[int32]bool{}
	c := component{members: []*member{from}}
	by := map[string]int{} // the users of an edge -> its place
	for at := 0; at < len(c.members); at++ {
		for _, u := range c.members[at].uses {
			users := g.users[u.Link]
			if links[u.Link] || len(users) < 2 || !g.slow(u.Link) {
				continue
			}
			links[u.Link] = true
			f := g.fit(u.Link)
			if !f.link.Unified() {
				continue
			}
			var key strings.Builder
			for _, x := range users {
				fmt.Fprint(&key, x.id, " ")
			}
			if k, there := by[key.String()]; !there {
				by[key.String()] = len(c.edges)
				c.edges = append(c.edges, edge{users, f})
			} else if f.score < c.edges[k].fit.score-alike {
				c.edges[k] = edge{users, f}
			}
			for _, x := range users {
				if !seen[x.id] {
					seen[x.id] = true
					c.members = append(c.members, x.member)
				}
			}
		}
	}
	ends := 0
	for _, e := range c.edges {
		ends += len(e.users)
	}
	c.loop = ends > len(c.members)+len(c.edges)-1
	slices.SortFunc(c.members, func(a, b *member) int { return cmp.Compare(a.id, b.id) })
	return c
}

// keeps tells whether the shifts that jobs have are as good as any on each link.
func (c *component) keeps(has map[job.ID]time.Duration) bool {
	for _, e := range c.edges {
		shifts := make([]time.Duration, len(e.users))
		for i, u := range e.users {
			var told bool
			if shifts[i], told = has[u.id]; !told {
				return false
			}
		}
		if e.fit.link.Score(shifts) < e.fit.score-alike {
			return false
		}
	}
	return true
}

// shifts are those of the jobs of a component without a loop, relative to the first one, which has such a one.
func (c *component) shifts(first time.Duration) map[job.ID]time.Duration {
	t := map[job.ID]time.Duration{c.members[0].id: first}
	done := make([]bool, len(c.edges))
	queue := []*member{c.members[0]}
	for at := 0; at < len(queue); at++ {
		j := queue[at]
		for k, e := range c.edges {
			own := slices.IndexFunc(e.users, func(u user) bool { return u.member == j })
			if done[k] || own < 0 {
				continue
			}
			done[k] = true
			for i, u := range e.users {
				if _, there := t[u.id]; !there {
					t[u.id] = mod(t[j.id]-e.fit.shifts[own]+e.fit.shifts[i], u.period)
					queue = append(queue, u.member)
				}
			}
		}
	}
	return t
}

// oneByOne are shifts of the jobs of a component with loops: link after link, those with the most demand first, each
// job that has none yet gets the best beside those that have one.
func (c *component) oneByOne(degrees float64) map[job.ID]time.Duration {
	demand := func(e *edge) (sum float64) {
		for i := range e.fit.link.Circles {
			sum += e.fit.link.Circles[i].mean()
		}
		return sum * float64(len(e.users)) / e.fit.link.Capacity
	}
	edges := slices.Clone(c.edges)
	slices.SortStableFunc(edges, func(a, b edge) int { return cmp.Compare(demand(&b), demand(&a)) })
	t := map[job.ID]time.Duration{}
	for _, e := range edges {
		var circles []Circle
		var shifts []time.Duration
		place := func(i int, at time.Duration) {
			circles, shifts = append(circles, e.fit.link.Circles[i]), append(shifts, at)
		}
		for i, u := range e.users {
			if at, there := t[u.id]; there {
				place(i, at)
			}
		}
		for i, u := range e.users {
			if _, there := t[u.id]; there {
				continue
			}
			place(i, 0)
			if len(shifts) > 1 {
				NewLink(e.fit.link.Capacity, circles).rotate(shifts, len(shifts)-1, degrees)
			}
			t[u.id] = shifts[len(shifts)-1]
		}
	}
	return t
}

func mod(t, period time.Duration) time.Duration {
	if t %= period; t < 0 {
		t += period
	}
	return t
}
