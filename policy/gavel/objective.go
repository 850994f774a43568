package gavel

import (
	"math"
)

// MaxMin makes the smallest of all shares as large as can be: the throughput of a
// job, relative to its proportional share, per weight and times its GPUs. (LAS in
// the paper.)
func MaxMin(p *Problem) (Allocation, error) {
	return p.level(func(m int) goal {
		j := &p.Jobs[m]
		return goal{rate: j.Size / (j.Weight * p.Equal(j)), step: 1}
	})
}

// Makespan lets the last of the jobs end as early as can be.
func Makespan(p *Problem) (Allocation, error) {
	return p.level(func(m int) goal { return goal{rate: 1 / p.steps(&p.Jobs[m]), step: 1} })
}

// level makes the level that all goals have in common as large as can be.
func (p *Problem) level(goals func(m int) goal) (Allocation, error) {
	out, err := p.program(1, nil, goals)
	if err != nil {
		return nil, err
	}
	return p.few(out.Allocation), nil
}

// Throughput makes the sum of all throughputs as large as can be.
func Throughput(p *Problem) (Allocation, error) {
	out, err := p.program(0, func(*Job, int) float64 { return 1 }, nil)
	if err != nil {
		return nil, err
	}
	return out.Allocation, nil
}

// price is what one GPU of a type costs for an hour.
func (p *Problem) price(t int) float64 {
	if t < len(p.Prices) && p.Prices[t] > 0 {
		return p.Prices[t]
	}
	return 1
}

// Cost makes the sum of throughput per price as large as can be. The paper divides
// the sums; its code, as here, sums what is divided, which is linear and leaves no
// job aside that can be run at all.
func Cost(p *Problem) (Allocation, error) {
	out, err := p.program(0, p.worth, nil)
	if err != nil {
		return nil, err
	}
	return out.Allocation, nil
}

func (p *Problem) worth(_ *Job, t int) float64 { return 1 / p.price(t) }

// CostSLO is Cost among the allocations with which every job is done when it is
// due. Where there is none it is Cost.
func CostSLO(p *Problem) (Allocation, error) {
	need, most := p.due()
	if most == nil {
		return Cost(p)
	}
	out, err := p.program(0, p.worth, need)
	if err != nil {
		return most.Allocation, nil // there is no room between what is due and what can be had
	}
	return out.Allocation, nil
}

// due is what jobs need to be done when they are due, and an allocation that gives them
// that; nil if there is none.
func (p *Problem) due() (need func(m int) goal, most *outcome) {
	need = func(m int) goal {
		j := &p.Jobs[m]
		if j.Due <= 0 {
			return goal{none: true}
		}
		return goal{rate: 1, floor: p.steps(j) / j.Due}
	}
	// How much more than what is due can be had tells whether it can be had at all.
	most, err := p.program(1, nil, func(m int) goal {
		g := need(m)
		return goal{rate: g.rate, step: g.floor, none: g.none}
	})
	if err != nil || most.level < 1-1e-9 {
		return need, nil
	}
	return need, most
}

// CostRatio makes the sum of all throughputs over the sum of all prices as large as can be,
// which is the objective of the paper (section 4.2). Only the jobs that are cheapest for what
// they do then have a share; of equal optima it takes one that does as much as can be.
func CostRatio(p *Problem) (Allocation, error) { return p.ratio(nil) }

// CostRatioSLO is CostRatio among the allocations with which every job is done when it is
// due. Where there is none it is CostRatio.
func CostRatioSLO(p *Problem) (Allocation, error) {
	need, most := p.due()
	if most == nil {
		return CostRatio(p)
	}
	a, err := p.ratio(need)
	if err != nil {
		return most.Allocation, nil // there is no room between what is due and what can be had
	}
	return a, nil
}

// Spent is the throughput of an allocation and what it costs, for an hour.
func (p *Problem) Spent(a Allocation) (work, price float64) {
	for m := range p.Jobs {
		j := &p.Jobs[m]
		work += j.throughput(a[m])
		for t := range p.Capacity {
			price += p.price(t) * j.Size * a[m][t]
		}
	}
	return work, price
}

// cheaper is how little of a ratio is given up so that of equal optima the one is taken
// that does most.
const cheaper = 1e-4

// ratio finds the greatest ratio of throughput to price by Dinkelbach's method: where a
// ratio can be exceeded, what is above it as a sum is largest for a better one.
func (p *Problem) ratio(goals func(m int) goal) (Allocation, error) {
	above := func(ratio float64) (Allocation, error) {
		out, err := p.program(0, func(j *Job, t int) float64 { return 1 - ratio*p.price(t)*j.Size/j.Speed[t] }, goals)
		if err != nil {
			return nil, err
		}
		return out.Allocation, nil
	}
	ratio := 0.0
	for range 40 {
		a, err := above(ratio)
		if err != nil {
			return nil, err
		}
		work, price := p.Spent(a)
		if price <= 0 || work/price <= ratio*(1+1e-7) {
			break
		}
		ratio = work / price
	}
	return above(ratio * (1 - cheaper))
}

// FIFO lets those run first, and on their fastest type, who came first.
func FIFO(p *Problem) (Allocation, error) {
	n := len(p.Jobs)
	rank := map[*Job]int{}
	for m := range p.Jobs {
		rank[&p.Jobs[m]] = m
	}
	out, err := p.program(0, func(j *Job, _ int) float64 { return float64(n-rank[j]) / p.fastest(j) }, nil)
	if err != nil {
		return nil, err
	}
	return out.Allocation, nil
}

// ShortestFirst gives the job that can be done first its fastest type, and goes on
// with the others and what is left.
func ShortestFirst(p *Problem) (Allocation, error) {
	a := p.nothing()
	left := append([]float64(nil), p.Capacity...)
	done := make([]bool, len(p.Jobs))
	for {
		best, on, least := -1, 0, math.Inf(1)
		for m := range p.Jobs {
			j := &p.Jobs[m]
			for t := range left {
				if done[m] || !p.fits(j, t) || j.Size > left[t] {
					continue
				}
				if c, speed := p.column(a, j, t); speed > 0 && j.Left/speed < least {
					best, on, least = m, c, j.Left/speed
				}
			}
		}
		if best < 0 {
			return a, nil
		}
		done[best] = true
		a[best][on] = 1
		left[on%len(left)] -= p.Jobs[best].Size
	}
}

// FinishTimes makes the largest rho as small as can be: when a job will be done,
// counted from its arrival, over when it would have been with an equal share. It
// falls back on Isolated where that cannot be settled.
//
// Which rho can be reached is asked by a program that finds by how much all jobs can
// be faster than rho needs; its prices tell a rho that cannot be beaten, by which
// Newton's method goes on. Weights do not count.
func FinishTimes(p *Problem) (Allocation, error) {
	n := len(p.Jobs)
	f := finish{p: p, alone: make([]float64, n), need: make([]float64, n)}
	best, parts := p.parts(), p.parts()
	p.Cut(best)
	low := 0.0
	for m := range p.Jobs {
		j := &p.Jobs[m]
		if p.fastest(j) > 0 {
			f.alone[m] = j.Isolated + p.steps(j)/j.throughput(parts[m])
			low = max(low, j.Age/f.alone[m])
		}
	}
	rho := f.rho(best)
	for high := rho; high-low > 1e-8*high && f.asked < 40; f.asked++ {
		for m := range p.Jobs {
			f.need[m] = f.demand(m, rho)
		}
		out, err := p.program(1, nil, func(m int) goal { return goal{rate: 1 / f.need[m], step: 1} })
		if err != nil {
			break
		}
		r, bound := f.rho(out.Allocation), f.bound(out, low, rho)
		if r >= high && bound <= low {
			break // the rest is lost in the arithmetic
		}
		if r < high {
			high, best = r, out.Allocation
		}
		if rho = bound; bound > low {
			low = bound
		} else {
			rho = (low + high) / 2 // the prices tell nothing new
		}
	}
	return p.few(best), nil
}

// finish is a search for the smallest rho.
type finish struct {
	p     *Problem
	alone []float64 // by job: seconds until it would have been done with an equal share
	need  []float64 // by job: steps per second
	asked int
}

// demand is the throughput that a job needs for a rho.
func (f *finish) demand(m int, rho float64) float64 {
	j := &f.p.Jobs[m]
	if f.alone[m] == 0 {
		return 1
	}
	return f.p.steps(j) / max(rho*f.alone[m]-j.Age, 1e-9*f.alone[m])
}

// rho is the largest rho of an allocation.
func (f *finish) rho(a Allocation) float64 {
	worst, rates := 0.0, f.p.Throughputs(a)
	for m := range f.p.Jobs {
		if j := &f.p.Jobs[m]; f.alone[m] > 0 {
			worst = max(worst, (j.Age+f.p.steps(j)/rates[m])/f.alone[m])
		}
	}
	return worst
}

// bound is a rho that no allocation is below: with less, what the jobs need would
// cost more, at the prices of the program for rho, than there is.
func (f *finish) bound(out *outcome, low, rho float64) float64 {
	cost := func(r float64) float64 {
		sum := 0.0
		for m := range f.p.Jobs {
			sum += out.prices[m] * f.demand(m, r) / f.need[m]
		}
		return sum
	}
	high := rho
	for cost(high) > out.level && high < 1e12*rho {
		high *= 2
	}
	for range 100 {
		mid := (low + high) / 2
		if mid <= low || mid >= high {
			break
		}
		if cost(mid) > out.level {
			low = mid
		} else {
			high = mid
		}
	}
	return low
}

// Within is the middle of all allocations with which every job is done within a
// time, in seconds.
func Within(p *Problem, seconds float64) (Allocation, error) {
	out, err := p.program(0, nil, func(m int) goal {
		return goal{rate: 1, floor: p.steps(&p.Jobs[m]) / seconds}
	})
	if err != nil {
		return nil, err
	}
	return out.Allocation, nil
}
