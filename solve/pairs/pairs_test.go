package pairs_test

import (
	"math"
	"math/rand/v2"
	"testing"

	"pgregory.net/rapid"

	"github.com/norn-scheduler/norn/solve"
	"github.com/norn-scheduler/norn/solve/blocks"
	"github.com/norn-scheduler/norn/solve/highs"
	"github.com/norn-scheduler/norn/solve/pairs"
)

// draw is a random program that has an optimum: goals are within what equal parts
// give to everybody.
func draw(t *rapid.T) *pairs.Program {
	p := &pairs.Program{}
	for range rapid.IntRange(1, 4).Draw(t, "rows") {
		p.Limits = append(p.Limits, rapid.Float64Range(0.5, 50).Draw(t, "limit"))
	}
	level := rapid.Bool().Draw(t, "level")
	n := rapid.IntRange(1, 10).Draw(t, "blocks")
	for range n {
		b := blocks.Block{Cap: rapid.SampledFrom([]float64{1, 1, 0.5, 3}).Draw(t, "cap"), Goal: rapid.Bool().Draw(t, "goal")}
		most := 0.0 // of the goal, with an equal part of everything
		for row := range p.Limits {
			if rapid.IntRange(0, 3).Draw(t, "takes part") == 0 {
				continue
			}
			v := blocks.Var{Row: row, Use: rapid.SampledFrom([]float64{1, 1, 2, 4, 0.5}).Draw(t, "use"), Rate: rapid.Float64Range(0.05, 20).Draw(t, "rate")}
			if !level || rapid.Bool().Draw(t, "gains") {
				v.Gain = rapid.Float64Range(0.05, 5).Draw(t, "gain")
			}
			most += v.Rate * min(b.Cap/float64(len(p.Limits)), p.Limits[row]/float64(n)/v.Use)
			b.Vars = append(b.Vars, v)
		}
		if b.Goal = b.Goal && len(b.Vars) > 0; b.Goal {
			b.Floor = most * rapid.Float64Range(0, 0.9).Draw(t, "floor")
			if level && most > 0 {
				b.Step = rapid.Float64Range(0.1, 3).Draw(t, "step")
				p.Level = 1
			}
		}
		p.Blocks = append(p.Blocks, b)
	}
	for range rapid.IntRange(0, 15).Draw(t, "pairs") {
		p.Pairs = append(p.Pairs, pairs.Pair{
			A: rapid.IntRange(0, n-1).Draw(t, "one"), B: rapid.IntRange(0, n-1).Draw(t, "other"), Row: rapid.IntRange(0, len(p.Limits)-1).Draw(t, "row"),
			Use: rapid.SampledFrom([]float64{1, 2, 4}).Draw(t, "use"), Gain: rapid.Float64Range(0, 5).Draw(t, "gain"),
			RateA: rapid.Float64Range(0, 20).Draw(t, "rate"), RateB: rapid.Float64Range(0, 20).Draw(t, "rate"),
		})
	}
	return p
}

// model is a program for a solver that knows nothing of pairs: t, the variables of
// the blocks, the pairs.
func model(p *pairs.Program) *solve.Model {
	m := solve.NewModel("pairs", solve.Maximize)
	level := m.Real(0, solve.Inf(), p.Level)
	if p.Level == 0 {
		m.SetBounds(level, 0, 0)
	}
	joint := make([][]solve.Term, len(p.Limits))
	caps, goals := make([][]solve.Term, len(p.Blocks)), make([][]solve.Term, len(p.Blocks))
	for k, b := range p.Blocks {
		for _, v := range b.Vars {
			x := m.Real(0, solve.Inf(), v.Gain)
			caps[k], goals[k] = append(caps[k], x.Times(1)), append(goals[k], x.Times(v.Rate))
			joint[v.Row] = append(joint[v.Row], x.Times(v.Use))
		}
	}
	for _, v := range p.Pairs {
		x := m.Real(0, solve.Inf(), v.Gain)
		joint[v.Row] = append(joint[v.Row], x.Times(v.Use))
		if v.A == v.B {
			caps[v.A], goals[v.A] = append(caps[v.A], x.Times(2)), append(goals[v.A], x.Times(v.RateA+v.RateB))
			continue
		}
		caps[v.A], goals[v.A] = append(caps[v.A], x.Times(1)), append(goals[v.A], x.Times(v.RateA))
		caps[v.B], goals[v.B] = append(caps[v.B], x.Times(1)), append(goals[v.B], x.Times(v.RateB))
	}
	for k, b := range p.Blocks {
		m.AtMost(b.Cap, caps[k]...)
		if b.Goal {
			m.AtLeast(b.Floor, append(goals[k], level.Times(-b.Step))...)
		}
	}
	for k, l := range p.Limits {
		m.AtMost(l, joint[k]...)
	}
	return m
}

// point is a solution as the values of that model.
func point(m *solve.Model, s *pairs.Solution) []float64 {
	x := []float64{s.Level}
	for _, v := range s.Values {
		x = append(x, v...)
	}
	return append(x, s.Pairs...)
}

// TestAgainstHiGHS: the optimum is that of a simplex solver, what was found fits, and
// at its prices no pair is worth more of.
func TestAgainstHiGHS(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		p := draw(t)
		m := model(p)
		want, err := highs.Shared().Solve(m, solve.Options{})
		if err != nil {
			t.Fatal(err)
		}
		got, err := pairs.Solve(p, false)
		if err != nil {
			t.Fatalf("%v; there is %v", err, want.Objective)
		}
		scale := max(1, math.Abs(want.Objective))
		if math.Abs(got.Objective-want.Objective) > 1e-5*scale {
			t.Fatalf("%+v: the optimum is %v, got %v", p, want.Objective, got.Objective)
		}
		if miss := m.Violation(point(m, got)); miss > 1e-5 {
			t.Fatalf("%+v: a row is missed by %v", p, miss)
		}
		for i := range p.Pairs {
			if w := got.Worth(&p.Pairs[i]); w > 1e-4*scale {
				t.Fatalf("more of pair %d would be worth %v", i, w)
			}
		}
	})
}

// TestUnlike: goals of which one needs all of a block and another a millionth of one are
// all reached, and to the same level.
func TestUnlike(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		p := draw(t)
		p.Level = 1
		for k := range p.Blocks {
			b := &p.Blocks[k]
			if b.Goal, b.Floor = len(b.Vars) > 0 || k == 0, 0; k == 0 {
				b.Vars = []blocks.Var{{Use: 1, Rate: 1}}
			}
			b.Step = math.Pow(10, rapid.Float64Range(-5, 0).Draw(t, "order"))
		}
		for i := range p.Pairs {
			p.Pairs[i].Gain = 0
		}
		for k := range p.Blocks {
			for i := range p.Blocks[k].Vars {
				p.Blocks[k].Vars[i].Gain = 0
			}
		}
		m := model(p)
		want, err := highs.Shared().Solve(m, solve.Options{})
		if err != nil {
			t.Fatal(err)
		}
		got, err := pairs.Solve(p, false)
		if err != nil {
			t.Fatalf("%v; there is %v", err, want.Objective)
		}
		if math.Abs(got.Level/want.Objective-1) > 1e-6 {
			t.Fatalf("%+v: the level is %v, want %v", p, got.Level, want.Objective)
		}
		done := make([]float64, len(p.Blocks))
		for k, b := range p.Blocks {
			for i, v := range b.Vars {
				done[k] += v.Rate * got.Values[k][i]
			}
		}
		for i, v := range p.Pairs {
			done[v.A] += v.RateA * got.Pairs[i]
			done[v.B] += v.RateB * got.Pairs[i]
		}
		for k, b := range p.Blocks {
			if need := b.Step * got.Level; b.Goal && done[k] < need*(1-1e-6) {
				t.Fatalf("%+v: block %d does %v, needs %v", p, k, done[k], need)
			}
		}
	})
}

// TestRough: a rough answer is within a hundredth of the optimum, and fits.
func TestRough(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		p := draw(t)
		exact, err := pairs.Solve(p, false)
		if err != nil {
			t.Fatal(err)
		}
		rough, err := pairs.Solve(p, true)
		if err != nil {
			t.Fatal(err)
		}
		if math.Abs(rough.Objective-exact.Objective) > 0.02*max(1, exact.Objective) {
			t.Fatalf("%+v: roughly %v, exactly %v", p, rough.Objective, exact.Objective)
		}
	})
}

// TestWithoutPairs: without pairs it is package blocks.
func TestWithoutPairs(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		p := draw(t)
		p.Pairs = nil
		got, err := pairs.Solve(p, false)
		if err != nil {
			t.Fatal(err)
		}
		want, err := blocks.Solve(&blocks.Program{Limits: p.Limits, Blocks: p.Blocks, Level: p.Level})
		if err != nil {
			t.Fatal(err)
		}
		if math.Abs(got.Objective-want.Objective) > 1e-5*max(1, math.Abs(want.Objective)) {
			t.Fatalf("%v, in blocks alone %v", got.Objective, want.Objective)
		}
	})
}

// TestNonsense: numbers that make no sense are refused.
func TestNonsense(t *testing.T) {
	good := pairs.Program{Limits: []float64{1}, Blocks: make([]blocks.Block, 2)}
	for k := range good.Blocks {
		good.Blocks[k] = blocks.Block{Cap: 1, Vars: []blocks.Var{{Use: 1, Gain: 1}}}
	}
	if _, err := pairs.Solve(&good, false); err != nil {
		t.Fatal(err)
	}
	for _, bad := range []pairs.Pair{{A: 2, Use: 1}, {B: -1, Use: 1}, {Row: 1, Use: 1}, {Use: 0}, {Use: 1, Gain: math.NaN()}, {Use: 1, RateB: math.Inf(1)}} {
		p := good
		p.Pairs = []pairs.Pair{bad}
		if _, err := pairs.Solve(&p, false); err == nil {
			t.Errorf("%+v is accepted", bad)
		}
	}
}

// BenchmarkSolve is a program of 500 blocks in which each is in about eight pairs.
func BenchmarkSolve(b *testing.B) {
	r := rand.New(rand.NewPCG(1, 2))
	p := &pairs.Program{Limits: []float64{50, 50, 50}, Level: 1}
	for range 500 {
		k := blocks.Block{Cap: 1, Goal: true, Step: 1}
		for t := range p.Limits {
			k.Vars = append(k.Vars, blocks.Var{Row: t, Use: 1, Rate: 0.3 + r.Float64()})
		}
		p.Blocks = append(p.Blocks, k)
	}
	for range 2000 {
		p.Pairs = append(p.Pairs, pairs.Pair{A: r.IntN(500), B: r.IntN(500), Row: r.IntN(3), Use: 1, RateA: 0.2 + r.Float64(), RateB: 0.2 + r.Float64()})
	}
	for b.Loop() {
		if _, err := pairs.Solve(p, false); err != nil {
			b.Fatal(err)
		}
	}
}
