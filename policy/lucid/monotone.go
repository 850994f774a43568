package lucid

import (
	"slices"
	"sort"
)

// shape is the part of a prediction that one feature contributes, as a step function
// that never falls: more GPUs never make a job shorter. The paper poses that on what the
// model has learnt of GPUs (section 3.6.1), by pooling adjacent violators.
type shape struct {
	levels []float64 // values of the feature that were seen, ascending
	add    []float64 // to what the model predicts there, by level
}

// rising is the shape that makes values which a model gives at some levels rise,
// weighted by how many examples were seen there.
func rising(levels, values, weights []float64) shape {
	s := shape{levels, pool(values, weights)}
	for i := range s.add {
		s.add[i] -= values[i]
	}
	return s
}

// at is what is added for a value of the feature: that of the level it is nearest to, of
// two the lower one, since the model divides levels half-way.
func (s *shape) at(x float64) float64 {
	if len(s.levels) == 0 {
		return 0
	}
	i := sort.Search(len(s.levels)-1, func(i int) bool { return x <= s.levels[i]/2+s.levels[i+1]/2 })
	return s.add[i]
}

// pool is the non-decreasing sequence with the least sum of squared differences
// to values, each counted by its weight, which must be above 0. The method is
// pool adjacent violators (Ayer et al., "An Empirical Distribution Function for
// Sampling with Incomplete Information", 1955).
func pool(values, weights []float64) []float64 {
	type block struct {
		mean, weight float64
		n            int
	}
	var blocks []block
	for i, v := range values {
		b := block{v, weights[i], 1}
		for k := len(blocks) - 1; k >= 0 && blocks[k].mean >= b.mean; k-- {
			a := blocks[k]
			w := a.weight + b.weight
			b = block{(a.mean*a.weight + b.mean*b.weight) / w, w, a.n + b.n}
			blocks = blocks[:k]
		}
		blocks = append(blocks, b)
	}
	out := make([]float64, 0, len(values))
	for _, b := range blocks {
		out = append(out, slices.Repeat([]float64{b.mean}, b.n)...)
	}
	return out
}
