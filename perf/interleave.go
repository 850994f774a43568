package perf

import (
	"math"

	"github.com/norn-scheduler/norn/cluster"
	"github.com/norn-scheduler/norn/job"
)

// Stages is how long an iteration of a job keeps each resource busy, in seconds:
// loading and CPU work, GPU, network. They follow each other in a circle; two of
// the four slots of a group belong to the first.
type Stages [3]float64

// Sum is the time that all stages take one after the other.
func (s Stages) Sum() float64 { return s[0] + s[1] + s[2] }

// MaxInterleaved is the largest group of jobs that take turns at the resources.
const MaxInterleaved = 4

// Ordering is which of the orders counts in which the jobs of a group take turns.
type Ordering uint8

// The orderings.
const (
	BestOrder  Ordering = iota // that with the shortest iteration
	WorstOrder                 // that with the longest, to study what order is worth
)

// Interleaved is the time of an iteration of each job of a group of 1 to
// MaxInterleaved jobs. They take turns at the resources, so that each is at
// another one.
//
// Source: Zhao et al., "Multi-Resource Interleaving for Deep Learning Training",
// SIGCOMM 2022, section 4, and its published simulator for three stages.
func Interleaved(group []Stages, by Ordering) float64 {
	if len(group) == 1 {
		return group[0].Sum()
	}
	best := math.Inf(1)
	better := func(t float64) bool { return t < best }
	if by == WorstOrder {
		best, better = 0, func(t float64) bool { return t > best }
	}
	take := func(t float64) {
		if better(t) {
			best = t
		}
	}
	var order [MaxInterleaved]Stages
	copy(order[:], group)
	permute(order[:len(group)], 0, func() { take(circle(order[:len(group)])) })
	if len(group) == 2 { // at opposite places of the circle
		a, b := group[0], group[1]
		take(max(a[0], b[1]+b[2]) + max(b[0], a[1]+a[2]))
	}
	return best
}

// permute visits the orders of a list from place k on.
func permute[T any](list []T, k int, visit func()) {
	if k == len(list)-1 {
		visit()
		return
	}
	for i := k; i < len(list); i++ {
		list[k], list[i] = list[i], list[k]
		permute(list, k+1, visit)
		list[k], list[i] = list[i], list[k]
	}
}

// circle is the time in which all jobs of an order have gone around once, in
// the settled state. In each of four slots one of them is at the network, the
// next at the GPU, and the one behind it is loading, which takes two slots.
func circle(order []Stages) float64 {
	const rounds = 2
	var f [4*rounds + 1]float64
	for i := range 4 * rounds {
		if at := (i + 1) & 3; at < len(order) {
			f[i+1] = max(f[i+1], f[i]+order[at][2])
		}
		if at := (i + 2) & 3; at < len(order) {
			f[i+1] = max(f[i+1], f[i]+order[at][1])
		}
		if at := (i + 3) & 3; i > 0 && at < len(order) {
			f[i+1] = max(f[i+1], f[i-1]+order[at][0])
		}
		if i >= 4 {
			now, before := f[i+1]-f[i-3], f[i]-f[i-4]
			if math.Abs(now-before) <= 1e-3*max(math.Abs(now), math.Abs(before)) && now > 0 {
				return now
			}
		}
	}
	return f[4*rounds] - f[4*rounds-4]
}

// Interleave is the Sharing of jobs that take turns at the resources of their
// devices, stage by stage. A job without stages in its hints is taken to need the
// GPU all of the time.
type Interleave struct {
	Order Ordering
	// Overhead is the factor on the iteration of a group of 2, 3 and 4 jobs; 0 is 1.
	Overhead [MaxInterleaved - 1]float64
	// Slots gives each of the three stages one slot, as the paper's formula has it
	// (Rotated), and not the first two slots of four. So no more than three jobs
	// take turns.
	Slots bool
}

// PublishedOverhead is what interleaving costs groups of 2, 3 and 4 jobs beside
// what it costs a job alone, as measured by the authors of Muri.
func PublishedOverhead() [MaxInterleaved - 1]float64 {
	return [...]float64{1.33 / 1.015, 1.5 / 1.015, 1.37 / 1.015}
}

// StagesOf are the stages of a job, in seconds, and its iteration alone.
func StagesOf(j *job.Job) (s Stages, iteration float64) {
	if h := j.Hints; h != nil {
		for i, d := range h.Stages {
			s[i] = d.Seconds()
		}
		iteration = h.Iteration.Seconds()
	}
	if s.Sum() == 0 {
		s = Stages{0, 1, 0}
	}
	if iteration <= 0 {
		iteration = s.Sum()
	}
	return s, iteration
}

// Time is how long an iteration of each job of a group takes, in seconds. More
// than MaxInterleaved jobs take turns in groups of so many.
func (m Interleave) Time(group []Stages) float64 {
	n, t := min(len(group), MaxInterleaved), 0.0
	if m.Slots {
		n = min(n, len(Stages{}))
		t = Rotated(lists(group[:n]), m.Order)
	} else {
		t = Interleaved(group[:n], m.Order)
	}
	if n > 1 && m.Overhead[n-2] > 0 {
		t *= m.Overhead[n-2]
	}
	if len(group) > n {
		t += m.Time(group[n:])
	}
	return t
}

// lists are the stages of a group as Rotated takes them.
func lists(group []Stages) [][]float64 {
	out := make([][]float64, len(group))
	for i := range group {
		out[i] = group[i][:]
	}
	return out
}

// Beside implements Sharing.
func (m Interleave) Beside(j *job.Job, others []*job.Job, _ cluster.GPUType) float64 {
	own, iteration := StagesOf(j)
	group := append(make([]Stages, 0, MaxInterleaved), own)
	for _, o := range others {
		s, _ := StagesOf(o)
		group = append(group, s)
	}
	return min(1, iteration/m.Time(group))
}
