package estimator

import (
	"math"
	"testing"

	"github.com/norn-scheduler/norn/job"
	"github.com/norn-scheduler/norn/perf"
)

// TestSpatialIterations is acceptance 2, for the tables of gains by which pairs are decided on.
// A needs 27 iterations of 32 samples, of 320 in all, and B 21 of 640.
func TestSpatialIterations(t *testing.T) {
	a, b := perf.Task{Backbone: "vit", Dataset: "a"}, perf.Task{Backbone: "vit", Dataset: "b"}
	g := perf.NewGains(map[perf.Task]float64{a: 320, b: 640}, []perf.Gain{{From: a, To: b, Together: 1}, {From: b, To: a, Together: 1}})
	fa, fb := g.TogetherTask(g.TaskOf(a), g.TaskOf(b), 27*32, 21*32)
	for name, samples := range map[string]float64{"a": 27 * 32 / fa, "b": 21 * 32 / fb} {
		if k := samples / (32 + 32); math.Abs(k-40.5) > 1e-9 {
			t.Errorf("%s: K = %v, want 40.5, which is 41", name, k)
		}
	}
}

// TestTranWt is acceptance 3.
func TestTranWt(t *testing.T) {
	for _, k := range []struct{ merged, want float64 }{
		{AfterSum(600, 240), 1400. / 1440},
		{AfterSum(400, 300), 1400. / 1100},
		{TogetherSum(500), 1.4},
	} {
		if got := TranWt(600, 400, k.merged); math.Abs(got-k.want) > 1e-12 {
			t.Errorf("TranWt = %v, want %v", got, k.want)
		}
	}
}

// TestFitLineRefuses: a line needs two similarities.
func TestFitLineRefuses(t *testing.T) {
	if _, err := FitLine([]float64{1, 1}, []float64{1, 2}); err == nil {
		t.Error("a line through one similarity")
	}
}

// TestLine: the regression of points on a line is that line.
func TestLine(t *testing.T) {
	var s, g []float64
	for i := range 9 {
		s, g = append(s, float64(i)/9), append(g, -0.2+1.5*float64(i)/9)
	}
	l, err := FitLine(s, g)
	if err != nil || math.Abs(l.W0+0.2) > 1e-12 || math.Abs(l.W1-1.5) > 1e-12 || math.Abs(l.Gain(2)-2.8) > 1e-12 {
		t.Errorf("%+v, %v", l, err)
	}
}

// TestSimilarity: a task is most similar to itself; what a complex source gives is
// more than what it gets.
func TestSimilarity(t *testing.T) {
	plain, near, far := Embedding{1, 1, 1, 1}, Embedding{1, 1, 1, 2}, Embedding{9, 0, 0, 9}
	if s := Similarity(far, far); s != 1 {
		t.Errorf("to itself: %v", s)
	}
	if Similarity(plain, near) <= Similarity(plain, far) {
		t.Error("a near task is not more similar than a far one")
	}
	if Similarity(far, plain) <= Similarity(plain, far) {
		t.Error("a complex source does not give more")
	}
	if Similarity(plain, Embedding{1}) != 0 || Both(0.2, 0.4) < 0.29 || Both(0.2, 0.4) > 0.31 {
		t.Error("different lengths, or the mean of both directions")
	}
}

// TestRates: the time of an iteration follows a measurement by three tenths. Between sizes
// it is interpolated, beyond them it goes by other configurations, or else by an exponent.
func TestRates(t *testing.T) {
	r, j := rates{}, &job.Job{Backbone: "vit", Batch: 10}
	if _, ok := r.at(j, "", 1); ok {
		t.Error("a rate of what was never measured")
	}
	r.observe(j, "V100", 2, 10) // 1 s
	r.observe(j, "V100", 2, 5)  // 2 s
	r.observe(j, "V100", 8, 40)
	other := &job.Job{Backbone: "vit", Batch: 20}
	r.observe(other, "V100", 8, 10)
	r.observe(other, "V100", 16, 15)
	for _, k := range []struct {
		typ  string
		gpus int
		want float64
	}{{"V100", 2, 10 / 1.3}, {"", 2, 10 / 1.3}, {"V100", 4, math.Sqrt(40 * 10 / 1.3)}, {"V100", 16, 60}, {"V100", 1, 10 / 1.3 * math.Pow(0.5, scaling)}} {
		if got, ok := r.at(j, k.typ, k.gpus); !ok || math.Abs(got-k.want) > 1e-9 {
			t.Errorf("with %d GPUs %q: %v samples a second, want %v", k.gpus, k.typ, got, k.want)
		}
	}
	if _, ok := r.at(j, "A100", 1); ok {
		t.Error("a rate on a type that was never measured")
	}
}

// TestNoise: factors lie within the share, spread over it, and are always the same.
func TestNoise(t *testing.T) {
	n := Noise{Share: 0.4, Seed: 7}
	sum, low, high := 0.0, 2.0, 0.0
	for i := range int64(10000) {
		f := n.Factor(i, 3)
		if f != n.Factor(i, 3) {
			t.Fatal("not the same twice")
		}
		sum, low, high = sum+f, min(low, f), max(high, f)
	}
	if low < 0.6 || high > 1.4 || low > 0.61 || high < 1.39 || math.Abs(sum/10000-1) > 0.01 {
		t.Errorf("factors between %v and %v, %v on average", low, high, sum/10000)
	}
	if (Noise{}).Factor(1) != 1 {
		t.Error("no noise is not 1")
	}
}
