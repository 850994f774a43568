package solver

import (
	"math"
	"math/rand/v2"
	"testing"
)

// table is Merges from a list.
type table map[[2]int][]Way

// Fresh is true of all jobs.
func (t table) Fresh(int) bool { return true }

// Gain is 1 for a pair on the list.
func (t table) Gain(i, j int) float64 {
	if len(t[[2]int{i, j}]) == 0 {
		return 0
	}
	return 1
}

// Ways are those on the list.
func (t table) Ways(i, j int, to []Way) []Way { return append(to, t[[2]int{i, j}]...) }

// speeds of the worked example, on 1 to 4 GPUs.
var speeds = []float64{1, 1.8, 2.5, 3.2}

// example is the worked example of the specification: identical jobs with costs
// T(a)/T(fair), fair share 1, W0 = 4 and delta 0; jobs 0 and 1 may be merged.
func example(gpus, jobs int, tranWt float64) *Problem {
	p := &Problem{GPUs: gpus, Sizes: []int{1, 2, 3, 4}}
	var pair Entity
	for range jobs {
		e := Entity{Queued: 4}
		for _, s := range speeds {
			e.Cost = append(e.Cost, 1/s)
		}
		p.Jobs = append(p.Jobs, e)
	}
	for _, s := range speeds {
		pair.Cost = append(pair.Cost, 2/tranWt*speeds[1]/s)
	}
	pair.Queued = math.Inf(1)
	if tranWt > 0 {
		p.Merges = table{{0, 1}: {{pair, 7}}}
	}
	return p
}

// TestExample is acceptance 4 of the specification, by both solvers.
func TestExample(t *testing.T) {
	for _, k := range []struct {
		gpus   int
		tranWt float64
		cost   float64
		pair   int // GPUs of the pair; 0: not merged
	}{
		{4, 1.4, 2/1.4 + 2, 2},
		{4, 0.972, 4, 0},
		{4, 0, 4, 0},
		{2, 1.4, 2/1.4*1.8 + 1 + 4, 1},
	} {
		for name, solve := range map[string]func(*Problem) (Solution, error){"exact": Exact, "two stages": TwoStage} {
			got, err := solve(example(k.gpus, 4, k.tranWt))
			if err != nil {
				t.Fatal(err)
			}
			if math.Abs(got.Cost-k.cost) > 1e-9 {
				t.Errorf("%s, %d GPUs, TranWt %v: cost %v, want %v", name, k.gpus, k.tranWt, got.Cost, k.cost)
			}
			if k.pair > 0 && (got.Jobs[0] != Choice{k.pair, 1, 7} || got.Jobs[1] != Choice{k.pair, 0, 7}) || k.pair == 0 && got.Jobs[0].Mate != None {
				t.Errorf("%s, %d GPUs, TranWt %v: %+v", name, k.gpus, k.tranWt, got.Jobs)
			}
			if k.gpus == 2 && got.Jobs[2].GPUs+got.Jobs[3].GPUs != 1 {
				t.Errorf("%s: one of the others runs on 1 GPU and one is queued, not %+v", name, got.Jobs)
			}
		}
	}
	// "no merge: 4.0; pair on 1 GPU, third job on 2: 4.127"
	if c := 2/1.4*1.8 + 1/1.8 + 1; math.Abs(c-4.127) > 1e-3 {
		t.Errorf("the alternative costs %v", c)
	}
}

// random is a small problem with whatever costs.
func random(r *rand.Rand, jobs, gpus int) *Problem {
	p := &Problem{GPUs: gpus, Sizes: []int{1, 2, 3, 4, 8}}
	falling := func(top float64) Entity {
		e := Entity{Queued: top * (4 + r.Float64()*0.01)}
		c := top * (0.5 + r.Float64())
		most := 1 + r.IntN(5)
		for i := range p.Sizes {
			if i >= most {
				c = math.Inf(1)
			}
			e.Cost = append(e.Cost, c)
			c *= 0.4 + 0.8*r.Float64()
		}
		return e
	}
	merges := table{}
	for i := range jobs {
		p.Jobs = append(p.Jobs, falling(1))
		for j := range i {
			if r.IntN(2) == 0 {
				for tag := range 1 + r.IntN(3) {
					w := Way{falling(2 * (0.5 + r.Float64())), tag}
					if r.IntN(3) > 0 {
						w.Queued = math.Inf(1)
					}
					merges[[2]int{j, i}] = append(merges[[2]int{j, i}], w)
				}
			}
		}
	}
	p.Merges = merges
	return p
}

// brute tries everything.
func brute(p *Problem, done []bool, gpus int) float64 {
	i := 0
	for i < len(done) && done[i] {
		i++
	}
	if i == len(done) {
		return 0
	}
	best := math.Inf(1)
	entity := func(e *Entity) {
		best = min(best, e.Queued+brute(p, done, gpus))
		for k, size := range p.Sizes {
			if size <= gpus && e.Cost[k] < math.Inf(1) {
				best = min(best, e.Cost[k]+brute(p, done, gpus-size))
			}
		}
	}
	done[i] = true
	entity(&p.Jobs[i])
	for j := i + 1; j < len(done); j++ {
		if done[j] {
			continue
		}
		done[j] = true
		for _, w := range p.Merges.Ways(i, j, nil) {
			entity(&w.Entity)
		}
		done[j] = false
	}
	done[i] = false
	return best
}

// check verifies that a solution is one, and costs what it says.
func check(t *testing.T, p *Problem, s Solution) {
	t.Helper()
	cost, used := 0.0, 0
	at := func(e *Entity, gpus int) float64 {
		if gpus == 0 {
			return e.Queued
		}
		for k, size := range p.Sizes {
			if size == gpus {
				return e.Cost[k]
			}
		}
		t.Fatalf("%d is no size", gpus)
		return 0
	}
	for i, c := range s.Jobs {
		switch {
		case c.Mate == None:
			cost, used = cost+at(&p.Jobs[i], c.GPUs), used+c.GPUs
		case s.Jobs[c.Mate].Mate != i || s.Jobs[c.Mate].GPUs != c.GPUs:
			t.Fatalf("%d and %d do not agree: %+v", i, c.Mate, s.Jobs)
		case c.Mate > i:
			for _, w := range p.Merges.Ways(i, c.Mate, nil) {
				if w.Tag == c.Tag {
					cost, used = cost+at(&w.Entity, c.GPUs), used+c.GPUs
				}
			}
		}
	}
	if used > p.GPUs || math.Abs(cost-s.Cost) > 1e-9 {
		t.Fatalf("it takes %d of %d GPUs and costs %v, not %v: %+v", used, p.GPUs, cost, s.Cost, s.Jobs)
	}
}

// TestExactAgainstBruteForce: nothing is cheaper, and two stages cost no less.
func TestExactAgainstBruteForce(t *testing.T) {
	r := rand.New(rand.NewPCG(5, 6))
	worst := 0.0
	for range 300 {
		p := random(r, 1+r.IntN(5), r.IntN(9))
		want := brute(p, make([]bool, len(p.Jobs)), p.GPUs)
		got, err := Exact(p)
		if err != nil {
			t.Fatal(err)
		}
		check(t, p, got)
		if math.Abs(got.Cost-want) > 1e-9 {
			t.Fatalf("cost %v, brute force finds %v", got.Cost, want)
		}
		two, err := TwoStage(p)
		if err != nil {
			t.Fatal(err)
		}
		check(t, p, two)
		if two.Cost < want-1e-9 {
			t.Fatalf("two stages cost %v, less than the least, %v", two.Cost, want)
		}
		worst = max(worst, two.Cost/want)
	}
	t.Logf("two stages cost at most %.3f times the least", worst)
}

// TestTwoStageWithoutPairs is exact: the knapsack is solved exactly.
func TestTwoStageWithoutPairs(t *testing.T) {
	r := rand.New(rand.NewPCG(7, 8))
	for range 100 {
		p := random(r, 1+r.IntN(6), r.IntN(12))
		p.Merges = nil
		two, err := TwoStage(p)
		if err != nil {
			t.Fatal(err)
		}
		check(t, p, two)
		if exact, _ := Exact(p); math.Abs(exact.Cost-two.Cost) > 1e-9 {
			t.Fatalf("%v and %v", two.Cost, exact.Cost)
		}
	}
}

// TestPairsPay: with pairs, two stages never cost more than without any.
func TestPairsPay(t *testing.T) {
	r := rand.New(rand.NewPCG(9, 10))
	for range 100 {
		p := random(r, 2+r.IntN(30), r.IntN(40))
		with, err := TwoStage(p)
		if err != nil {
			t.Fatal(err)
		}
		check(t, p, with)
		p.Merges = nil
		without, _ := TwoStage(p)
		if with.Cost > without.Cost+1e-9 {
			t.Fatalf("%v with pairs, %v without", with.Cost, without.Cost)
		}
	}
}

// TestNoIdle is acceptance 5: where every size up to the last is of use, no GPU is
// left while a job is queued.
func TestNoIdle(t *testing.T) {
	r := rand.New(rand.NewPCG(11, 12))
	for range 200 {
		p := example(r.IntN(12), 1+r.IntN(10), 0)
		for i := range p.Jobs {
			p.Jobs[i].Queued += 0.004 * r.Float64()
		}
		s, err := TwoStage(p)
		if err != nil {
			t.Fatal(err)
		}
		used, queued := 0, 0
		for _, c := range s.Jobs {
			if used += c.GPUs; c.GPUs == 0 {
				queued++
			}
		}
		if used < p.GPUs && queued > 0 {
			t.Fatalf("%d of %d GPUs are used, %d jobs are queued", used, p.GPUs, queued)
		}
	}
}

// TestGreedyAgainstSorted: the matching is the one that a sorted list of all pairs
// makes.
func TestGreedyAgainstSorted(t *testing.T) {
	r := rand.New(rand.NewPCG(13, 14))
	for range 60 {
		n := 1 + r.IntN(70)
		g := &gains{n: n, of: make([]float64, n*n)}
		for i := range g.of {
			g.of[i] = float64(r.IntN(6) - 2) // many ties
		}
		got := greedy(n, g)
		want := make([]int, n)
		for i := range want {
			want[i] = None
		}
		for level := 3.0; level > 0; level-- {
			for i := range n {
				for j := i + 1; j < n; j++ {
					if want[i] == None && want[j] == None && g.Gain(i, j) == level {
						want[i], want[j] = j, i
					}
				}
			}
		}
		for i := range want {
			if got[i] != want[i] {
				t.Fatalf("mates %v, want %v", got, want)
			}
		}
	}
}

type gains struct {
	n  int
	of []float64
}

func (g *gains) Fresh(int) bool                { return true }
func (g *gains) Gain(i, j int) float64         { return g.of[i*g.n+j] }
func (g *gains) Ways(_, _ int, to []Way) []Way { return to }

// TestRefuses: malformed problems are errors.
func TestRefuses(t *testing.T) {
	for _, p := range []*Problem{
		{GPUs: 1, Sizes: []int{2, 1}},
		{GPUs: 1, Sizes: []int{1}, Jobs: []Entity{{}}},
		{GPUs: 1, Sizes: []int{1}, Jobs: []Entity{{Cost: []float64{1}, Queued: math.Inf(1)}}},
		{GPUs: 1, Sizes: []int{1}, Jobs: []Entity{{Cost: []float64{math.NaN()}, Queued: 1}}},
	} {
		if _, err := TwoStage(p); err == nil {
			t.Errorf("%+v was solved", p)
		}
		if _, err := Exact(p); err == nil {
			t.Errorf("%+v was solved exactly", p)
		}
	}
	if _, err := Exact(example(4, MaxExact+1, 0)); err == nil {
		t.Error("too many jobs were solved exactly")
	}
}
