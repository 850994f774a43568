package amd

// order puts elements behind those that they took in, the largest of which comes last,
// and each unknown that another one stands for before the element that it ended in.
// Dense ones are last.
func (g *graph) order() []int {
	n := len(g.list)
	for i := range n { // parents are elements from here on
		e := g.parent[i]
		for e != none && g.size[e] == 0 {
			e = g.parent[e]
		}
		if g.size[i] == 0 {
			g.parent[i] = e
		}
	}
	place, filled := make([]int, n), 0
	for _, e := range g.walk() {
		place[e] = filled
		filled += g.size[e]
	}
	for i := range n {
		if g.size[i] > 0 {
			continue
		}
		if e := g.parent[i]; e != none {
			place[i] = place[e]
			place[e]++
		} else {
			place[i] = filled
			filled++
		}
	}
	out := make([]int, n)
	for i, k := range place {
		out[k] = i
	}
	return out
}

// walk lists all elements, children first.
func (g *graph) walk() []int {
	n := len(g.list)
	children := make([][]int, n)
	for e := range n {
		if p := g.parent[e]; g.size[e] > 0 && p != none {
			children[p] = append(children[p], e)
		}
	}
	for _, c := range children {
		big := 0
		for k, e := range c {
			if g.front[e] >= g.front[c[big]] {
				big = k
			}
		}
		if len(c) > 0 {
			e := c[big]
			copy(c[big:], c[big+1:])
			c[len(c)-1] = e
		}
	}
	var out []int
	for root := range n {
		if g.size[root] == 0 || g.parent[root] != none {
			continue
		}
		for stack := []int{root}; len(stack) > 0; {
			e := stack[len(stack)-1]
			if c := children[e]; len(c) > 0 {
				for k := range c {
					stack = append(stack, c[len(c)-1-k])
				}
				children[e] = nil
				continue
			}
			out = append(out, e)
			stack = stack[:len(stack)-1]
		}
	}
	return out
}
