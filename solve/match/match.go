// Package match pairs the members of one group with each other so that the pairs
// are worth the most: matching of greatest weight in a general graph, exactly.
//
// Nouns: an Edge says that two vertices may be a pair, and what the pair is
// worth. Weights are whole numbers, so that nothing is rounded; Scale makes them
// of others.
//
// Source: Edmonds, "Maximum matching and a polyhedron with 0,1-vertices", 1965,
// in the form that keeps dual values and shrinks odd circles (blossoms) into
// vertices; Galil, "Efficient algorithms for finding maximum matching in
// graphs", ACM Computing Surveys 18, 1986. Time in proportion to the third power
// of the number of vertices, memory to the second.
package match

import (
	"fmt"
	"math"
)

// Alone is the mate of a vertex without one.
const Alone = -1

// MaxWeight is the largest weight an edge may have.
const MaxWeight = 1 << 50

// MaxVertices is the largest number of vertices.
const MaxVertices = 8000

// Edge is a pair that may be made. Of several between the same two vertices the
// weightiest counts; one whose weight is not above zero is never chosen.
type Edge struct {
	U, V   int
	Weight int64
}

// Matching is who is paired with whom.
type Matching struct {
	Mate   []int // by vertex, or Alone
	Pairs  int
	Weight int64 // of all pairs
}

// Finder finds matchings, and keeps its memory between them. The zero value is ready
// to use.
type Finder struct{ b blossoms }

// Max finds the pairs of the greatest total weight among n vertices. Of several
// such matchings it finds the same one always.
func (f *Finder) Max(n int, edges []Edge) (Matching, error) {
	if n < 0 || n > MaxVertices {
		return Matching{}, fmt.Errorf("matching of %d vertices: at most %d can be matched", n, MaxVertices)
	}
	b := &f.b
	b.reset(n)
	for k, e := range edges {
		if e.U < 0 || e.V < 0 || e.U >= n || e.V >= n || e.U == e.V || e.Weight > MaxWeight {
			return Matching{}, fmt.Errorf("edge %d is between the vertices %d and %d of %d and weighs %d", k, e.U, e.V, n, e.Weight)
		}
		if u, v := e.U+1, e.V+1; 2*e.Weight > b.weight[u*b.n1+v] {
			b.weight[u*b.n1+v], b.weight[v*b.n1+u] = 2*e.Weight, 2*e.Weight
		}
	}
	b.begin()
	for b.phase() {
	}
	m := Matching{Mate: make([]int, n)}
	for u := 1; u <= n; u++ {
		v := b.mate[u]
		m.Mate[u-1] = v - 1
		if v > u {
			m.Pairs++
			m.Weight += b.weight[u*b.n1+v] / 2
		}
	}
	return m, nil
}

// Scale makes whole numbers of weights, the largest of which is 2⁴⁰, and gives
// them to the edges: sums of n weights are then off by at most n times a 2⁴¹st
// of the largest. A weight that is not above zero, or not a number, becomes
// zero.
func Scale(edges []Edge, weights []float64) {
	top := 0.0
	for _, w := range weights {
		if w > top && !math.IsInf(w, 1) {
			top = w
		}
	}
	for k, w := range weights {
		edges[k].Weight = 0
		if w > 0 && top > 0 {
			edges[k].Weight = int64(math.Round(min(w, top) / top * (1 << 40)))
		}
	}
}
