package sia

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"github.com/norn-scheduler/norn/internal/longtest"
	"github.com/norn-scheduler/norn/solve"
	"github.com/norn-scheduler/norn/solve/highs"
)

// paper is the example of the paper: type A with a node of 2 GPUs, type B with one of 4.
var paper = []Kind{{1, 2}, {1, 4}}

// row is a job of that example, with values on (1,1,A) (1,2,A) (1,1,B) (1,2,B) (1,4,B).
func row(values ...float64) Row {
	r := Row{Now: None, Factor: 1}
	for k, kind := range paper {
		r.Options = append(r.Options, kind.Options(k)...)
	}
	for i, v := range values {
		r.Options[i].Value = v
	}
	return r
}

func sum(p float64) Objective { return Objective{Power: p, Price: 1.1} }

func choice(t *testing.T, b Objective, capacity []int64, rows ...Row) Choice {
	t.Helper()
	c, err := b.Choose(capacity, rows)
	if err != nil {
		t.Fatal(err)
	}
	if !c.Proven || c.Gap > 1e-6 {
		t.Errorf("not proven to be best: %+v", c)
	}
	return c
}

// TestPaperExample is acceptance 1: J1 gets (1,4,B) and J2 (1,2,A), by the power -0.5 and
// by the sum.
func TestPaperExample(t *testing.T) {
	for p, value := range map[float64]float64{-0.5: 1, 1: 8} {
		c := choice(t, sum(p), []int64{2, 4}, row(1, 1, 2, 3, 4), row(2, 4, 1, 2, 3))
		if !slices.Equal(c.Pick, []int{4, 1}) || math.Abs(c.Value-value) > 1e-9 {
			t.Errorf("p = %v: %+v", p, c)
		}
	}
}

// TestThirdJob is acceptance 2.
func TestThirdJob(t *testing.T) {
	for p, value := range map[float64]float64{-0.5: 1.709806, 1: 9.5} {
		c := choice(t, sum(p), []int64{2, 4}, row(1, 1, 2, 3, 4), row(2, 4, 1, 2, 3), row(1, 1.8, 1.5, 2.5, 4))
		if !slices.Equal(c.Pick, []int{3, 1, 3}) || math.Abs(c.Value-value) > 1e-6 {
			t.Errorf("p = %v: %+v", p, c)
		}
	}
}

// TestRestartFactor is acceptance 3: what restarts leave, and when a job on (1,2,B) moves
// to (1,4,B).
func TestRestartFactor(t *testing.T) {
	for _, c := range []struct {
		age      float64
		restarts int
		delay    float64
		want     float64
	}{{600, 1, 100, 0.714286}, {600, 0, 100, 0.857143}, {3600, 3, 30, 0.966942}, {20, 0, 100, 1}, {100, 9, 50, 0}, {0, 0, 0, 1}} {
		if got := RestartFactor(c.age, c.restarts, c.delay); math.Abs(got-c.want) > 1e-6 {
			t.Errorf("%+v: %v", c, got)
		}
	}
	for age, want := range map[float64]int{200: 3, 300: 3, 301: 4, 600: 4} {
		first, second := row(1, 1, 2, 3, 4), row(2, 4, 1, 2, 3)
		first.Now, first.Factor = 3, RestartFactor(age, 0, 100)
		second.Now, second.Factor = 1, first.Factor
		if c := choice(t, sum(-0.5), []int64{2, 4}, first, second); !slices.Equal(c.Pick, []int{want, 1}) {
			t.Errorf("at an age of %v: %v", age, c.Pick)
		}
	}
}

// TestOptions is acceptance 5: 18 configurations of 16 nodes of 4, 11 of 8 nodes of 8, 19
// of Sia's mixed cluster.
func TestOptions(t *testing.T) {
	for want, kinds := range map[int][]Kind{18: {{16, 4}}, 11: {{8, 8}}, 19: {{6, 4}, {3, 8}, {2, 8}}, 0: {{0, 4}, {3, 0}}} {
		n := 0
		for i, k := range kinds {
			n += len(k.Options(i))
		}
		if n != want {
			t.Errorf("%v has %d configurations, want %d", kinds, n, want)
		}
	}
	if got := fmt.Sprint(Kind{3, 4}.Options(7)); got != "[{7 1 1 0} {7 1 2 0} {7 1 4 0} {7 2 8 0} {7 3 12 0}]" {
		t.Error(got)
	}
}

// TestPriceOfNothing is acceptance 7: on a node of 4 GPUs J2 waits as long as the price of
// that is below 1.207107. No job waits beside GPUs that nobody has.
func TestPriceOfNothing(t *testing.T) {
	one := []Row{{Options: Kind{1, 4}.Options(0), Now: None, Factor: 1}, {Options: Kind{1, 4}.Options(0)[:1], Now: None, Factor: 1}}
	for i := range one[0].Options {
		one[0].Options[i].Value = float64(one[0].Options[i].GPUs)
	}
	one[1].Options[0].Value = 1
	for price, want := range map[float64][]int{1.1: {2, None}, 1.2071: {2, None}, 1.2072: {1, 0}, 2: {1, 0}} {
		if c := choice(t, Objective{Power: -0.5, Price: price}, []int64{4}, one...); !slices.Equal(c.Pick, want) {
			t.Errorf("at a price of %v: %+v, want %v", price, c, want)
		}
	}
	if c := choice(t, sum(-0.5), []int64{5}, one...); !slices.Equal(c.Pick, []int{2, 0}) {
		t.Errorf("with a GPU left: %v", c.Pick)
	}
}

// A row is scaled so that its least value is the GPUs of the least configuration; what is
// not known is worth its GPUs, and what cannot be nothing.
func TestNormalise(t *testing.T) {
	r := row(20, 30, Unknown, 0, 50)
	r.Normalise(1)
	for i, want := range []float64{1, 1.5, 1, 0, 2.5} {
		if r.Options[i].Value != want {
			t.Errorf("option %d has the value %v, want %v", i, r.Options[i].Value, want)
		}
	}
	nothing := row(Unknown, 0, 0, 0, Unknown)
	nothing.Normalise(3)
	if nothing.Options[0].Value != 1 || nothing.Options[4].Value != 4 {
		t.Errorf("where nothing is known: %+v", nothing.Options)
	}
}

// random is a problem with jobs that have some of the configurations of a few kinds.
func random(rng *rand.Rand, jobs int) ([]int64, []Row) {
	var kinds []Kind
	var capacity []int64
	for range 1 + rng.IntN(3) {
		k := Kind{1 + rng.IntN(4), []int{2, 4, 8}[rng.IntN(3)]}
		kinds, capacity = append(kinds, k), append(capacity, int64(k.Nodes*k.GPUs))
	}
	rows := make([]Row, jobs)
	for j := range rows {
		r := &rows[j]
		r.Now, r.Factor = None, 1
		bend := 0.4 + 0.6*rng.Float64()
		for i, k := range kinds {
			speed := 0.3 + rng.Float64()
			for _, o := range k.Options(i) {
				if o.Value = speed * math.Pow(float64(o.GPUs), bend); rng.IntN(4) > 0 {
					r.Options = append(r.Options, o)
				}
			}
		}
		if r.Normalise(1); len(r.Options) > 0 && rng.IntN(2) == 0 {
			r.Now, r.Factor = rng.IntN(len(r.Options)), rng.Float64()
		}
	}
	return capacity, rows
}

// TestAgainstHiGHS: choices are as good as those of a general solver, for powers of both
// signs.
func TestAgainstHiGHS(t *testing.T) {
	longtest.Skip(t)
	rng := rand.New(rand.NewPCG(5, 6))
	for n := range 30 {
		capacity, rows := random(rng, 1+rng.IntN(14))
		b := sum([]float64{-0.5, 1, -1, 0.5}[n%4])
		m := solve.NewModel("sia", solve.Minimize)
		sign := 1.0
		if b.Power > 0 {
			sign = -1
		}
		use := make([][]solve.Term, len(capacity))
		constant := 0.0
		for j := range rows {
			var one []solve.Term
			constant += b.Price
			for i, o := range rows[j].Options {
				x := m.Bool(sign*b.cost(&rows[j], i) - b.Price)
				one, use[o.Kind] = append(one, x.Times(1)), append(use[o.Kind], x.Times(float64(o.GPUs)))
			}
			if len(one) > 0 {
				m.AtMost(1, one...)
			}
		}
		for k, c := range capacity {
			if len(use[k]) > 0 {
				m.AtMost(float64(c), use[k]...)
			}
		}
		s, err := highs.Shared().Solve(m, solve.Options{})
		if err != nil {
			t.Fatal(err)
		}
		want := sign * (s.Objective + constant)
		if c := choice(t, b, capacity, rows...); math.Abs(c.Value-want) > 1e-5*(1+math.Abs(want)) {
			t.Errorf("case %d, p = %v: %v, HiGHS has %v", n, b.Power, c.Value, want)
		}
	}
}

// TestNobodyWaitsBesideFreeGPUs: with a price above 1 no job that holds nothing is left out
// while its least configuration fits into what is left, and no more GPUs are given than
// there are.
func TestNobodyWaitsBesideFreeGPUs(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		capacity, rows := random(rand.New(rand.NewPCG(rapid.Uint64().Draw(t, "seed"), 1)), rapid.IntRange(0, 20).Draw(t, "jobs"))
		c, err := sum(rapid.SampledFrom([]float64{-0.5, -2, 0.5, 1}).Draw(t, "p")).Choose(capacity, rows)
		if err != nil {
			t.Fatal(err)
		}
		for j, i := range c.Pick {
			if i != None {
				capacity[rows[j].Options[i].Kind] -= int64(rows[j].Options[i].GPUs)
			}
		}
		for k, left := range capacity {
			if left < 0 {
				t.Fatalf("kind %d is %d GPUs short", k, -left)
			}
			for j, i := range c.Pick {
				for _, o := range rows[j].Options {
					if i == None && rows[j].Now == None && o.Kind == k && int64(o.GPUs) <= left {
						t.Fatalf("job %d waits beside %d GPUs of kind %d, of which it could have %d", j, left, k, o.GPUs)
					}
				}
			}
		}
	})
}

// large is a problem of so many jobs on so many GPUs of each of three types, in nodes of 4,
// 8 and 8, of which each may have from one to 64.
func large(jobs int, gpus int) ([]int64, []Row) {
	rng := rand.New(rand.NewPCG(uint64(jobs), 9))
	kinds := []Kind{{gpus / 4, 4}, {gpus / 8, 8}, {gpus / 8, 8}}
	rows := make([]Row, jobs)
	for j := range rows {
		r := &rows[j]
		r.Now, r.Factor = None, 1
		bend := 0.5 + 0.45*rng.Float64()
		for i, k := range kinds {
			speed := 0.5 + rng.Float64()*float64(i+1)
			for _, o := range k.Options(i) {
				if o.GPUs <= 64 {
					o.Value = speed * math.Pow(float64(o.GPUs), bend)
					r.Options = append(r.Options, o)
				}
			}
		}
		if r.Normalise(1); j%2 == 0 {
			r.Now, r.Factor = rng.IntN(4), 0.9+0.1*rng.Float64()
		}
	}
	return []int64{int64(gpus), int64(gpus), int64(gpus)}, rows
}

// The choice for 64 GPUs and 40 jobs, and for 2,048 and 1,000.
func BenchmarkChoose(b *testing.B) {
	for _, c := range []struct{ jobs, gpus int }{{40, 24}, {1000, 688}} {
		capacity, rows := large(c.jobs, c.gpus)
		b.Run(fmt.Sprintf("%dx%d", c.jobs, 3*c.gpus), func(b *testing.B) {
			var found Choice
			for b.Loop() {
				var err error
				if found, err = (Objective{Power: -0.5, Price: 1.1}).Choose(capacity, rows); err != nil {
					b.Fatal(err)
				}
			}
			b.ReportMetric(found.Gap, "gap")
		})
	}
}
