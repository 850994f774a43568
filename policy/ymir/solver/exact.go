package solver

import (
	"fmt"
	"math"
	"math/bits"
	"slices"
)

// MaxExact is the largest number of jobs of an exact search.
const MaxExact = 16

// Exact finds a solution of least cost. Of several equal ones it finds the same one
// always. It fails for more than MaxExact jobs, and for a malformed problem.
func Exact(p *Problem) (Solution, error) {
	if err := p.check(); err != nil {
		return Solution{}, err
	}
	n := len(p.Jobs)
	if n > MaxExact {
		return Solution{}, fmt.Errorf("%d jobs; at most %d are solved exactly", n, MaxExact)
	}
	s := newSearch(p)
	// The answer in two stages is the one to beat, and settles what nobody beats.
	first, err := TwoStage(p)
	if err != nil {
		return Solution{}, err
	}
	s.best, s.answer = first.Cost, first.Jobs
	s.price(1<<n - 1)
	s.visit(1<<n-1, p.GPUs, 0)
	return Solution{Jobs: s.answer, Cost: s.best}, nil
}

// search goes through the jobs by number: the first one that is left is alone, or
// merged with one of the others that are left.
type search struct {
	p       *Problem
	alone   [][]option
	pairs   [][][]option // by first and second job
	seen    map[state]float64
	prices  []float64
	relaxed [][]float64 // by price, by job: the least that it can cost and pay
	choice  []Choice
	answer  []Choice
	best    float64
}

// state is which jobs are left, and how many GPUs.
type state struct {
	left uint32
	gpus int
}

func newSearch(p *Problem) *search {
	n := len(p.Jobs)
	s := &search{p: p, alone: make([][]option, n), pairs: make([][][]option, n), seen: map[state]float64{}, choice: make([]Choice, n)}
	var ways []Way
	for i := range n {
		s.alone[i] = p.options(&p.Jobs[i], 0, nil)
		s.pairs[i] = make([][]option, n)
		for j := i + 1; j < n && p.Merges != nil; j++ {
			if p.Merges.Gain(i, j) > 0 {
				ways = p.Merges.Ways(i, j, ways[:0])
				s.pairs[i][j] = p.pairOptions(ways)
			}
		}
	}
	return s
}

// relax finds what each job costs at least when GPUs have a price and a pair is
// two jobs that each cost and pay half.
func (s *search) relax(price float64) []float64 {
	out := make([]float64, len(s.alone))
	for i := range s.alone {
		out[i] = cheapest(s.alone[i], price)
	}
	for i := range s.pairs {
		for j, opts := range s.pairs[i] {
			if half := cheapest(opts, price) / 2; half < math.Inf(1) {
				out[i], out[j] = min(out[i], half), min(out[j], half)
			}
		}
	}
	return out
}

func cheapest(opts []option, price float64) float64 {
	least := math.Inf(1)
	for _, o := range opts {
		least = min(least, o.cost+price*float64(o.gpus))
	}
	return least
}

// price finds the price with the best bound on all jobs, and keeps some around it:
// what bounds the whole best need not bound a part best.
func (s *search) price(all uint32) {
	bound := func(price float64) float64 {
		return sum(s.relax(price), all) - price*float64(s.p.GPUs)
	}
	high := 0.0
	for i := range s.alone {
		high = max(high, s.p.Jobs[i].Queued)
	}
	low := 0.0
	for range 50 { // the bound is concave in the price
		a, b := low+(high-low)/3, high-(high-low)/3
		if bound(a) < bound(b) {
			low = a
		} else {
			high = b
		}
	}
	at := (low + high) / 2
	for _, f := range []float64{1, 0, 0.25, 0.5, 0.75, 1.5, 2.5, 5} {
		s.prices = append(s.prices, at*f)
		s.relaxed = append(s.relaxed, s.relax(at*f))
	}
}

func sum(by []float64, members uint32) float64 {
	total := 0.0
	for m := members; m != 0; m &= m - 1 {
		total += by[bits.TrailingZeros32(m)]
	}
	return total
}

// bound is what the jobs that are left cost at least.
func (s *search) bound(left uint32, gpus int) float64 {
	most := 0.0
	for k, price := range s.prices {
		most = max(most, sum(s.relaxed[k], left)-price*float64(gpus))
	}
	return most
}

// visit tries everything for the jobs that are left; cost is that of the others.
func (s *search) visit(left uint32, gpus int, cost float64) {
	if left == 0 {
		if cost < s.best-1e-12 {
			s.best, s.answer = cost, slices.Clone(s.choice)
		}
		return
	}
	if cost+s.bound(left, gpus) >= s.best-1e-12 {
		return
	}
	key := state{left, gpus}
	if was, seen := s.seen[key]; seen && was <= cost {
		return
	}
	s.seen[key] = cost
	i := bits.TrailingZeros32(left)
	left &^= 1 << i
	for m := left; m != 0; m &= m - 1 {
		j := bits.TrailingZeros32(m)
		for _, o := range s.pairs[i][j] {
			if o.gpus <= gpus {
				s.choice[i], s.choice[j] = Choice{o.gpus, j, o.tag}, Choice{o.gpus, i, o.tag}
				s.visit(left&^(1<<j), gpus-o.gpus, cost+o.cost)
			}
		}
	}
	for k := range s.alone[i] {
		o := s.alone[i][len(s.alone[i])-1-k] // the largest first: cheap answers early
		if o.gpus <= gpus {
			s.choice[i] = Choice{o.gpus, None, 0}
			s.visit(left, gpus-o.gpus, cost+o.cost)
		}
	}
}
