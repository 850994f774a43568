package perf

import "github.com/norn-scheduler/norn/job"

// StepOf is one step of training a model with batches of so many samples on one GPU.
// Each weight of a linear layer is multiplied and added once for each sample on the
// way forward, and twice on the way back. Memory is read and written once for
// everything that PeakOf counts, and twice more for weights and for rows that were
// looked up; an optimizer reads and writes what it keeps. The input is the ids.
func StepOf(s *job.Shape, batch int64) Iteration {
	n := sizesOf(s)
	b := float64(batch)
	dense := n.weights + n.outputs + float64(s.Params)
	updated := dense
	if s.Sparse {
		updated += b * n.looked
	} else {
		updated += n.tables
	}
	kept := b * (2*n.outputs + 2*n.looked + float64(s.Kept))
	return Iteration{
		Flops:  6 * b * n.weights,
		Memory: number * (2*kept + 2*dense + 2*b*n.looked + updated*(3+2*float64(s.Optimizer.States()))),
		Input:  number * b * n.lookups,
	}
}
