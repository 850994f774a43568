package perf

import "math"

// Rotated is the time of an iteration of each job of a group that takes turns
// at k resources. Each stage has a slot of its own, one resource after the
// other. In each slot all jobs are at different resources, and the longest
// stage sets its length. It is for 1 to k jobs, each with k stages, in the
// order of the ordering that counts:
//
//	T = sum over slots i of the max over places p of t[p][(i - p) mod k]
//
// Source: Zhao et al., "Multi-Resource Interleaving for Deep Learning Training",
// SIGCOMM 2022, section 4. A job alone takes the sum of its stages.
func Rotated(group [][]float64, by Ordering) float64 {
	best := math.Inf(1)
	if by == WorstOrder {
		best = 0
	}
	order := append(make([][]float64, 0, MaxInterleaved), group...)
	permute(order, 0, func() {
		t := rotation(order)
		if by == WorstOrder {
			best = max(best, t)
		} else {
			best = min(best, t)
		}
	})
	return best
}

// rotation is the time of one order.
func rotation(order [][]float64) (sum float64) {
	k := len(order[0])
	for i := range k {
		longest := 0.0
		for p, stages := range order {
			longest = max(longest, stages[(i-p+k)%k])
		}
		sum += longest
	}
	return sum
}
