package slaq

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"testing"
)

// falling is the gain of a job that does a step for each unit, whose loss is scale/(1+k), from
// step k on, and fell most in its first step: by scale.
func falling(k, scale float64) func(units int) float64 {
	loss := func(k float64) float64 { return scale / (1 + k) }
	return func(units int) float64 { return (loss(k) - loss(k+float64(units))) / scale }
}

// divided is what jobs of units of a GPU get of so many.
func divided(gpus int, gains ...func(int) float64) (units []int) {
	claims := make([]Claim, len(gains))
	for i, g := range gains {
		claims[i] = Claim{Least: 1, Most: 64, Each: 1, First: 1, Gain: g}
	}
	Divide(claims, gpus)
	for i := range claims {
		units = append(units, claims[i].Units)
	}
	return units
}

// TestAcceptanceA is acceptance A of the specification: a job at step 0 and one at step 9.
func TestAcceptanceA(t *testing.T) {
	a, b := falling(0, 1), falling(9, 1)
	for n, want := range map[int]float64{1: 0.5, 2: 0.16667, 3: 0.08333, 4: 0.05, 5: 0.03333, 6: 0.02381} {
		if got := a(n) - a(n-1); math.Abs(got-want) > 5e-6 {
			t.Errorf("unit %d adds %v to A, want %v", n, got, want)
		}
	}
	for gpus, want := range map[int][]int{2: {1, 1}, 6: {5, 1}, 11: {10, 1}, 12: {11, 1}, 13: {11, 2}} {
		if got := divided(gpus, a, b); !slices.Equal(got, want) {
			t.Errorf("of %d units %v, want %v", gpus, got, want)
		}
	}
	if got := divided(12, b, a); !slices.Equal(got, []int{2, 10}) { // the tie goes to the one that was submitted earlier
		t.Errorf("of 12 units %v, want 2 and 10", got)
	}
	if sum := a(5) + b(1); math.Abs(sum-0.84242) > 5e-6 {
		t.Errorf("the sum is %v, want 0.84242", sum)
	}
	if equal := a(3) + b(3); math.Abs(equal-0.77308) > 5e-6 {
		t.Errorf("of equal shares the sum is %v, want 0.77308", equal)
	}
}

// TestAcceptanceB is acceptance B: the scale of losses does not matter.
func TestAcceptanceB(t *testing.T) {
	for gpus := 2; gpus <= 14; gpus++ {
		one, other := divided(gpus, falling(0, 1), falling(9, 1)), divided(gpus, falling(0, 1), falling(9, 100))
		if !slices.Equal(one, other) {
			t.Errorf("of %d units %v, with losses 100 times as large %v", gpus, one, other)
		}
	}
}

// TestAcceptanceE is acceptance E: no division has a larger sum of gains; every job has a unit
// where there are enough, and all units are used.
func TestAcceptanceE(t *testing.T) {
	r := rand.New(rand.NewPCG(7, 8))
	for range 300 {
		n, gpus := 1+r.IntN(3), 1+r.IntN(12)
		var gains []func(int) float64
		for range n {
			gains = append(gains, falling(20*r.Float64(), 1))
		}
		got, sum, used := divided(gpus, gains...), 0.0, 0
		for i, u := range got {
			used += u
			if u > 0 {
				sum += gains[i](u)
			}
			if u == 0 && n <= gpus {
				t.Fatalf("of %d units %v: a job has none", gpus, got)
			}
		}
		if used != gpus {
			t.Fatalf("of %d units %v", gpus, got)
		}
		if best := bruteForce(gains, gpus, n <= gpus); sum < best-1e-9 {
			t.Fatalf("of %d units %v with a sum of %v, the best is %v", gpus, got, sum, best)
		}
	}
}

// bruteForce is the largest sum of gains; least: every job has a unit.
func bruteForce(gains []func(int) float64, gpus int, least bool) float64 {
	if len(gains) == 0 {
		return 0
	}
	best := math.Inf(-1)
	for u := range gpus + 1 {
		if u == 0 && least || u > 1 && !least { // where there are too few units, a job has one at most
			continue
		}
		g := 0.0
		if u > 0 {
			g = gains[0](u)
		}
		best = max(best, g+bruteForce(gains[1:], gpus-u, least))
	}
	return best
}

// TestTooManyJobs: with fewer units than jobs those with the largest gains have one.
func TestTooManyJobs(t *testing.T) {
	if got := divided(2, falling(9, 1), falling(0, 1), falling(4, 1)); !slices.Equal(got, []int{0, 1, 1}) {
		t.Errorf("%v", got)
	}
}

// TestRestIsShared: what no loss gains from is shared equally, also with jobs of which nothing
// is foretold.
func TestRestIsShared(t *testing.T) {
	flat := func(int) float64 { return 0.5 }
	if got := divided(9, nil, flat, nil); !slices.Equal(got, []int{3, 3, 3}) {
		t.Errorf("%v", got)
	}
	steep := func(u int) float64 { return float64(min(u, 5)) }
	if got := divided(9, nil, steep, nil); !slices.Equal(got, []int{2, 5, 2}) {
		t.Errorf("%v", got)
	}
}

// TestLeap: a job whose next unit alone gains nothing, since another size costs a restart, may
// still grow by several.
func TestLeap(t *testing.T) {
	gain := func(u int) float64 {
		if u == 2 { // it has two
			return 2
		}
		return 0.5 * float64(u)
	}
	if got := divided(9, gain, nil); !slices.Equal(got, []int{8, 1}) {
		t.Errorf("%v", got)
	}
	if got := divided(4, gain, nil); !slices.Equal(got, []int{2, 2}) {
		t.Errorf("%v", got)
	}
}

// TestUnitsOfSeveralGPUs: gains count for each GPU, and nobody gets more GPUs than there are.
func TestUnitsOfSeveralGPUs(t *testing.T) {
	linear := func(by float64) func(int) float64 { return func(u int) float64 { return by * float64(u) } }
	for gpus := range 14 {
		claims := []Claim{{Least: 1, Most: 9, Each: 3, First: 3, Gain: linear(2)}, {Least: 1, Most: 9, Each: 1, First: 1, Gain: linear(1)}, {Least: 4, Most: 4, Each: 1, First: 4}}
		Divide(claims, gpus)
		used := claims[0].Units*3 + claims[1].Units + claims[2].Units
		if used > gpus || gpus == 13 && fmt.Sprint(claims[0].Units, claims[1].Units, claims[2].Units) != "1 6 4" {
			t.Errorf("of %d GPUs %v", gpus, claims)
		}
	}
}
