// Package amd orders the unknowns of a sparse symmetric system so that its factors
// stay sparse: next is always one of which the fewest others are thought to depend.
// Ties are broken as the library of that name breaks them with its default settings,
// so that whoever factors in this order adds up in the same order too.
//
// Source: Amestoy, Davis, Duff, "An approximate minimum degree ordering algorithm",
// SIAM J. Matrix Analysis and Applications 17(4), 1996, and "Algorithm 837: AMD", ACM
// Transactions on Mathematical Software 30(3), 2004.
package amd

import "math"

const (
	none       = -1
	denseTimes = 10 // a row is dense with more than so many times the root of all rows
	denseLeast = 16
)

// graph is what is left of the system. A variable is an unknown that is not yet
// eliminated, or several that have become the same; one of them stands for all. An
// element is what was eliminated at one time; its variables all depend on each other.
type graph struct {
	list     [][]int // of a variable: the elements that it is in, then the variables beside it; of an element: its variables
	elements []int   // how many of the list of a variable are elements
	size     []int   // how many unknowns it stands for; 0: another one does that, or it is dense
	parent   []int   // the element or variable that took it in
	front    []int   // rows of an element when it was made, its own among them
	gone     []bool  // elements that were taken in
	degree   []int   // of a variable: a bound of what depends on it; of an element: the size of its variables

	head, next, last []int // variables by degree: the first one, and those beside each
	least            int   // there is none of a lower degree
	over             int   // unknowns that are eliminated

	inside []bool // variables of the newest element
	beyond []int  // of an element: the size of its variables that are not inside,
	seen   []int  // if this is the newest one
	bucket []int  // variables that may be the same: the first one,
	chain  []int  // the one after each,
	key    []int  // and its bucket
	mark   []int  // who is in the list that others are compared with,
	stamp  int    // if it is this
	arena  []int  // of lists
}

// Order returns the unknowns in their order of elimination. Rows of column j, of the
// upper triangle, are index[start[j]:start[j+1]], ascending; the diagonal may be there
// or not.
func Order(start, index []int) []int {
	g := newGraph(start, index)
	for g.over < len(g.list) {
		g.eliminate()
	}
	return g.order()
}

func newGraph(start, index []int) *graph {
	n := len(start) - 1
	g := &graph{list: make([][]int, n), inside: make([]bool, n), gone: make([]bool, n)}
	for _, a := range []*[]int{&g.elements, &g.size, &g.front, &g.degree, &g.beyond, &g.seen, &g.key, &g.mark, &g.chain} {
		*a = make([]int, n)
	}
	for _, a := range []*[]int{&g.parent, &g.head, &g.next, &g.last, &g.bucket} {
		*a = make([]int, n)
		for i := range *a {
			(*a)[i] = none
		}
	}
	for j := range n {
		for _, i := range index[start[j]:start[j+1]] {
			if i != j {
				g.degree[i]++
				g.degree[j]++
			}
		}
	}
	room := make([]int, 2*len(index))
	for i, d := range g.degree {
		g.list[i], room = room[:0:d], room[d:]
	}
	for j := range n {
		for _, i := range index[start[j]:start[j+1]] {
			if i != j {
				g.list[i], g.list[j] = append(g.list[i], j), append(g.list[j], i)
			}
		}
	}
	g.begin()
	return g
}

// begin sorts variables by degree. Those that nothing depends on are eliminated at
// once, dense ones are left for the end.
func (g *graph) begin() {
	n := len(g.list)
	dense := min(max(denseLeast, int(denseTimes*math.Sqrt(float64(n)))), n)
	for i, d := range g.degree {
		switch {
		case d == 0:
			g.size[i], g.front[i], g.gone[i] = 1, 1, true
			g.over++
		case d > dense:
			g.over++
		default:
			g.size[i] = 1
			g.link(i)
		}
	}
}

// link puts a variable first among those of its degree.
func (g *graph) link(i int) {
	d := g.degree[i]
	if g.head[d] != none {
		g.last[g.head[d]] = i
	}
	g.next[i], g.last[i], g.head[d] = g.head[d], none, i
}

func (g *graph) unlink(i int) {
	if g.next[i] != none {
		g.last[g.next[i]] = g.last[i]
	}
	if g.last[i] != none {
		g.next[g.last[i]] = g.next[i]
	} else {
		g.head[g.degree[i]] = g.next[i]
	}
}

// eliminate makes an element of the first variable of the lowest degree.
func (g *graph) eliminate() {
	for g.head[g.least] == none {
		g.least++
	}
	me := g.head[g.least]
	g.unlink(me)
	g.inside[me] = true
	g.over += g.size[me]
	g.gather(me)
	g.front[me] = g.size[me] + g.degree[me]
	g.measure(me)
	for _, i := range g.list[me] {
		g.update(me, i)
	}
	for _, i := range g.list[me] {
		if g.size[i] > 0 {
			g.merge(g.key[i])
		}
	}
	left := len(g.list) - g.over
	rest := g.list[me][:0]
	for _, i := range g.list[me] {
		g.inside[i] = false
		if g.size[i] > 0 {
			g.degree[i] = min(g.degree[i]+g.degree[me], left) - g.size[i]
			g.link(i)
			g.least = min(g.least, g.degree[i])
			rest = append(rest, i)
		}
	}
	g.inside[me] = false
	g.list[me], g.gone[me] = rest, len(rest) == 0
}

// gather finds the variables of a new element: those of its elements, which it takes
// in, and those beside it.
func (g *graph) gather(me int) {
	g.degree[me] = 0
	from := len(g.arena)
	take := func(variables []int) {
		for _, i := range variables {
			if g.size[i] > 0 && !g.inside[i] {
				g.inside[i] = true
				g.degree[me] += g.size[i]
				g.arena = append(g.arena, i)
				g.unlink(i)
			}
		}
	}
	for _, e := range g.list[me][:g.elements[me]] {
		take(g.list[e])
		g.parent[e], g.gone[e] = me, true
	}
	take(g.list[me][g.elements[me]:])
	g.list[me] = g.arena[from:len(g.arena):len(g.arena)]
}

// measure finds how much of each other element is not in the new one.
func (g *graph) measure(me int) {
	for _, i := range g.list[me] {
		for _, e := range g.list[i][:g.elements[i]] {
			if g.gone[e] {
				continue
			}
			if g.seen[e] != me+1 {
				g.seen[e], g.beyond[e] = me+1, g.degree[e]
			}
			g.beyond[e] -= g.size[i]
		}
	}
}

// update takes from the list of a variable what the new element stands for, and finds
// what else may depend on it. Elements that lie within the new one are taken in; so
// is the variable if there is nothing else.
func (g *graph) update(me, i int) {
	list, kept, sum, degree := g.list[i], 0, 0, 0
	keep := func(j, size int) {
		list[kept] = j
		kept++
		sum += j
		degree += size
	}
	for _, e := range list[:g.elements[i]] {
		switch {
		case g.gone[e]:
		case g.beyond[e] > 0:
			keep(e, g.beyond[e])
		default:
			g.parent[e], g.gone[e] = me, true
		}
	}
	k := kept
	for _, j := range list[g.elements[i]:] {
		if g.size[j] > 0 && !g.inside[j] {
			keep(j, g.size[j])
		}
	}
	if kept == 0 {
		g.parent[i] = me
		g.degree[me] -= g.size[i]
		g.size[me] += g.size[i]
		g.over += g.size[i]
		g.size[i] = 0
		return
	}
	g.degree[i] = min(g.degree[i], degree)
	// Something was dropped, so that there is room: the first of either sort goes last.
	list[kept], list[k], list[0] = list[k], list[0], me
	g.list[i], g.elements[i] = list[:kept+1], k+1
	g.key[i] = sum % len(g.list)
	g.chain[i], g.bucket[g.key[i]] = g.bucket[g.key[i]], i
}

// merge lets variables of a bucket stand for those behind them with the same list.
func (g *graph) merge(key int) {
	i := g.bucket[key]
	g.bucket[key] = none
	for ; i != none && g.chain[i] != none; i = g.chain[i] {
		g.stamp++
		for _, j := range g.list[i][1:] { // all of them begin with the new element
			g.mark[j] = g.stamp
		}
		for before, j := i, g.chain[i]; j != none; j = g.chain[j] {
			if !g.same(i, j) {
				before = j
				continue
			}
			g.parent[j] = i
			g.size[i] += g.size[j]
			g.size[j] = 0
			g.chain[before] = g.chain[j]
		}
	}
}

// same tells whether a variable has the list of another one, which is marked.
func (g *graph) same(i, j int) bool {
	if len(g.list[i]) != len(g.list[j]) || g.elements[i] != g.elements[j] {
		return false
	}
	for _, k := range g.list[j][1:] {
		if g.mark[k] != g.stamp {
			return false
		}
	}
	return true
}
