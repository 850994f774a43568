package fabric

import (
	"math/bits"
	"strings"
)

// Pattern is which GPUs of a job talk to each other.
type Pattern uint8

// The patterns.
const (
	Ring   Pattern = iota // each with the next, the last with the first; two GPUs have their link twice
	Chain                 // each with the next
	Star                  // one with all others
	Clique                // each with each
	patterns
)

var patternNames = [patterns]string{"ring", "chain", "star", "clique"}

// String is the name of the pattern.
func (p Pattern) String() string { return patternNames[p] }

// ParsePattern reads a pattern in the words of traces. A tree is a chain, since NCCL's trees are
// chains inside a node.
func ParsePattern(s string) (p Pattern, ok bool) {
	switch strings.ToLower(strings.TrimSpace(s)) {
	case "ring", "circle":
		return Ring, true
	case "chain", "line", "path", "pipeline", "tree":
		return Chain, true
	case "star", "ps":
		return Star, true
	case "clique", "all", "all-to-all", "mesh":
		return Clique, true
	}
	return 0, false
}

// table is what sets of the devices of a graph are worth to jobs of one pattern: the best that any
// order of the devices gives.
type table struct {
	most      int       // devices of the largest sets that it has
	aggregate []float64 // by set: GB/s, the speeds of the links that are used, added up
	predicted []float64 // by set: GB/s, see Predicted

	best [MaxDevices + 1]float64 // by number of devices: the largest prediction of any set; 0: not known yet
}

// Worth is what a set is worth to jobs of a pattern, in GB/s: the largest effective bandwidth that is
// predicted, and the largest sum of speeds, of any order of the devices each.
func (g *Graph) Worth(p Pattern, s Set) (predicted, aggregate float64) {
	t := g.table(p, s.Len())
	return t.predicted[s], t.aggregate[s]
}

// Best is the largest effective bandwidth that is predicted for any n devices.
func (g *Graph) Best(p Pattern, n int) float64 {
	t := g.table(p, n)
	if t.best[n] == 0 {
		most := never
		for s := range t.predicted {
			if Set(s).Len() == n {
				most = max(most, t.predicted[s])
			}
		}
		t.best[n] = most
	}
	return t.best[n]
}

// table is the table of a pattern with sets of so many devices, which is made when it is first asked
// for.
func (g *Graph) table(p Pattern, most int) *table {
	if t := g.tables[p]; t != nil && t.most >= most {
		return t
	}
	t := &table{most: most, aggregate: make([]float64, 1<<g.n), predicted: make([]float64, 1<<g.n)}
	g.tables[p] = t
	switch p {
	case Ring:
		for first := range g.n {
			g.rings(t, first)
		}
	case Chain:
		g.chains(t)
	case Star:
		for s := Set(1); s < 1<<g.n; s++ {
			g.stars(t, s)
		}
	case Clique:
		g.cliques(t)
	}
	return t
}

// cliques fills the table of cliques.
func (g *Graph) cliques(t *table) {
	counts := make([][3]int, 1<<g.n)
	for s := Set(1); s < 1<<g.n; s++ {
		v, rest := s.Low(), s&(s-1)
		c, sum := counts[rest], t.aggregate[rest]
		for k := range c {
			c[k] += (rest & g.of[v][k]).Len()
		}
		for others := rest; others != 0; others &= others - 1 {
			sum += g.gbps[v][others.Low()]
		}
		counts[s], t.aggregate[s] = c, sum
		t.predicted[s] = Predicted(c[Double], c[Single], c[Slow])
	}
}

// stars finds what a set is worth to stars.
func (g *Graph) stars(t *table, s Set) {
	t.aggregate[s], t.predicted[s] = never, never
	for centres := s; centres != 0; centres &= centres - 1 {
		v, sum := centres.Low(), 0.0
		rest := s &^ (1 << v)
		for others := rest; others != 0; others &= others - 1 {
			sum += g.gbps[v][others.Low()]
		}
		t.aggregate[s] = max(t.aggregate[s], sum)
		t.predicted[s] = max(t.predicted[s], Predicted((rest&g.of[v][Double]).Len(), (rest&g.of[v][Single]).Len(), (rest&g.of[v][Slow]).Len()))
	}
}

// mixes is a set of pairs: how many double and how many single NVLinks the ways have that lead
// over some devices and end at one of them. As the number of links is known, so is that of
// the slow ones. A way has at most MaxDevices links, so that a pair is one of 17x17 bits.
type mixes [5]uint64

const mixRow = MaxDevices + 1

// with is the pairs of ways that go over one more link of a kind.
func (m *mixes) with(k Kind) mixes {
	switch k {
	case Double:
		return m.shift(mixRow)
	case Single:
		return m.shift(1)
	}
	return *m
}

func (m *mixes) shift(n uint) mixes {
	var out mixes
	for i := len(m) - 1; i >= 0; i-- {
		out[i] = m[i] << n
		if i > 0 {
			out[i] |= m[i-1] >> (64 - n)
		}
	}
	return out
}

func (m *mixes) add(o *mixes) {
	for i := range m {
		m[i] |= o[i]
	}
}

// best is the best prediction for ways of so many links.
func (g *Graph) best(m *mixes, links int) float64 {
	if g.foretold[links] == nil {
		all := make([]float64, mixRow*mixRow)
		for double := range links + 1 {
			for single := range links - double + 1 {
				all[double*mixRow+single] = Predicted(double, single, links-double-single)
			}
		}
		g.foretold[links] = all
	}
	best := never
	for i, word := range m {
		for ; word != 0; word &= word - 1 {
			best = max(best, g.foretold[links][i*64+bits.TrailingZeros64(word)])
		}
	}
	return best
}

// ways is what is known of the ways over a set of devices that end at one of them.
type ways struct {
	mixes     mixes
	aggregate float64
}

// extend is the ways that go on from any of the ways over a set to one more device. from has those
// that end at each device, in the order of their numbers.
func (g *Graph) extend(out *ways, set Set, to int, from []ways) {
	*out = ways{aggregate: never}
	for k := Double; k <= Slow; k++ {
		var all mixes
		for lasts := set & g.of[to][k]; lasts != 0; lasts &= lasts - 1 {
			last := lasts.Low()
			w := &from[last]
			all.add(&w.mixes)
			out.aggregate = max(out.aggregate, w.aggregate+g.gbps[last][to])
		}
		more := all.with(k)
		out.mixes.add(&more)
	}
}

// rings fills the table for sets whose lowest device is the given one: a ring may as well begin
// there. The ways over sets are found from those over smaller ones, as Held and Karp did (1962).
func (g *Graph) rings(t *table, first int) {
	t.predicted[1<<first] = Predicted(0, 0, 0)
	all := make([]ways, g.n<<(g.n-1-first)) // by set of the devices behind the first one, and by the last one
	at := func(set Set) []ways { return all[int(set>>(first+1))*g.n:][:g.n] }
	for sub := Set(1); sub < 1<<(g.n-1-first); sub++ {
		set := sub << (first + 1)
		if set.Len() >= t.most {
			continue
		}
		to := at(set)
		for lasts := set; lasts != 0; lasts &= lasts - 1 {
			last := lasts.Low()
			if rest := set &^ (1 << last); rest == 0 {
				one := mixes{1}
				to[last] = ways{one.with(g.kind[first][last]), g.gbps[first][last]}
			} else {
				g.extend(&to[last], rest, last, at(rest))
			}
		}
		var closed ways
		g.extend(&closed, set, first, to)
		t.aggregate[set|1<<first] = closed.aggregate
		t.predicted[set|1<<first] = g.best(&closed.mixes, set.Len()+1)
	}
}

// chains fills the table of chains.
func (g *Graph) chains(t *table) {
	all := make([]ways, g.n<<g.n)
	at := func(set Set) []ways { return all[int(set)*g.n:][:g.n] }
	for set := Set(1); set < 1<<g.n; set++ {
		if set.Len() > t.most {
			continue
		}
		to, sum := at(set), ways{aggregate: never}
		for lasts := set; lasts != 0; lasts &= lasts - 1 {
			last := lasts.Low()
			if rest := set &^ (1 << last); rest == 0 {
				to[last] = ways{mixes: mixes{1}}
			} else {
				g.extend(&to[last], rest, last, at(rest))
			}
			sum.mixes.add(&to[last].mixes)
			sum.aggregate = max(sum.aggregate, to[last].aggregate)
		}
		t.aggregate[set], t.predicted[set] = sum.aggregate, g.best(&sum.mixes, set.Len()-1)
	}
}
