// Package fabric is what sets of the GPUs of a node are worth by their links.
//
// Nouns:
//   - A Graph is the GPUs of a node and the links between each two of them.
//   - A Pattern is which GPUs of a job talk to each other: a ring, a chain, a star, a clique. A set
//     of GPUs can hold a pattern in many orders.
//   - Aggregate is the speeds of the links that a pattern uses, added up. Predicted is the effective
//     bandwidth over them, as a fit foretells. Preserved is the speeds of all NVLinks between GPUs.
//
// Units: GB/s, one way. A Graph finds what all sets are worth to a pattern once, when it is first asked,
// and is not safe for concurrent use.
//
// Source: Ranganath et al., "MAPA: Multi-Accelerator Pattern Allocation Policy for Multi-Tenant GPU
// Servers", SC 2021.
package fabric

import (
	"math"
	"math/bits"
	"slices"

	"github.com/norn-scheduler/norn/cluster"
)

// MaxDevices is the largest node that has a Graph.
const MaxDevices = 16

// Kind is how fast a link is, as the prediction of bandwidth tells links apart.
type Kind uint8

// The kinds of links.
const (
	Double Kind = iota // two NVLinks or more
	Single             // one NVLink
	Slow               // all others
)

// KindOf is the kind of a link. NVLinks whose number is not known count as two from 40 GB/s on.
func KindOf(l cluster.Link) Kind {
	switch {
	case l.Class != cluster.NVLink:
		return Slow
	case l.Count >= 2, l.Count == 0 && l.GBps >= 40:
		return Double
	}
	return Single
}

// Set is a set of the devices of a node, a bit each.
type Set uint32

// Len is the number of devices.
func (s Set) Len() int { return bits.OnesCount32(uint32(s)) }

// Lowest are the n devices with the lowest numbers.
func (s Set) Lowest(n int) Set {
	rest := s
	for range n {
		rest &= rest - 1
	}
	return s &^ rest
}

// Low is the lowest number in a set that is not empty.
func (s Set) Low() int { return bits.TrailingZeros32(uint32(s)) }

// Each visits all sets of n of the devices, those of the lowest numbers first. Of none, and of more than there
// are, it visits nothing.
func (s Set) Each(n int, visit func(Set)) {
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
	if n > 0 {
		walk(0, s, n)
	}
}

// Graph is the devices of a node and the links between each two of them.
type Graph struct {
	n        int
	gbps     [MaxDevices][MaxDevices]float64
	kind     [MaxDevices][MaxDevices]Kind
	of       [MaxDevices][3]Set // those to which a device has links of a kind
	uniform  bool               // all links are equal
	nvlink   []float64          // by set: the speeds of all NVLinks inside, added up
	tables   [patterns]*table
	foretold [MaxDevices + 1][]float64 // by the number of links that are used, and by how many of each kind these are
}

// New is the graph of a node; nil when its links are not known, or it has more than MaxDevices devices.
func New(l *cluster.Links) *Graph {
	if l == nil || l.Devices() > MaxDevices {
		return nil
	}
	g := &Graph{n: l.Devices(), uniform: true}
	for i := range g.n {
		for j := range i {
			link := l.Between(i, j)
			k := KindOf(link)
			g.gbps[i][j], g.gbps[j][i] = link.GBps, link.GBps
			g.kind[i][j], g.kind[j][i] = k, k
			g.of[i][k] |= 1 << j
			g.of[j][k] |= 1 << i
			g.uniform = g.uniform && link == l.Between(0, 1)
		}
	}
	if g.uniform {
		return g
	}
	g.nvlink = make([]float64, 1<<g.n)
	for s := Set(1); s < 1<<g.n; s++ {
		v, rest := s.Low(), s&(s-1)
		sum := g.nvlink[rest]
		for links := rest &^ g.of[v][Slow]; links != 0; links &= links - 1 {
			sum += g.gbps[v][links.Low()]
		}
		g.nvlink[s] = sum
	}
	return g
}

// Slowest is the speed of the slowest link between two devices of a set, in GB/s; 0 where it has fewer
// than two.
func (g *Graph) Slowest(s Set) float64 {
	least := math.Inf(1)
	for a := s; a != 0; a &= a - 1 {
		for b := a & (a - 1); b != 0; b &= b - 1 {
			least = min(least, g.gbps[a.Low()][b.Low()])
		}
	}
	if s.Len() < 2 {
		return 0
	}
	return least
}

// Devices is their number.
func (g *Graph) Devices() int { return g.n }

// Uniform tells whether all links are equal, so that a set is worth as much as any other of its size.
func (g *Graph) Uniform() bool { return g.uniform }

// Preserved is the bandwidth of all NVLinks between devices of a set, in GB/s: what is left to
// other jobs when these stay free. It must not be asked of a uniform graph.
func (g *Graph) Preserved(s Set) float64 { return g.nvlink[s] }

// Predicted is the effective bandwidth in GB/s of a collective operation over so many double
// NVLinks, single NVLinks and other links. It is the fit that the authors made of NCCL's
// all-reduce on a DGX-1 with V100 (section 3 of the paper, scripts/get_predBW.py).
func Predicted(double, single, slow int) float64 {
	x, y, z := float64(double), float64(single), float64(slow)
	return 16.39670455*x + 4.536821878*y + 1.55623404*z +
		-20.69484581/(x+1) + -9.467461958/(y+1) + 7.615106783/(z+1) +
		-7.973335727*x*y + 12.73323772*y*z + -4.195655221*x*z +
		-8.413419363/(x*y+1) + 62.85125807/(y*z+1) + 27.41832588/(x*z+1) +
		-5.114108079*x*y*z + -46.97390071/(x*y*z+1)
}

// never is less than the score of anything.
var never = math.Inf(-1)

// ByLinks is something of links, made when it is first asked for. Equal links have it once. The zero ByLinks
// has nothing, and a ByLinks is not safe for concurrent use.
type ByLinks[T any] struct {
	known map[*cluster.Links]T
	alike []*cluster.Links // of which no two are equal
}

// mostLinks bounds what is kept where every node has links of its own.
const mostLinks = 1024

// Of is what links have, which is made from them the first time.
func (s *ByLinks[T]) Of(l *cluster.Links, from func(*cluster.Links) T) T {
	if is, known := s.known[l]; known {
		return is
	}
	if s.known == nil || len(s.alike) >= mostLinks {
		s.known, s.alike = map[*cluster.Links]T{}, nil
	}
	if i := slices.IndexFunc(s.alike, l.Equal); i >= 0 {
		s.known[l] = s.known[s.alike[i]]
	} else {
		s.alike = append(s.alike, l)
		s.known[l] = from(l)
	}
	return s.known[l]
}

// Graphs are the graphs of links, each made when it is first asked for. The zero Graphs has none.
type Graphs struct{ all ByLinks[*Graph] }

// Of is the graph of a node; nil when its links are not known, or it has fewer than two devices or
// more than MaxDevices.
func (s *Graphs) Of(l *cluster.Links) *Graph {
	if l == nil || l.Devices() < 2 || l.Devices() > MaxDevices {
		return nil
	}
	return s.all.Of(l, New)
}
