package mapa

import (
	"math"

	"github.com/norn-scheduler/norn/cluster/fabric"
)

// Rule is by what GPUs of a node are chosen.
type Rule uint8

// The rules.
const (
	Preserve  Rule = iota // the best prediction for sensitive jobs, what is left to others for the rest
	Greedy                // the largest sum of the speeds of the links that are used
	TopoAware             // the lowest numbers in one group of neighbours, or anywhere
	Baseline              // the lowest numbers
)

// Query asks for GPUs of a node.
type Query struct {
	Free      fabric.Set // those that no job has
	Among     fabric.Set // of these, those that may be chosen
	GPUs      int        // how many; at least one, and at most as many as there are
	Pattern   fabric.Pattern
	Sensitive bool
	Rule      Rule
	Group     int // for TopoAware: GPUs of consecutive numbers that are neighbours; 0: half of the node
}

// Choose is the GPUs that a query gets. Of equal choices it is the one with the lowest numbers,
// the first number counting most.
func Choose(g *fabric.Graph, q *Query) fabric.Set {
	switch {
	case q.GPUs >= q.Among.Len() || g.Uniform() || q.Rule == Baseline || q.Rule == Greedy && q.GPUs == 1:
		return q.Among.Lowest(q.GPUs)
	case q.Rule == TopoAware:
		return neighbours(g, q)
	}
	var best fabric.Set
	most := [3]float64{math.Inf(-1)}
	q.Among.Each(q.GPUs, func(s fabric.Set) {
		predicted, aggregate := g.Worth(q.Pattern, s)
		worth := [3]float64{aggregate}
		switch {
		case q.Rule == Preserve && q.Sensitive && q.GPUs > 1:
			worth = [3]float64{predicted, aggregate, g.Preserved(q.Free &^ s)}
		case q.Rule == Preserve:
			worth = [3]float64{g.Preserved(q.Free &^ s), aggregate}
		}
		if larger(&worth, &most) {
			best, most = s, worth
		}
	})
	return best
}

// larger compares by the first number that differs.
func larger(a, b *[3]float64) bool {
	for i := range a {
		if a[i] != b[i] {
			return a[i] > b[i]
		}
	}
	return false
}

// neighbours is the lowest numbers of the first group that has enough, or of all.
func neighbours(g *fabric.Graph, q *Query) fabric.Set {
	size := q.Group
	if size == 0 {
		size = (g.Devices() + 1) / 2
	}
	for first := 0; first < g.Devices(); first += size {
		if here := q.Among & ((1<<size - 1) << first); here.Len() >= q.GPUs {
			return here.Lowest(q.GPUs)
		}
	}
	return q.Among.Lowest(q.GPUs)
}
