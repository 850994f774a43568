package perf

import (
	"math"
	"testing"

	"pgregory.net/rapid"
)

// example is the job of acceptance 1 of the specification of Pollux.
func example(overlap float64) Goodput {
	return Goodput{
		Time:    StepTime{Grad: 0.05, GradEach: 0.001, Local: 0.02, LocalEach: 0.01, Node: 0.1, NodeEach: 0.02, Overlap: overlap},
		Noise:   Noise{Sqr: 1, Var: 1},
		Batches: Batches{First: 100, Most: 1000, LocalMin: 10, LocalMost: 64, Accumulate: true},
	}
}

func nearly(a, b, relative float64) bool { return math.Abs(a-b) <= relative*math.Abs(b) }

// TestGoodputArithmetic is the table of acceptance 1.
func TestGoodputArithmetic(t *testing.T) {
	for _, c := range []struct {
		replicas                                int
		spread                                  bool
		batch                                   Batch
		overlap                                 float64
		step, throughput, efficiency, withBatch float64
	}{
		{1, false, Batch{100, 0}, 1, .15, 666.6667, 1, 666.6667},
		{4, false, Batch{50, 0}, 1, .14, 1428.5714, 2. / 3, 952.3810},
		{4, true, Batch{50, 0}, 1, .24, 833.3333, 2. / 3, 555.5556},
		{4, true, Batch{50, 1}, 1, .24, 1176.4706, .4, 470.5882},
		{4, false, Batch{50, 0}, 2, .107703, 1856.9534, 2. / 3, 1237.9689},
	} {
		g := example(c.overlap)
		size := float64(c.replicas * c.batch.Local * (c.batch.Accum + 1))
		got := []float64{g.Time.Step(c.replicas, c.spread, c.batch.Local), g.Throughput(c.replicas, c.spread, c.batch), g.Noise.Efficiency(size / 100), g.With(c.replicas, c.spread, c.batch)}
		for i, want := range []float64{c.step, c.throughput, c.efficiency, c.withBatch} {
			if !nearly(got[i], want, 1e-5) {
				t.Errorf("%d replicas, spread %v, %v: figure %d is %v, want %v", c.replicas, c.spread, c.batch, i, got[i], want)
			}
		}
	}
}

// TestBest is the choice of batch sizes of acceptance 1.
func TestBest(t *testing.T) {
	g := example(1)
	_, fair := g.Best(2, false)
	for _, c := range []struct {
		replicas         int
		spread           bool
		batch            Batch
		goodput, speedup float64
	}{
		{1, false, Batch{50, 1}, 500, .59586}, {2, false, Batch{58, 0}, 839.1204, 1},
		{4, false, Batch{47, 0}, 952.9603, 1.13567}, {4, true, Batch{64, 0}, 566.2214, .67478},
	} {
		b, value := g.Best(c.replicas, c.spread)
		if b != c.batch || !nearly(value, c.goodput, 1e-3) || !nearly(value/fair, c.speedup, 1e-3) {
			t.Errorf("%d replicas, spread %v: %v with %v, want %v with %v", c.replicas, c.spread, value, b, c.goodput, c.batch)
		}
	}
	if _, none := g.Best(101, true); none != 0 {
		t.Errorf("goodput %v with more GPUs than the largest batch has parts", none)
	}
}

// TestNoise is acceptance 2: two replicas with gradients (2,0) and (1,1), whose mean has
// the square 2 and the variance 0.5.
func TestNoise(t *testing.T) {
	n := Noise{Sqr: 2, Var: .5}
	if !nearly(n.Gain(4), 1.176471, 1e-6) || !nearly(n.Efficiency(4), .294118, 1e-5) {
		t.Errorf("noise %+v, gain %v, efficiency %v", n, n.Gain(4), n.Efficiency(4))
	}
	if g := (Noise{}).Gain(8); g != 1 {
		t.Errorf("gain %v without any gradient", g)
	}
}

// TestBestProperties: every batch that is chosen may be, none of the sampled is
// better, and the gain lies between 1 and the scale.
func TestBestProperties(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		g := example(rapid.Float64Range(1, 10).Draw(t, "overlap"))
		g.Noise = Noise{rapid.Float64Range(1e-3, 10).Draw(t, "sqr"), rapid.Float64Range(0, 100).Draw(t, "var")}
		g.Batches.First = rapid.IntRange(10, 400).Draw(t, "first")
		k, spread := rapid.IntRange(1, 32).Draw(t, "replicas"), rapid.Bool().Draw(t, "spread")
		b, value := g.Best(k, spread)
		if value == 0 {
			return
		}
		size := k * b.Local * (b.Accum + 1)
		if size < g.Batches.First || b.Local < g.Batches.LocalMin || b.Local > g.Batches.LocalMost {
			t.Fatalf("batch %v of %d replicas", b, k)
		}
		if !nearly(g.With(k, spread, b), value, 1e-12) {
			t.Fatalf("goodput %v is told as %v", g.With(k, spread, b), value)
		}
		r := float64(size) / float64(g.Batches.First)
		if gain := g.Noise.Gain(r); gain < 1-1e-12 || gain > r+1e-12 {
			t.Fatalf("gain %v at scale %v", gain, r)
		}
	})
}

// table is a noise-free table of measurements, as of acceptance 6.
func measured(t StepTime, spread bool, replicas, local int) Measurement {
	return Measurement{replicas, spread, local, t.Pass(local), t.Step(replicas, spread, local)}
}

// TestFit is acceptance 6: what was fitted to a table without noise predicts within
// 5 % what is not in it.
func TestFit(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		f := func(name string, lo, hi float64) float64 {
			return math.Exp(rapid.Float64Range(math.Log(lo), math.Log(hi)).Draw(t, name))
		}
		truth := StepTime{f("a", .01, .5), f("b", 1e-4, .01), f("n", .02, .5), 0, f("l", .005, .2), 0, rapid.Float64Range(1, 3).Draw(t, "overlap")}
		truth.NodeEach, truth.LocalEach = truth.Node*f("n each", .01, .2), truth.Local*f("l each", .01, .2)
		var seen []Measurement
		for _, k := range []int{1, 2, 3, 5, 8} {
			for _, m := range []int{16, 32, 64} {
				seen = append(seen, measured(truth, false, k, m))
				if k > 1 {
					seen = append(seen, measured(truth, true, k, m))
				}
			}
		}
		got := Fit(seen)
		for _, k := range []int{4, 6, 7} {
			for _, m := range []int{20, 48} {
				for _, spread := range []bool{false, true} {
					if want, is := truth.Step(k, spread, m), got.Step(k, spread, m); !nearly(is, want, .05) {
						t.Fatalf("%d replicas, spread %v, %d examples: %v, want %v\ntruth %+v\nfit %+v", k, spread, m, is, want, truth, got)
					}
				}
			}
		}
	})
}

// TestFitUnseen: what was not seen is taken to be as good as it could be.
func TestFitUnseen(t *testing.T) {
	truth := example(1).Time
	one := Fit([]Measurement{measured(truth, false, 1, 50)})
	if !nearly(one.Grad, truth.Pass(50)/2, 1e-9) || !nearly(one.Pass(50), truth.Pass(50), 1e-3) || one.Sync(8, true) > 1e-6 {
		t.Errorf("one measurement makes %+v", one)
	}
	two := Fit([]Measurement{measured(truth, false, 1, 50), measured(truth, false, 2, 50)})
	if !nearly(two.Step(2, false, 50), truth.Step(2, false, 50), .02) || two.LocalEach > 1e-6 || two.Node < two.Local {
		t.Errorf("two measurements make %+v", two)
	}
	if zero := Fit(nil); zero != (StepTime{}) {
		t.Errorf("no measurement makes %+v", zero)
	}
}

func BenchmarkFit(b *testing.B) {
	truth := example(1.5).Time
	var seen []Measurement
	for k := 1; k <= 16; k++ {
		seen = append(seen, measured(truth, false, k, 10+3*k), measured(truth, k > 1, k, 64-k))
	}
	for b.Loop() {
		Fit(seen)
	}
}

func BenchmarkBest(b *testing.B) {
	g := example(1.5)
	for b.Loop() {
		g.Best(4, true)
	}
}
