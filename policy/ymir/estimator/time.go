package estimator

import "math"

// Task is what matters of a job for training it together with another one.
type Task struct {
	K       int     // iterations with the gain
	Batch   int     // samples of an iteration
	Samples float64 // of its data set
}

// Epochs is how often it goes through its data set.
func (t Task) Epochs() float64 { return float64(t.K) * float64(t.Batch) / t.Samples }

// Spatial is the number of iterations of two tasks trained as one: as many epochs
// over both data sets as the one that needs more of them, with both batches.
func Spatial(a, b Task) int {
	k := max(a.Epochs(), b.Epochs()) * (a.Samples + b.Samples) / float64(a.Batch+b.Batch)
	return int(math.Ceil(k - 1e-9))
}

// Key names an entry of a Table.
type Key struct {
	Backbone string
	Config   string // accumulation, batch of a GPU, frozen layers, precision, checkpointing, pipeline
	GPUs     int
}

// learning is what a measurement counts against what was believed.
const learning = 0.3

// Table is seconds per iteration by backbone, configuration and size.
type Table map[Key]float64

// Observe lets an entry follow a measurement; the first one is taken as it is.
func (t Table) Observe(k Key, seconds float64) {
	if was, known := t[k]; known {
		seconds = (1-learning)*was + learning*seconds
	}
	t[k] = seconds
}

// Follow is a believed value after a measurement.
func Follow(believed, measured float64) float64 {
	return (1-learning)*believed + learning*measured
}

// TranWt is how much better two jobs fare merged than alone, at some size: the sum
// of their completion times in order of length over the sum when merged. a and b
// are their times alone, merged is the sum of both completion times when merged.
func TranWt(a, b, merged float64) float64 { return (2*min(a, b) + max(a, b)) / merged }

// AfterSum is the sum of both completion times when b, in the time it takes from
// a's weights, follows a.
func AfterSum(a, after float64) float64 { return 2*a + after }

// TogetherSum is the sum of both completion times when they are trained as one.
func TogetherSum(together float64) float64 { return 2 * together }
