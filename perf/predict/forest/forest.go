// Package forest is random forests: the mean of regression trees, each grown from rows that are drawn
// with replacement.
//
// Nouns:
//   - A row is what is known about one example, a number for each feature.
//   - The target is the number to be predicted.
//   - A draw is the rows from which one tree is grown, as many as there are.
//
// Source: Breiman, "Random Forests", Machine Learning 2001. Every split may use every feature, as is the
// default of scikit-learn for regression. Trees are those of package boost, without boosting. Draws go by
// a seed, so equal inputs give equal forests on every machine.
package forest

import (
	"fmt"
	"math/rand/v2"

	"github.com/norn-scheduler/norn/perf/predict/boost"
)

// Config is how a forest is grown.
type Config struct {
	Trees int // how many, at least one
	Depth int // splits between the root and a leaf
	Leaf  int // rows in a leaf, at least
	Seed  uint64
}

// Defaults are 100 trees of depth 12 with at least 3 rows in a leaf.
func Defaults() Config { return Config{Trees: 100, Depth: 12, Leaf: 3, Seed: 1} }

// tree is how one of them is grown.
func (c *Config) tree() boost.Config {
	return boost.Config{Trees: 1, Depth: c.Depth, Leaf: c.Leaf, Bins: 64, Rate: 1}
}

// Check says what is wrong with a Config.
func (c *Config) Check() error {
	if c.Trees < 1 {
		return fmt.Errorf("a forest of %d trees: it must have 1 or more", c.Trees)
	}
	t := c.tree()
	return t.Check()
}

// Forest predicts targets.
type Forest []*boost.Model

// Train grows a forest from rows, which follow each other in x, and their targets. The errors are those of boost.Train.
func Train(c Config, x, targets []float64) (Forest, error) {
	n := len(targets)
	features := 0
	if n > 0 {
		features = len(x) / n
	}
	r := rand.New(rand.NewPCG(c.Seed, 0x666f72657374))
	own, y := make([]float64, len(x)), make([]float64, n)
	out := make(Forest, 0, c.Trees)
	for range c.Trees {
		for i := range n {
			from := r.IntN(n)
			y[i] = targets[from]
			copy(own[i*features:(i+1)*features], x[from*features:])
		}
		tree, err := boost.Train(c.tree(), own, y)
		if err != nil {
			return nil, err
		}
		out = append(out, tree)
	}
	return out, nil
}

// Predict is the mean of what the trees say of a row.
func (f Forest) Predict(row []float64) float64 {
	sum := 0.0
	for _, tree := range f {
		sum += tree.Predict(row)
	}
	return sum / float64(max(1, len(f)))
}
