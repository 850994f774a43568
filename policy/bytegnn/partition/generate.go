package partition

import (
	"math"
	"math/rand/v2"
)

// PowerLaw makes the edges of a graph whose degrees follow a power law, as those of social and
// product graphs do: a vertex is the source of an edge with a weight of one over a power of its
// rank. Vertices belong to communities, and the part `inside` of the edges stays within one.
// It is ours. Equal seeds make equal graphs.
func PowerLaw(vertices, edges, communities int, inside float64, seed uint64) []Edge {
	rng := rand.New(rand.NewPCG(seed, 0x676e6e))
	of := rng.Perm(vertices) // the number of a vertex tells nothing of its community or its degree
	size := max(1, vertices/max(1, communities))
	out := make([]Edge, edges)
	for i := range out {
		to := rng.IntN(vertices)
		low, n := 0, vertices
		if rng.Float64() < inside {
			low = to / size * size
			n = min(size, vertices-low)
		}
		// The rank of the source has a density of one over its square root: degrees fall as its inverse.
		rank := int(float64(n) * math.Pow(rng.Float64(), 2))
		out[i] = Edge{int32(of[low+min(rank, n-1)]), int32(of[to])}
	}
	return out
}

// Draw draws a part of the vertices, in order.
func Draw(vertices int, part float64, seed uint64) (out []int32) {
	rng := rand.New(rand.NewPCG(seed, 0x73656564))
	for v := range int32(vertices) {
		if rng.Float64() < part {
			out = append(out, v)
		}
	}
	return out
}
