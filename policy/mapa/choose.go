package mapa

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
	Free      Set // those that no job has
	Among     Set // of these, those that may be chosen
	GPUs      int // how many; at least one, and at most as many as there are
	Pattern   Pattern
	Sensitive bool
	Rule      Rule
	Group     int // for TopoAware: GPUs of consecutive numbers that are neighbours; 0: half of the node
}

// Choose is the GPUs that a query gets. Of equal choices it is the one with the lowest numbers,
// the first number counting most.
func (g *Graph) Choose(q *Query) Set {
	switch {
	case q.GPUs >= q.Among.Len() || g.uniform || q.Rule == Baseline || q.Rule == Greedy && q.GPUs == 1:
		return q.Among.Lowest(q.GPUs)
	case q.Rule == TopoAware:
		return g.neighbours(q)
	}
	t := g.table(q.Pattern, q.GPUs)
	var best Set
	most := [3]float64{never, never, never}
	q.each(func(s Set) {
		worth := [3]float64{t.aggregate[s]}
		switch {
		case q.Rule == Preserve && q.Sensitive && q.GPUs > 1:
			worth = [3]float64{t.predicted[s], t.aggregate[s], g.preserved(q.Free &^ s)}
		case q.Rule == Preserve:
			worth = [3]float64{g.preserved(q.Free &^ s), t.aggregate[s]}
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
func (g *Graph) neighbours(q *Query) Set {
	size := q.Group
	if size == 0 {
		size = (g.n + 1) / 2
	}
	for first := 0; first < g.n; first += size {
		if here := q.Among & ((1<<size - 1) << first); here.Len() >= q.GPUs {
			return here.Lowest(q.GPUs)
		}
	}
	return q.Among.Lowest(q.GPUs)
}

// each visits all sets of the size that is asked for, those of the lowest numbers first.
func (q *Query) each(visit func(Set)) {
	var walk func(chosen, rest Set, more int)
	walk = func(chosen, rest Set, more int) {
		if more == 0 {
			visit(chosen)
			return
		}
		for ; rest.Len() >= more; rest &= rest - 1 {
			walk(chosen|rest&-rest, rest&(rest-1), more-1)
		}
	}
	walk(0, q.Among, q.GPUs)
}
