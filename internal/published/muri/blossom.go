package muri

import (
	"math"
	"slices"
)

// blossoms is the matching of the published code, operation by operation: of several
// matchings of equal weight it finds the same one, and where its arithmetic, in floating
// point and with tolerances, ends short of the best, so does this. Package solve/match
// is exact.
//
// Vertices are numbered from 1, and blossoms (odd circles shrunk to a vertex) behind
// them; 0 is nobody. Of what alternating trees are made of, outer vertices are at an
// even distance from a root.
type blossoms struct {
	n, top int // vertices; the last blossom that there ever was
	stride int

	edge   []between // from one to another, row by row
	twice  []float64 // twice the weights of edges between vertices, row by row; 0: there is none
	label  []float64 // dual values
	mate   []int     // the vertex at the other end
	around []int     // the outermost blossom that one is in
	parent []int     // of an inner one: the vertex that it was reached from
	slack  []int     // the outer vertex nearest to one
	side   []side
	petals [][]int // of a blossom, around the circle
	holds  []int   // by blossom and vertex: the petal in which the vertex is
	seen   []int   // the last search for a common root that came by
	turn   int
	queue  []int

	// Scratch of push and marry.
	level []int
	pairs [][2]int
}

type side int8

const (
	free side = iota - 1
	outer
	inner
)

// between is an edge by its vertices, also where it stands for that of a blossom, and
// twice its weight; 0: there is none.
type between struct {
	u, v  int32
	twice float64
}

// begin forgets everything but the memory. Weights are set afterwards.
func (b *blossoms) begin(n int) {
	b.n, b.top, b.turn = n, n, 0
	b.stride = n + n/2 + 2
	if n := b.stride * b.stride; len(b.edge) < n {
		b.edge, b.holds = make([]between, n), make([]int, n)
	}
	b.twice = cleared(b.twice, (n+1)*(n+1))
	b.label = cleared(b.label, b.stride)
	for _, a := range []*[]int{&b.mate, &b.around, &b.parent, &b.slack, &b.seen} {
		*a = cleared(*a, b.stride)
	}
	b.side = cleared(b.side, b.stride)
	for len(b.petals) < b.stride {
		b.petals = append(b.petals, nil)
	}
	for u := 1; u <= n; u++ {
		b.around[u] = u
		for v := 1; v <= n; v++ {
			*b.at(u, v), *b.held(u, v) = between{u: int32(u), v: int32(v)}, 0
		}
		*b.held(u, u) = u
	}
}

// cleared is a list of so many zeros, in the memory of another.
func cleared[T any](list []T, n int) []T {
	if cap(list) < n {
		return make([]T, n)
	}
	list = list[:n]
	clear(list)
	return list
}

func (b *blossoms) at(x, y int) *between { return &b.edge[x*b.stride+y] }
func (b *blossoms) held(x, v int) *int   { return &b.holds[x*b.stride+v] }

// weigh says what u and v weigh together, from 1; the other way around may be different
// in the last digit.
func (b *blossoms) weigh(u, v int, weight float64) {
	b.at(u, v).twice, b.twice[u*(b.n+1)+v] = 2*weight, 2*weight
}

// match finds who is whose mate, by vertex; 0: nobody.
func (b *blossoms) match() []int {
	most := 0.0
	for _, twice := range b.twice {
		most = max(most, twice/2)
	}
	for x := range b.n + 1 {
		b.label[x] = most
	}
	for most > 0 && b.phase() {
	}
	return b.mate[:b.n+1]
}

// dist is how far an edge is from being tight.
func (b *blossoms) dist(e *between) float64 { return b.label[e.u] + b.label[e.v] - e.twice }

// nearer notes that x can be reached from u, if from nowhere nearer.
func (b *blossoms) nearer(u, x int) {
	if b.slack[x] == 0 || b.dist(b.at(u, x)) < b.dist(b.at(b.slack[x], x)) {
		b.slack[x] = u
	}
}

func (b *blossoms) setSlack(x int) {
	b.slack[x] = 0
	for u := 1; u <= b.n; u++ {
		if b.at(u, x).twice > 0 && b.around[u] != x && b.side[b.around[u]] == outer {
			b.nearer(u, x)
		}
	}
}

// push puts the vertices of x into the queue, blossom within blossom in order of depth.
func (b *blossoms) push(x int) {
	if x <= b.n {
		b.queue = append(b.queue, x)
		return
	}
	b.level = append(b.level[:0], x)
	for i := 0; i < len(b.level); i++ {
		if x := b.level[i]; x <= b.n {
			b.queue = append(b.queue, x)
		} else {
			b.level = append(b.level, b.petals[x]...)
		}
	}
}

func (b *blossoms) surround(x, by int) {
	b.around[x] = by
	if x > b.n {
		for _, p := range b.petals[x] {
			b.surround(p, by)
		}
	}
}

// place is how far a petal is from the base of its blossom, which is turned around
// where that is odd.
func (b *blossoms) place(x, petal int) int {
	at, list := 0, b.petals[x]
	for list[at] != petal {
		at++
	}
	if at%2 == 0 {
		return at
	}
	slices.Reverse(list[1:])
	return len(list) - at
}

// marry makes v the mate of u, and pairs the petals of a blossom accordingly.
func (b *blossoms) marry(u, v int) {
	b.pairs = append(b.pairs[:0], [2]int{u, v})
	for i := 0; i < len(b.pairs); i++ {
		u, v := b.pairs[i][0], b.pairs[i][1]
		e := b.at(u, v)
		b.mate[u] = int(e.v)
		if u <= b.n {
			continue
		}
		petal := *b.held(u, int(e.u))
		at := b.place(u, petal)
		list := b.petals[u]
		for k := range at {
			b.pairs = append(b.pairs, [2]int{list[k], list[k^1]})
		}
		b.pairs = append(b.pairs, [2]int{petal, v})
		b.petals[u] = append(slices.Clone(list[at:]), list[:at]...)
	}
}

// augment changes mates along a path, up to its root.
func (b *blossoms) augment(u, v int) {
	for {
		next := b.around[b.mate[u]]
		b.marry(u, v)
		if next == 0 {
			return
		}
		b.marry(next, b.around[b.parent[next]])
		u, v = b.around[b.parent[next]], next
	}
}

// meeting is where the paths of u and v to their roots meet, or 0.
func (b *blossoms) meeting(u, v int) int {
	b.turn++
	for u != 0 || v != 0 {
		if u != 0 {
			if b.seen[u] == b.turn {
				return u
			}
			b.seen[u] = b.turn
			if u = b.around[b.mate[u]]; u != 0 {
				u = b.around[b.parent[u]]
			}
		}
		u, v = v, u
	}
	return 0
}

// shrink makes a blossom of the circle that the edge between u and v closes.
func (b *blossoms) shrink(u, base, v int) {
	x := b.n + 1
	for x <= b.top && b.around[x] != 0 {
		x++
	}
	for ; b.top < x; b.top++ {
		for y := range x + 1 {
			*b.at(x, y), *b.at(y, x) = between{}, between{}
		}
	}
	b.label[x], b.side[x], b.mate[x] = 0, outer, b.mate[base]
	b.petals[x] = append(b.petals[x][:0], base)
	b.climb(x, u, base)
	slices.Reverse(b.petals[x][1:])
	b.climb(x, v, base)
	b.surround(x, x)
	for y := 1; y <= b.top; y++ {
		b.at(x, y).twice, b.at(y, x).twice = 0, 0
	}
	clear(b.holds[x*b.stride+1 : x*b.stride+b.n+1])
	for _, p := range b.petals[x] {
		own, petal := b.edge[x*b.stride:], b.edge[p*b.stride:]
		for y := 1; y <= b.top; y++ {
			if own[y].twice == 0 || b.dist(&petal[y]) < b.dist(&own[y]) {
				own[y], *b.at(y, x) = petal[y], *b.at(y, p)
			}
		}
		for y := 1; y <= b.n; y++ {
			if *b.held(p, y) != 0 {
				*b.held(x, y) = p
			}
		}
	}
	b.setSlack(x)
}

// climb adds the petals from y up to the base.
func (b *blossoms) climb(x, y, base int) {
	for y != base {
		mate := b.around[b.mate[y]]
		b.petals[x] = append(b.petals[x], y, mate)
		b.push(mate)
		y = b.around[b.parent[mate]]
	}
}

// expand makes petals of an inner blossom again.
func (b *blossoms) expand(x int) {
	for _, p := range b.petals[x] {
		b.surround(p, p)
	}
	entry := *b.held(x, int(b.at(x, b.parent[x]).u))
	at := b.place(x, entry)
	for i := 0; i < at; i += 2 {
		in, out := b.petals[x][i], b.petals[x][i+1]
		b.parent[in] = int(b.at(out, in).u)
		b.side[in], b.side[out] = inner, outer
		b.slack[in] = 0
		b.setSlack(out)
		b.push(out)
	}
	b.side[entry], b.parent[entry] = inner, b.parent[x]
	for _, p := range b.petals[x][at+1:] {
		b.side[p] = free
		b.setSlack(p)
	}
	b.around[x] = 0
}

// take goes along a tight edge. It tells whether that found a path.
func (b *blossoms) take(e between) bool {
	u, v := b.around[e.u], b.around[e.v]
	switch b.side[v] {
	case free:
		b.parent[v], b.side[v] = int(e.u), inner
		next := b.around[b.mate[v]]
		b.slack[v], b.slack[next], b.side[next] = 0, 0, outer
		b.push(next)
	case outer:
		base := b.meeting(u, v)
		if base == 0 {
			b.augment(u, v)
			b.augment(v, u)
			return true
		}
		b.shrink(u, base, v)
	}
	return false
}

// phase finds a path along which there is one pair more, if there is one.
func (b *blossoms) phase() bool {
	b.queue = b.queue[:0]
	for x := range b.top + 1 {
		b.side[x], b.slack[x] = free, 0
	}
	for x := 1; x <= b.top; x++ {
		if b.around[x] == x && b.mate[x] == 0 {
			b.parent[x], b.side[x] = 0, outer
			b.push(x)
		}
	}
	if len(b.queue) == 0 {
		return false
	}
	for {
		if b.grow() {
			return true
		}
		if !b.relabel() {
			return false
		}
		b.queue = b.queue[:0]
		if b.tight() {
			return true
		}
		for x := b.n + 1; x <= b.top; x++ {
			if b.around[x] == x && b.side[x] == inner && b.label[x] <= 0 {
				b.expand(x)
			}
		}
	}
}

// grow follows tight edges from the vertices of the queue, and notes how near they are to
// the others. Values do not change meanwhile.
func (b *blossoms) grow() bool {
	for i := 0; i < len(b.queue); i++ {
		u := b.queue[i]
		if b.side[b.around[u]] == inner {
			continue
		}
		row := b.twice[u*(b.n+1) : (u+1)*(b.n+1)]
		label, around := b.label[:len(row)], b.around[:len(row)]
		for v, twice := range row {
			x := around[v]
			if twice <= 0 || around[u] == x {
				continue
			}
			far := label[u] + label[v] - twice
			if far <= 0 {
				if b.take(*b.at(u, v)) {
					return true
				}
				continue
			}
			switch s := b.slack[x]; {
			case s == 0:
				b.slack[x] = u
			case x > b.n:
				b.nearer(u, x)
			case far < label[s]+label[v]-b.twice[s*(b.n+1)+v]:
				b.slack[x] = u
			}
		}
	}
	return false
}

// tight follows edges that have become tight.
func (b *blossoms) tight() bool {
	for x, top := 1, b.top; x <= top; x++ {
		if b.around[x] != x || b.slack[x] == 0 || b.around[b.slack[x]] == x {
			continue
		}
		if e := *b.at(b.slack[x], x); b.dist(&e) <= 0 && b.take(e) {
			return true
		}
	}
	return false
}

// relabel changes dual values by as much as makes another edge tight. It fails when the
// value of a vertex would come to zero, or within a hundred thousandth of that.
func (b *blossoms) relabel() bool {
	d := math.Inf(1)
	for x := b.n + 1; x <= b.top; x++ {
		if b.around[x] == x && b.side[x] == inner {
			d = min(d, b.label[x]/2)
		}
	}
	for x := 1; x <= b.top; x++ {
		if b.around[x] != x || b.slack[x] == 0 {
			continue
		}
		switch b.side[x] {
		case free:
			d = min(d, b.dist(b.at(b.slack[x], x)))
		case outer:
			d = min(d, b.dist(b.at(b.slack[x], x))/2)
		}
	}
	for u := 1; u <= b.n; u++ {
		switch b.side[b.around[u]] {
		case outer:
			if l := b.label[u]; l <= d || l-d <= 1e-5*l {
				return false
			}
			b.label[u] -= d
		case inner:
			b.label[u] += d
		}
	}
	for x := b.n + 1; x <= b.top; x++ {
		if b.around[x] == x {
			switch b.side[x] {
			case outer:
				b.label[x] += d * 2
			case inner:
				b.label[x] -= d * 2
			}
		}
	}
	return true
}
