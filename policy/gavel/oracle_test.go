package gavel_test

import (
	"math"
	"testing"

	"pgregory.net/rapid"

	"github.com/norn-scheduler/norn/experiment"
	"github.com/norn-scheduler/norn/internal/oracle"
	"github.com/norn-scheduler/norn/policy/gavel"
	"github.com/norn-scheduler/norn/solve"
	"github.com/norn-scheduler/norn/solve/highs"
)

// model is the constraints of section 2.1 for a general solver: a variable for each
// job and type that can hold it.
func model(p *gavel.Problem) (*solve.Model, [][]solve.Term) {
	m := solve.NewModel("gavel", solve.Maximize)
	types := make([][]solve.Term, len(p.Capacity))
	speeds := make([][]solve.Term, len(p.Jobs)) // throughput of each job
	for i := range p.Jobs {
		j := &p.Jobs[i]
		var time []solve.Term
		for t, s := range j.Speed {
			if s > 0 && j.Size <= p.Capacity[t] {
				x := m.Real(0, 1, 0)
				time = append(time, x.Times(1))
				types[t] = append(types[t], x.Times(j.Size))
				speeds[i] = append(speeds[i], x.Times(s))
			}
		}
		m.AtMost(1, time...)
	}
	for t, w := range p.Capacity {
		m.AtMost(w, types[t]...)
	}
	return m, speeds
}

func scaledTerms(terms []solve.Term, by float64) []solve.Term {
	out := make([]solve.Term, len(terms))
	for i, t := range terms {
		out[i] = t.Var.Times(t.Coef * by)
	}
	return out
}

// filled is the jobs of a model that can run at all, and the max-min fair share of each,
// as progressive filling over a simplex solver finds it.
func filled(t *rapid.T, p *gavel.Problem, m *solve.Model, speeds [][]solve.Term) (who []int, levels []float64) {
	var goals []oracle.Goal
	for i := range p.Jobs {
		if j := &p.Jobs[i]; len(speeds[i]) > 0 {
			goals = append(goals, oracle.Goal{Terms: scaledTerms(speeds[i], j.Size/p.Equal(j)), Weight: j.Weight})
			who = append(who, i)
		}
	}
	if len(who) == 0 {
		return nil, nil
	}
	r, err := oracle.MaxMin(highs.Shared(), m, goals, solve.Options{}, 0)
	if err != nil {
		t.Skip(err)
	}
	return who, r.Levels
}

// TestFillingAgainstHiGHS: the shares that water filling finds are the max-min fair
// ones, as progressive filling over a simplex solver finds them.
func TestFillingAgainstHiGHS(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		p := drawProblem(t)
		m, speeds := model(p)
		who, want := filled(t, p, m, speeds)
		if len(who) == 0 {
			return
		}
		a, err := gavel.WaterFilling(p)
		if err != nil {
			t.Fatal(err)
		}
		for k, i := range who {
			if got := share(p, i, a[i]); math.Abs(got-want[k]) > 3e-4*max(1, want[k]) { // floors give way by a hundred-thousandth at most
				t.Fatalf("job %d has the share %v, want %v", i, got, want[k])
			}
		}
	})
}

// TestMakespanAgainstHiGHS: nobody can let the last job end earlier.
func TestMakespanAgainstHiGHS(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		p := drawProblem(t)
		m, speeds := model(p)
		level, any := m.Real(0, solve.Inf(), 1), false
		for i := range p.Jobs {
			if len(speeds[i]) > 0 {
				m.AtLeast(0, append(scaledTerms(speeds[i], 1/p.Jobs[i].Left), level.Times(-1))...)
				any = true
			}
		}
		if !any {
			return
		}
		want, err := highs.Shared().Solve(m, solve.Options{})
		if err != nil {
			t.Fatal(err)
		}
		a, err := gavel.Makespan(p)
		if err != nil {
			t.Fatal(err)
		}
		last := 0.0
		for i := range p.Jobs {
			if len(speeds[i]) > 0 {
				last = max(last, p.Jobs[i].Left/throughput(&p.Jobs[i], a[i]))
			}
		}
		if math.Abs(last*want.Objective-1) > 1e-4 {
			t.Fatalf("the last job ends after %v s, it could after %v s", last, 1/want.Objective)
		}
	})
}

// TestFinishTimesAgainstHiGHS: a rho that is one in a thousand less cannot be had.
func TestFinishTimesAgainstHiGHS(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		p := drawProblem(t)
		a, err := gavel.FinishTimes(p)
		if err != nil {
			t.Fatal(err)
		}
		iso, err := gavel.Isolated(p)
		if err != nil {
			t.Fatal(err)
		}
		worst := 0.0
		alone := make([]float64, len(p.Jobs))
		for i := range p.Jobs {
			if j := &p.Jobs[i]; able(p, i) {
				alone[i] = j.Isolated + j.Left/throughput(j, iso[i])
				worst = max(worst, (j.Age+j.Left/throughput(j, a[i]))/alone[i])
			}
		}
		m, speeds := model(p)
		for i := range p.Jobs {
			if j := &p.Jobs[i]; able(p, i) {
				slack := worst*0.999*alone[i] - j.Age
				if slack <= 0 {
					return // its age alone is too much
				}
				m.AtLeast(j.Left/slack, speeds[i]...)
			}
		}
		if s, err := highs.Shared().Solve(m, solve.Options{}); err == nil && worst > 0 {
			t.Fatalf("rho is %v, %v can be had: %v", worst, worst*0.999, s.Values)
		}
	})
}

// Acceptance 10, and section 4: on the trace of the authors' cluster, who knows the
// speeds gets mean JCT down against who does not.
func TestAware(t *testing.T) {
	mean := func(settings ...experiment.Setting) float64 {
		o := online(t, "gavel_max_min_fairness.trace.gz", settings...)
		return o.Result.JCT.Mean.Seconds()
	}
	for _, objective := range []string{"las", "ftf"} {
		with := mean(experiment.Setting{Name: "objective", Value: objective})
		without := mean(experiment.Setting{Name: "objective", Value: objective}, experiment.Setting{Name: "aware", Value: "false"})
		t.Logf("%s: mean JCT %.0f s aware, %.0f s agnostic: %.2f times", objective, with, without, without/with)
		if without < 1.15*with {
			t.Errorf("%s: mean JCT %v aware, %v agnostic", objective, with, without)
		}
	}
}
