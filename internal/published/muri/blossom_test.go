package muri

import (
	"fmt"
	"math"
	"testing"

	"pgregory.net/rapid"

	"github.com/norn-scheduler/norn/solve/match"
)

// mates matches vertices of which each two weigh something together.
func mates(n int, weight func(u, v int) float64) []int {
	var b blossoms
	b.begin(n)
	for u := range n {
		for v := range n {
			if u != v {
				b.weigh(u+1, v+1, weight(u, v))
			}
		}
	}
	return b.match()[1:]
}

// Among equals the published code, run for these, finds the same mates.
func TestMatesAmongEquals(t *testing.T) {
	weights := map[string]float64{"00": 0.25, "01": 0.5, "11": 0.375, "02": 0.4, "12": 0.3, "22": 0.2}
	for kinds, want := range map[string]string{
		"00":        "[2 1]",
		"000":       "[2 1 0]",
		"00000":     "[2 1 4 3 0]",
		"010101":    "[2 1 4 3 6 5]",
		"001122":    "[3 4 1 2 6 5]",
		"0001112":   "[4 5 6 1 2 3 0]",
		"012012012": "[2 1 6 5 4 3 8 7 0]",
		"2211001":   "[7 0 5 6 3 4 1]",
	} {
		got := mates(len(kinds), func(u, v int) float64 {
			a, b := kinds[u], kinds[v]
			return weights[string([]byte{min(a, b), max(a, b)})]
		})
		if fmt.Sprint(got) != want {
			t.Errorf("%s: %v, want %s", kinds, got, want)
		}
	}
}

// pairsOf are the weights of some pairs.
func pairsOf(weights map[[2]int]float64) func(u, v int) float64 {
	return func(u, v int) float64 { return weights[[2]int{min(u, v), max(u, v)}] }
}

// A circle of five with a tail: the circle is shrunk.
func TestMatesOnACircle(t *testing.T) {
	got := mates(6, pairsOf(map[[2]int]float64{{0, 1}: 0.5, {1, 2}: 0.5, {2, 3}: 0.5, {3, 4}: 0.5, {0, 4}: 0.5, {2, 5}: 0.25}))
	if fmt.Sprint(got) != "[2 1 6 5 4 3]" {
		t.Errorf("%v", got)
	}
}

// A matching within a hundred thousandth of the best is good enough for the
// published code: one pair that weighs 1 - 10⁻⁷ instead of two of a half each.
func TestMatesNearTheBest(t *testing.T) {
	of := func(middle float64) string {
		return fmt.Sprint(mates(4, pairsOf(map[[2]int]float64{{0, 1}: 0.5, {1, 2}: middle, {2, 3}: 0.5})))
	}
	if got := of(1 - 1e-7); got != "[0 3 2 0]" {
		t.Errorf("%s", got)
	}
	if got := of(1 - 1e-4); got != "[2 1 4 3]" {
		t.Errorf("%s", got)
	}
}

// Weights that are whole numbers of a 64th are matched as well as can be: as package
// solve/match does it, exactly.
func TestMatesAreBest(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		n := rapid.IntRange(0, 14).Draw(t, "n")
		kinds := rapid.IntRange(1, 64).Draw(t, "kinds")
		weights := map[[2]int]float64{}
		var edges []match.Edge
		for v := range n {
			for u := range v {
				w := rapid.IntRange(0, kinds).Draw(t, "weight")
				weights[[2]int{u, v}] = float64(w) / 64
				edges = append(edges, match.Edge{U: u, V: v, Weight: int64(w)})
			}
		}
		best, err := new(match.Finder).Max(n, edges)
		if err != nil {
			t.Fatal(err)
		}
		sum := 0.0
		for u, mate := range mates(n, pairsOf(weights)) {
			switch v := mate - 1; {
			case mate == 0:
			case v == u || v < 0 || v >= n:
				t.Fatalf("%d has the mate %d", u, v)
			case u < v:
				sum += weights[[2]int{u, v}]
			}
		}
		if math.Abs(sum*64-float64(best.Weight)) > 1e-9 {
			t.Fatalf("mates weigh %v, the best %v", sum*64, best.Weight)
		}
	})
}

// One matcher serves many graphs.
func TestMatesAgain(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var b blossoms
		for range 3 {
			n := rapid.IntRange(0, 9).Draw(t, "n")
			weights := map[[2]int]float64{}
			for v := range n {
				for u := range v {
					weights[[2]int{u, v}] = rapid.Float64Range(0, 1).Draw(t, "weight")
				}
			}
			of := pairsOf(weights)
			b.begin(n)
			for u := range n {
				for v := range n {
					if u != v {
						b.weigh(u+1, v+1, of(u, v))
					}
				}
			}
			if got, want := fmt.Sprint(b.match()[1:]), fmt.Sprint(mates(n, of)); got != want {
				t.Fatalf("%s, a new one %s", got, want)
			}
		}
	})
}
