// Package flow sends units through a network at the least cost, exactly.
//
// Nouns: a Network has nodes, counted from zero, and arcs between them, each with
// a capacity in whole units and a cost per unit, which may be negative. Costs
// have whatever unit the caller gives them; whole numbers below 2⁵³ are computed
// with exactly, others to the precision of a float64.
//
// Source: successive shortest paths with potentials: Edmonds and Karp,
// "Theoretical improvements in algorithmic efficiency for network flow
// problems", J. ACM 19, 1972.
package flow

import (
	"fmt"
	"math"
)

// Arc is an arc of a network, by its number.
type Arc int

// Network is a network. Mistakes in making it are kept; Send returns the first.
type Network struct {
	first []int32 // by node: its first edge, or -1
	edges []edge  // edge 2k is arc k, edge 2k+1 the way back
	caps  []int64 // by arc
	err   error

	potential, dist []float64
	via             []int32 // by node: the edge it was reached by
	heap            []entry
}

type edge struct {
	to, next int32
	left     int64 // how many units may still go
	cost     float64
}

type entry struct {
	dist float64
	node int32
}

// Sent is what was sent.
type Sent struct {
	Units int64
	Cost  float64
}

// New makes a network without arcs.
func New(nodes int) *Network {
	if nodes < 0 || nodes > math.MaxInt32/2 {
		return &Network{err: fmt.Errorf("network is to have %d nodes", nodes)}
	}
	n := &Network{first: make([]int32, nodes), potential: make([]float64, nodes), dist: make([]float64, nodes), via: make([]int32, nodes)}
	for i := range n.first {
		n.first[i] = -1
	}
	return n
}

// Arc adds an arc.
func (n *Network) Arc(from, to int, capacity int64, cost float64) Arc {
	a := Arc(len(n.caps))
	bad := from < 0 || to < 0 || from >= len(n.first) || to >= len(n.first)
	if n.err == nil && (bad || capacity < 0 || !(math.Abs(cost) < 1e300) || len(n.edges) > math.MaxInt32-2) {
		n.err = fmt.Errorf("arc %d from node %d to node %d (of %d) has the capacity %d and the cost %v", a, from, to, len(n.first), capacity, cost)
	}
	if n.err != nil {
		return a
	}
	n.caps = append(n.caps, capacity)
	n.edges = append(n.edges, edge{to: int32(to), next: n.first[from], left: capacity, cost: cost})
	n.first[from] = int32(len(n.edges) - 1)
	n.edges = append(n.edges, edge{to: int32(from), next: n.first[to], cost: -cost})
	n.first[to] = int32(len(n.edges) - 1)
	return a
}

// On is how many units were sent over an arc; 0 for one that does not exist.
func (n *Network) On(a Arc) int64 {
	if a < 0 || int(a) >= len(n.caps) {
		return 0
	}
	return n.edges[2*a+1].left
}

// Send sends as many units as possible, but at most so many, from one node to
// another at the least cost. An earlier flow is taken back first. It is an
// error when a way in a circle costs less than nothing.
func (n *Network) Send(from, to int, most int64) (Sent, error) {
	switch {
	case n.err != nil:
		return Sent{}, n.err
	case from < 0 || to < 0 || from >= len(n.first) || to >= len(n.first) || from == to || most < 0:
		return Sent{}, fmt.Errorf("%d units are to go from node %d to node %d of %d", most, from, to, len(n.first))
	}
	for a, c := range n.caps {
		n.edges[2*a].left, n.edges[2*a+1].left = c, 0
	}
	if err := n.begin(); err != nil {
		return Sent{}, err
	}
	var s Sent
	for s.Units < most && n.nearest(from, to) {
		units := most - s.Units
		for v := to; v != from; v = int(n.edges[n.via[v]^1].to) {
			units = min(units, n.edges[n.via[v]].left)
		}
		for v := to; v != from; v = int(n.edges[n.via[v]^1].to) {
			n.edges[n.via[v]].left -= units
			n.edges[n.via[v]^1].left += units
		}
		s.Units += units
	}
	for a := range n.caps {
		if f := n.edges[2*a+1].left; f > 0 {
			s.Cost += float64(f) * n.edges[2*a].cost
		}
	}
	return s, nil
}

// begin finds potentials at which no arc with room costs less than nothing.
func (n *Network) begin() error {
	clear(n.potential)
	for round := 0; ; round++ {
		changed := -1
		for k := 0; k < len(n.edges); k += 2 {
			e, from := &n.edges[k], n.edges[k+1].to
			if d := n.potential[from] + e.cost; e.left > 0 && d < n.potential[e.to]-slack(d) {
				n.potential[e.to] = d
				changed = int(e.to)
			}
		}
		if changed < 0 {
			return nil
		}
		if round > len(n.first) {
			return fmt.Errorf("the network has a circle through node %d that costs less than nothing", changed)
		}
	}
}

// slack is what rounding may make of equal costs.
func slack(d float64) float64 { return 1e-13 * math.Abs(d) }

// nearest finds the cheapest path and moves the potentials along.
func (n *Network) nearest(from, to int) bool {
	for i := range n.dist {
		n.dist[i] = math.Inf(1)
	}
	n.dist[from] = 0
	n.heap = append(n.heap[:0], entry{0, int32(from)})
	for len(n.heap) > 0 {
		top := n.pop()
		if top.dist > n.dist[top.node] {
			continue
		}
		if int(top.node) == to {
			break
		}
		for k := n.first[top.node]; k >= 0; k = n.edges[k].next {
			e := &n.edges[k]
			if e.left == 0 {
				continue
			}
			step := max(0, e.cost+n.potential[top.node]-n.potential[e.to]) // rounding aside, never less
			if d := top.dist + step; d < n.dist[e.to] {
				n.dist[e.to], n.via[e.to] = d, k
				n.push(entry{d, e.to})
			}
		}
	}
	end := n.dist[to]
	if math.IsInf(end, 1) {
		return false
	}
	for i, d := range n.dist {
		n.potential[i] += min(d, end)
	}
	return true
}

func (a entry) before(b entry) bool { return a.dist < b.dist || a.dist == b.dist && a.node < b.node }

func (n *Network) push(e entry) {
	n.heap = append(n.heap, e)
	h := n.heap
	for i := len(h) - 1; i > 0; {
		up := (i - 1) / 2
		if !h[i].before(h[up]) {
			break
		}
		h[i], h[up] = h[up], h[i]
		i = up
	}
}

func (n *Network) pop() entry {
	h := n.heap
	top := h[0]
	last := len(h) - 1
	h[0] = h[last]
	h = h[:last]
	for i := 0; ; {
		low := 2*i + 1
		if low >= last {
			break
		}
		if low+1 < last && h[low+1].before(h[low]) {
			low++
		}
		if !h[low].before(h[i]) {
			break
		}
		h[i], h[low] = h[low], h[i]
		i = low
	}
	n.heap = h
	return top
}
