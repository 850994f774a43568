package shockwave

import (
	"slices"

	policies "github.com/norn-scheduler/norn/policy/gavel"
)

// alpha is the part of the waiting jobs, the oldest ones, that AlloX looks at; it looks
// at as many as there are free GPUs at least.
const alpha = 0.2

// scipy is which version of SciPy matches. With several GPUs of one type many matchings
// cost the same, and rounding decides which is found.
type scipy uint8

const (
	noScipy    scipy = iota
	asTheyAre        // from 1.9 on
	aboveLeast       // 1.5 to 1.8: the least of all costs is taken off each
)

// match is AlloX, which is not told to keep to jobs of one GPU. It finds which of the
// waiting jobs would be how far from the end of the queue of which GPU if all were to
// end soonest, and gives a share of 1/size to the first of each queue. The others are
// matched again next time. A share stays until its job ends; was has those of before,
// 0 for none. Only a job with a share of 1, one of a single GPU, is known to hold a
// GPU: larger ones keep their share, and are among the waiting again. Jobs are in order of
// arrival.
func match(p *policies.Problem, was []float64, version scipy) policies.Allocation {
	a := make(policies.Allocation, len(p.Jobs))
	free := int(p.Capacity[0])
	var waiting []int
	for i, x := range was {
		a[i] = []float64{x}
		if x == 1 {
			free--
		} else {
			waiting = append(waiting, i)
		}
	}
	look := max(int(alpha*float64(len(waiting))), free)
	waiting = waiting[:min(look, len(waiting))]
	if free == 0 {
		return a
	}
	base := make([]float64, len(waiting))
	for k, i := range waiting {
		base[k] = p.Jobs[i].Left / p.Jobs[i].Speed[0]
	}
	// Column c is the place behind which c/free jobs of GPU c%free come.
	cost := func(k, c int) float64 { return float64(float64(c/free+1)*base[k]) + p.Jobs[waiting[k]].Age }
	cols := free * depth(base, free)
	if version == aboveLeast && cols > 0 {
		cost = lessLeast(len(waiting), cols, cost)
	}
	first, behind := slices.Repeat([]int{-1}, free), make([]int, free) // by GPU
	for k, c := range pair(len(waiting), cols, cost) {
		if c >= 0 && c/free >= behind[c%free] {
			first[c%free], behind[c%free] = waiting[k], c/free
		}
	}
	for _, i := range first {
		if i >= 0 {
			a[i][0] = 1 / p.Jobs[i].Size
		}
	}
	return a
}

// depth is how many places of each queue the matching is offered. The published
// code offers as many places as there are jobs. But where jobs take time, a
// place is taken only when all places before it are, in all queues. Places that
// are never reached do not change the order in which the others are looked at.
func depth(base []float64, free int) int {
	if slices.ContainsFunc(base, func(b float64) bool { return !(b > 0) }) {
		return len(base)
	}
	return (len(base) + free - 1) / free
}

// lessLeast takes the least of all costs off each.
func lessLeast(rows, cols int, cost func(row, col int) float64) func(row, col int) float64 {
	least := cost(0, 0)
	for i := range rows {
		for j := range cols {
			least = min(least, cost(i, j))
		}
	}
	return func(row, col int) float64 { return cost(row, col) - least }
}
