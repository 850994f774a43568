package blocks_test

import (
	"errors"
	"math"
	"reflect"
	"testing"

	"pgregory.net/rapid"

	"github.com/norn-scheduler/norn/solve"
	"github.com/norn-scheduler/norn/solve/blocks"
	"github.com/norn-scheduler/norn/solve/highs"
)

// draw is a random program that has an optimum: goals are within what equal parts
// give to everybody.
func draw(t *rapid.T) *blocks.Program {
	p := &blocks.Program{}
	for range rapid.IntRange(1, 4).Draw(t, "rows") {
		p.Limits = append(p.Limits, rapid.Float64Range(0.5, 50).Draw(t, "limit"))
	}
	levels := rapid.Bool().Draw(t, "level")
	if levels {
		p.Level = rapid.Float64Range(0.1, 10).Draw(t, "worth")
	}
	n := rapid.IntRange(1, 10).Draw(t, "blocks")
	steps := false
	for range n {
		b := blocks.Block{Cap: rapid.SampledFrom([]float64{1, 1, 0.5, 3}).Draw(t, "cap"), Goal: rapid.Bool().Draw(t, "goal")}
		most := 0.0 // of the goal, with an equal part of everything
		for row := range p.Limits {
			if rapid.IntRange(0, 3).Draw(t, "takes part") == 0 {
				continue
			}
			v := blocks.Var{Row: row, Use: rapid.SampledFrom([]float64{1, 1, 2, 4, 0.5}).Draw(t, "use"), Rate: rapid.Float64Range(0.05, 20).Draw(t, "rate")}
			if !levels || rapid.Bool().Draw(t, "gains") {
				v.Gain = rapid.Float64Range(0.05, 5).Draw(t, "gain")
			}
			rows := float64(len(p.Limits))
			part := min(b.Cap/rows, p.Limits[row]/float64(n)/v.Use/rows)
			for other := range p.Limits {
				if other != row && rapid.IntRange(0, 4).Draw(t, "another row") == 0 {
					u := blocks.Use{Row: other, Use: rapid.SampledFrom([]float64{1, 2, 0.5}).Draw(t, "use of it")}
					v.More = append(v.More, u)
					part = min(part, p.Limits[other]/float64(n)/u.Use/rows)
				}
			}
			most += v.Rate * part
			b.Vars = append(b.Vars, v)
		}
		if b.Goal && len(b.Vars) > 0 {
			b.Floor = most * rapid.Float64Range(0, 0.9).Draw(t, "floor")
			if levels && most > 0 {
				b.Step = rapid.Float64Range(0.1, 3).Draw(t, "step")
				steps = true
			}
		} else {
			b.Goal = false
		}
		p.Blocks = append(p.Blocks, b)
	}
	if !steps {
		p.Level = 0 // nothing would hold it
	}
	return p
}

// model is a program for a solver that knows nothing of blocks.
func model(p *blocks.Program) (*solve.Model, [][]solve.Var) {
	m := solve.NewModel("blocks", solve.Maximize)
	level := m.Real(0, solve.Inf(), p.Level)
	joint := make([][]solve.Term, len(p.Limits))
	vars := make([][]solve.Var, len(p.Blocks))
	for k, b := range p.Blocks {
		var caps, goal []solve.Term
		for _, v := range b.Vars {
			x := m.Real(0, solve.Inf(), v.Gain)
			vars[k] = append(vars[k], x)
			caps, goal = append(caps, x.Times(1)), append(goal, x.Times(v.Rate))
			joint[v.Row] = append(joint[v.Row], x.Times(v.Use))
			for _, u := range v.More {
				joint[u.Row] = append(joint[u.Row], x.Times(u.Use))
			}
		}
		m.AtMost(b.Cap, caps...)
		if b.Goal {
			m.AtLeast(b.Floor, append(goal, level.Times(-b.Step))...)
		}
	}
	for k, l := range p.Limits {
		m.AtMost(l, joint[k]...)
	}
	if p.Level == 0 {
		m.SetBounds(level, 0, 0)
	}
	return m, vars
}

// TestAgainstHiGHS: the optimum is that of a simplex solver, and what was found
// fits.
func TestAgainstHiGHS(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		p := draw(t)
		m, vars := model(p)
		want, err := highs.Shared().Solve(m, solve.Options{})
		if err != nil {
			t.Fatal(err)
		}
		got, err := blocks.Solve(p)
		if err != nil {
			t.Fatalf("%v; there is %v", err, want.Objective)
		}
		if math.Abs(got.Objective-want.Objective) > 1e-5*max(1, math.Abs(want.Objective)) {
			t.Fatalf("%+v: the optimum is %v, got %v", p, want.Objective, got.Objective)
		}
		x := make([]float64, m.Vars())
		x[0] = got.Level
		for k := range vars {
			for i, v := range vars[k] {
				x[v] = got.Values[k][i]
			}
		}
		if miss := m.Violation(x); miss > 1e-5 {
			t.Fatalf("%+v: a row is missed by %v", p, miss)
		}
	})
}

// TestMiddle: of all optima the middle is found; a goal has a price, or more than it
// needs.
func TestMiddle(t *testing.T) {
	// Two blocks share 1 of either row; only the sum matters.
	p := &blocks.Program{Limits: []float64{1, 1}}
	for range 2 {
		p.Blocks = append(p.Blocks, blocks.Block{Cap: 1, Vars: []blocks.Var{{Row: 0, Use: 1, Gain: 1}, {Row: 1, Use: 1, Gain: 1}}})
	}
	s, err := blocks.Solve(p)
	if err != nil {
		t.Fatal(err)
	}
	for k := range s.Values {
		for _, x := range s.Values[k] {
			if math.Abs(x-0.5) > 1e-4 {
				t.Fatalf("the middle is %v", s.Values)
			}
		}
	}
	// One of three cannot reach more than 1/2, the others could.
	p = &blocks.Program{Limits: []float64{1.5, 100}, Level: 1}
	for k := range 3 {
		v := blocks.Var{Row: 1, Use: 1, Rate: 1}
		if k == 0 {
			v = blocks.Var{Row: 0, Use: 3, Rate: 1}
		}
		p.Blocks = append(p.Blocks, blocks.Block{Cap: 1, Goal: true, Step: 1, Vars: []blocks.Var{v}})
	}
	if s, err = blocks.Solve(p); err != nil {
		t.Fatal(err)
	}
	if math.Abs(s.Level-0.5) > 1e-6 || s.Prices[0] < 0.99 || s.Slacks[0] > 1e-6 || s.Prices[1] > 1e-6 || s.Slacks[1] < 0.1 {
		t.Errorf("level %v, prices %v, slacks %v", s.Level, s.Prices, s.Slacks)
	}
}

// TestSame: the same program gives the same bits.
func TestSame(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		p := draw(t)
		a, errA := blocks.Solve(p)
		b, errB := blocks.Solve(p)
		if errA != nil || errB != nil || !reflect.DeepEqual(a, b) {
			t.Fatalf("%+v: %v, %v: %+v and %+v", p, errA, errB, a, b)
		}
	})
}

// TestNoAnswer: what makes no sense, cannot be reached or has no end is an error.
func TestNoAnswer(t *testing.T) {
	one := func(change func(*blocks.Program)) error {
		p := &blocks.Program{Limits: []float64{1}, Blocks: []blocks.Block{{Cap: 1, Vars: []blocks.Var{{Use: 1, Rate: 1}}}}}
		change(p)
		_, err := blocks.Solve(p)
		return err
	}
	if err := one(func(*blocks.Program) {}); err != nil {
		t.Errorf("a plain program: %v", err)
	}
	for name, change := range map[string]func(*blocks.Program){
		"no such row": func(p *blocks.Program) { p.Blocks[0].Vars[0].Row = 1 }, "no limit": func(p *blocks.Program) { p.Limits[0] = 0 },
		"not a number": func(p *blocks.Program) { p.Blocks[0].Vars[0].Gain = math.NaN() }, "no use": func(p *blocks.Program) { p.Blocks[0].Vars[0].Use = 0 },
		"twice in a row": func(p *blocks.Program) { p.Blocks[0].Vars[0].More = []blocks.Use{{Row: 0, Use: 1}} },
		"no cap":         func(p *blocks.Program) { p.Blocks[0].Cap = 0 },
	} {
		if err := one(change); err == nil || errors.Is(err, blocks.ErrNoAnswer) {
			t.Errorf("%s: %v", name, err)
		}
	}
	for name, change := range map[string]func(*blocks.Program){
		"a goal out of reach": func(p *blocks.Program) { p.Blocks[0].Goal, p.Blocks[0].Floor = true, 2 },
		"no end":              func(p *blocks.Program) { p.Level = 1 },
	} {
		if err := one(change); !errors.Is(err, blocks.ErrNoAnswer) {
			t.Errorf("%s: %v", name, err)
		}
	}
}
