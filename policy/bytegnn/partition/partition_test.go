package partition

import (
	"math"
	"slices"
	"testing"

	"pgregory.net/rapid"
)

// Acceptance 1 and 2 of the specification.
func TestScore(t *testing.T) {
	totals := [3]int{6, 0, 0}
	p0, p1 := Tally{4, [3]int{2}}, Tally{2, [3]int{1}}
	if a, b := Score(p0, 4, totals), Score(p1, 3, totals); math.Abs(a-4/3.) > 1e-9 || math.Abs(b-2.5*5/6) > 1e-9 {
		t.Errorf("scores %v and %v, want 1.3333 and 2.0833", a, b)
	}
	if got := Score(Tally{}, 0, [3]int{4}); got != 1 {
		t.Errorf("an empty part has a score of %v", got)
	}
	if got := Score(Tally{3, [3]int{1}}, 0, [3]int{4}); got != 0.75 {
		t.Errorf("a score of %v, want 0.75", got)
	}
}

func both(pairs ...[2]int32) (out []Edge) {
	for _, p := range pairs {
		out = append(out, Edge{p[0], p[1]}, Edge{p[1], p[0]})
	}
	return out
}

// Acceptance 3: on a path a-b-c-d-e with seeds a and e, c is two hops from both and belongs to a.
func TestBlocks(t *testing.T) {
	g, err := NewGraph(5, both([2]int32{0, 1}, [2]int32{1, 2}, [2]int32{2, 3}, [2]int32{3, 4}))
	if err != nil {
		t.Fatal(err)
	}
	got := Blocks(g, []int32{0, 4}, 2)
	if len(got) != 2 || !slices.Equal(got[0].Vertices, []int32{0, 1, 2}) || !slices.Equal(got[1].Vertices, []int32{4, 3}) {
		t.Errorf("%+v", got)
	}
	if _, err := NewGraph(2, []Edge{{0, 2}}); err == nil {
		t.Error("an edge to a vertex that there is not is let through")
	}
}

// Acceptance 2: two blocks of one seed each go to two parts.
func TestFirstBlocks(t *testing.T) {
	g, err := NewGraph(4, both([2]int32{0, 1}, [2]int32{2, 3}))
	if err != nil {
		t.Fatal(err)
	}
	if got := ByBlocks(g, Seeds{Train: []int32{0, 2}}, 2, 2); !slices.Equal(got, []int32{0, 0, 1, 1}) {
		t.Errorf("%v", got)
	}
}

// Every vertex is in exactly one part, whatever the graph, and blocks have every vertex at most once
// and each within its hops.
func TestEveryVertexOnce(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		n := rapid.IntRange(1, 200).Draw(t, "vertices")
		edges := PowerLaw(n, rapid.IntRange(0, 800).Draw(t, "edges"), rapid.IntRange(1, 8).Draw(t, "communities"), 0.8, rapid.Uint64().Draw(t, "seed"))
		g, err := NewGraph(n, edges)
		if err != nil {
			t.Fatal(err)
		}
		parts := rapid.IntRange(1, 6).Draw(t, "parts")
		var s Seeds
		for v := range int32(n) {
			switch rapid.IntRange(0, 5).Draw(t, "kind") {
			case 0:
				s.Train = append(s.Train, v)
			case 1:
				s.Test = append(s.Test, v)
			}
		}
		seen := map[int32]bool{}
		for _, b := range Blocks(g, s.all(), 2) {
			for _, v := range b.Vertices {
				if seen[v] {
					t.Fatalf("vertex %d is in two blocks", v)
				}
				seen[v] = true
			}
		}
		for _, of := range [][]int32{ByBlocks(g, s, 2, parts), ByHash(n, parts), Multilevel(g, parts)} {
			if len(of) != n || slices.Min(of) < 0 || int(slices.Max(of)) >= parts {
				t.Fatalf("%v", of)
			}
			if q := Measure(g, of, parts, s.Train, 2); q.Cut < 0 || q.Cut > 1 || q.Remote < 0 || q.Remote > 1 {
				t.Fatalf("%+v", q)
			}
		}
	})
}

// Two cliques with one edge between them are cut there by the multilevel scheme, with even parts.
func TestCliques(t *testing.T) {
	var edges []Edge
	for _, base := range []int32{0, 100} {
		for i := range int32(100) {
			for k := range i {
				edges = append(edges, both([2]int32{base + i, base + k})...)
			}
		}
	}
	g, err := NewGraph(200, append(edges, both([2]int32{5, 105})...))
	if err != nil {
		t.Fatal(err)
	}
	of := Multilevel(g, 2)
	if q := Measure(g, of, 2, nil, 1); q.Vertices != 1 || q.Cut > 3/float64(g.Edges()) {
		t.Errorf("%+v", q)
	}
}

// On a power-law graph with communities both cut fewer edges than hashing, the multilevel scheme
// fewest. The blocks of ByteGNN have the seeds to train on balanced, and read less from other workers
// than hashing does.
func TestQuality(t *testing.T) {
	const n, parts = 20_000, 4
	g, err := NewGraph(n, PowerLaw(n, 100_000, 40, 0.9, 1))
	if err != nil {
		t.Fatal(err)
	}
	var s Seeds
	for v := range int32(n) {
		if v%10 == 0 {
			s.Train = append(s.Train, v)
		}
	}
	hash := Measure(g, ByHash(n, parts), parts, s.Train, 2)
	blocks := Measure(g, ByBlocks(g, s, 2, parts), parts, s.Train, 2)
	many := Measure(g, Multilevel(g, parts), parts, s.Train, 2)
	t.Logf("hash %+v\nblocks %+v\nmultilevel %+v", hash, blocks, many)
	if blocks.Cut >= hash.Cut || many.Cut >= blocks.Cut || blocks.Remote >= hash.Remote || blocks.Train > 1.1 || many.Vertices > slack+0.01 {
		t.Errorf("hash %+v\nblocks %+v\nmultilevel %+v", hash, blocks, many)
	}
}
