package pollux

import (
	"cmp"
	"math"
	"math/rand/v2"
	"slices"
)

// Search is how long is searched: so many candidates, so often renewed.
type Search struct {
	Population, Generations int
	Stall                   int  // ends after so many generations without a better fitness; 0: never
	Full                    bool // goes on also when nothing can be better any more
}

// enough is after how many generations without anything new a search ends.
const enough = 10

// candidate is a Matrix with what it is worth.
type candidate struct {
	cells   Matrix
	fitness float64
	utility float64
	front   int     // 0: nobody is better in both
	crowd   float64 // how far the next ones of its front are
	key     uint64
}

// Run searches for the Matrix with the best fitness, from some first ones, which are
// repaired, and returns the candidates that are left, the best first. It ends early
// when nothing can be better, unless it is to be full. Nothing is worse in the end than the best of the first.
//
// It is NSGA-II with two objectives, fitness and utility, over the operators of the
// published code: rows are exchanged, reset, thinned out and raised, and repaired.
func (s Search) Run(p *Problem, rng *rand.Rand, first ...Matrix) []Matrix {
	g := genetic{p: p, rng: rng, known: map[uint64]bool{}, size: s.Population}
	p.Prepare()
	for k := range len(p.Jobs) + 1 {
		g.none = append(g.none, math.Exp(float64(k)*math.Log1p(-1/float64(len(p.Jobs)))))
	}
	bound := math.Inf(1)
	if !s.Full {
		bound = p.Bound() - 1e-12
	}
	for _, m := range first {
		g.birth(m)
	}
	g.survive()
	barren, stalled := 0, 0
	for gen := 1; gen < s.Generations && barren < enough && g.alive[0].fitness < bound && (s.Stall == 0 || stalled < s.Stall); gen++ {
		best := g.alive[0].fitness
		barren, stalled = barren+1, stalled+1
		if g.mate() {
			barren = 0
		}
		if g.survive(); g.alive[0].fitness > best {
			stalled = 0
		}
	}
	out := make([]Matrix, len(g.alive))
	for i, c := range g.alive {
		out[i] = c.cells
	}
	return out
}

// genetic is a search under way.
type genetic struct {
	p     *Problem
	rng   *rand.Rand
	size  int
	alive []*candidate // by fitness, the best first
	born  []*candidate
	spare []*candidate
	known map[uint64]bool // of all that are alive or born

	last, scale float64   // of drawn: a probability, and what gaps are multiples of
	none        []float64 // by number of jobs: the probability that none of them is drawn, of one on average of all

	used    []Need  // of each node
	counts  []int32 // scratch: cells of each node
	ends    []int32
	byNode  []int32
	added   Matrix
	sorted  Matrix
	places  []int32 // of each job in sorted
	child   [2]Matrix
	scratch Matrix
	mask    []bool // of rows
}

// birth takes a Matrix in, repaired, unless it is known.
func (g *genetic) birth(m Matrix) {
	c := &candidate{}
	if n := len(g.spare); n > 0 {
		c, g.spare = g.spare[n-1], g.spare[:n-1]
	}
	c.cells = g.repair(c.cells[:0], m)
	c.key = key(c.cells)
	if g.known[c.key] {
		g.spare = append(g.spare, c)
		return
	}
	g.known[c.key] = true
	c.fitness, c.utility = g.p.Fitness(c.cells)
	g.born = append(g.born, c)
}

func key(m Matrix) uint64 {
	const odd = 0x9e3779b97f4a7c15
	h := uint64(odd)
	for _, c := range m {
		h = (h ^ (uint64(c.Job)<<40 | uint64(c.Node)<<16 | uint64(c.Count))) * odd
		h ^= h >> 29
	}
	return h
}

// mate makes as many new candidates as there may be, and tells whether there are any.
func (g *genetic) mate() bool {
	for tries := 0; len(g.born) < g.size && tries < 2*g.size; tries++ {
		a, b := g.pick(), g.pick()
		cut := int32(0)
		if n := len(g.p.Jobs); n > 0 {
			cut = int32(g.rng.IntN(n))
		}
		at := func(m Matrix) int {
			i, _ := slices.BinarySearchFunc(m, cut, func(c Cell, j int32) int { return cmp.Compare(c.Job, j) })
			return i
		}
		i, j := at(a.cells), at(b.cells)
		g.child[0] = append(append(g.child[0][:0], b.cells[:j]...), a.cells[i:]...)
		g.child[1] = append(append(g.child[1][:0], a.cells[:i]...), b.cells[j:]...)
		for k := range g.child {
			if g.child[k] = g.mutate(g.child[k]); len(g.born) < g.size {
				g.birth(g.child[k])
			}
		}
	}
	return len(g.born) > 0
}

// pick is the better of two candidates.
func (g *genetic) pick() *candidate {
	a, b := g.alive[g.rng.IntN(len(g.alive))], g.alive[g.rng.IntN(len(g.alive))]
	switch {
	case a.dominates(b):
		return a
	case b.dominates(a) || b.crowd > a.crowd:
		return b
	}
	return a
}

func (c *candidate) dominates(o *candidate) bool {
	return c.fitness >= o.fitness && c.utility >= o.utility && (c.fitness > o.fitness || c.utility > o.utility)
}

// drawn yields each of n things with probability p, in order, by the gaps between
// them.
func (g *genetic) drawn(n int, p float64, yield func(i int)) {
	if p >= 1 || n <= 4 {
		for i := range n {
			if p >= 1 || g.rng.Float64() < p {
				yield(i)
			}
		}
		return
	}
	if p != g.last {
		g.last, g.scale = p, 1/math.Log1p(-p)
	}
	scale := g.scale
	known := p == 1/float64(len(g.p.Jobs))
	for i := 0; ; i++ {
		rest := 1 - g.rng.Float64()
		if known && rest < g.none[n-i]*(1-1e-9) {
			return // as the logarithm would tell
		}
		gap := math.Log(rest) * scale
		if gap >= float64(n-i) {
			return
		}
		i += int(gap)
		yield(i)
	}
}

// The shares of rows that are reset to what they are now, of rows that are thinned
// out, and of their cells that are emptied.
const (
	resetShare = 0.1
	thinShare  = 0.1
	emptyShare = 0.1
)

// mutate changes a Matrix at random. The result may have more than there is.
func (g *genetic) mutate(m Matrix) Matrix {
	g.reset(&m)
	g.thin(&m)
	g.raise(&m)
	return m
}

// reset gives some rows what they have now.
func (g *genetic) reset(m *Matrix) {
	if !g.choose(resetShare) {
		return
	}
	out, now := g.scratch[:0], g.p.Now
	for _, c := range *m {
		for ; len(now) > 0 && now[0].Job <= c.Job; now = now[1:] {
			if g.mask[now[0].Job] {
				out = append(out, now[0])
			}
		}
		if !g.mask[c.Job] {
			out = append(out, c)
		}
	}
	for _, c := range now {
		if g.mask[c.Job] {
			out = append(out, c)
		}
	}
	g.scratch, *m = *m, out
}

// thin empties some cells of some rows.
func (g *genetic) thin(m *Matrix) {
	if g.choose(thinShare) {
		*m = slices.DeleteFunc(*m, func(c Cell) bool { return g.mask[c.Job] && g.rng.Float64() < emptyShare })
	}
}

// choose chooses each row with a probability, in mask, and tells whether there are any.
func (g *genetic) choose(p float64) (any bool) {
	if len(g.mask) < len(g.p.Jobs) {
		g.mask = make([]bool, len(g.p.Jobs))
	}
	clear(g.mask)
	g.drawn(len(g.p.Jobs), p, func(i int) { g.mask[i], any = true, true })
	return any
}

// raise gives more to some jobs on nodes that have anything left: on each node to one
// of all jobs and to one of those that are on it, on average.
func (g *genetic) raise(m *Matrix) {
	p := g.p
	g.used = append(g.used[:0], p.Nodes...)
	g.counts = slices.Grow(g.counts[:0], len(p.Nodes)+1)[:len(p.Nodes)+1]
	clear(g.counts)
	for _, c := range *m {
		g.used[c.Node].less(&p.Jobs[c.Job].Each, c.Count)
		g.counts[c.Node+1]++
	}
	for n := range p.Nodes {
		g.counts[n+1] += g.counts[n]
	}
	g.byNode = slices.Grow(g.byNode[:0], len(*m))[:len(*m)]
	g.ends = append(g.ends[:0], g.counts...)
	for i, c := range *m {
		g.byNode[g.ends[c.Node]] = int32(i)
		g.ends[c.Node]++
	}
	g.added = g.added[:0]
	for n := range p.Nodes {
		left := &g.used[n]
		if left.GPUs <= 0 {
			continue
		}
		fits := func(j int32) bool {
			c := &p.Jobs[j]
			return left.holds(&c.Each) && (c.Can == nil || c.Can[n])
		}
		here := g.byNode[g.counts[n]:g.counts[n+1]]
		to := func(j, has int32) {
			if !fits(j) {
				return
			}
			if most := p.Nodes[n].fits(&p.Jobs[j].Each, math.MaxInt32); most >= has {
				g.added = append(g.added, Cell{j, int32(n), has + g.rng.Int32N(most-has+1)})
			}
		}
		if len(p.Jobs) > 0 {
			g.drawn(len(p.Jobs), 1/float64(len(p.Jobs)), func(i int) {
				has := int32(0)
				for _, k := range here {
					if int((*m)[k].Job) == i {
						has = (*m)[k].Count
					}
				}
				to(int32(i), has)
			})
		}
		if len(here) > 0 {
			g.drawn(len(here), 1/float64(len(here)), func(i int) { to((*m)[here[i]].Job, (*m)[here[i]].Count) })
		}
	}
	g.merge(m)
}

// merge puts what was added in its places; it is never less than what was there.
func (g *genetic) merge(m *Matrix) {
	if len(g.added) == 0 {
		return
	}
	out, add := g.scratch[:0], g.byJob(g.added)
	put := func(c Cell) {
		if n := len(out); n > 0 && out[n-1].Job == c.Job && out[n-1].Node == c.Node {
			out[n-1].Count = max(out[n-1].Count, c.Count)
		} else if c.Count > 0 {
			out = append(out, c)
		}
	}
	for _, c := range *m {
		for len(add) > 0 && order(add[0], c) <= 0 {
			put(add[0])
			add = add[1:]
		}
		put(c)
	}
	for _, c := range add {
		put(c)
	}
	g.scratch, *m = *m, out
}

// byJob sorts cells by job that are in order of nodes.
func (g *genetic) byJob(cells Matrix) Matrix {
	jobs := len(g.p.Jobs)
	g.places = slices.Grow(g.places[:0], jobs+1)[:jobs+1]
	clear(g.places)
	for _, c := range cells {
		g.places[c.Job+1]++
	}
	for j := range jobs {
		g.places[j+1] += g.places[j]
	}
	g.sorted = slices.Grow(g.sorted[:0], len(cells))[:len(cells)]
	for _, c := range cells {
		g.sorted[g.places[c.Job]] = c
		g.places[c.Job]++
	}
	return g.sorted
}

// repair appends to out what of a Matrix may be. The first in the order of jobs
// goes first, on each node.
func (g *genetic) repair(out, m Matrix) Matrix {
	p := g.p
	copy(p.rooms, p.Nodes)
	clear(p.met)
	for i := 0; i < len(m); {
		j := m[i].Job
		next := i + 1
		for next < len(m) && m[next].Job == j {
			next++
		}
		row := len(out)
		for _, c := range m[i:next] {
			if p.Jobs[j].Can != nil && !p.Jobs[j].Can[c.Node] {
				continue
			}
			if p.Avoid && next-i > 1 {
				if p.met[c.Node] {
					continue
				}
				p.met[c.Node] = true
			}
			out = append(out, c)
		}
		out = append(out[:row], g.cut(out[row:], int(j))...)
		i = next
	}
	return out
}

// cut is what of a row may be: not more than the job may have, on not more nodes
// than it may be on, nor than is left on each; nothing when that is less than it
// needs. Nodes are gone through in random order where some go short.
func (g *genetic) cut(row Matrix, job int) Matrix {
	c := &g.p.Jobs[job]
	sum, _ := row.Replicas()
	if sum > c.Most || g.p.MaxNode > 0 && len(row) > g.p.MaxNode {
		g.rng.Shuffle(len(row), func(a, b int) { row[a], row[b] = row[b], row[a] })
		left, nodes := int32(c.Most), 0
		for i := range row {
			row[i].Count = min(row[i].Count, left)
			left -= row[i].Count
			if row[i].Count > 0 {
				if nodes++; g.p.MaxNode > 0 && nodes > g.p.MaxNode {
					row[i].Count = 0
				}
			}
		}
		slices.SortFunc(row, order)
	}
	kept := row[:0]
	sum = 0
	for _, cell := range row {
		cell.Count = g.p.rooms[cell.Node].fits(&c.Each, cell.Count)
		g.p.rooms[cell.Node].less(&c.Each, cell.Count)
		if sum += int(cell.Count); cell.Count > 0 {
			kept = append(kept, cell)
		}
	}
	if sum >= c.Least {
		return kept
	}
	for _, cell := range kept { // which nobody after it gets in the published code
		g.p.rooms[cell.Node].less(&c.Each, -cell.Count)
	}
	return row[:0]
}
