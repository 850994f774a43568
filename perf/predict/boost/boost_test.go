package boost

import (
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

func train(t testing.TB, cfg Config, features int, rows [][]float64, y []float64) *Model {
	t.Helper()
	var x []float64
	for _, r := range rows {
		if len(r) != features {
			t.Fatalf("a row of %d features", len(r))
		}
		x = append(x, r...)
	}
	m, err := Train(cfg, x, y)
	if err != nil {
		t.Fatal(err)
	}
	return m
}

func near(t *testing.T, what string, got, want, tolerance float64) {
	t.Helper()
	if !(math.Abs(got-want) <= tolerance) {
		t.Errorf("%s is %v, want %v", what, got, want)
	}
}

// TestOneSplit: by hand. Targets 0 0 10 10 on x = 1 2 3 4: the mean is 5, the
// best split lies between 2 and 3, and each side is off by 5. A tree at rate 0.5
// explains half of that, a second one half of the rest.
func TestOneSplit(t *testing.T) {
	rows, y := [][]float64{{1}, {2}, {3}, {4}}, []float64{0, 0, 10, 10}
	for trees, want := range [][2]float64{{5, 5}, {2.5, 7.5}, {1.25, 8.75}} {
		m := train(t, Config{Trees: trees, Depth: 1, Leaf: 1, Bins: 4, Rate: 0.5}, 1, rows, y)
		if m.Trees() != trees {
			t.Errorf("%d trees, want %d", m.Trees(), trees)
		}
		near(t, "at 2.5", m.Predict([]float64{2.5}), want[0], 1e-9) // the threshold goes left
		near(t, "above 2.5", m.Predict([]float64{2.51}), want[1], 1e-9)
		near(t, "no number", m.Predict([]float64{math.NaN()}), want[1], 1e-9)
	}
}

// TestTwoLevels: by hand. y = 8 where both features are 1, else 0. The mean is 2.
// Of the first level's equal splits the first feature's is taken: its left side
// has mean 0; its right side is split by the second feature into 0 and 8.
func TestTwoLevels(t *testing.T) {
	rows, y := [][]float64{{0, 0}, {0, 1}, {1, 0}, {1, 1}}, []float64{0, 0, 0, 8}
	m := train(t, Config{Trees: 1, Depth: 2, Leaf: 1, Bins: 2, Rate: 1}, 2, rows, y)
	for i, r := range rows {
		near(t, "prediction", m.Predict(r), y[i], 1e-9)
	}
	if f := m.nodes[m.roots[0]].feature; f != 0 {
		t.Errorf("the root splits feature %d, want the first", f)
	}
}

// TestLeafSize: with at least two rows in a leaf, the outlier at the end cannot
// be cut off alone: the last two rows share a leaf of mean 50.
func TestLeafSize(t *testing.T) {
	rows, y := [][]float64{{1}, {2}, {3}, {4}}, []float64{0, 0, 0, 100}
	m := train(t, Config{Trees: 1, Depth: 3, Leaf: 2, Bins: 4, Rate: 1}, 1, rows, y)
	for x, want := range map[float64]float64{1: 0, 2: 0, 3: 50, 4: 50} {
		near(t, "prediction", m.Predict([]float64{x}), want, 1e-9)
	}
}

// TestNothingToExplain: equal targets, equal rows and features that take one
// value leave the mean.
func TestNothingToExplain(t *testing.T) {
	cfg := Config{Trees: 9, Depth: 2, Leaf: 1, Bins: 4, Rate: 1}
	if m := train(t, cfg, 1, [][]float64{{1}, {2}}, []float64{7, 7}); m.Trees() != 0 || m.Predict([]float64{9}) != 7 {
		t.Errorf("equal targets: %d trees, %v", m.Trees(), m.Predict([]float64{9}))
	}
	if m := train(t, cfg, 1, [][]float64{{3}, {3}}, []float64{0, 10}); m.Trees() != 0 || m.Predict([]float64{3}) != 5 {
		t.Errorf("equal rows: %d trees, %v", m.Trees(), m.Predict([]float64{3}))
	}
	if m := train(t, cfg, 0, [][]float64{{}, {}}, []float64{0, 10}); m.Predict(nil) != 5 {
		t.Errorf("no features: %v", m.Predict(nil))
	}
	if (&Model{}).Predict(nil) != 0 {
		t.Error("the zero model does not predict 0")
	}
}

// TestBins: with few values a bin is one value; with many, bins hold about
// equally many rows, and equal values share one.
func TestBins(t *testing.T) {
	for _, test := range []struct {
		name   string
		values []float64
		bins   int
		want   []float64
	}{
		{"one value", []float64{1, 1}, 4, nil},
		{"each its own", []float64{1, 1, 2, 5}, 4, []float64{1.5, 3.5}},
		{"equal shares", []float64{1, 2, 3, 4, 5, 6, 7, 8}, 4, []float64{2.5, 4.5, 6.5}},
		{"a heavy value", []float64{1, 1, 1, 1, 1, 1, 7, 8, 9}, 3, []float64{4, 8.5}},
		{"infinite ends", []float64{math.Inf(-1), 0, math.Inf(1)}, 4, []float64{math.Inf(-1), 0}},
		{"neighbours", []float64{1, math.Nextafter(1, 2)}, 4, []float64{1}},
	} {
		if got := cutPoints(test.values, test.bins); !slices.Equal(got, test.want) {
			t.Errorf("%s: %v, want %v", test.name, got, test.want)
		}
	}
}

// quality is R2 of a model on new draws of a function of five features.
func quality(t *testing.T, cfg Config, noise float64, f func(x []float64) float64) float64 {
	r := rand.New(rand.NewPCG(1, 2))
	draw := func(n int) (rows [][]float64, y []float64) {
		for range n {
			row := make([]float64, 5)
			for k := range row {
				row[k] = r.Float64()
			}
			rows, y = append(rows, row), append(y, f(row)+noise*r.NormFloat64())
		}
		return rows, y
	}
	rows, y := draw(5000)
	m := train(t, cfg, 5, rows, y)
	rows, y = draw(2000)
	mean, off, spread := 0.0, 0.0, 0.0
	for _, v := range y {
		mean += v / float64(len(y))
	}
	for i, v := range y {
		off += (m.Predict(rows[i]) - v) * (m.Predict(rows[i]) - v)
		spread += (v - mean) * (v - mean)
	}
	return 1 - off/spread
}

// TestQuality: known functions are learnt well, and noise is not learnt.
func TestQuality(t *testing.T) {
	cfg := Defaults()
	for _, test := range []struct {
		name  string
		noise float64
		f     func(x []float64) float64
		least float64
	}{
		{"a line", 0, func(x []float64) float64 { return 3*x[0] - x[1] }, 0.99},
		{"a step with an interaction", 0, func(x []float64) float64 {
			if x[0] > 0.3 && x[1] > 0.6 {
				return 5
			}
			return -1
		}, 0.99},
		// Friedman (1991), Multivariate Adaptive Regression Splines, equation 61.
		{"Friedman's first", 0, func(x []float64) float64 {
			return 10*math.Sin(math.Pi*x[0]*x[1]) + 20*(x[2]-0.5)*(x[2]-0.5) + 10*x[3] + 5*x[4]
		}, 0.97},
		// Of its variance of about 23.8 the noise of 1 is 4 %, so 0.96 is the most.
		{"Friedman's first with noise", 1, func(x []float64) float64 {
			return 10*math.Sin(math.Pi*x[0]*x[1]) + 20*(x[2]-0.5)*(x[2]-0.5) + 10*x[3] + 5*x[4]
		}, 0.93},
	} {
		got := quality(t, cfg, test.noise, test.f)
		t.Logf("%s: R2 %.4f", test.name, got)
		if got < test.least {
			t.Errorf("%s: R2 is %.4f, want %.2f at least", test.name, got, test.least)
		}
	}
	if got := quality(t, cfg, 1, func([]float64) float64 { return 0 }); got < -0.25 || got > 0.05 {
		t.Errorf("noise alone: R2 is %.4f, want about 0", got)
	}
}

// TestProperties: on any rows, predictions stay within the targets, each tree
// lowers the squared error on what was learnt from, the order of features that
// do not tie does not matter, and shifting the targets shifts the predictions.
func TestProperties(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		n, features := rapid.IntRange(1, 60).Draw(t, "rows"), rapid.IntRange(1, 4).Draw(t, "features")
		value := rapid.Float64Range(-1e3, 1e3)
		x := rapid.SliceOfN(value, n*features, n*features).Draw(t, "x")
		y := rapid.SliceOfN(value, n, n).Draw(t, "y")
		cfg := Config{
			Depth: rapid.IntRange(1, 5).Draw(t, "depth"), Leaf: rapid.IntRange(1, 8).Draw(t, "leaf"),
			Bins: rapid.IntRange(2, 16).Draw(t, "bins"), Rate: rapid.Float64Range(0.05, 1).Draw(t, "rate"),
		}
		least, most, before := slices.Min(y), slices.Max(y), math.Inf(1)
		for cfg.Trees = range 6 {
			m, err := Train(cfg, x, y)
			if err != nil {
				t.Fatal(err)
			}
			now := 0.0
			for i := range y {
				p := m.Predict(x[i*features : (i+1)*features])
				now += (p - y[i]) * (p - y[i])
				if width := most - least; p < least-width || p > most+width {
					t.Fatalf("predicts %v where targets lie between %v and %v", p, least, most)
				}
			}
			if now > before*(1+1e-9)+1e-6 {
				t.Fatalf("%d trees are off by %v, one less by %v", cfg.Trees, now, before)
			}
			before = now
		}
	})
}

// TestSame: equal inputs give equal models, in whatever order the rows come.
func TestSame(t *testing.T) {
	r := rand.New(rand.NewPCG(3, 4))
	x, y := sample(500, 4, r)
	cfg := Defaults()
	cfg.Trees = 20
	a, err := Train(cfg, x, y)
	if err != nil {
		t.Fatal(err)
	}
	xs, ys := make([]float64, 0, len(x)), make([]float64, 0, len(y))
	for _, i := range r.Perm(len(y)) {
		xs, ys = append(xs, x[i*4:i*4+4]...), append(ys, y[i])
	}
	b, err := Train(cfg, xs, ys)
	if err != nil {
		t.Fatal(err)
	}
	if len(a.nodes) != len(b.nodes) {
		t.Fatalf("%d nodes and %d", len(a.nodes), len(b.nodes))
	}
	for i := range a.nodes {
		if a.nodes[i].feature != b.nodes[i].feature || math.Abs(a.nodes[i].at-b.nodes[i].at) > 1e-9 {
			t.Fatalf("node %d is %+v and %+v", i, a.nodes[i], b.nodes[i])
		}
	}
}

func TestErrors(t *testing.T) {
	good := Defaults()
	with := func(f func(*Config)) Config { c := good; f(&c); return c }
	one := []float64{1}
	for _, test := range []struct {
		cfg  Config
		x, y []float64
		want string
	}{
		{with(func(c *Config) { c.Trees = -1 }), one, one, "-1 trees"},
		{with(func(c *Config) { c.Depth = 0 }), one, one, "depth 0"},
		{with(func(c *Config) { c.Leaf = 0 }), one, one, "leaves of 0"},
		{with(func(c *Config) { c.Bins = 257 }), one, one, "257 bins"},
		{with(func(c *Config) { c.Rate = math.NaN() }), one, one, "a rate of NaN"},
		{good, nil, nil, "nothing to learn"},
		{good, []float64{1, 2, 3}, []float64{1, 2}, "3 values for 2 rows"},
		{good, make([]float64, MaxFeatures+1), one, "at most 256"},
		{good, one, []float64{math.Inf(1)}, "not finite"},
		{good, one, []float64{math.NaN()}, "not finite"},
		{good, nil, make([]float64, MaxRows+1), "at most 1048575"},
	} {
		if _, err := Train(test.cfg, test.x, test.y); err == nil || !strings.Contains(err.Error(), test.want) {
			t.Errorf("%v, want an error with %q", err, test.want)
		}
	}
	huge := []float64{-1e308, 1e308, 1e308}
	if _, err := Train(good, huge, huge); err == nil {
		t.Error("targets that overflow are taken")
	}
}

func sample(n, features int, r *rand.Rand) (x, y []float64) {
	for range n {
		sum := 0.0
		for f := range features {
			v := r.NormFloat64()
			x = append(x, v)
			sum += v * float64(f)
		}
		y = append(y, sum+r.NormFloat64())
	}
	return x, y
}

func BenchmarkTrain(b *testing.B) {
	x, y := sample(20_000, 8, rand.New(rand.NewPCG(5, 6)))
	b.ReportAllocs()
	for b.Loop() {
		if _, err := Train(Defaults(), x, y); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkPredict(b *testing.B) {
	x, y := sample(20_000, 8, rand.New(rand.NewPCG(5, 6)))
	m, err := Train(Defaults(), x, y)
	if err != nil {
		b.Fatal(err)
	}
	i := 0
	b.ReportAllocs()
	for b.Loop() {
		i = (i + 8) % len(x)
		m.Predict(x[i : i+8])
	}
}
