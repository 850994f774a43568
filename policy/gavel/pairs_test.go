package gavel_test

import (
	"fmt"
	"math"
	"testing"

	"pgregory.net/rapid"

	"github.com/norn-scheduler/norn/policy/gavel"
	"github.com/norn-scheduler/norn/solve"
	"github.com/norn-scheduler/norn/solve/highs"
)

// Acceptance 6: two jobs that do 7 and 6 of their 10 steps per second together.
func TestSpaceSharing(t *testing.T) {
	p := &gavel.Problem{Capacity: []float64{1}, Jobs: jobs([]float64{10}, []float64{10}), Beside: [][][]float64{{{0}, {0.7}}, {{0.6}, {0}}}}
	p.Jobs[1].Kind = 1
	for name, program := range map[string]gavel.Program{"LAS": gavel.MaxMin, "water filling": gavel.WaterFilling} {
		a := solved(t, program, p)
		for m, got := range p.Throughputs(a) {
			if math.Abs(got-70./11) > 1e-4 {
				t.Errorf("%s: job %d does %v steps per second, want 70/11", name, m, got)
			}
		}
		if len(p.Pairs) != 1 || math.Abs(a[2][0]-10./11) > 1e-5 || math.Abs(a[1][0]-1./11) > 1e-5 || a[0][0] > 1e-5 {
			t.Errorf("%s: %v with the pairs %v, want 10/11 together and 1/11 for B alone", name, a, p.Pairs)
		}
	}
	p.Beside[0][1][0], p.Beside[1][0][0] = 0.5, 0.5 // no more than taking turns
	if a := solved(t, gavel.MaxMin, p); math.Abs(p.Throughputs(a)[0]-5) > 1e-5 {
		t.Errorf("jobs that gain nothing do %v", p.Throughputs(a))
	}
}

// drawShared is a random problem whose jobs may share.
func drawShared(t *rapid.T) *gavel.Problem {
	p := drawProblem(t)
	kinds := rapid.IntRange(1, 4).Draw(t, "kinds")
	for range kinds {
		var row [][]float64
		for range kinds {
			var by []float64
			for range p.Capacity {
				by = append(by, rapid.SampledFrom([]float64{0, 0.3, 0.55, 0.7, 0.95, 1}).Draw(t, "factor"))
			}
			row = append(row, by)
		}
		p.Beside = append(p.Beside, row)
	}
	for m := range p.Jobs {
		p.Jobs[m].Kind = rapid.IntRange(-1, kinds-1).Draw(t, "kind")
	}
	if n := len(p.Jobs); n > 1 && rapid.Bool().Draw(t, "twins") { // for which programs are the same
		p.Jobs[n-1] = p.Jobs[0]
	}
	return p
}

// every is a problem's rows: all jobs, then all pairs of them that may share.
func every(p *gavel.Problem) []gavel.Pair {
	var out []gavel.Pair
	for a := range p.Jobs {
		for b := a + 1; b < len(p.Jobs); b++ {
			if x, y := &p.Jobs[a], &p.Jobs[b]; x.Size == y.Size && x.Kind >= 0 && y.Kind >= 0 {
				out = append(out, gavel.Pair{A: a, B: b})
			}
		}
	}
	return out
}

// sharedModel is the constraints of section 2.1 with a row for every pair: time of jobs
// and GPUs of types; and the throughput of each job.
func sharedModel(p *gavel.Problem) (*solve.Model, [][]solve.Term) {
	m := solve.NewModel("gavel, packed", solve.Maximize)
	types := make([][]solve.Term, len(p.Capacity))
	speeds, times := make([][]solve.Term, len(p.Jobs)), make([][]solve.Term, len(p.Jobs))
	holds := func(i, t int) bool { return p.Jobs[i].Speed[t] > 0 && p.Jobs[i].Size <= p.Capacity[t] }
	for t := range p.Capacity {
		for i := range p.Jobs {
			if j := &p.Jobs[i]; holds(i, t) {
				x := m.Real(0, 1, 0)
				times[i], speeds[i], types[t] = append(times[i], x.Times(1)), append(speeds[i], x.Times(j.Speed[t])), append(types[t], x.Times(j.Size))
			}
		}
		for _, pair := range every(p) {
			a, b := &p.Jobs[pair.A], &p.Jobs[pair.B]
			fa, fb := p.Beside[a.Kind][b.Kind][t], p.Beside[b.Kind][a.Kind][t]
			if holds(pair.A, t) && holds(pair.B, t) && fa > 0 && fb > 0 {
				x := m.Real(0, 1, 0)
				types[t] = append(types[t], x.Times(a.Size))
				times[pair.A], times[pair.B] = append(times[pair.A], x.Times(1)), append(times[pair.B], x.Times(1))
				speeds[pair.A], speeds[pair.B] = append(speeds[pair.A], x.Times(fa*a.Speed[t])), append(speeds[pair.B], x.Times(fb*b.Speed[t]))
			}
		}
	}
	for i := range times {
		m.AtMost(1, times[i]...)
	}
	for t, w := range p.Capacity {
		m.AtMost(w, types[t]...)
	}
	return m, speeds
}

// sharedShare is the share of a job that LAS makes as large as can be for the smallest.
func sharedShare(p *gavel.Problem, m int, rates []float64) float64 {
	j := &p.Jobs[m]
	return rates[m] * j.Size / (j.Weight * p.Equal(j))
}

// TestPairsAgainstHiGHS: with pairs found as they are needed LAS, the makespan and the
// sum of throughputs are those of a simplex solver that is given all of them; water
// filling is progressive filling.
func TestPairsAgainstHiGHS(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		p := drawShared(t)
		best := func(rate func(j *gavel.Job) float64) (float64, bool) {
			m, speeds := sharedModel(p)
			level, any := m.Real(0, solve.Inf(), 1), false
			for i := range p.Jobs {
				if len(speeds[i]) > 0 {
					m.AtLeast(0, append(scaledTerms(speeds[i], rate(&p.Jobs[i])), level.Times(-1))...)
					any = true
				}
			}
			if !any {
				return 0, false
			}
			s, err := highs.Shared().Solve(m, solve.Options{})
			if err != nil {
				t.Fatal(err)
			}
			return s.Objective, true
		}
		rates := map[string]func(j *gavel.Job) float64{
			"las":      func(j *gavel.Job) float64 { return j.Size / (j.Weight * p.Equal(j)) },
			"makespan": func(j *gavel.Job) float64 { return 1 / j.Left },
		}
		for name, program := range map[string]gavel.Program{"las": gavel.MaxMin, "makespan": gavel.Makespan} {
			want, any := best(rates[name])
			if !any {
				return
			}
			got := math.Inf(1)
			for i, r := range p.Throughputs(solved(t, program, p)) {
				if able(p, i) {
					got = min(got, r*rates[name](&p.Jobs[i]))
				}
			}
			if math.Abs(got/want-1) > 1e-4 {
				t.Fatalf("%s: the smallest share is %v, HiGHS finds %v", name, got, want)
			}
		}
	})
}

// TestPairsFilled: water filling with pairs is the max-min fair division that progressive
// filling over a simplex solver finds.
func TestPairsFilled(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		p := drawShared(t)
		m, speeds := sharedModel(p)
		who, want := filled(t, p, m, speeds)
		if len(who) == 0 {
			return
		}
		a, err := gavel.WaterFilling(p)
		if err != nil {
			t.Fatal(err)
		}
		rates := p.Throughputs(a)
		for k, i := range who {
			// Throughput beyond the levels is no loss: at most as much as
			// HiGHS finds is due.
			if got := sharedShare(p, i, rates); got < want[k]-3e-4*max(1, want[k]) {
				t.Fatalf("job %d has the share %v, want %v", i, got, want[k])
			}
		}
	})
}

// TestPairsInvariants: with every objective what is given fits; pairs never lower LAS,
// the makespan, the largest rho or the sum of throughputs; a problem in which nobody
// gains by sharing has what it had without.
func TestPairsInvariants(t *testing.T) {
	programs := map[string]gavel.Program{
		"las": gavel.MaxMin, "filling": gavel.WaterFilling, "hierarchical": gavel.Hierarchical, "fifo": gavel.FIFO, "makespan": gavel.Makespan,
		"ftf": gavel.FinishTimes, "throughput": gavel.Throughput, "cost": gavel.Cost, "slo": gavel.CostSLO,
	}
	rapid.Check(t, func(t *rapid.T) {
		p := drawShared(t)
		q := *p
		q.Beside = nil
		for name, program := range programs {
			a, err := program(p)
			if err == nil {
				err = fits(p, a)
			}
			if err != nil {
				t.Fatalf("%s: %v", name, err)
			}
			b, err := program(&q)
			if err != nil {
				t.Fatalf("%s, nobody sharing: %v", name, err)
			}
			with, without := goodness(p, name, p.Throughputs(a)), goodness(&q, name, q.Throughputs(b))
			if with < without-2e-5*max(1, math.Abs(without)) {
				t.Fatalf("%s: %v with pairs, %v without", name, with, without)
			}
		}
	})
}

// goodness is what an objective makes as large as can be, where it is a number.
func goodness(p *gavel.Problem, name string, rates []float64) float64 {
	worst, sum, last, rho := math.Inf(1), 0.0, 0.0, 0.0
	iso, _ := gavel.Isolated(p)
	for m := range p.Jobs {
		if j := &p.Jobs[m]; able(p, m) {
			worst = min(worst, sharedShare(p, m, rates))
			last = max(last, j.Left/rates[m])
			rho = max(rho, (j.Age+j.Left/rates[m])/(j.Isolated+j.Left/throughput(j, iso[m])))
			sum += rates[m]
		}
	}
	switch name {
	case "las", "filling":
		return worst
	case "makespan":
		return 1 / last
	case "ftf":
		return -rho
	case "throughput":
		return sum
	}
	return 0
}

// fits says what is wrong with an allocation with pairs, or nothing.
func fits(p *gavel.Problem, a gavel.Allocation) error {
	used, time := make([]float64, len(p.Capacity)), make([]float64, len(p.Jobs))
	if len(a) < len(p.Jobs) || len(a) > len(p.Jobs)+len(p.Pairs) {
		return fmt.Errorf("there are %d rows for %d jobs and %d pairs", len(a), len(p.Jobs), len(p.Pairs))
	}
	for r, x := range a {
		who := []int{r}
		if r >= len(p.Jobs) {
			pair := p.Pairs[r-len(p.Jobs)]
			who = []int{pair.A, pair.B}
			if pair.A >= pair.B || p.Jobs[pair.A].Size != p.Jobs[pair.B].Size {
				return fmt.Errorf("there is the pair %v", pair)
			}
		}
		for t, v := range x {
			for _, m := range who {
				if v < 0 || v > 0 && (p.Jobs[m].Speed[t] <= 0 || p.Jobs[m].Size > p.Capacity[t]) {
					return fmt.Errorf("row %d of %v has %v of type %d", r, who, v, t)
				}
				time[m] += v
			}
			used[t] += v * p.Jobs[who[0]].Size
		}
	}
	for m, v := range time {
		if v > 1+1e-6 {
			return fmt.Errorf("job %d has %v of its time", m, v)
		}
	}
	for t, u := range used {
		if u > p.Capacity[t]*(1+1e-6) {
			return fmt.Errorf("%v GPUs of type %d are given, there are %v", u, t, p.Capacity[t])
		}
	}
	return nil
}
