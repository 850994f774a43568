package allox

import (
	"cmp"
	"math"
	"slices"
)

// Problem is jobs that wait and machines to run them on, one at a time on each and
// to the end.
type Problem struct {
	Free []float64   // by machine: until then it runs another job; from now, 0 or more
	Kind []int       // by machine: its kind
	Time [][]float64 // by job, by kind: how long it takes there; +Inf: it cannot run there
	// Forbids tells that a job cannot run on a machine although it can on its kind; nil:
	// there is no such machine.
	Forbids func(job, machine int) bool
	// Alike is by machine a number that those have in common which are of one kind and bar
	// the same jobs; nil: those of one kind where no machine bars any, otherwise none.
	Alike []int
}

// Spot is a place in the queue of a machine.
type Spot struct {
	Machine int // None: the job can run nowhere
	Last    int // 1: it runs last, 2: before that one
}

// None is no machine.
const None = -1

// Solve gives each job a spot so that the sum of all completion times is the least
// that can be. That sum counts from now; what jobs have waited already is the same in
// all answers. Of several optima it finds the same one always.
//
// A job that is k-th from the end of a machine's queue delays k jobs, itself among
// them, by the time it takes: it costs Free + k x Time, whoever the others are. So
// jobs and spots are an assignment problem. Spots at the same place from the end of
// machines that are alike differ by when the machines are free alone, so that they are
// one row of seats, of which those that are free first are taken first.
func (p *Problem) Solve() (spots []Spot, sum float64) {
	n, m := len(p.Time), len(p.Free)
	if n == 0 || m == 0 {
		return slices.Repeat([]Spot{{Machine: None}}, n), 0
	}
	if spots, sum, ok := p.apart(); ok {
		return spots, sum
	}
	h := newHall(p)
	for j := range n {
		h.place(j)
	}
	spots, sum = h.spots()
	p.close(spots)
	return spots, sum
}

// apart gives each job a free machine of its own on which it is as fast as anywhere, if
// there are enough: nothing could be better.
func (p *Problem) apart() (spots []Spot, sum float64, ok bool) {
	taken := make([]bool, len(p.Free))
	fastest := make([]float64, len(p.Time))
	for j, times := range p.Time {
		fastest[j] = math.Inf(1)
		for _, k := range p.Kind {
			fastest[j] = min(fastest[j], times[k])
		}
		at := slices.IndexFunc(p.Kind, func(k int) bool { return times[k] == fastest[j] })
		for ; at < len(taken); at++ {
			if !taken[at] && p.Free[at] == 0 && p.Time[j][p.Kind[at]] == fastest[j] && !(p.Forbids != nil && p.Forbids(j, at)) {
				break
			}
		}
		if at == len(taken) || math.IsInf(fastest[j], 1) {
			return nil, 0, false
		}
		taken[at] = true
		spots, sum = append(spots, Spot{at, 1}), sum+fastest[j]
	}
	return spots, sum, true
}

// close numbers the spots of each machine without gaps. There are gaps only behind
// jobs that take no time.
func (p *Problem) close(spots []Spot) {
	order := make([]int, len(spots))
	for j := range order {
		order[j] = j
	}
	slices.SortFunc(order, func(a, b int) int { return cmp.Or(cmp.Compare(spots[a].Last, spots[b].Last), cmp.Compare(a, b)) })
	next := make([]int, len(p.Free))
	for _, j := range order {
		if i := spots[j].Machine; i != None {
			next[i]++
			spots[j].Last = next[i]
		}
	}
}
