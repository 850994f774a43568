package sia

import (
	"cmp"
	"math/rand/v2"
	"slices"

	"github.com/norn-scheduler/norn/policy/pollux"
)

// vnode is a node as Pollux sees it there: as many GPUs of one node as the smallest
// nodes have.
type vnode struct {
	typ  string
	node int // among those of its type
}

// search is Pollux as the simulators have it: it does not know of GPU types, and takes
// from a job what is not of the type of which it was given most.
type search struct {
	power  float64
	search pollux.Search
	rng    *rand.Rand
	nodes  []vnode
	gpus   int // of each
	most   int // replicas of a job, in this cluster
	quirks *quirks
	avoid  bool // no two jobs that are spread over nodes meet on one

	last  []pollux.Matrix // candidates of the round before
	jobs  []int           // and the jobs in them, by row
	holds map[int][]int   // vnodes of each job, one for each replica, in order
}

// decide divides the GPUs among jobs that are there, and returns the vnodes of each.
func (s *search) decide(now int, active []*task) map[int]grant {
	active = slices.Clone(active)
	slices.SortStableFunc(active, func(a, b *task) int {
		return cmp.Or(cmp.Compare(a.service, b.service), cmp.Compare(a.arrives, b.arrives))
	})
	p := &pollux.Problem{Power: s.power, Floor: 1e-3, Avoid: s.avoid, MaxNode: 16}
	for range s.nodes {
		p.Nodes = append(p.Nodes, pollux.Need{GPUs: int32(s.gpus)})
	}
	jobs := make([]int, len(active))
	total := len(s.nodes) * s.gpus
	for i, t := range active {
		jobs[i] = t.id
		fair := (total + len(active) - 1) / len(active)
		p.Jobs = append(p.Jobs, pollux.Claim{
			Speedup: s.speedup(t, fair), Factor: pollux.RestartFactor(float64(now-t.arrives), max(0, t.restarts), 30),
			Scale: float64(len(s.nodes)) / float64(total), Most: s.limit(t), Each: pollux.Need{GPUs: 1},
		})
		p.Now = append(p.Now, cells(i, s.holds[t.id])...)
	}
	first := s.adapted(jobs)
	if s.last == nil {
		first = []pollux.Matrix{p.Now}
	}
	s.last, s.jobs = s.search.Run(p, s.rng, first...), jobs
	out := map[int][]int{}
	for _, c := range s.last[0] {
		for range c.Count {
			out[jobs[c.Job]] = append(out[jobs[c.Job]], int(c.Node))
		}
	}
	for id, on := range out {
		out[id] = s.ofOneType(on)
	}
	s.holds = out
	granted := map[int]grant{}
	for id, on := range out {
		granted[id] = s.real(on)
	}
	return granted
}

// real is the GPU type and the nodes, among those of the type, of vnodes: one for each
// replica, in order.
func (s *search) real(on []int) (g grant) {
	for _, n := range on {
		g.on = s.nodes[n].typ
		g.nodes = append(g.nodes, s.nodes[n].node)
	}
	slices.Sort(g.nodes)
	return g
}

// limit is the most replicas of a task.
func (s *search) limit(t *task) int {
	if t.app.name == "ncf" {
		return 1
	}
	return min(max(2*t.fit("").largest, 1), s.most, t.app.most()/t.speedsOf(s.nodes[0].typ).localMin)
}

// speedup is what Pollux believes of a task: limits are those of the first GPU type.
func (s *search) speedup(t *task, fair int) func(int, bool) float64 {
	if !t.fit("").fitted {
		return func(k int, _ bool) float64 { return float64(k) / float64(fair) }
	}
	on := s.nodes[0].typ
	g := t.goodput(on, t.localMost(on))
	_, base := g.Best(fair, false)
	return func(k int, spread bool) float64 {
		_, value := g.Best(k, spread)
		if base <= 0 {
			return 0
		}
		return value / base
	}
}

// cells is the row of a job that has these vnodes, which are in order.
func cells(row int, on []int) (out pollux.Matrix) {
	for _, n := range on {
		if k := len(out); k > 0 && int(out[k-1].Node) == n {
			out[k-1].Count++
			continue
		}
		out = append(out, pollux.Cell{Job: int32(row), Node: int32(n), Count: 1})
	}
	return out
}

// adapted is the candidates of the round before, with the rows of jobs that are there
// still.
func (s *search) adapted(jobs []int) (out []pollux.Matrix) {
	row := make([]int32, len(s.jobs))
	for i, id := range s.jobs {
		row[i] = int32(slices.Index(jobs, id))
	}
	for _, m := range s.last {
		var n pollux.Matrix
		for _, c := range m {
			if row[c.Job] >= 0 {
				n = append(n, pollux.Cell{Job: row[c.Job], Node: c.Node, Count: c.Count})
			}
		}
		slices.SortFunc(n, func(a, b pollux.Cell) int { return cmp.Or(cmp.Compare(a.Job, b.Job), cmp.Compare(a.Node, b.Node)) })
		out = append(out, n)
	}
	return out
}

// ofOneType leaves the vnodes of the type that most of them are of. Of two that are
// first the better type stays; a third is not looked at.
func (s *search) ofOneType(on []int) []int {
	var types []string // in the order in which they come
	count := map[string]int{}
	for _, n := range on {
		typ := s.nodes[n].typ
		if count[typ]++; count[typ] == 1 {
			types = append(types, typ)
		}
	}
	if len(types) < 2 {
		return on
	}
	slices.SortStableFunc(types, func(a, b string) int { return cmp.Compare(count[b], count[a]) })
	chosen := types[0]
	if count[types[1]] == count[chosen] && slices.Index(s.quirks.prefer, types[1]) < slices.Index(s.quirks.prefer, chosen) {
		chosen = types[1]
	}
	return slices.DeleteFunc(on, func(n int) bool { return s.nodes[n].typ != chosen })
}
