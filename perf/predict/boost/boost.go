// Package boost is gradient-boosted regression trees: a sum of small trees, each
// fitted to what the ones before it have left unexplained.
//
// Nouns:
//   - A row is what is known about one example, a number for each feature.
//   - The target is the number to be predicted.
//   - A bin is a range of values of one feature.
//   - A split sends the rows of a node whose value is at most a threshold to
//     the left and the others to the right.
//   - A leaf is a node that is not split, and adds its value to the prediction.
//
// Sources: Friedman, "Greedy Function Approximation: A Gradient Boosting
// Machine", Annals of Statistics 2001, for squared loss; bins and the histogram
// of a node as its parent's less its sibling's are those of LightGBM (Ke et al.,
// NIPS 2017).
//
// Residuals are integers in units of a power of two, so that sums do not depend
// on their order and equal inputs give equal trees on every machine.
package boost

import (
	"errors"
	"fmt"
	"math"
	"math/bits"
)

// Config is how trees are grown.
type Config struct {
	Trees int     // how many
	Depth int     // splits between the root and a leaf, at most MaxDepth
	Leaf  int     // rows in a leaf, at least
	Bins  int     // of a feature, 2 to MaxBins
	Rate  float64 // share of what is left that a tree explains, above 0 to 1
}

// Defaults are 200 trees of depth 6 with at least 20 rows in a leaf, 64 bins and
// a rate of 0.05.
func Defaults() Config { return Config{Trees: 200, Depth: 6, Leaf: 20, Bins: 64, Rate: 0.05} }

// Bounds of a Config and of the rows to learn from.
const (
	MaxTrees    = 10_000
	MaxDepth    = 16
	MaxBins     = 256
	MaxRows     = 1<<countBits - 1
	MaxFeatures = 1 << 16 / MaxBins
)

// Check says what is wrong with a Config.
func (c *Config) Check() error {
	switch {
	case c.Trees < 0 || c.Trees > MaxTrees:
		return fmt.Errorf("%d trees: at most %d can be grown", c.Trees, MaxTrees)
	case c.Depth < 1 || c.Depth > MaxDepth:
		return fmt.Errorf("trees of depth %d: it must be 1 to %d", c.Depth, MaxDepth)
	case c.Leaf < 1:
		return fmt.Errorf("leaves of %d rows: it must be 1 or more", c.Leaf)
	case c.Bins < 2 || c.Bins > MaxBins:
		return fmt.Errorf("%d bins: it must be 2 to %d", c.Bins, MaxBins)
	case !(c.Rate > 0 && c.Rate <= 1):
		return fmt.Errorf("a rate of %v: it must be above 0 and at most 1", c.Rate)
	}
	return nil
}

// Model predicts targets. The zero Model predicts 0.
type Model struct {
	base  float64
	roots []int32
	nodes []node
}

// node is a split, or a leaf when its left is 0: no node has the root on its
// left.
type node struct {
	at      float64 // threshold of a split, value of a leaf
	feature int32
	left    int32 // the right one follows it
}

// Predict is the prediction for a row. It must have as many features as the rows
// that the model learnt from; a value that is not a number counts as the largest.
func (m *Model) Predict(row []float64) float64 {
	sum := m.base
	for _, i := range m.roots {
		n := &m.nodes[i]
		for n.left != 0 {
			next := n.left
			if !(row[n.feature] <= n.at) {
				next++
			}
			n = &m.nodes[next]
		}
		sum += n.at
	}
	return sum
}

// Trees is the number of trees: fewer than configured when nothing was left to
// explain.
func (m *Model) Trees() int { return len(m.roots) }

// Train fits a model to rows, which lie one after the other in x, and their
// targets. Targets must be finite. It fails on a Config out of bounds and on
// sizes that do not agree.
func Train(cfg Config, x []float64, targets []float64) (*Model, error) {
	if err := cfg.Check(); err != nil {
		return nil, err
	}
	rows := len(targets)
	switch {
	case rows == 0:
		return nil, errors.New("there is nothing to learn from")
	case rows > MaxRows:
		return nil, fmt.Errorf("%d rows: at most %d can be learnt from", rows, MaxRows)
	case len(x)%rows != 0 || len(x) > rows*MaxFeatures:
		return nil, fmt.Errorf("%d values for %d rows: each must have the same number of features, at most %d", len(x), rows, MaxFeatures)
	}
	base, scale, err := fixedPoint(targets)
	if err != nil {
		return nil, err
	}
	t := &trainer{cfg: cfg, scale: scale, model: &Model{base: base}}
	t.encode(x, len(x)/rows, rows)
	t.left = make([]cell, rows)
	for i, y := range targets {
		t.left[i] = one(int64(math.Round((y - base) * scale)))
	}
	t.grow()
	return t.model, nil
}

// fixedPoint is the mean of the targets, and the power of two by which
// deviations from it are multiplied so that no sum overflows. Sums of squared
// residuals never grow. So no sum of residuals exceeds the number of rows times
// the largest residual at the start.
func fixedPoint(targets []float64) (base, scale float64, err error) {
	for _, y := range targets {
		base += y / float64(len(targets))
	}
	most := 0.0
	for _, y := range targets {
		most = max(most, math.Abs(y-base))
	}
	if math.IsNaN(most) || most > math.MaxFloat64/2 {
		return 0, 0, errors.New("a target is not finite")
	}
	if most == 0 {
		return base, 1, nil
	}
	_, exp := math.Frexp(most)
	return base, math.Ldexp(1, min(sumBits-exp-bits.Len(uint(len(targets))), 1000)), nil
}
