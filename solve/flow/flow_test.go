package flow_test

import (
	"fmt"
	"math"
	"math/rand/v2"
	"testing"

	"github.com/norn-scheduler/norn/solve"
	"github.com/norn-scheduler/norn/solve/flow"
	"github.com/norn-scheduler/norn/solve/highs"
)

type arc struct {
	from, to int
	capacity int64
	cost     float64
}

// random makes a network in which arcs that cost less than nothing go forward
// only, so that no circle does.
func random(rng *rand.Rand, nodes, arcs int) []arc {
	var out []arc
	for range arcs {
		a := arc{rng.IntN(nodes), rng.IntN(nodes), int64(rng.IntN(8)), float64(rng.IntN(20))}
		if a.from < a.to && rng.IntN(3) == 0 {
			a.cost = -a.cost / 10
			a.cost = math.Trunc(a.cost)
		} else if a.from > a.to {
			a.cost += 2 * float64(a.from-a.to) * 10 // no circle can gain
		}
		out = append(out, a)
	}
	return out
}

// program is the same as a linear program: what most can be sent, then at what cost.
func program(t *testing.T, nodes int, arcs []arc, from, to int, most int64) (float64, float64) {
	t.Helper()
	units, cost := solve.NewModel("most", solve.Maximize), solve.NewModel("cheapest", solve.Minimize)
	at := make([][]solve.Term, nodes)
	for _, a := range arcs {
		x := units.Real(0, float64(a.capacity), 0)
		cost.Real(0, float64(a.capacity), a.cost)
		at[a.from] = append(at[a.from], x.Times(1))
		at[a.to] = append(at[a.to], x.Times(-1))
	}
	f := units.Real(0, float64(most), 1)
	cost.Real(0, float64(most), 0)
	at[from] = append(at[from], f.Times(-1))
	at[to] = append(at[to], f.Times(1))
	for _, terms := range at {
		units.Equal(0, terms...)
		cost.Equal(0, terms...)
	}
	s, err := highs.Shared().Solve(units, solve.Options{})
	if err != nil {
		t.Fatal(err)
	}
	sent := math.Round(s.Objective)
	cost.SetBounds(f, sent, sent)
	s, err = highs.Shared().Solve(cost, solve.Options{})
	if err != nil {
		t.Fatal(err)
	}
	return sent, s.Objective
}

// TestAgainstPrograms holds amounts, costs and the balance of each node to linear
// programs.
func TestAgainstPrograms(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	for n := range 150 {
		nodes := 2 + rng.IntN(12)
		arcs := random(rng, nodes, rng.IntN(50))
		net := flow.New(nodes)
		var at []flow.Arc
		for _, a := range arcs {
			at = append(at, net.Arc(a.from, a.to, a.capacity, a.cost))
		}
		most := int64(rng.IntN(30))
		sent, err := net.Send(0, nodes-1, most)
		if err != nil {
			t.Fatal(err)
		}
		balance := make([]int64, nodes)
		cost := 0.0
		for k, a := range arcs {
			f := net.On(at[k])
			if f < 0 || f > a.capacity {
				t.Fatalf("case %d: %d of %d units on arc %d", n, f, a.capacity, k)
			}
			balance[a.from] -= f
			balance[a.to] += f
			cost += float64(f) * a.cost
		}
		for v, b := range balance {
			want := int64(0)
			if v == 0 {
				want = -sent.Units
			} else if v == nodes-1 {
				want = sent.Units
			}
			if b != want {
				t.Fatalf("case %d: node %d has %d units too many", n, v, b-want)
			}
		}
		units, least := program(t, nodes, arcs, 0, nodes-1, most)
		// A program also sends circles that cost less than nothing; there are none here.
		if float64(sent.Units) != units || math.Abs(sent.Cost-least) > 1e-6 || cost != sent.Cost {
			t.Fatalf("case %d: %d units for %v (arcs say %v), the program sends %v for %v", n, sent.Units, sent.Cost, cost, units, least)
		}
	}
}

func TestRefused(t *testing.T) {
	circle := flow.New(3)
	circle.Arc(0, 1, 1, 1)
	circle.Arc(1, 2, 1, -3)
	circle.Arc(2, 1, 1, 2)
	if _, err := circle.Send(0, 2, 1); err == nil {
		t.Error("a circle that costs less than nothing is accepted")
	}
	for name, make := range map[string]func() *flow.Network{
		"node":     func() *flow.Network { n := flow.New(2); n.Arc(0, 2, 1, 1); return n },
		"capacity": func() *flow.Network { n := flow.New(2); n.Arc(0, 1, -1, 1); return n },
		"cost":     func() *flow.Network { n := flow.New(2); n.Arc(0, 1, 1, math.NaN()); return n },
		"size":     func() *flow.Network { return flow.New(-1) },
		"source":   func() *flow.Network { return flow.New(1) },
	} {
		if _, err := make().Send(0, 1, 1); err == nil {
			t.Errorf("wrong %s is accepted", name)
		}
	}
}

func ExampleNetwork() {
	n := flow.New(4)
	n.Arc(0, 1, 3, 1)
	cheap := n.Arc(1, 3, 2, 1)
	n.Arc(1, 2, 2, 1)
	n.Arc(2, 3, 2, 5)
	sent, _ := n.Send(0, 3, 10)
	fmt.Println(sent.Units, "units for", sent.Cost, "of which", n.On(cheap), "go the cheap way")
	// Output: 3 units for 11 of which 2 go the cheap way
}

func BenchmarkSend(b *testing.B) { // 500 jobs to 100 nodes of 8 GPUs
	rng := rand.New(rand.NewPCG(3, 2))
	n := flow.New(602)
	for j := range 500 {
		n.Arc(600, j, 1, 0)
		for v := range 100 {
			n.Arc(j, 500+v, 1, rng.Float64())
		}
	}
	for v := range 100 {
		n.Arc(500+v, 601, 8, 0)
	}
	for b.Loop() {
		if _, err := n.Send(600, 601, 500); err != nil {
			b.Fatal(err)
		}
	}
}
