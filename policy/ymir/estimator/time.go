package estimator

// learning is what a measurement counts against what was believed.
const learning = 0.3

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
