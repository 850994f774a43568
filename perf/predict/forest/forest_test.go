package forest_test

import (
	"math"
	"math/rand/v2"
	"testing"

	"github.com/norn-scheduler/norn/perf/predict/forest"
)

// rows are n examples whose target is a step in the first feature and a line in the second; the third
// feature says nothing.
func rows(n int, seed uint64) (x, y []float64) {
	r := rand.New(rand.NewPCG(seed, 1))
	for range n {
		a, b := r.Float64(), r.Float64()
		x = append(x, a, b, r.Float64())
		target := 2 * b
		if a > 0.5 {
			target += 3
		}
		y = append(y, target+0.2*r.NormFloat64())
	}
	return x, y
}

// TestForest learns a function of two of three features, and is better with many trees than with one.
func TestForest(t *testing.T) {
	x, y := rows(2000, 1)
	tx, ty := rows(500, 2)
	miss := func(trees int) float64 {
		c := forest.Defaults()
		c.Trees = trees
		f, err := forest.Train(c, x, y)
		if err != nil {
			t.Fatal(err)
		}
		sum := 0.0
		for i := range ty {
			sum += math.Pow(f.Predict(tx[3*i:3*i+3])-ty[i], 2)
		}
		return math.Sqrt(sum / 500)
	}
	one, many := miss(1), miss(100)
	if many > 0.8*one || many > 0.7 {
		t.Errorf("a forest is off by %.3f, one tree by %.3f", many, one)
	}
}

// TestForestIsDetermined: equal inputs give equal forests, other seeds others.
func TestForestIsDetermined(t *testing.T) {
	x, y := rows(300, 3)
	at := func(seed uint64) float64 {
		c := forest.Defaults()
		c.Seed = seed
		f, err := forest.Train(c, x, y)
		if err != nil {
			t.Fatal(err)
		}
		return f.Predict([]float64{0.4, 0.3, 0.1})
	}
	if at(1) != at(1) || at(1) == at(2) {
		t.Errorf("seed 1 gives %v and %v, seed 2 %v", at(1), at(1), at(2))
	}
}

// TestForestErrors: a forest needs a tree.
func TestForestErrors(t *testing.T) {
	if c := (forest.Config{Depth: 3, Leaf: 1}); c.Check() == nil {
		t.Error("a forest without trees is taken")
	}
	if c := (forest.Config{Trees: 1, Leaf: 1}); c.Check() == nil {
		t.Error("trees without depth are taken")
	}
	if f, err := forest.Train(forest.Defaults(), nil, nil); err == nil && f.Predict(nil) != 0 {
		t.Error("a forest of nothing predicts something")
	}
}
