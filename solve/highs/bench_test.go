package highs

import (
	"fmt"
	"math"
	"math/rand/v2"
	"testing"

	"github.com/norn-scheduler/norn/solve"
)

// maxMin is the program of a policy like Gavel's: jobs share GPU types, and the
// least normalised throughput is to be as high as it can be.
func maxMin(jobs, types int, seed uint64) *solve.Model {
	rng := rand.New(rand.NewPCG(seed, 1))
	m := solve.NewModel(fmt.Sprintf("max-min %d x %d", jobs, types), solve.Maximize)
	least := m.Real(0, solve.Inf(), 1)
	use := make([][]solve.Term, types)
	for range jobs {
		gpus := float64(int(1) << rng.IntN(4))
		share := []solve.Term{least.Times(-1)}
		var time []solve.Term
		for t := range types {
			x := m.Real(0, 1, 0)
			share = append(share, x.Times((1+float64(t)*rng.Float64())/gpus))
			time = append(time, x.Times(1))
			use[t] = append(use[t], x.Times(gpus))
		}
		m.AtLeast(0, share...)
		m.AtMost(1, time...)
	}
	for t := range types {
		m.AtMost(float64(jobs)/2, use[t]...)
	}
	return m
}

// sia is the program of a policy like Sia's: each job takes at most one of 30
// configurations, each of which is a number of GPUs of one type.
func sia(jobs, perType int, seed uint64) *solve.Model {
	rng := rand.New(rand.NewPCG(seed, 2))
	m := solve.NewModel(fmt.Sprintf("sia %d jobs, 3 x %d GPUs", jobs, perType), solve.Maximize)
	use := make([][]solve.Term, 3)
	for range jobs {
		var one []solve.Term
		for t := range 3 {
			speed, bend := 0.5+rng.Float64()*float64(t+1), 0.5+0.45*rng.Float64()
			for k := range 10 {
				gpus := float64(int(1) << (k % 7))
				if k >= 7 {
					gpus = float64(3 * (k - 6))
				}
				x := m.Bool(speed * math.Pow(gpus, bend))
				one = append(one, x.Times(1))
				use[t] = append(use[t], x.Times(gpus))
			}
		}
		m.AtMost(1, one...)
	}
	for t := range use {
		m.AtMost(float64(perType), use[t]...)
	}
	return m
}

// shockwave is the program of a policy like Shockwave's: which jobs run in which
// of the coming rounds, so that the logarithms of their progress (by pieces)
// add up to most.
func shockwave(jobs, rounds, gpus int, seed uint64) *solve.Model {
	rng := rand.New(rand.NewPCG(seed, 3))
	m := solve.NewModel(fmt.Sprintf("shockwave %d jobs x %d rounds", jobs, rounds), solve.Maximize)
	use := make([][]solve.Term, rounds)
	points := []float64{0.01, 0.1, 0.2, 0.35, 0.5, 0.7, 1}
	for range jobs {
		size := float64(int(1) << rng.IntN(4))
		need := float64(rounds) * (0.5 + 2*rng.Float64())
		utility := m.Real(-10, 10, 1+rng.Float64())
		progress := []solve.Term{}
		for t := range rounds {
			x := m.Bool(0)
			use[t] = append(use[t], x.Times(size))
			progress = append(progress, x.Times(1/need))
		}
		before := rng.Float64() * 0.5
		for _, p := range points { // tangents of the logarithm
			terms := []solve.Term{utility.Times(1)}
			for _, t := range progress {
				terms = append(terms, solve.Term{Var: t.Var, Coef: -t.Coef / p})
			}
			m.AtMost(math.Log(p)+(before-p)/p, terms...)
		}
	}
	for t := range use {
		m.AtMost(float64(gpus), use[t]...)
	}
	return m
}

func benchmark(b *testing.B, m *solve.Model, o solve.Options) {
	e := Shared()
	if err := e.Load(); err != nil {
		b.Fatal(err)
	}
	b.ReportAllocs()
	var s *solve.Solution
	for b.Loop() {
		var err error
		if s, err = e.Solve(m, o); err != nil {
			b.Fatal(err)
		}
	}
	b.ReportMetric(float64(s.Iterations), "iterations")
	b.ReportMetric(float64(s.Nodes), "nodes")
	b.ReportMetric(float64(s.Steps), "steps")
	b.ReportMetric(s.Objective, "objective")
	e.mu.Lock()
	if n := len(e.idle); n > 0 {
		b.ReportMetric(float64(e.idle[n-1].memory.Size())/(1<<20), "MiB")
	}
	e.mu.Unlock()
}

func BenchmarkMaxMin200(b *testing.B)   { benchmark(b, maxMin(200, 3, 1), solve.Options{}) }
func BenchmarkMaxMin1000(b *testing.B)  { benchmark(b, maxMin(1000, 3, 1), solve.Options{}) }
func BenchmarkMaxMin500x6(b *testing.B) { benchmark(b, maxMin(500, 6, 1), solve.Options{}) }

func BenchmarkMaxMin1000Again(b *testing.B) {
	m := maxMin(1000, 3, 1)
	s, err := Shared().Solve(m, solve.Options{})
	if err != nil {
		b.Fatal(err)
	}
	m.SetRange(solve.Row(m.Rows()-1), 0, 480) // some GPUs have gone
	benchmark(b, m, solve.Options{Basis: s.Basis})
}

func BenchmarkSia100(b *testing.B) { benchmark(b, sia(100, 64, 1), solve.Options{Gap: 1e-4}) }
func BenchmarkSia500(b *testing.B) { benchmark(b, sia(500, 256, 1), solve.Options{Gap: 1e-4}) }
func BenchmarkSia500Tight(b *testing.B) {
	benchmark(b, sia(500, 64, 1), solve.Options{Gap: 1e-4})
}
func BenchmarkShockwave100Gap3(b *testing.B) {
	benchmark(b, shockwave(100, 20, 64, 1), solve.Options{Gap: 1e-3})
}
func BenchmarkShockwave100Gap4(b *testing.B) {
	benchmark(b, shockwave(100, 20, 64, 1), solve.Options{Gap: 1e-4})
}

// BenchmarkCompile compiles HiGHS, without and with what was kept on disk.
func BenchmarkCompile(b *testing.B) {
	dir := b.TempDir()
	for _, c := range []struct {
		name string
		o    Options
	}{{"new", Options{NoCache: true}}, {"kept", Options{CacheDir: dir}}} {
		if err := New(c.o).Load(); err != nil {
			b.Fatal(err)
		}
		b.Run(c.name, func(b *testing.B) {
			for b.Loop() {
				if err := New(c.o).Load(); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

func BenchmarkInstance(b *testing.B) {
	p, err := Shared().load()
	if err != nil {
		b.Fatal(err)
	}
	for b.Loop() {
		in, err := p.instantiate()
		if err != nil {
			b.Fatal(err)
		}
		in.close()
	}
}

func BenchmarkTiny(b *testing.B) { benchmark(b, maxMin(4, 3, 1), solve.Options{}) }
