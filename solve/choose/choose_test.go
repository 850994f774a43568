package choose_test

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/norn-scheduler/norn/solve"
	"github.com/norn-scheduler/norn/solve/choose"
	"github.com/norn-scheduler/norn/solve/highs"
)

// brute tries all picks.
func brute(capacity []int64, jobs [][]choose.Option) float64 {
	if len(jobs) == 0 {
		return 0
	}
	best := brute(capacity, jobs[1:])
	for _, o := range jobs[0] {
		if o.Need <= capacity[o.Kind] {
			capacity[o.Kind] -= o.Need
			best = max(best, o.Value+brute(capacity, jobs[1:]))
			capacity[o.Kind] += o.Need
		}
	}
	return best
}

// valid fails the test unless the answer fits and is worth what it says.
func valid(t *testing.T, capacity []int64, jobs [][]choose.Option, a choose.Answer) {
	t.Helper()
	left := append([]int64(nil), capacity...)
	value := 0.0
	for j, k := range a.Pick {
		if k == choose.None {
			continue
		}
		o := jobs[j][k]
		left[o.Kind] -= o.Need
		value += o.Value
	}
	for k, l := range left {
		if l < 0 {
			t.Fatalf("kind %d is oversold by %d", k, -l)
		}
	}
	if len(a.Pick) != len(jobs) || math.Abs(value-a.Value) > 1e-9*(1+value) || a.Bound < a.Value {
		t.Fatalf("picks are worth %v, said: %v, bound %v", value, a.Value, a.Bound)
	}
}

func random(rng *rand.Rand, jobs, options, kinds int, room int64) ([]int64, [][]choose.Option) {
	capacity := make([]int64, kinds)
	for k := range capacity {
		capacity[k] = rng.Int64N(room + 1)
	}
	whole := rng.IntN(2) == 0
	out := make([][]choose.Option, jobs)
	for j := range out {
		for range rng.IntN(options + 1) {
			o := choose.Option{Kind: rng.IntN(kinds), Need: rng.Int64N(room/2 + 2), Value: 10*rng.Float64() - 1}
			if whole {
				o.Value = math.Floor(o.Value)
			}
			out[j] = append(out[j], o)
		}
	}
	return capacity, out
}

func TestAgainstBruteForce(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 4))
	for n := range 4000 {
		capacity, jobs := random(rng, rng.IntN(6), 4, 1+n%3, []int64{3, 10, 1 << 30}[n%3])
		a, err := choose.Best(capacity, jobs, choose.Limits{})
		if err != nil {
			t.Fatal(err)
		}
		valid(t, capacity, jobs, a)
		if want := brute(capacity, jobs); math.Abs(a.Value-want) > 1e-9*(1+want) && a.Optimal || !a.Optimal && n%3 != 2 {
			t.Fatalf("case %d: capacity %v, jobs %v: have %+v, brute force has %v", n, capacity, jobs, a, want)
		}
	}
}

// sia is a problem of the kind that Sia solves in each round.
func sia(jobs int, perType int64, seed uint64) ([]int64, [][]choose.Option) {
	rng := rand.New(rand.NewPCG(seed, 2))
	out := make([][]choose.Option, jobs)
	for j := range out {
		for t := range 3 {
			speed, bend := 0.5+rng.Float64()*float64(t+1), 0.5+0.45*rng.Float64()
			for k := range 10 {
				gpus := int64(1) << (k % 7)
				if k >= 7 {
					gpus = int64(3 * (k - 6))
				}
				out[j] = append(out[j], choose.Option{Kind: t, Need: gpus, Value: speed * math.Pow(float64(gpus), bend)})
			}
		}
	}
	return []int64{perType, perType, perType}, out
}

// program is the same as a program with integer variables.
func program(capacity []int64, jobs [][]choose.Option) *solve.Model {
	m := solve.NewModel("choice", solve.Maximize)
	use := make([][]solve.Term, len(capacity))
	for _, options := range jobs {
		var one []solve.Term
		for _, o := range options {
			x := m.Bool(o.Value)
			one = append(one, x.Times(1))
			use[o.Kind] = append(use[o.Kind], x.Times(float64(o.Need)))
		}
		m.AtMost(1, one...)
	}
	for k, c := range capacity {
		m.AtMost(float64(c), use[k]...)
	}
	return m
}

func TestAgainstHiGHS(t *testing.T) {
	rng := rand.New(rand.NewPCG(2, 4))
	for n := range 40 {
		var capacity []int64
		var jobs [][]choose.Option
		if n%4 == 0 {
			capacity, jobs = sia(4+rng.IntN(10), 8+rng.Int64N(24), uint64(n))
		} else {
			capacity, jobs = random(rng, 3+rng.IntN(12), 6, 1+n%4, 20)
		}
		a, err := choose.Best(capacity, jobs, choose.Limits{})
		if err != nil {
			t.Fatal(err)
		}
		valid(t, capacity, jobs, a)
		s, err := highs.Shared().Solve(program(capacity, jobs), solve.Options{})
		if err != nil {
			t.Fatal(err)
		}
		if !a.Optimal || math.Abs(a.Value-s.Objective) > 1e-6*(1+s.Objective) {
			t.Errorf("case %d: have %v (optimal %v, bound %v), HiGHS has %v", n, a.Value, a.Optimal, a.Bound, s.Objective)
		}
	}
}

// TestLimits shows what an answer is when the search may not be finished.
func TestLimits(t *testing.T) {
	capacity, jobs := sia(60, 40, 9)
	full, err := choose.Best(capacity, jobs, choose.Limits{})
	if err != nil || !full.Optimal {
		t.Fatal(full, err)
	}
	short, err := choose.Best(capacity, jobs, choose.Limits{Steps: 10})
	if err != nil {
		t.Fatal(err)
	}
	valid(t, capacity, jobs, short)
	if short.Optimal || short.Steps > 10 || short.Value > full.Value+1e-9 || short.Bound < full.Value-1e-9 || short.Value < 0.98*full.Value {
		t.Errorf("with ten steps: %v up to %v (optimal %v, %d steps), without limit %v", short.Value, short.Bound, short.Optimal, short.Steps, full.Value)
	}
	near, err := choose.Best(capacity, jobs, choose.Limits{Gap: 0.02})
	if err != nil || !near.Optimal || near.Value < full.Value*0.98 {
		t.Errorf("within two per cent: %+v, %v", near, err)
	}
	again, err := choose.Best(capacity, jobs, choose.Limits{})
	if err != nil || fmt.Sprint(again) != fmt.Sprint(full) {
		t.Error("two runs differ")
	}
}

func TestRefused(t *testing.T) {
	bad := []struct {
		capacity []int64
		option   choose.Option
		limits   choose.Limits
	}{
		{[]int64{-1}, choose.Option{}, choose.Limits{}},
		{[]int64{1}, choose.Option{Kind: 1}, choose.Limits{}},
		{[]int64{1}, choose.Option{Need: -1}, choose.Limits{}},
		{[]int64{1}, choose.Option{Value: math.NaN()}, choose.Limits{}},
		{[]int64{1}, choose.Option{Value: math.Inf(1)}, choose.Limits{}},
		{[]int64{1}, choose.Option{}, choose.Limits{Gap: math.NaN()}},
		{[]int64{1}, choose.Option{}, choose.Limits{Steps: -1}},
	}
	for _, c := range bad {
		if _, err := choose.Best(c.capacity, [][]choose.Option{{c.option}}, c.limits); err == nil {
			t.Errorf("%+v is accepted", c)
		}
	}
	if a, err := choose.Best(nil, nil, choose.Limits{}); err != nil || !a.Optimal || a.Value != 0 {
		t.Errorf("nothing to choose: %+v, %v", a, err)
	}
	if a, err := choose.Best([]int64{1 << 62, 1 << 62}, [][]choose.Option{{{Kind: 0, Need: 1 << 61, Value: 2}, {Kind: 1, Need: 1, Value: 1}}}, choose.Limits{}); err != nil || a.Value != 2 {
		t.Errorf("large capacities: %+v, %v", a, err)
	}
}

func ExampleBest() {
	// Three jobs share 4 fast and 4 slow GPUs.
	const fast, slow = 0, 1
	a, _ := choose.Best([]int64{4, 4}, [][]choose.Option{
		{{Kind: fast, Need: 2, Value: 5}, {Kind: fast, Need: 4, Value: 8}, {Kind: slow, Need: 4, Value: 4}},
		{{Kind: fast, Need: 2, Value: 4}, {Kind: slow, Need: 2, Value: 3}},
		{{Kind: fast, Need: 2, Value: 6}, {Kind: slow, Need: 2, Value: 1}},
	}, choose.Limits{})
	fmt.Println(a.Pick, a.Value, a.Optimal)
	// Output: [0 1 0] 14 true
}

func BenchmarkSia(b *testing.B) {
	for _, c := range []struct {
		jobs    int
		perType int64
	}{{100, 64}, {500, 256}, {500, 64}, {2000, 1024}} {
		capacity, jobs := sia(c.jobs, c.perType, 1)
		b.Run(fmt.Sprintf("%dx%d", c.jobs, c.perType), func(b *testing.B) {
			var a choose.Answer
			for b.Loop() {
				var err error
				if a, err = choose.Best(capacity, jobs, choose.Limits{}); err != nil {
					b.Fatal(err)
				}
			}
			b.ReportMetric(a.Value, "value")
			b.ReportMetric((a.Bound-a.Value)/a.Value, "gap")
			b.ReportMetric(float64(a.Steps), "steps")
		})
	}
}

// TestMarginal: what a job takes from the others is the difference between what they pick
// without it and with it, each found by itself.
func TestMarginal(t *testing.T) {
	rng := rand.New(rand.NewPCG(3, 5))
	for n := range 1000 {
		capacity, jobs := random(rng, rng.IntN(12), 4, 1+n%3, []int64{3, 10, 60}[n%3])
		all, takes, err := choose.Marginal(capacity, jobs, choose.Limits{})
		if err != nil {
			t.Fatal(err)
		}
		valid(t, capacity, jobs, all)
		for i, k := range all.Pick {
			want := 0.0
			if k != choose.None {
				others := slices.Clone(jobs)
				others[i] = nil
				without, err := choose.Best(capacity, others, choose.Limits{})
				if err != nil {
					t.Fatal(err)
				}
				want = without.Value - (all.Value - jobs[i][k].Value)
			}
			if math.Abs(takes[i]-want) > 1e-9*(1+all.Value) {
				t.Fatalf("%d: job %d takes %v from the others, want %v", n, i, takes[i], want)
			}
		}
	}
}
