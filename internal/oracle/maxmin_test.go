package oracle_test

import (
	"errors"
	"math"
	"math/rand/v2"
	"testing"

	"github.com/norn-scheduler/norn/internal/oracle"
	"github.com/norn-scheduler/norn/solve"
	"github.com/norn-scheduler/norn/solve/fair"
	"github.com/norn-scheduler/norn/solve/highs"
)

// TestMaxMinFills holds progressive filling over one resource to the closed form.
func TestMaxMinFills(t *testing.T) {
	rng := rand.New(rand.NewPCG(2, 5))
	for n := range 60 {
		claims := make([]fair.Claim, 1+rng.IntN(7))
		goals := make([]oracle.Goal, len(claims))
		m := solve.NewModel("one resource", solve.Sense(n%2))
		var all []solve.Term
		for i := range claims {
			claims[i] = fair.Claim{Weight: 0.2 + rng.Float64(), Cap: 4 * rng.Float64()}
			limit := claims[i].Cap
			if rng.IntN(2) == 0 { // a cap as part of the program, or of the goal
				limit = solve.Inf()
				goals[i].Cap = claims[i].Cap / claims[i].Weight
			}
			x := m.Real(0, limit, rng.Float64())
			goals[i].Weight, goals[i].Terms = claims[i].Weight, []solve.Term{x.Times(1)}
			all = append(all, x.Times(1))
		}
		amount := 6 * rng.Float64()
		m.AtMost(amount, all...)
		want, err := fair.Fill(amount, claims)
		if err != nil {
			t.Fatal(err)
		}
		got, err := oracle.MaxMin(highs.Shared(), m, goals, solve.Options{}, 0)
		if err != nil {
			t.Fatal(err)
		}
		for i := range want {
			if math.Abs(got.Levels[i]*claims[i].Weight-want[i]) > 1e-6 {
				t.Fatalf("amount %v, claims %v: have levels %v after %d rounds, want amounts %v", amount, claims, got.Levels, got.Rounds, want)
			}
		}
	}
}

// TestMaxMinIsFair checks the definition over random programs: to give one more
// than her level, somebody at the same level or below must fall.
func TestMaxMinIsFair(t *testing.T) {
	rng := rand.New(rand.NewPCG(3, 5))
	for range 25 {
		jobs, types := 2+rng.IntN(5), 1+rng.IntN(3)
		build := func() (*solve.Model, []oracle.Goal) {
			rng := rand.New(rand.NewPCG(uint64(jobs), uint64(types)))
			m := solve.NewModel("types", solve.Maximize)
			use := make([][]solve.Term, types)
			goals := make([]oracle.Goal, jobs)
			for j := range goals {
				var time []solve.Term
				goals[j].Weight = 0.5 + rng.Float64()
				for k := range use {
					x := m.Real(0, 1, 0)
					time = append(time, x.Times(1))
					use[k] = append(use[k], x.Times(1+float64(rng.IntN(3))))
					if speed := rng.Float64() - 0.2; speed > 0 {
						goals[j].Terms = append(goals[j].Terms, x.Times(speed))
					}
				}
				m.AtMost(1, time...)
			}
			for k := range use {
				m.AtMost(1+2*rng.Float64(), use[k]...)
			}
			return m, goals
		}
		m, goals := build()
		res, err := oracle.MaxMin(highs.Shared(), m, goals, solve.Options{}, 0)
		if err != nil {
			t.Fatal(err)
		}
		for j := range goals {
			m, goals := build()
			for i, g := range goals {
				if i != j && res.Levels[i] <= res.Levels[j]+1e-9 {
					m.AtLeast((res.Levels[i]-1e-8)*g.Weight, g.Terms...)
				}
			}
			for _, term := range goals[j].Terms {
				m.SetCost(term.Var, term.Coef)
			}
			s, err := highs.Shared().Solve(m, solve.Options{})
			if err != nil {
				t.Fatal(err)
			}
			if more := s.Objective / goals[j].Weight; more > res.Levels[j]+1e-5 {
				t.Fatalf("levels %v: job %d could have %v and nobody below it would fall", res.Levels, j, more)
			}
		}
	}
}

// TestMaxMinRefuses: whole numbers have no prices, and a level without end is none.
func TestMaxMinRefuses(t *testing.T) {
	m := solve.NewModel("whole", solve.Maximize)
	x := m.Bool(1)
	_, err := oracle.MaxMin(highs.Shared(), m, []oracle.Goal{{Terms: []solve.Term{x.Times(1)}, Weight: 1}}, solve.Options{}, 0)
	if !errors.Is(err, solve.Invalid) {
		t.Errorf("integer variables: %v", err)
	}
	m = solve.NewModel("no end", solve.Maximize)
	x = m.Real(0, solve.Inf(), 0)
	_, err = oracle.MaxMin(highs.Shared(), m, []oracle.Goal{{Terms: []solve.Term{x.Times(1)}, Weight: 1}}, solve.Options{}, 0)
	if !errors.Is(err, solve.Unbounded) {
		t.Errorf("no end: %v", err)
	}
}

func BenchmarkMaxMin(b *testing.B) { // 100 jobs x 3 types, filled to the end
	for b.Loop() {
		rng := rand.New(rand.NewPCG(4, 5))
		m := solve.NewModel("filling", solve.Maximize)
		use := make([][]solve.Term, 3)
		goals := make([]oracle.Goal, 100)
		for j := range goals {
			goals[j].Weight = 1
			var time []solve.Term
			for k := range use {
				x := m.Real(0, 1, 0)
				time, use[k] = append(time, x.Times(1)), append(use[k], x.Times(1))
				goals[j].Terms = append(goals[j].Terms, x.Times(0.5+rng.Float64()*float64(k+1)))
			}
			m.AtMost(1, time...)
		}
		for k := range use {
			m.AtMost(20, use[k]...)
		}
		res, err := oracle.MaxMin(highs.Shared(), m, goals, solve.Options{}, 0)
		if err != nil {
			b.Fatal(err)
		}
		b.ReportMetric(float64(res.Rounds), "rounds")
	}
}
