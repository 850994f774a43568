package match

import (
	"fmt"
	"math"
	"math/rand/v2"
	"testing"
)

// brute tries all matchings.
func brute(n int, weight map[[2]int]int64) int64 {
	best := make([]int64, 1<<n) // by set of vertices that are left
	for set := 1; set < 1<<n; set++ {
		u := 0
		for set&(1<<u) == 0 {
			u++
		}
		best[set] = best[set&^(1<<u)]
		for v := u + 1; v < n; v++ {
			if w := weight[[2]int{u, v}]; set&(1<<v) != 0 && w > 0 {
				best[set] = max(best[set], w+best[set&^(1<<u)&^(1<<v)])
			}
		}
	}
	return best[1<<n-1]
}

func random(rng *rand.Rand, n int, density float64, top int64) []Edge {
	var edges []Edge
	for u := range n {
		for v := range u {
			if rng.Float64() < density {
				edges = append(edges, Edge{u, v, rng.Int64N(top+2) - 1})
			}
		}
	}
	return edges
}

func TestAgainstBruteForce(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 3))
	for k := range 4000 {
		n := rng.IntN(12)
		edges := random(rng, n, []float64{0.3, 0.6, 1}[k%3], []int64{1, 5, 1000, MaxWeight - 1}[k%4])
		weight := map[[2]int]int64{}
		for _, e := range edges {
			weight[[2]int{e.V, e.U}] = e.Weight
		}
		m, err := new(Finder).Max(n, edges)
		if err != nil {
			t.Fatal(err)
		}
		total, pairs := int64(0), 0
		for u, v := range m.Mate {
			if v == Alone {
				continue
			}
			if v < 0 || v >= n || m.Mate[v] != u {
				t.Fatalf("%d has the mate %d: %v", u, v, m.Mate)
			}
			if u < v {
				w, ok := weight[[2]int{u, v}]
				if !ok {
					t.Fatalf("%d and %d are no edge", u, v)
				}
				total += w
				pairs++
			}
		}
		if want := brute(n, weight); total != want || m.Weight != total || m.Pairs != pairs {
			t.Fatalf("%d vertices, %v: matching %v weighs %d (said: %d), brute force has %d", n, edges, m.Mate, total, m.Weight, want)
		}
	}
}

// TestBlossoms has graphs that are known to need blossoms within blossoms, made
// and opened again.
func TestBlossoms(t *testing.T) {
	for _, c := range []struct {
		edges []Edge
		want  []int
	}{
		{[]Edge{{1, 2, 9}, {1, 3, 9}, {2, 3, 10}, {2, 4, 8}, {3, 5, 8}, {4, 5, 10}, {5, 6, 6}}, []int{-1, 3, 4, 1, 2, 6, 5}},
		{[]Edge{{1, 2, 10}, {1, 7, 10}, {2, 3, 12}, {3, 4, 20}, {3, 5, 20}, {4, 5, 25}, {5, 6, 10}, {6, 7, 10}, {7, 8, 8}}, []int{-1, 2, 1, 4, 3, 6, 5, 8, 7}},
		{[]Edge{{1, 2, 23}, {1, 5, 22}, {1, 6, 15}, {2, 3, 25}, {3, 4, 22}, {4, 5, 25}, {4, 8, 14}, {5, 7, 13}}, []int{-1, 6, 3, 2, 8, 7, 1, 5, 4}},
	} {
		m, err := new(Finder).Max(len(c.want), c.edges)
		if err != nil {
			t.Fatal(err)
		}
		if fmt.Sprint(m.Mate) != fmt.Sprint(c.want) {
			t.Errorf("%v: have %v, want %v", c.edges, m.Mate, c.want)
		}
	}
}

// TestOrder shows that neither the order of edges nor the numbers of vertices
// change what the matching weighs, in graphs too large for brute force.
func TestOrder(t *testing.T) {
	rng := rand.New(rand.NewPCG(2, 3))
	for k := range 20 {
		n := 40 + k
		edges := random(rng, n, 0.3, 50)
		first, err := new(Finder).Max(n, edges)
		if err != nil {
			t.Fatal(err)
		}
		name := rng.Perm(n)
		other := make([]Edge, len(edges))
		for i, at := range rng.Perm(len(edges)) {
			e := edges[i]
			other[at] = Edge{name[e.V], name[e.U], e.Weight}
		}
		second, err := new(Finder).Max(n, other)
		if err != nil {
			t.Fatal(err)
		}
		if first.Weight != second.Weight {
			t.Errorf("%d vertices: %d, and %d in another order", n, first.Weight, second.Weight)
		}
	}
}

func TestRefused(t *testing.T) {
	for _, e := range []Edge{{0, 0, 1}, {0, 3, 1}, {-1, 0, 1}, {0, 1, MaxWeight + 1}} {
		if _, err := new(Finder).Max(3, []Edge{e}); err == nil {
			t.Errorf("edge %v is accepted", e)
		}
	}
	if _, err := new(Finder).Max(MaxVertices+1, nil); err == nil {
		t.Error("too many vertices are accepted")
	}
}

func TestScale(t *testing.T) {
	weights := []float64{-1, math.NaN(), 0.5, 2, math.Inf(1)}
	edges := make([]Edge, len(weights))
	Scale(edges, weights)
	for k, want := range []int64{0, 0, 1 << 38, 1 << 40, 1 << 40} {
		if edges[k].Weight != want {
			t.Errorf("%v is %d, want %d", weights[k], edges[k].Weight, want)
		}
	}
}

func ExampleMax() {
	m, _ := new(Finder).Max(4, []Edge{{0, 1, 5}, {1, 2, 8}, {2, 3, 5}})
	fmt.Println(m.Mate, m.Weight)
	// Output: [1 0 3 2] 10
}

func BenchmarkMax(b *testing.B) {
	for _, n := range []int{100, 400} {
		edges := random(rand.New(rand.NewPCG(4, 3)), n, 1, 1<<40)
		b.Run(fmt.Sprint(n), func(b *testing.B) {
			for b.Loop() {
				if _, err := new(Finder).Max(n, edges); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
