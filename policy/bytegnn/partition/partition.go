// Package partition divides the vertices of a graph among workers that train on it: by the rule of
// ByteGNN, by hashing, and by multilevel partitioning, as METIS does.
//
// Nouns:
//   - A Graph has vertices, numbered from 0, and the sources of the edges into each.
//   - A seed is a vertex that is trained, validated or tested on.
//   - A block is a seed with the vertices that it reaches before all others, within some hops.
//   - A part is what one worker has. Parts are numbered from 0.
//
// All is deterministic. Nothing here fails on graphs that NewGraph has made.
//
// Source: the rule of ByteGNN (PVLDB 15(6), 2022) is as section 2.4 of our specification has it from
// a re-implementation. The multilevel scheme is that of Karypis and Kumar, SIAM J. Sci. Comput.
// 20(1), 1998: heavy-edge matching, growing, greedy refinement; ours is a plain one.
package partition

import (
	"cmp"
	"fmt"
	"slices"
)

// Graph is a graph with directed edges, as lists of their sources by target.
type Graph struct {
	start []int64 // by vertex, and one more
	from  []int32
}

// Edge goes from one vertex to another.
type Edge struct{ From, To int32 }

// NewGraph makes a graph of so many vertices. Edges are kept as they are, also several between the
// same vertices. It fails on an edge of a vertex that there is not.
func NewGraph(vertices int, edges []Edge) (*Graph, error) {
	g := &Graph{start: make([]int64, vertices+1), from: make([]int32, len(edges))}
	for i, e := range edges {
		if e.From < 0 || e.To < 0 || int(e.From) >= vertices || int(e.To) >= vertices {
			return nil, fmt.Errorf("edge %d goes from %d to %d; there are %d vertices, numbered from 0", i+1, e.From, e.To, vertices)
		}
		g.start[e.To+1]++
	}
	for v := range vertices {
		g.start[v+1] += g.start[v]
	}
	at := slices.Clone(g.start)
	for _, e := range edges {
		g.from[at[e.To]] = e.From
		at[e.To]++
	}
	return g, nil
}

// Vertices is their number.
func (g *Graph) Vertices() int { return len(g.start) - 1 }

// Edges is their number.
func (g *Graph) Edges() int { return len(g.from) }

// In are the sources of the edges into a vertex. It must not be changed.
func (g *Graph) In(v int32) []int32 { return g.from[g.start[v]:g.start[v+1]] }

// Seeds are the vertices that a model is trained, validated and tested on.
type Seeds struct{ Train, Validate, Test []int32 }

// all are the seeds in order: those to train on first.
func (s *Seeds) all() []int32 { return slices.Concat(s.Train, s.Validate, s.Test) }

// Block is a seed and what belongs to it.
type Block struct {
	Seed     int32
	Vertices []int32 // the seed first
}

// Blocks are the blocks of seeds, within so many hops over edges backwards. A vertex belongs to the
// seed that reaches it in the fewest hops, of equal ones to the first in order.
func Blocks(g *Graph, seeds []int32, hops int) []Block {
	owner := make([]int32, g.Vertices())
	for v := range owner {
		owner[v] = -1
	}
	var out []Block
	var frontier, next []int32
	for _, s := range seeds {
		if owner[s] < 0 {
			owner[s] = int32(len(out))
			out = append(out, Block{Seed: s, Vertices: []int32{s}})
			frontier = append(frontier, s)
		}
	}
	for range hops {
		next = next[:0]
		for _, v := range frontier { // in the order of their seeds
			for _, u := range g.In(v) {
				if owner[u] < 0 {
					owner[u] = owner[v]
					out[owner[v]].Vertices = append(out[owner[v]].Vertices, u)
					next = append(next, u)
				}
			}
		}
		slices.SortStableFunc(next, func(a, b int32) int { return cmp.Compare(owner[a], owner[b]) })
		frontier, next = next, frontier
	}
	return out
}

// Tally is what a part has so far, as its score goes by.
type Tally struct {
	Vertices int
	Seeds    [3]int // to train, to validate and to test on
}

// Score is how well a block suits a part: cross counts the edges from the part into the block,
// totals the seeds of all parts. A part with fewer seeds has the higher score.
func Score(part Tally, cross int, totals [3]int) float64 {
	near := 0.0
	if part.Vertices > 0 {
		near = float64(cross) / float64(part.Vertices)
	}
	balance := 1.0
	for i, total := range totals {
		if total > 0 {
			balance -= float64(part.Seeds[i]) / float64(total)
		}
	}
	return (1 + near) * balance
}

// None is the part of a vertex that has none.
const None = -1

// ByBlocks is the partition of ByteGNN: the blocks of all seeds, the largest first, each to the part
// with the highest score. Vertices that no seed reaches are dealt in turn.
func ByBlocks(g *Graph, seeds Seeds, hops, parts int) []int32 {
	out := make([]int32, g.Vertices())
	kind := make([]int8, g.Vertices())
	for v := range out {
		out[v], kind[v] = None, -1
	}
	var totals [3]int
	for i, list := range [3][]int32{seeds.Train, seeds.Validate, seeds.Test} {
		for _, v := range list {
			if kind[v] < 0 {
				kind[v] = int8(i)
				totals[i]++
			}
		}
	}
	blocks := Blocks(g, seeds.all(), hops)
	slices.SortStableFunc(blocks, func(a, b Block) int { return cmp.Compare(len(b.Vertices), len(a.Vertices)) })
	tallies := make([]Tally, parts)
	cross := make([]int, parts)
	for _, b := range blocks {
		clear(cross)
		for _, u := range b.Vertices {
			for _, v := range g.In(u) {
				if out[v] >= 0 {
					cross[out[v]]++
				}
			}
		}
		best := 0
		for p := range tallies {
			if Score(tallies[p], cross[p], totals) > Score(tallies[best], cross[best], totals) {
				best = p
			}
		}
		for _, v := range b.Vertices {
			out[v] = int32(best)
			tallies[best].Vertices++
			if kind[v] >= 0 {
				tallies[best].Seeds[kind[v]]++
			}
		}
	}
	turn := 0
	for v := range out {
		if out[v] == None {
			out[v] = int32(turn % parts)
			turn++
		}
	}
	return out
}

// ByHash is the partition of vertices by a hash of their numbers.
func ByHash(vertices, parts int) []int32 {
	out := make([]int32, vertices)
	for v := range out {
		x := uint64(v) + 0x9e3779b97f4a7c15 // splitmix64
		x = (x ^ x>>30) * 0xbf58476d1ce4e5b9
		x = (x ^ x>>27) * 0x94d049bb133111eb
		out[v] = int32((x ^ x>>31) % uint64(parts))
	}
	return out
}

// Quality is how good a partition is.
type Quality struct {
	Cut      float64 // part of the edges between parts
	Vertices float64 // most vertices of a part over the mean
	Train    float64 // most seeds to train on of a part over the mean; 0: there are none
	Remote   float64 // of what the sampling of all seeds to train on reads: the part on other workers
}

// Measure tells the quality of a partition. Sampling reads all sources of edges into a seed, and of
// those into these, and so on, for so many hops.
func Measure(g *Graph, of []int32, parts int, train []int32, hops int) Quality {
	var q Quality
	vertices, seeds := make([]int, parts), make([]int, parts)
	cut := 0
	for v := range of {
		vertices[of[v]]++
		for _, u := range g.In(int32(v)) {
			if of[u] != of[v] {
				cut++
			}
		}
	}
	for _, v := range train {
		seeds[of[v]]++
	}
	q.Cut = float64(cut) / float64(max(1, g.Edges()))
	q.Vertices = float64(slices.Max(vertices)) * float64(parts) / float64(max(1, len(of)))
	q.Train = float64(slices.Max(seeds)) * float64(parts) / float64(max(1, len(train)))
	seen := make([]int32, len(of)) // the last seed that reached a vertex, + 1
	reads, remote := 0, 0
	for i, s := range train {
		frontier := []int32{s}
		seen[s] = int32(i) + 1
		for range hops {
			var next []int32
			for _, v := range frontier {
				for _, u := range g.In(v) {
					if seen[u] == int32(i)+1 {
						continue
					}
					seen[u] = int32(i) + 1
					next = append(next, u)
					if reads++; of[u] != of[s] {
						remote++
					}
				}
			}
			frontier = next
		}
	}
	q.Remote = float64(remote) / float64(max(1, reads))
	return q
}
