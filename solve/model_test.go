package solve_test

import (
	"errors"
	"fmt"
	"math"
	"strings"
	"testing"

	"github.com/norn-scheduler/norn/solve"
	"github.com/norn-scheduler/norn/solve/highs"
)

// A program is written by adding variables, then rows over them.
func Example() {
	// Two jobs share 10 hours of a V100 and 10 hours of a K80; the slower of them shall
	// be as fast as possible. Steps per hour:
	const oneV100, oneK80, twoV100, twoK80 = 4, 1, 2, 1.5

	m := solve.NewModel("two jobs", solve.Maximize)
	least := m.Real(0, solve.Inf(), 1) // the objective counts it once, and nothing else
	oneV, oneK := m.Real(0, 10, 0), m.Real(0, 10, 0)
	twoV, twoK := m.Real(0, 10, 0), m.Real(0, 10, 0)
	m.AtLeast(0, oneV.Times(oneV100), oneK.Times(oneK80), least.Times(-1))
	m.AtLeast(0, twoV.Times(twoV100), twoK.Times(twoK80), least.Times(-1))
	v100 := m.AtMost(10, oneV.Times(1), twoV.Times(1))
	m.AtMost(10, oneK.Times(1), twoK.Times(1))

	s, err := highs.Shared().Solve(m, solve.Options{})
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Printf("%v: both make %.2f steps; an hour more of the V100 adds %.2f\n", s.Status, s.Objective, s.Price(v100))
	// Output: optimal: both make 23.33 steps; an hour more of the V100 adds 1.33
}

func ExampleModel_AppendLP() {
	m := solve.NewModel("knapsack", solve.Maximize)
	a, b := m.Bool(5), m.Bool(4.5)
	m.Label(a, "job 7")
	m.LabelRow(m.Row(1, 6, a.Times(4), b.Times(3)), "GPUs")
	fmt.Print(string(m.AppendLP(nil)))
	// Output:
	// \ knapsack
	// Maximize
	//  obj: +5 x0_job_7 +4.5 x1
	// Subject To
	//  r0_GPUs: +4 x0_job_7 +3 x1 >= +1
	//  r0_GPUs_upper: +4 x0_job_7 +3 x1 <= +6
	// Bounds
	//  +0 <= x0_job_7 <= +1
	//  +0 <= x1 <= +1
	// General
	//  x0_job_7
	//  x1
	// End
}

func ExampleError() {
	m := solve.NewModel("shares", solve.Maximize)
	x := m.Real(0, 1, 1)
	m.AtLeast(2, x.Times(1))
	_, err := highs.Shared().Solve(m, solve.Options{})
	var fault *solve.Error
	if errors.As(err, &fault) && errors.Is(err, solve.Infeasible) {
		fmt.Println(err)
		fmt.Println(len(fault.Model.AppendLP(nil)) > 0, "it can be dumped")
	}
	// Output:
	// model "shares" (1 rows, 1 variables, 0 of them integer) is infeasible
	// true it can be dumped
}

func TestMistakesAreKept(t *testing.T) {
	nan := math.NaN()
	for name, mistake := range map[string]func(m *solve.Model, x solve.Var, r solve.Row){
		"NaN bound":       func(m *solve.Model, x solve.Var, r solve.Row) { m.Real(nan, 1, 0) },
		"empty bound":     func(m *solve.Model, x solve.Var, r solve.Row) { m.Real(solve.Inf(), solve.Inf(), 0) },
		"cost":            func(m *solve.Model, x solve.Var, r solve.Row) { m.Real(0, 1, solve.Inf()) },
		"coefficient":     func(m *solve.Model, x solve.Var, r solve.Row) { m.AtMost(1, x.Times(nan)) },
		"big coefficient": func(m *solve.Model, x solve.Var, r solve.Row) { m.AtMost(1, x.Times(1e16)) },
		"limit":           func(m *solve.Model, x solve.Var, r solve.Row) { m.AtMost(nan, x.Times(1)) },
		"variable":        func(m *solve.Model, x solve.Var, r solve.Row) { m.AtMost(1, solve.Var(7).Times(1)) },
		"negative":        func(m *solve.Model, x solve.Var, r solve.Row) { m.SetCost(-1, 1) },
		"row":             func(m *solve.Model, x solve.Var, r solve.Row) { m.SetRange(9, 0, 1) },
		"absent term":     func(m *solve.Model, x solve.Var, r solve.Row) { m.SetCoef(r, m.Real(0, 1, 0), 1) },
		"offset":          func(m *solve.Model, x solve.Var, r solve.Row) { m.Offset(nan) },
		"label":           func(m *solve.Model, x solve.Var, r solve.Row) { m.Label(99, "x") },
		"sense":           func(m *solve.Model, x solve.Var, r solve.Row) { m.Reset("m", 9) },
	} {
		m := solve.NewModel("mistaken", solve.Minimize)
		x := m.Real(0, 1, 1)
		r := m.AtMost(1, x.Times(1))
		mistake(m, x, r)
		_, err := highs.Shared().Solve(m, solve.Options{})
		if !errors.Is(err, solve.Invalid) || !errors.Is(m.Err(), solve.Invalid) {
			t.Errorf("%s: have %v", name, err)
		}
	}
	m := solve.NewModel("options", solve.Minimize)
	m.Real(0, 1, 1)
	for _, o := range []solve.Options{{Gap: nan}, {Gap: -1}, {Nodes: -1}, {Iterations: -1}, {Steps: -1}, {Start: []float64{}}, {Basis: &solve.Basis{}}} {
		if _, err := highs.Shared().Solve(m, o); !errors.Is(err, solve.Invalid) {
			t.Errorf("%+v: have %v", o, err)
		}
	}
}

func TestTermsAddUp(t *testing.T) {
	m := solve.NewModel("sums", solve.Minimize)
	x, y := m.Real(0, 9, 1), m.Real(0, 9, 1)
	m.AtLeast(0, x.Times(1), x.Times(2))
	r := m.AtLeast(6, x.Times(1), y.Times(1), x.Times(2), y.Times(-1))
	if got := m.Amount(r, []float64{2, 5}); got != 6 {
		t.Errorf("have %v, want 6", got)
	}
	if text := string(m.AppendLP(nil)); !strings.Contains(text, "r1: +3 x0 +0 x1 >= +6") {
		t.Errorf("have %s", text)
	}
	m.SetCoef(r, x, 4)
	if got := m.Amount(r, []float64{2, 5}); got != 8 {
		t.Errorf("have %v, want 8", got)
	}
	if v := m.Violation([]float64{1, 12}); v != 3 {
		t.Errorf("violation %v, want 3", v)
	}
}

// TestVerify shows that the check of solutions can fail.
func TestVerify(t *testing.T) {
	m := solve.NewModel("verify", solve.Minimize)
	x := m.Real(0, 4, 1)
	r := m.AtLeast(2, x.Times(1))
	good := solve.Solution{Objective: 2, Bound: 2, Values: []float64{2}, Rows: []float64{2}, Prices: []float64{1}, Reduced: []float64{0}}
	if err := solve.Verify(m, &good, 1e-9); err != nil {
		t.Error(err)
	}
	for name, s := range map[string]solve.Solution{
		"infeasible":  {Objective: 1, Bound: 1, Values: []float64{1}, Rows: []float64{1}},
		"objective":   {Objective: 3, Bound: 3, Values: []float64{2}, Rows: []float64{2}},
		"bound":       {Objective: 2, Bound: 3, Values: []float64{2}, Rows: []float64{2}},
		"not optimal": {Objective: 3, Bound: 3, Values: []float64{3}, Rows: []float64{3}, Prices: []float64{1}},
		"no proof":    {Objective: 3, Bound: 3, Values: []float64{3}, Rows: []float64{3}, Prices: []float64{0}},
		"nothing":     {},
	} {
		if solve.Verify(m, &s, 1e-9) == nil {
			t.Errorf("%s: accepted", name)
		}
	}
	_ = r
}

// FuzzModel writes a model as the input says, however wrong, and solves it:
// nothing may panic, and what is solved must verify.
func FuzzModel(f *testing.F) {
	f.Add([]byte{0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 200, 201, 3, 5, 1})
	f.Add([]byte{1, 0, 0, 9, 3, 0, 0, 9, 5, 1, 0, 9, 4, 2, 3, 1, 6, 0, 0, 4})
	f.Fuzz(func(t *testing.T, in []byte) {
		at := 0
		next := func() int {
			if at >= len(in) {
				return 0
			}
			at++
			return int(in[at-1])
		}
		number := func() float64 {
			b := next()
			if b >= 250 {
				return [...]float64{math.NaN(), solve.Inf(), -solve.Inf(), 1e300, 1e-300, -1e16}[b-250]
			}
			return float64(b%40-20) / 2
		}
		m := solve.NewModel("fuzzed", solve.Sense(next()%2))
		for at < len(in) && m.Vars() < 12 && m.Rows() < 12 {
			switch next() % 8 {
			case 0:
				m.Real(number(), number(), number())
			case 1:
				m.Int(number(), number(), number())
			case 2:
				m.Bool(number())
			case 3:
				m.AtMost(number(), solve.Var(next()%14-1).Times(number()), solve.Var(next()%14-1).Times(number()))
			case 4:
				m.Row(number(), number(), solve.Var(next()%12).Times(number()), solve.Var(next()%12).Times(number()))
			case 5:
				m.SetBounds(solve.Var(next()%13), number(), number())
			case 6:
				m.SetCoef(solve.Row(next()%13), solve.Var(next()%13), number())
			case 7:
				m.Offset(number())
			}
		}
		m.AppendLP(nil)
		s, err := highs.Shared().Solve(m, solve.Options{Nodes: 100, Iterations: 1000})
		var fault *solve.Error
		switch {
		case err != nil && (!errors.As(err, &fault) || errors.Is(err, solve.Failed)):
			t.Fatalf("%v\n%s", err, m.AppendLP(nil))
		case err == nil:
			if err := solve.Verify(m, s, 1e-5); err != nil {
				t.Fatalf("%v\n%s", err, m.AppendLP(nil))
			}
		}
	})
}
