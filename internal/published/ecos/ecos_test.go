package ecos_test

import (
	"errors"
	"math"
	"testing"

	"pgregory.net/rapid"

	"github.com/norn-scheduler/norn/internal/published/ecos"
	"github.com/norn-scheduler/norn/solve"
	"github.com/norn-scheduler/norn/solve/highs"
)

func row(limit float64, values ...float64) ecos.Row {
	r := ecos.Row{Limit: limit}
	for i, v := range values {
		if v != 0 {
			r.Index, r.Value = append(r.Index, i), append(r.Value, v)
		}
	}
	return r
}

// A vertex that is the only optimum, with what is left of a variable that is zero.
func TestVertex(t *testing.T) {
	// maximise 2x + y, x + y <= 1, x <= 0.75
	x, err := ecos.Solve([]float64{-2, -1}, []ecos.Row{row(0, -1, 0), row(0, 0, -1), row(1, 1, 1), row(0.75, 1, 0)})
	if err != nil || math.Abs(x[0]-0.75) > 1e-7 || math.Abs(x[1]-0.25) > 1e-7 {
		t.Errorf("%v, %v", x, err)
	}
}

// Without an objective the answer lies well inside.
func TestFeasible(t *testing.T) {
	x, err := ecos.Solve([]float64{0, 0}, []ecos.Row{row(0, -1, 0), row(0, 0, -1), row(1, 1, 1)})
	if err != nil || min(x[0], x[1], 1-x[0]-x[1]) < 0.1 || math.Abs(x[0]-x[1]) > 1e-9 {
		t.Errorf("%v, %v", x, err)
	}
}

// An impossible program is an error.
func TestInfeasible(t *testing.T) {
	if x, err := ecos.Solve([]float64{1}, []ecos.Row{row(-1, 1), row(0, -1)}); !errors.Is(err, ecos.ErrFailed) {
		t.Errorf("%v, %v", x, err)
	}
}

// TestAgainstHiGHS: the optimum of a random program over a box is that of a simplex
// solver.
func TestAgainstHiGHS(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		n := rapid.IntRange(1, 6).Draw(t, "variables")
		coef := rapid.Custom(func(t *rapid.T) float64 { return float64(rapid.IntRange(0, 9).Draw(t, "coefficient")) })
		m := solve.NewModel("random", solve.Minimize)
		var c []float64
		var rows []ecos.Row
		for i := range n {
			c = append(c, -coef.Draw(t, "cost"))
			m.Real(0, solve.Inf(), c[i])
			unit := make([]float64, n)
			unit[i] = -1
			rows = append(rows, row(0, unit...))
		}
		box := make([]float64, n)
		for i := range box {
			box[i] = 1
		}
		all := [][]float64{box}
		for range rapid.IntRange(0, 4).Draw(t, "rows") {
			all = append(all, rapid.SliceOfN(coef, n, n).Draw(t, "row"))
		}
		for _, values := range all {
			limit := 1 + coef.Draw(t, "limit")
			rows = append(rows, row(limit, values...))
			var terms []solve.Term
			for i, v := range values {
				terms = append(terms, solve.Var(i).Times(v))
			}
			m.AtMost(limit, terms...)
		}
		want, err := highs.Shared().Solve(m, solve.Options{})
		if err != nil {
			t.Fatal(err)
		}
		x, err := ecos.Solve(c, rows)
		if err != nil {
			t.Fatal(err)
		}
		if got := m.Objective(x); math.Abs(got-want.Objective) > 1e-5*max(1, math.Abs(want.Objective)) || m.Violation(x) > 1e-6 {
			t.Fatalf("%v has the objective %v and misses by %v; the optimum is %v", x, got, m.Violation(x), want.Objective)
		}
	})
}
