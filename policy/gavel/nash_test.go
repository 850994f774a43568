package gavel_test

import (
	"math"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"github.com/norn-scheduler/norn/policy/gavel"
	"github.com/norn-scheduler/norn/solve"
	"github.com/norn-scheduler/norn/solve/highs"
)

// Section 2.3, strategy-proof: of n jobs alike on one GPU each has an n-th, and without it
// each of the others would have n/(n-1) times as much. So it keeps ((n-1)/n)^(n-1) of it.
func TestStrategyProofAlike(t *testing.T) {
	for n := 1; n <= 6; n++ {
		p := &gavel.Problem{Capacity: []float64{1}}
		for range n {
			p.Jobs = append(p.Jobs, gavel.Job{Size: 1, Speed: []float64{3}, Weight: 1})
		}
		want := math.Pow(float64(n-1)/float64(n), float64(n-1)) / float64(n)
		for _, x := range solved(t, gavel.StrategyProof, p) {
			if math.Abs(x[0]-want) > 1e-6 {
				t.Errorf("%d jobs: %v, want %v", n, x[0], want)
			}
		}
	}
}

// Jobs that do not stand in each other's way pay nothing. Where two want one type, each
// gives back what the other loses by that: with speeds (2, 1) and (4, 1) the product is
// greatest when one has the fast type and the other the slow one, or they share. The first
// alone would have 2, and so on.
func TestStrategyProof(t *testing.T) {
	p := &gavel.Problem{Capacity: []float64{1, 1}, Jobs: jobs([]float64{2, 1}, []float64{1, 2})}
	equals(t, "no conflict", solved(t, gavel.StrategyProof, p), [][]float64{{1, 0}, {0, 1}})

	// u0 = 1+x, u1 = 1+3(1-x): (1+x)(4-3x) is greatest at x = 1/6, with u = 7/6 and 7/2.
	// Alone, they have 2 and 4: the first keeps 7/8, the second 7/12.
	p = &gavel.Problem{Capacity: []float64{1, 1}, Jobs: jobs([]float64{2, 1}, []float64{4, 1})}
	equals(t, "product", solved(t, gavel.Nash, p), [][]float64{{1. / 6, 5. / 6}, {5. / 6, 1. / 6}})
	equals(t, "conflict", solved(t, gavel.StrategyProof, p), [][]float64{{7. / 48, 35. / 48}, {35. / 72, 7. / 72}})
}

// TestNashAgainstHiGHS: where the product of throughputs is greatest, the throughputs of any
// other allocation, over those, add up to the number of jobs at most.
func TestNashAgainstHiGHS(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		p := drawProblem(t)
		a := solved(t, gavel.Nash, p)
		if err := feasible(p, a); err != nil {
			t.Fatal(err)
		}
		m, speeds := model(p)
		sum, n := m.Real(0, solve.Inf(), 1), 0.0
		terms := []solve.Term{sum.Times(-1)}
		for i := range p.Jobs {
			if len(speeds[i]) > 0 {
				terms = append(terms, scaledTerms(speeds[i], 1/throughput(&p.Jobs[i], a[i]))...)
				n++
			}
		}
		if n == 0 {
			return
		}
		m.AtLeast(0, terms...)
		best, err := highs.Shared().Solve(m, solve.Options{})
		if err != nil {
			t.Fatal(err)
		}
		if best.Objective > n*(1+1e-5) {
			t.Fatalf("of %v jobs another allocation has %v times the throughput of each on average", n, best.Objective/n)
		}
	})
}

// TestNobodyGainsByLying: whatever speeds a job tells, it has no more throughput than with
// its own. Everybody keeps at least an e-th of what the greatest product gives.
func TestNobodyGainsByLying(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		p := drawProblem(t)
		a, before := solved(t, gavel.StrategyProof, p), solved(t, gavel.Nash, p)
		if err := feasible(p, a); err != nil {
			t.Fatal(err)
		}
		for m := range p.Jobs {
			if have, all := throughput(&p.Jobs[m], a[m]), throughput(&p.Jobs[m], before[m]); have < all*(math.Exp(-1)-1e-5) {
				t.Fatalf("job %d keeps %v of %v", m, have, all)
			}
		}
		m := rapid.IntRange(0, len(p.Jobs)-1).Draw(t, "liar")
		told := *p
		told.Jobs = slices.Clone(p.Jobs)
		told.Jobs[m].Speed = nil
		for _, s := range p.Jobs[m].Speed {
			if s > 0 {
				s = rapid.SampledFrom([]float64{0.1, 1, 1, 2, 5, 50}).Draw(t, "told")
			}
			told.Jobs[m].Speed = append(told.Jobs[m].Speed, s)
		}
		lied := solved(t, gavel.StrategyProof, &told)
		if truth, lie := throughput(&p.Jobs[m], a[m]), throughput(&p.Jobs[m], lied[m]); lie > truth*(1+1e-5) {
			t.Fatalf("job %d has %v, and %v if it tells %v", m, truth, lie, told.Jobs[m].Speed)
		}
	})
}

// Acceptance 7 with the ratio of the paper: the K80 all of the time, and half of each with
// an SLO, for 2 $ an hour. Beside a job that is cheaper for what it does nobody else has a
// share, but for what is due.
func TestCostRatio(t *testing.T) {
	p := &gavel.Problem{Capacity: []float64{1, 1}, Prices: []float64{3, 1}, Jobs: jobs([]float64{100, 40})}
	equals(t, "ratio", solved(t, gavel.CostRatio, p), [][]float64{{0, 1}})
	p.Jobs[0].Left, p.Jobs[0].Due = 70_000, 1000
	a := solved(t, gavel.CostRatioSLO, p)
	equals(t, "ratio with an SLO", a, [][]float64{{0.5, 0.5}})
	if work, price := p.Spent(a); !near(work, 70) || !near(price, 2) {
		t.Errorf("%v steps/s for %v $ an hour", work, price)
	}
	p.Jobs[0].Due = 100 // more than can be had
	equals(t, "ratio with an SLO that cannot be met", solved(t, gavel.CostRatioSLO, p), [][]float64{{0, 1}})

	p.Jobs = jobs([]float64{100, 40}, []float64{30, 20})
	if a := solved(t, gavel.CostRatio, p); a[0][1] < 0.9999 || a[0][0]+a[1][0]+a[1][1] > 0 {
		t.Errorf("one is cheaper: %v", a)
	}
	p.Jobs[1].Left, p.Jobs[1].Due = 500, 100 // 5 steps/s: 20 steps/s cost 1 $ there, and the first job loses 40
	a = solved(t, gavel.CostRatioSLO, p)
	work, price := p.Spent(a)
	if got := throughput(&p.Jobs[1], a[1]); !near(got, 5) || work/price < 35*(1-1e-6) {
		t.Errorf("the second has %v steps/s, all have %v for %v $: %v", got, work, price, a)
	}
}

// TestCostRatioBest: no draw of shares has a better ratio, and the ratio of all is that of
// the cheapest job and type where nothing is due.
func TestCostRatioBest(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		p := drawProblem(t)
		best := 0.0
		for m := range p.Jobs {
			for k, s := range p.Jobs[m].Speed {
				if p.Jobs[m].Size <= p.Capacity[k] {
					best = max(best, s/(p.Prices[k]*p.Jobs[m].Size))
				}
			}
		}
		a := solved(t, gavel.CostRatio, p)
		if err := feasible(p, a); err != nil {
			t.Fatal(err)
		}
		if work, price := p.Spent(a); best > 0 && work < price*best*(1-3e-4) {
			t.Fatalf("%v for %v, one job alone has the ratio %v", work, price, best)
		}
		due := solved(t, gavel.CostRatioSLO, p)
		sum := solved(t, gavel.CostSLO, p)
		if err := feasible(p, due); err != nil {
			t.Fatal(err)
		}
		work, price := p.Spent(due)
		if other, paid := p.Spent(sum); paid > 0 && work*paid < other*price*(1-3e-4) {
			t.Fatalf("the ratio with deadlines is %v, that of the sum is %v", work/price, other/paid)
		}
	})
}
