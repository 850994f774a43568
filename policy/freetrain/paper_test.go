package freetrain_test

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/norn-scheduler/norn/policy/freetrain"
	"github.com/norn-scheduler/norn/solve"
	"github.com/norn-scheduler/norn/solve/highs"
)

// worth is what numbers of nodes are worth together.
func worth(trainers []freetrain.Trainer, nodes []int, horizon float64) (sum float64) {
	for i := range trainers {
		sum += trainers[i].Worth(nodes[i], horizon)
	}
	return sum
}

// TestGrowing is example 1 of the specification: A has two nodes, two more appear, and B is new.
func TestGrowing(t *testing.T) {
	trainers := []freetrain.Trainer{
		{Least: 1, Most: 4, Has: 2, Rate: []float64{0, 10, 18, 24, 28}, Up: 20, Down: 5},
		{Least: 1, Most: 4, Rate: []float64{0, 12, 20, 26, 30}, Up: 20, Down: 5},
	}
	for _, c := range []struct {
		nodes []int
		want  float64
	}{{[]int{2, 2}, 380}, {[]int{2, 1}, 300}, {[]int{1, 3}, 270}, {[]int{3, 1}, 0}, {[]int{4, 0}, -80}, {[]int{0, 4}, 210}} {
		if got := worth(trainers, c.nodes, 10); got != c.want {
			t.Errorf("%v nodes are worth %v, not %v", c.nodes, got, c.want)
		}
	}
	if got, err := freetrain.Divide(trainers, 4, 10); err != nil || !slices.Equal(got, []int{2, 2}) {
		t.Errorf("%v, %v", got, err)
	}
}

// TestThreshold is example 2: it pays to shrink A for B from a horizon of more than 45 s on.
func TestThreshold(t *testing.T) {
	trainers := []freetrain.Trainer{
		{Least: 1, Most: 3, Has: 2, Rate: []float64{0, 10, 18, 24}, Up: 20, Down: 5},
		{Least: 1, Most: 2, Has: 1, Rate: []float64{0, 12, 22}},
	}
	for horizon, want := range map[float64][]int{10: {2, 1}, 45: {2, 1}, 60: {1, 2}} {
		if got, err := freetrain.Divide(trainers, 3, horizon); err != nil || !slices.Equal(got, want) {
			t.Errorf("horizon %v: %v, not %v (%v)", horizon, got, want, err)
		}
	}
	if keep, shrink := worth(trainers, []int{2, 1}, 45), worth(trainers, []int{1, 2}, 45); keep != 1350 || shrink != 1350 {
		t.Errorf("at 45 s they are worth %v and %v", keep, shrink)
	}
}

// program is BFTrainer's integer program, node by node. was[j] are the nodes of trainer j.
func program(trainers []freetrain.Trainer, was [][]bool, nodes int, horizon float64) *solve.Model {
	m := solve.NewModel("bftrainer", solve.Maximize)
	big := float64(nodes + 1)
	per := make([][]solve.Term, nodes)
	for j := range trainers {
		t := &trainers[j]
		now := t.Rate[t.Has]
		up, down, grows := m.Bool(-t.Up*now), m.Bool(-t.Down*now), m.Bool(0)
		var size, one []solve.Term // N_j, and that it has one size
		for k := 0; k <= t.Most && k <= nodes; k++ {
			if k == 0 || k >= t.Least {
				w := m.Bool(horizon * t.Rate[k])
				size, one = append(size, w.Times(float64(k))), append(one, w.Times(1))
			}
		}
		m.Equal(1, one...)
		var all, differ []solve.Term // the sum of x, and D_j less its constant
		for n := range nodes {
			x := m.Bool(0)
			per[n] = append(per[n], x.Times(1))
			all = append(all, x.Times(1))
			if was[j][n] {
				differ = append(differ, x.Times(-1))
			} else {
				differ = append(differ, x.Times(1))
			}
		}
		has := float64(t.Has)
		negated := func(terms []solve.Term) (out []solve.Term) {
			for _, x := range terms {
				out = append(out, x.Var.Times(-x.Coef))
			}
			return out
		}
		m.Equal(0, append(slices.Clone(all), negated(size)...)...)
		m.AtMost(has, append(slices.Clone(size), up.Times(-big))...)
		m.AtMost(-has, append(negated(size), down.Times(-big))...)
		// N - C >= D - M(1-y) and N - C <= -D + M y, where D = has + differ.
		m.AtMost(2*big-2*has, append(append(negated(size), differ...), grows.Times(2*big))...)
		m.AtMost(0, append(append(slices.Clone(size), differ...), grows.Times(-2*big))...)
	}
	for n := range nodes {
		m.AtMost(1, per[n]...)
	}
	return m
}

// TestAgainstProgram: the division is worth as much as the optimum of the integer program with a
// variable for each trainer and node, in which nobody may move (example 5).
func TestAgainstProgram(t *testing.T) {
	r := rand.New(rand.NewPCG(5, 6))
	for n := range 30 {
		nodes := 3 + r.IntN(8)
		trainers := make([]freetrain.Trainer, 1+r.IntN(4))
		was := make([][]bool, len(trainers))
		free := nodes
		for j := range trainers {
			tr := &trainers[j]
			tr.Least = 1 + r.IntN(3)
			tr.Most = tr.Least + r.IntN(6)
			tr.Up, tr.Down = float64(r.IntN(40)), float64(r.IntN(20))
			tr.Rate = make([]float64, tr.Most+1)
			for k := 1; k <= tr.Most; k++ {
				tr.Rate[k] = tr.Rate[k-1] + r.Float64()*10
			}
			was[j] = make([]bool, nodes)
			if has := tr.Least + r.IntN(tr.Most-tr.Least+1); has <= free && r.IntN(3) > 0 {
				for k := range has {
					was[j][nodes-free+k] = true
				}
				tr.Has, free = has, free-has
			}
		}
		horizon := float64(1 + r.IntN(60))
		got, err := freetrain.Divide(trainers, nodes, horizon)
		if err != nil {
			t.Fatal(err)
		}
		s, err := highs.Shared().Solve(program(trainers, was, nodes, horizon), solve.Options{})
		if err != nil {
			t.Fatal(err)
		}
		if v := worth(trainers, got, horizon); math.Abs(v-s.Objective) > 1e-5*(1+math.Abs(s.Objective)) {
			t.Errorf("case %d: %v of %d nodes are worth %v, the program has %v", n, got, nodes, v, s.Objective)
		}
	}
}

// TestMigration is example 3: from nodes 1 and 2 one may go to 1, 2 and 3, to 2, to none, and stay,
// but not to 1 and 3.
func TestMigration(t *testing.T) {
	for set, feasible := range map[[3]bool]bool{{true, true, true}: true, {false, true, false}: true, {}: true, {true, true, false}: true, {true, false, true}: false} {
		trainers := []freetrain.Trainer{{Least: 1, Most: 3, Has: 2, Rate: []float64{0, 1, 2, 3}}}
		m := program(trainers, [][]bool{{true, true, false}}, 3, 1)
		for n, on := range set {
			x := solve.Var(7 + n) // behind up, down, grows and the four sizes
			if on {
				m.Equal(1, x.Times(1))
			} else {
				m.Equal(0, x.Times(1))
			}
		}
		s, err := highs.Shared().Solve(m, solve.Options{})
		if ok := err == nil && s.Status == solve.Optimal; ok != feasible {
			t.Errorf("%v: %v, %v", set, ok, err)
		}
	}
}

// TestShare: the heuristic gives everybody the same, and what is left to the first.
func TestShare(t *testing.T) {
	trainers := []freetrain.Trainer{{Least: 1, Most: 3, Rate: make([]float64, 4)}, {Least: 4, Most: 8, Rate: make([]float64, 9)}, {Least: 1, Most: 8, Rate: make([]float64, 9)}}
	for gpus, want := range map[int][]int{11: {3, 5, 3}, 14: {3, 7, 4}, 5: {1, 4, 0}, 2: {1, 0, 1}} {
		if got := freetrain.Share(trainers, gpus); !slices.Equal(got, want) {
			t.Errorf("%d nodes: %v, not %v", gpus, got, want)
		}
	}
}
