package iadeep

import (
	"slices"

	"github.com/norn-scheduler/norn/solve/gp"
)

// Candidates are the batches that are tried of a job with its own batch m0: even numbers
// from m0/1.5, rounded down, to 2 m0 in steps of a 32nd of that range, and m0 itself.
// Those for which fits is false are left out; m0 never is.
func Candidates(own int, fits func(batch int) bool) []int {
	low, high := max(1, int(float64(own)/1.5)), 2*own
	if low > 1 {
		low -= low % 2
	}
	out := []int{own}
	for b := low; b <= high; b += max(1, (high-low)/32) {
		if b != own && fits(b) {
			out = append(out, b)
		}
	}
	slices.Sort(out)
	return out
}

// Tuner tries batches of one or two jobs on one GPU. Its next step is a
// function of the values that it has seen, the sums of PDs of all jobs there.
type Tuner struct {
	Batches [][]int // of each job that is tuned: what it may have, in order
	From    []int   // what they have to begin with
	Trials  int     // at most, the first one as they are

	Samples, Step int // at first, that far apart around the own batch Own, of one job
	Own           int

	Search gp.Search // without its points
}

// point is the number of a choice of one batch for each job.
func (t *Tuner) point(batches []int) int {
	n := 0
	for i, b := range batches {
		at, _ := slices.BinarySearch(t.Batches[i], b)
		n = n*len(t.Batches[i]) + min(at, len(t.Batches[i])-1)
	}
	return n
}

// At are the batches at a point.
func (t *Tuner) At(point int) []int {
	out := make([]int, len(t.Batches))
	for i := len(out) - 1; i >= 0; i-- {
		n := len(t.Batches[i])
		out[i], point = t.Batches[i][point%n], point/n
	}
	return out
}

// points are all choices, each coordinate from 0 to 1.
func (t *Tuner) points() [][]float64 {
	all := 1
	for _, b := range t.Batches {
		all *= len(b)
	}
	points := make([][]float64, all)
	for n := range points {
		for i, b := range t.At(n) {
			own := t.Batches[i]
			x := 0.0
			if span := own[len(own)-1] - own[0]; span > 0 {
				x = float64(b-own[0]) / float64(span)
			}
			points[n] = append(points[n], x)
		}
	}
	return points
}

// opening are the points that are tried first: as it is, and the samples around the own
// batch of a single job.
func (t *Tuner) opening() []int {
	points := []int{t.point(t.From)}
	if len(t.Batches) > 1 {
		return points
	}
	for i := range t.Samples {
		list := t.Batches[0]
		at, _ := slices.BinarySearch(list, t.Own+(i-3)*t.Step)
		if at = min(at, len(list)-1); !slices.Contains(points, at) {
			points = append(points, at)
		}
	}
	return points
}

// Tried is what was seen when the sums of PDs came in this order, and the point to be
// tried next; ok is false when enough was tried.
func (t *Tuner) Tried(values []float64) (seen []gp.Seen, next int, ok bool) {
	search, opening := t.Search, t.opening()
	search.Points = t.points()
	for n := 0; ; n++ {
		var at int
		if n < len(opening) {
			at, ok = opening[n], n < t.Trials
		} else if at, ok = search.Next(seen); n >= t.Trials {
			ok = false
		}
		if !ok || n == len(values) {
			return seen, at, ok
		}
		seen = append(seen, gp.Seen{Point: at, Value: values[n]})
	}
}
