package themis

import (
	"math"
	"slices"
)

// Situation is what an app's finish-time fairness follows from, times in seconds.
type Situation struct {
	Elapsed    float64 // since it came
	Left       float64 // work, as seconds at speed 1
	Speed      float64 // with what it would have
	Alone      float64 // it would take with the whole cluster to itself
	Contenders float64 // apps that there were on average since it came, itself among them
}

// idle is the speed at which an app without GPUs is taken to run, so that even those can be
// compared.
const idle = 1e-9

// Rho is the finish time in the shared cluster over that in a cluster of its own
// with one share of the GPUs: 1 or less means that sharing costs the app nothing.
func (s Situation) Rho() float64 {
	alone := s.Alone * s.Contenders
	if alone <= 0 {
		return math.Inf(1)
	}
	return (s.Elapsed + s.Left/max(s.Speed, idle)) / alone
}

// Halving is an app that searches hyper-parameters by successive halving: each
// phase runs some of its jobs for some iterations, and the best go on.
type Halving struct {
	Phases []Phase   // that are still to be done
	Serial []float64 // seconds an iteration on one GPU, by job
	Most   float64   // GPUs that one job can use
}

// Phase is a phase of a Halving: so many jobs, and the iterations that each still does in it.
type Phase struct {
	Jobs       int
	Iterations float64
}

// Left is how long all phases take on so many GPUs, divided evenly. Which jobs will
// be left is not known, so that each is taken to be like the median one.
func (h *Halving) Left(gpus float64) float64 {
	sorted := slices.Sorted(slices.Values(h.Serial))
	n := len(sorted)
	if n == 0 || gpus <= 0 {
		return math.Inf(1)
	}
	median := (sorted[(n-1)/2] + sorted[n/2]) / 2
	sum := 0.0
	for _, p := range h.Phases {
		sum += float64(p.Jobs) * p.Iterations * median / min(gpus, float64(p.Jobs)*h.Most)
	}
	return sum
}

// batch is the jobs of an app that each do all of their work, whatever becomes of the
// others. Work is counted in seconds that the first job takes in its reference
// configuration.
type batch struct {
	work    float64
	longest float64 // seconds that one job takes at least
}

// left is how long they take at so much work a second.
func (b *batch) left(rate float64) float64 { return max(b.longest, b.work/max(rate, idle)) }
