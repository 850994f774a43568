package gavel_test

import (
	"fmt"
	"math"
	"testing"

	"pgregory.net/rapid"

	"github.com/norn-scheduler/norn/policy/gavel"
)

// jobs are jobs of one GPU and weight 1 with the given speeds.
func jobs(speeds ...[]float64) []gavel.Job {
	var out []gavel.Job
	for _, s := range speeds {
		out = append(out, gavel.Job{Size: 1, Speed: s, Weight: 1})
	}
	return out
}

func throughput(j *gavel.Job, x []float64) float64 {
	sum := 0.0
	for t, s := range j.Speed {
		sum += s * x[t]
	}
	return sum
}

func near(a, b float64) bool { return math.Abs(a-b) <= 1e-6*max(1, math.Abs(b)) }

// equals fails unless an allocation is the one wanted.
func equals(t *testing.T, what string, got gavel.Allocation, want [][]float64) {
	t.Helper()
	for m := range want {
		for k := range want[m] {
			if math.Abs(got[m][k]-want[m][k]) > 1e-6 {
				t.Errorf("%s: %v, want %v", what, got, want)
				return
			}
		}
	}
}

// fatal is what testing.T and rapid.T have in common.
type fatal interface {
	Helper()
	Fatal(...any)
}

func solved(t fatal, program gavel.Program, p *gavel.Problem) gavel.Allocation {
	t.Helper()
	a, err := program(p)
	if err != nil {
		t.Fatal(err)
	}
	return a
}

// Acceptance 1: the unique optimum of LAS, 8/11.
func TestLAS(t *testing.T) {
	p := &gavel.Problem{Capacity: []float64{1, 1}, Jobs: jobs([]float64{40, 10}, []float64{12, 4}, []float64{100, 50})}
	a := solved(t, gavel.MaxMin, p)
	equals(t, "LAS", a, [][]float64{{5. / 11, 0}, {5. / 11, 1. / 11}, {1. / 11, 10. / 11}})
	for m, want := range []float64{200. / 11, 64. / 11, 600. / 11} {
		if got := throughput(&p.Jobs[m], a[m]); !near(got, want) || !near(got/p.Equal(&p.Jobs[m]), 8./11) {
			t.Errorf("job %d has the throughput %v, want %v", m, got, want)
		}
	}
	equals(t, "LAS, filled", solved(t, gavel.WaterFilling, p), a)
}

// Acceptance 2: makespan.
func TestMakespan(t *testing.T) {
	p := &gavel.Problem{Capacity: []float64{1, 1}, Jobs: jobs([]float64{4, 1}, []float64{2, 1}, []float64{3, 2})}
	for m, steps := range []float64{400, 300, 360} {
		p.Jobs[m].Left = steps
	}
	a := solved(t, gavel.Makespan, p)
	equals(t, "makespan", a, [][]float64{{15. / 34, 0}, {19. / 34, 7. / 34}, {0, 27. / 34}})
	for m := range p.Jobs {
		if got := p.Jobs[m].Left / throughput(&p.Jobs[m], a[m]); !near(got, 680./3) {
			t.Errorf("job %d takes %v s, want 680/3", m, got)
		}
	}
	p.Jobs = p.Jobs[:2]
	equals(t, "makespan of two", solved(t, gavel.Makespan, p), [][]float64{{5. / 13, 8. / 13}, {8. / 13, 5. / 13}})
}

// Acceptance 3: water filling gives shares of devices of 1, 1, 1, 1 and 1, 1/2, 1/2.
func TestWaterFilling(t *testing.T) {
	p := &gavel.Problem{Capacity: []float64{4}, Jobs: jobs([]float64{1}, []float64{1}, []float64{1}, []float64{1})}
	p.Jobs[0].Weight = 3
	equals(t, "(a)", solved(t, gavel.WaterFilling, p), [][]float64{{1}, {1}, {1}, {1}})
	p = &gavel.Problem{Capacity: []float64{2}, Jobs: jobs([]float64{1}, []float64{1}, []float64{1})}
	p.Jobs[0].Weight = 4
	equals(t, "(b)", solved(t, gavel.WaterFilling, p), [][]float64{{1}, {0.5}, {0.5}})
}

// Acceptance 4: two entities, of which the second one is FIFO.
func TestHierarchical(t *testing.T) {
	p := &gavel.Problem{
		Capacity: []float64{3}, Jobs: jobs([]float64{1}, []float64{1}, []float64{1}, []float64{1}),
		Entities: []gavel.Entity{{Weight: 1}, {Weight: 2, FIFO: true}},
	}
	p.Jobs[2].Entity, p.Jobs[3].Entity = 1, 1
	equals(t, "hierarchical", solved(t, gavel.Hierarchical, p), [][]float64{{0.5}, {0.5}, {1}, {1}})
}

// Acceptance 5: finish-time fairness.
func TestFinishTimes(t *testing.T) {
	p := &gavel.Problem{Capacity: []float64{1}, Jobs: jobs([]float64{1}, []float64{1})}
	p.Jobs[0].Left, p.Jobs[1].Left = 300, 300
	p.Jobs[0].Age, p.Jobs[0].Isolated = 400, 300
	a := solved(t, gavel.FinishTimes, p)
	x := (math.Sqrt(241) - 7) / 16
	equals(t, "finish times", a, [][]float64{{x}, {1 - x}})
	if rho := (400 + 300/a[0][0]) / 900; math.Abs(rho-1.070116) > 1e-6 {
		t.Errorf("rho is %v", rho)
	}
}

// Acceptance 7: cost, and cost with what is due.
func TestCost(t *testing.T) {
	p := &gavel.Problem{Capacity: []float64{1, 1}, Prices: []float64{3, 1}, Jobs: jobs([]float64{100, 40})}
	equals(t, "cost", solved(t, gavel.Cost, p), [][]float64{{0, 1}})
	p.Jobs[0].Left, p.Jobs[0].Due = 70_000, 1000
	equals(t, "cost with an SLO", solved(t, gavel.CostSLO, p), [][]float64{{0.5, 0.5}})
	p.Jobs[0].Due = 100 // more than can be had
	equals(t, "cost with an SLO that cannot be met", solved(t, gavel.CostSLO, p), [][]float64{{0, 1}})
}

// Table 2.3: FIFO and SJF give the first, the shortest job its fastest type.
func TestOrders(t *testing.T) {
	p := &gavel.Problem{Capacity: []float64{1, 1}, Jobs: jobs([]float64{2, 1}, []float64{3, 1}, []float64{4, 3})}
	equals(t, "FIFO", solved(t, gavel.FIFO, p), [][]float64{{1, 0}, {0, 0}, {0, 1}})
	for m, left := range []float64{100, 90, 60} {
		p.Jobs[m].Left = left
	}
	equals(t, "SJF", solved(t, gavel.ShortestFirst, p), [][]float64{{0, 0}, {0, 1}, {1, 0}})
}

// drawProblem is a random cluster with random jobs.
func drawProblem(t *rapid.T) *gavel.Problem {
	p := &gavel.Problem{Entities: []gavel.Entity{{Weight: 1}, {Weight: 3, FIFO: true}}}
	types := rapid.IntRange(1, 4).Draw(t, "types")
	for range types {
		p.Capacity = append(p.Capacity, float64(rapid.IntRange(1, 8).Draw(t, "GPUs")))
		p.Prices = append(p.Prices, rapid.Float64Range(0.5, 4).Draw(t, "price"))
	}
	for range rapid.IntRange(1, 12).Draw(t, "jobs") {
		j := gavel.Job{
			Size: rapid.SampledFrom([]float64{1, 1, 1, 2, 4, 0.5}).Draw(t, "size"), Weight: rapid.SampledFrom([]float64{1, 1, 1, 5}).Draw(t, "weight"),
			Left: rapid.Float64Range(1, 1e5).Draw(t, "left"), Age: rapid.Float64Range(0, 1e4).Draw(t, "age"),
			Isolated: rapid.Float64Range(0, 1e4).Draw(t, "isolated"), Due: rapid.SampledFrom([]float64{0, 0, 1e3, 1e5}).Draw(t, "due"),
			Entity: rapid.IntRange(0, 1).Draw(t, "entity"),
		}
		for range types {
			j.Speed = append(j.Speed, rapid.SampledFrom([]float64{0, 1, 1, 2, 3.5, 20}).Draw(t, "speed"))
		}
		p.Jobs = append(p.Jobs, j)
	}
	return p
}

// share is the share of a job that LAS makes as large as can be for the smallest.
func share(p *gavel.Problem, m int, x []float64) float64 {
	j := &p.Jobs[m]
	return throughput(j, x) * j.Size / (j.Weight * p.Equal(j))
}

func able(p *gavel.Problem, m int) bool {
	for t, s := range p.Jobs[m].Speed {
		if s > 0 && p.Jobs[m].Size <= p.Capacity[t] {
			return true
		}
	}
	return false
}

func smallest(p *gavel.Problem, a gavel.Allocation) float64 {
	least := math.Inf(1)
	for m := range p.Jobs {
		if able(p, m) {
			least = min(least, share(p, m, a[m]))
		}
	}
	return least
}

// feasible says what is wrong with an allocation, or nothing.
func feasible(p *gavel.Problem, a gavel.Allocation) error {
	used := make([]float64, len(p.Capacity))
	for m, x := range a {
		sum := 0.0
		for t, v := range x {
			if v < 0 || v > 0 && (p.Jobs[m].Speed[t] <= 0 || p.Jobs[m].Size > p.Capacity[t]) {
				return fmt.Errorf("job %d has %v of type %d", m, v, t)
			}
			sum += v
			used[t] += v * p.Jobs[m].Size
		}
		if sum > 1+1e-9 {
			return fmt.Errorf("job %d has %v of its time", m, sum)
		}
	}
	for t, u := range used {
		if u > p.Capacity[t]*(1+1e-9) {
			return fmt.Errorf("%v GPUs of type %d are given, there are %v", u, t, p.Capacity[t])
		}
	}
	return nil
}

// agnostic is a problem in which every type that a job can run on is as fast as
// any other.
func agnostic(p *gavel.Problem) *gavel.Problem {
	q := *p
	q.Rooms = nil
	q.Jobs = make([]gavel.Job, len(p.Jobs))
	for m, j := range p.Jobs {
		j.Speed, j.Spread = make([]float64, len(p.Jobs[m].Speed)), nil
		for t, s := range p.Jobs[m].Speed {
			if s > 0 {
				j.Speed[t] = 1
			}
		}
		q.Jobs[m] = j
	}
	return &q
}

// Acceptance 9: every objective gives what can be given; LAS is not below the
// scaled proportional share (sharing incentive); scaling all speeds of a job
// changes nothing of LAS; agnostic programs give the same whatever the speeds are.
func TestInvariants(t *testing.T) {
	programs := map[string]gavel.Program{
		"las": gavel.MaxMin, "filling": gavel.WaterFilling, "hierarchical": gavel.Hierarchical, "fifo": gavel.FIFO, "sjf": gavel.ShortestFirst,
		"makespan": gavel.Makespan, "ftf": gavel.FinishTimes, "throughput": gavel.Throughput, "cost": gavel.Cost, "slo": gavel.CostSLO, "proof": gavel.StrategyProof, "ratio": gavel.CostRatio, "ratio-slo": gavel.CostRatioSLO,
	}
	rapid.Check(t, func(t *rapid.T) {
		p := drawProblem(t)
		for name, program := range programs {
			for what, q := range map[string]*gavel.Problem{"aware": p, "agnostic": agnostic(p)} {
				a, err := program(q)
				if err == nil {
					err = feasible(q, a)
				}
				if err != nil {
					t.Fatalf("%s, %s: %v", name, what, err)
				}
			}
		}
		las, _ := gavel.MaxMin(p)
		if got, want := smallest(p, las), smallest(p, scaled(p)); got < want*(1-1e-6) {
			t.Fatalf("LAS gives %v, equal parts %v", got, want)
		}
		q := *p
		q.Jobs = append([]gavel.Job(nil), p.Jobs...)
		q.Jobs[0].Speed = append([]float64(nil), p.Jobs[0].Speed...)
		for k := range q.Jobs[0].Speed {
			q.Jobs[0].Speed[k] *= 7
		}
		again, _ := gavel.MaxMin(&q)
		if a, b := smallest(p, las), smallest(&q, again); a != b && !near(a, b) {
			t.Fatalf("speeds of job 0 times 7 change LAS from %v to %v", a, b)
		}
	})
}

// scaled is the proportional share, made to fit.
func scaled(p *gavel.Problem) gavel.Allocation {
	total, need := 0.0, 0.0
	for _, w := range p.Capacity {
		total += w
	}
	for m := range p.Jobs {
		if able(p, m) {
			need += p.Jobs[m].Size
		}
	}
	a := make(gavel.Allocation, len(p.Jobs))
	for m := range a {
		a[m] = make([]float64, len(p.Capacity))
		for t, w := range p.Capacity {
			if p.Jobs[m].Speed[t] > 0 && p.Jobs[m].Size <= w {
				a[m][t] = w / total * min(1, total/need)
			}
		}
	}
	return a
}
