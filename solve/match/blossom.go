package match

import "slices"

// Vertices are counted from 1 here, 0 is nobody. Numbers above n are blossoms:
// odd circles that are treated as one vertex. The outermost blossom that a vertex
// is in, or it itself, stands for it (top).
type blossoms struct {
	n, n1  int     // vertices; n+1
	size   int     // 1 + the most that vertices and blossoms can be together
	used   int     // the highest number in use
	weight []int64 // by pair of vertices, doubled; 0: no edge

	// By pair of vertices or blossoms: the edge of least slack between them.
	ends []ends

	label  []int64 // dual values: of a vertex, of a blossom
	mate   []int   // the vertex that it is matched with, of a vertex or blossom
	nearby []int   // the outer vertex with the edge of least slack to it
	gap    []int64 // that slack; nobody: of none
	top    []int
	parent []int // the vertex, in the tree, from which an inner one was reached
	side   []int8
	circle [][]int // of a blossom: its members, the base first
	member []int32 // by blossom and vertex: which member the vertex is in; 0: none
	seen   []int   // marks of the search for a common ancestor
	mark   int
	queue  []int
	next   int     // place in the queue
	least  []int64 // slack of the edges of a new blossom
}

// ends are the two vertices that an edge joins; 0 where there is none.
type ends struct{ u, v int32 }

// nobody is more than any slack.
const nobody = int64(1) << 62

const (
	unreached int8 = -1
	outer     int8 = 0
	inner     int8 = 1
)

// reset makes room for n vertices without edges, in the memory that there is.
func (b *blossoms) reset(n int) {
	size := n + n/2 + 2
	b.n, b.n1, b.size, b.used, b.mark = n, n+1, size, n, 0
	b.weight = cleared(b.weight, (n+1)*(n+1))
	b.ends = cleared(b.ends, size*size)
	b.gap, b.label, b.side = cleared(b.gap, size), cleared(b.label, size), cleared(b.side, size)
	b.mate, b.nearby, b.top, b.parent, b.seen = cleared(b.mate, size), cleared(b.nearby, size), cleared(b.top, size), cleared(b.parent, size), cleared(b.seen, size)
	b.least, b.member = cleared(b.least, size), cleared(b.member, size*(n+1))
	for len(b.circle) < size {
		b.circle = append(b.circle, nil)
	}
}

// cleared is n zeros, in the memory of s when it suffices.
func cleared[T any](s []T, n int) []T {
	if cap(s) < n {
		return make([]T, n)
	}
	s = s[:n]
	clear(s)
	return s
}

// begin makes everybody single, at dual values at which every edge has slack.
func (b *blossoms) begin() {
	most := int64(0)
	for u := 1; u <= b.n; u++ {
		b.top[u] = u
		b.member[u*b.n1+u] = int32(u)
		for v, w := range b.weight[u*b.n1 : (u+1)*b.n1] {
			if w > 0 {
				most = max(most, w)
				b.ends[u*b.size+v] = ends{int32(u), int32(v)}
			}
		}
	}
	for u := 1; u <= b.n; u++ {
		b.label[u] = most / 2
	}
}

// has tells whether there is an edge between two vertices or blossoms.
func (b *blossoms) has(x, y int) bool { return b.ends[x*b.size+y].u != 0 }

// slack is twice what is missing for the edge between x and y to be tight.
func (b *blossoms) slack(x, y int) int64 {
	e := b.ends[x*b.size+y]
	return b.label[e.u] + b.label[e.v] - b.weight[int(e.u)*b.n1+int(e.v)]
}

// closer notes the vertex u if its edge to x, which has so much slack, has less
// than any before.
func (b *blossoms) closer(u, x int, slack int64) {
	if slack < b.gap[x] {
		b.nearby[x], b.gap[x] = u, slack
	}
}

// forget lets nobody be near to x.
func (b *blossoms) forget(x int) { b.nearby[x], b.gap[x] = 0, nobody }

// findNearby looks for the outer vertex with the edge of least slack to x.
func (b *blossoms) findNearby(x int) {
	b.forget(x)
	for u := 1; u <= b.n; u++ {
		if t := b.top[u]; t != x && b.side[t] == outer && b.has(u, x) {
			b.closer(u, x, b.slack(u, x))
		}
	}
}

// enqueue puts the vertices of x on the queue.
func (b *blossoms) enqueue(x int) {
	if x <= b.n {
		b.queue = append(b.queue, x)
		return
	}
	for _, y := range b.circle[x] {
		b.enqueue(y)
	}
}

func (b *blossoms) setTop(x, to int) {
	b.top[x] = to
	if x > b.n {
		for _, y := range b.circle[x] {
			b.setTop(y, to)
		}
	}
}

// position is where the member y stands in the circle of x, walking so that its
// way to the base has an even number of steps: the circle is turned if need be.
func (b *blossoms) position(x, y int) int {
	c := b.circle[x]
	at := 0
	for c[at] != y {
		at++
	}
	if at%2 == 0 {
		return at
	}
	slices.Reverse(c[1:])
	return len(c) - at
}

// setMate matches x along the edge between x and y, and everything inside of x so
// that it fits.
func (b *blossoms) setMate(x, y int) {
	b.mate[x] = int(b.ends[x*b.size+y].v)
	if x <= b.n {
		return
	}
	in := int(b.member[x*b.n1+int(b.ends[x*b.size+y].u)])
	at := b.position(x, in)
	c := b.circle[x]
	for i := range at {
		b.setMate(c[i], c[i^1])
	}
	b.setMate(in, y)
	slices.Reverse(c[:at]) // the member that was reached is the base now
	slices.Reverse(c[at:])
	slices.Reverse(c)
}

// augment turns the path from x to the root of its tree around, beginning with
// the edge between x and y.
func (b *blossoms) augment(x, y int) {
	for {
		next := b.top[b.mate[x]]
		b.setMate(x, y)
		if next == 0 {
			return
		}
		b.setMate(next, b.top[b.parent[next]])
		x, y = b.top[b.parent[next]], next
	}
}

// ancestor is the outer vertex or blossom where the paths from x and y to their
// roots meet, or 0.
func (b *blossoms) ancestor(x, y int) int {
	b.mark++
	for x != 0 || y != 0 {
		if x != 0 {
			if b.seen[x] == b.mark {
				return x
			}
			b.seen[x] = b.mark
			if x = b.top[b.mate[x]]; x != 0 {
				x = b.top[b.parent[x]]
			}
		}
		x, y = y, x
	}
	return 0
}

// shrink makes a blossom of the paths from x and y to their common ancestor.
func (b *blossoms) shrink(x, base, y int) {
	nb := b.n + 1
	for nb <= b.used && b.top[nb] != 0 {
		nb++
	}
	b.used = max(b.used, nb)
	b.label[nb], b.side[nb] = 0, outer
	b.mate[nb] = b.mate[base]
	c := append(b.circle[nb][:0], base)
	walk := func(z int) {
		for z != base {
			w := b.top[b.mate[z]]
			c = append(c, z, w)
			b.enqueue(w)
			z = b.top[b.parent[w]]
		}
	}
	walk(x)
	slices.Reverse(c[1:])
	walk(y)
	b.circle[nb] = c
	b.setTop(nb, nb)
	for z := 1; z <= b.used; z++ {
		b.ends[nb*b.size+z], b.ends[z*b.size+nb] = ends{}, ends{}
	}
	clear(b.member[nb*b.n1 : (nb+1)*b.n1])
	for _, z := range c {
		b.absorb(nb, z)
	}
	b.findNearby(nb)
}

// absorb gives a blossom the edges of its member z that have less slack than those
// of the members before it.
func (b *blossoms) absorb(nb, z int) {
	for w := 1; w <= b.used; w++ {
		if !b.has(z, w) {
			continue
		}
		if slack := b.slack(z, w); !b.has(nb, w) || slack < b.least[w] {
			b.least[w] = slack
			b.ends[nb*b.size+w] = b.ends[z*b.size+w]
			b.ends[w*b.size+nb] = b.ends[w*b.size+z]
		}
	}
	for u, in := range b.member[z*b.n1 : (z+1)*b.n1] {
		if in != 0 {
			b.member[nb*b.n1+u] = int32(z)
		}
	}
}

// expand opens an inner blossom whose dual value has come down to zero.
func (b *blossoms) expand(x int) {
	for _, y := range b.circle[x] {
		b.setTop(y, y)
	}
	in := int(b.member[x*b.n1+int(b.ends[x*b.size+b.parent[x]].u)])
	at := b.position(x, in)
	c := b.circle[x]
	for i := 0; i < at; i += 2 {
		low, high := c[i], c[i+1]
		b.parent[low] = int(b.ends[high*b.size+low].u)
		b.side[low], b.side[high] = inner, outer
		b.forget(low)
		b.findNearby(high)
		b.enqueue(high)
	}
	b.side[in], b.parent[in] = inner, b.parent[x]
	for _, y := range c[at+1:] {
		b.side[y] = unreached
		b.findNearby(y)
	}
	b.top[x] = 0
}

// join follows a tight edge between the outer u and v: the tree grows, a
// blossom is shrunk, or, which it then tells, there is one pair more.
func (b *blossoms) join(u, v int) bool {
	x, y := b.top[u], b.top[v]
	switch b.side[y] {
	case unreached:
		b.parent[y], b.side[y] = u, inner
		next := b.top[b.mate[y]]
		b.forget(y)
		b.forget(next)
		b.side[next] = outer
		b.enqueue(next)
	case outer:
		base := b.ancestor(x, y)
		if base == 0 {
			b.augment(x, y)
			b.augment(y, x)
			return true
		}
		b.shrink(x, base, y)
	}
	return false
}

// phase looks for one pair more; it is false when another would not be worth
// anything.
func (b *blossoms) phase() bool {
	b.queue, b.next = b.queue[:0], 0
	for x := 1; x <= b.used; x++ {
		b.side[x] = unreached
		b.forget(x)
	}
	for x := 1; x <= b.used; x++ {
		if b.top[x] == x && b.mate[x] == 0 {
			b.parent[x], b.side[x] = 0, outer
			b.enqueue(x)
		}
	}
	if len(b.queue) == 0 {
		return false
	}
	for {
		if b.grow() {
			return true
		}
		if !b.adjust() {
			return false
		}
		for x := 1; x <= b.used; x++ {
			if near := b.nearby[x]; b.top[x] == x && near != 0 && b.top[near] != x && b.gap[x] == 0 {
				if e := b.ends[near*b.size+x]; b.join(int(e.u), int(e.v)) {
					return true
				}
			}
		}
		for x := b.n + 1; x <= b.used; x++ {
			if b.top[x] == x && b.side[x] == inner && b.label[x] == 0 {
				b.expand(x)
			}
		}
	}
}

// grow follows the tight edges of the queue.
func (b *blossoms) grow() bool {
	for b.next < len(b.queue) {
		u := b.queue[b.next]
		b.next++
		if b.side[b.top[u]] == inner {
			continue
		}
		row := b.weight[u*b.n1 : (u+1)*b.n1]
		label, top, gap, mine := b.label[:len(row)], b.top[:len(row)], b.gap, b.label[u]
		for v, w := range row {
			slack, x := mine+label[v]-w, top[v]
			switch {
			case w == 0 || slack > 0 && slack >= gap[x] || x == top[u]:
			case slack <= 0:
				if b.join(u, v) {
					return true
				}
			default:
				b.closer(u, x, slack)
			}
		}
	}
	return false
}

// adjust moves the dual values until an edge becomes tight or a blossom opens.
// It is false when single vertices have come down to zero: staying single is then
// as good as any pair.
func (b *blossoms) adjust() bool {
	d := nobody
	for x := 1; x <= b.used; x++ {
		if b.top[x] != x {
			continue
		}
		switch b.side[x] {
		case unreached:
			d = min(d, b.gap[x])
		case outer:
			d = min(d, b.gap[x]/2)
		case inner:
			if x > b.n {
				d = min(d, b.label[x]/2)
			}
		}
	}
	for u := 1; u <= b.n; u++ {
		switch b.side[b.top[u]] {
		case outer:
			if b.label[u] <= d {
				return false
			}
			b.label[u] -= d
		case inner:
			b.label[u] += d
		}
	}
	b.follow(d)
	b.queue, b.next = b.queue[:0], 0
	return true
}

// follow moves the dual values of blossoms, and what slack there is, after those of
// vertices have moved by d.
func (b *blossoms) follow(d int64) {
	for x := 1; x <= b.used; x++ {
		if b.top[x] != x {
			continue
		}
		up := int64(0)
		switch b.side[x] {
		case unreached:
			b.gap[x] -= d
		case outer:
			b.gap[x] -= 2 * d
			up = 2 * d
		case inner:
			up = -2 * d
		}
		if x > b.n {
			b.label[x] += up
		}
	}
}
