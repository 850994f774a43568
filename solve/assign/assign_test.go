package assign

import (
	"fmt"
	"math"
	"math/rand/v2"
	"testing"
)

// brute tries all pairings.
func brute(rows, cols int, cost []float64) (pairs int, least float64) {
	used := make([]bool, cols)
	least = math.Inf(1)
	var walk func(i, n int, sum float64)
	walk = func(i, n int, sum float64) {
		if i == rows {
			if n > pairs || n == pairs && sum < least {
				pairs, least = n, sum
			}
			return
		}
		walk(i+1, n, sum)
		for j := range cols {
			if c := cost[i*cols+j]; !used[j] && !math.IsInf(c, 1) {
				used[j] = true
				walk(i+1, n+1, sum+c)
				used[j] = false
			}
		}
	}
	walk(0, 0, 0)
	return pairs, least
}

func random(rng *rand.Rand, rows, cols int, forbidden float64, whole int) []float64 {
	cost := make([]float64, rows*cols)
	for k := range cost {
		switch {
		case rng.Float64() < forbidden:
			cost[k] = math.Inf(1)
		case whole > 0:
			cost[k] = float64(rng.IntN(2*whole+1) - whole)
		default:
			cost[k] = 20*rng.Float64() - 10
		}
	}
	return cost
}

// valid fails the test unless p is a pairing.
func valid(t *testing.T, rows, cols int, cost []float64, p Pairing) {
	t.Helper()
	seen := map[int]bool{}
	sum, pairs := 0.0, 0
	for i, j := range p.Of {
		if j == Alone {
			continue
		}
		if seen[j] || j < 0 || j >= cols || math.IsInf(cost[i*cols+j], 1) {
			t.Fatalf("%d x %d: row %d may not have column %d: %v", rows, cols, i, j, p.Of)
		}
		seen[j] = true
		sum += cost[i*cols+j]
		pairs++
	}
	if len(p.Of) != rows || sum != p.Cost || pairs != p.Pairs {
		t.Fatalf("%d x %d: %d pairs for %v are said to be %d for %v", rows, cols, pairs, sum, p.Pairs, p.Cost)
	}
}

func TestAgainstBruteForce(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 1))
	for n := range 6000 {
		rows, cols := rng.IntN(7), rng.IntN(7)
		cost := random(rng, rows, cols, []float64{0, 0.2, 0.5, 0.8}[n%4], []int{0, 2, 9}[n%3])
		p, err := Min(rows, cols, cost)
		if err != nil {
			t.Fatal(err)
		}
		valid(t, rows, cols, cost, p)
		pairs, least := brute(rows, cols, cost)
		if p.Pairs != pairs || pairs > 0 && math.Abs(p.Cost-least) > 1e-9 {
			t.Fatalf("%d x %d %v: have %d pairs for %v, brute force has %d for %v", rows, cols, cost, p.Pairs, p.Cost, pairs, least)
		}
	}
}

// TestBig compares a wide problem with the same one turned, and holds two runs together.
func TestBig(t *testing.T) {
	rng := rand.New(rand.NewPCG(2, 1))
	for _, forbidden := range []float64{0, 0.9, 0.99} {
		const rows, cols = 120, 200
		cost := random(rng, rows, cols, forbidden, 50)
		turned := make([]float64, len(cost))
		for i := range rows {
			for j := range cols {
				turned[j*rows+i] = cost[i*cols+j]
			}
		}
		p, err := Min(rows, cols, cost)
		if err != nil {
			t.Fatal(err)
		}
		valid(t, rows, cols, cost, p)
		q, err := Min(cols, rows, turned)
		if err != nil {
			t.Fatal(err)
		}
		valid(t, cols, rows, turned, q)
		if p.Pairs != q.Pairs || p.Cost != q.Cost {
			t.Errorf("forbidden %v: %d pairs for %v, turned %d for %v", forbidden, p.Pairs, p.Cost, q.Pairs, q.Cost)
		}
		again, _ := Min(rows, cols, cost)
		if fmt.Sprint(again) != fmt.Sprint(p) {
			t.Error("two runs differ")
		}
	}
}

func TestRefused(t *testing.T) {
	for _, c := range []struct {
		rows, cols int
		cost       []float64
	}{{1, 1, nil}, {-1, -1, []float64{1}}, {2, 2, []float64{1, 2, 3, math.NaN()}}, {1, 1, []float64{math.Inf(-1)}}, {1, 1, []float64{1e308}}} {
		if _, err := Min(c.rows, c.cols, c.cost); err == nil {
			t.Errorf("%d x %d with %v is accepted", c.rows, c.cols, c.cost)
		}
	}
}

func ExampleMin() {
	// Two jobs, three machines: hours that each would take.
	p, _ := Min(2, 3, []float64{
		4, 1, 3,
		2, 1, 5,
	})
	fmt.Println(p.Of, p.Cost)
	// Output: [1 0] 3
}

func BenchmarkMin(b *testing.B) {
	for _, n := range []int{200, 1000, 2000} {
		cost := random(rand.New(rand.NewPCG(3, 1)), n, n, 0, 0)
		b.Run(fmt.Sprint(n), func(b *testing.B) {
			for b.Loop() {
				if _, err := Min(n, n, cost); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
