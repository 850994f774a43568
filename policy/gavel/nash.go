package gavel

import (
	"errors"
	"math"
	"slices"
)

// StrategyProof finds the allocation with the greatest product of throughputs and has each
// job pay for its presence. A job keeps the part of its time by which the others, all
// together, are better off without it. So no job gains by telling other speeds than its own.
// Weights do not count, and jobs do not share GPUs.
//
// Source: the published simulator of Gavel, max_min_fairness_strategy_proof.py; Cole,
// Gkatzelis and Goel, "Mechanism Design for Fair Division", EC 2013.
func StrategyProof(p *Problem) (Allocation, error) {
	all := p.alike()
	start, err := all.solve(all.middle(), 1, early)
	if err != nil {
		return nil, err
	}
	best, err := all.solve(start, early, late)
	if err != nil {
		return nil, err
	}
	keep := make([]float64, len(all.kinds))
	errs := make([]error, len(all.kinds))
	p.side(len(all.kinds), func(k int) { keep[k], errs[k] = all.payment(k, start, best) })
	if err := errors.Join(errs...); err != nil {
		return nil, err
	}
	return all.allocation(p, best, keep), nil
}

// Nash finds the allocation with the greatest product of throughputs: what StrategyProof
// divides before anybody pays.
func Nash(p *Problem) (Allocation, error) {
	all := p.alike()
	best, err := all.solve(all.middle(), 1, late)
	if err != nil {
		return nil, err
	}
	return all.allocation(p, best, nil), nil
}

// The weights of the barrier from which the programs without one job go on, and at which
// they end.
const (
	early = 1e-3
	late  = 1e-9
)

// side has f called for each of n numbers, perhaps side by side.
func (p *Problem) side(n int, f func(i int)) {
	if p.Each != nil {
		p.Each.Each(n, f)
		return
	}
	for i := range n {
		f(i)
	}
}

// nash is the program of the greatest product of throughputs: jobs for which it is the same
// are of one kind.
type nash struct {
	capacity []float64
	kinds    []peers
	of       []int // by job: its kind, -1 if it cannot run
}

// peers are jobs that are as fast, relative to their best type, and as large as each other.
type peers struct {
	count float64
	size  float64
	speed []float64 // by type, the largest is 1; 0: none
}

// alike writes down the program of the greatest product.
func (p *Problem) alike() *nash {
	n := &nash{capacity: p.Capacity, of: make([]int, len(p.Jobs))}
	for m := range p.Jobs {
		j := &p.Jobs[m]
		n.of[m] = -1
		best := p.fastest(j)
		if best <= 0 {
			continue
		}
		k := peers{count: 1, size: j.Size, speed: make([]float64, len(p.Capacity))}
		for t := range p.Capacity {
			if p.fits(j, t) {
				k.speed[t] = j.Speed[t] / best
			}
		}
		n.of[m] = slices.IndexFunc(n.kinds, func(o peers) bool { return o.size == k.size && slices.Equal(o.speed, k.speed) })
		if n.of[m] < 0 {
			n.of[m] = len(n.kinds)
			n.kinds = append(n.kinds, k)
		} else {
			n.kinds[n.of[m]].count++
		}
	}
	return n
}

// allocation is the answer, of which each kind keeps a part; nil: all of it.
func (n *nash) allocation(p *Problem, x [][]float64, keep []float64) Allocation {
	a := p.nothing()
	for m, k := range n.of {
		if k < 0 {
			continue
		}
		for t, v := range x[k] {
			if v > tiny {
				a[m][t] = v
				if keep != nil {
					a[m][t] *= keep[k]
				}
			}
		}
	}
	return a
}

// payment is the part of its time that a job of a kind keeps: by how much the others, all
// together, would be better off without it.
func (n *nash) payment(k int, start, best [][]float64) (keep float64, err error) {
	others := &nash{capacity: n.capacity, kinds: slices.Clone(n.kinds)}
	others.kinds[k].count--
	without, err := others.solve(start, early, late)
	if err != nil {
		return 0, err
	}
	loss := 0.0
	for o, c := range others.kinds {
		if c.count > 0 {
			loss += c.count * math.Log(c.rate(best[o])/c.rate(without[o]))
		}
	}
	return min(1, math.Exp(loss)), nil
}

// rate is the throughput of a job of a kind.
func (k *peers) rate(x []float64) (sum float64) {
	for t, s := range k.speed {
		sum += s * x[t]
	}
	return sum
}

// middle is an allocation inside all bounds.
func (n *nash) middle() [][]float64 {
	asked := make([]float64, len(n.capacity))
	for _, k := range n.kinds {
		for t, s := range k.speed {
			if s > 0 {
				asked[t] += k.count * k.size
			}
		}
	}
	x := make([][]float64, len(n.kinds))
	for i, k := range n.kinds {
		x[i] = make([]float64, len(n.capacity))
		for t, s := range k.speed {
			if s > 0 {
				x[i][t] = min(0.5/float64(len(n.capacity)), 0.5*n.capacity[t]/asked[t])
			}
		}
	}
	return x
}

// solve goes from one weight of the barrier to another, by Newton's method: the barrier
// keeps shares above zero, times below one, and types below what they have.
func (n *nash) solve(from [][]float64, first, last float64) ([][]float64, error) {
	x := make([][]float64, len(from))
	for k := range from {
		x[k] = slices.Clone(from[k])
	}
	for mu := first; ; mu = max(last, mu/5) {
		for step := 0; ; step++ {
			d, gain := n.newton(x, mu)
			if gain < 1e-6*mu || gain < 1e-14*math.Abs(n.worth(x, mu)) { // less than the arithmetic can tell
				break
			}
			if step == 100 {
				return nil, errors.New("the greatest product of throughputs was not found in 100 steps")
			}
			if !n.advance(x, d, gain, mu) {
				break // what is left is lost in the arithmetic
			}
		}
		if mu <= last {
			return x, nil
		}
	}
}

// left is what is left of each type.
func (n *nash) left(x [][]float64) []float64 {
	w := slices.Clone(n.capacity)
	for i, k := range n.kinds {
		for t := range w {
			w[t] -= k.count * k.size * x[i][t]
		}
	}
	return w
}

// worth is the sum of the logarithms of throughputs and of all that the barrier keeps
// above zero; -Inf outside.
func (n *nash) worth(x [][]float64, mu float64) (sum float64) {
	log := func(weight, v float64) {
		if v <= 0 {
			sum = math.Inf(-1)
		}
		sum += weight * math.Log(v)
	}
	for t, w := range n.left(x) {
		if n.capacity[t] > 0 {
			log(mu, w)
		}
	}
	for i, k := range n.kinds {
		if k.count == 0 {
			continue
		}
		time := 1.0
		for t, s := range k.speed {
			if s > 0 {
				log(mu*k.count, x[i][t])
				time -= x[i][t]
			}
		}
		log(mu*k.count, time)
		log(k.count, k.rate(x[i]))
	}
	return sum
}

// advance goes as far along a direction as it makes the allocation better.
func (n *nash) advance(x, d [][]float64, gain, mu float64) bool {
	before, try := n.worth(x, mu), make([][]float64, len(x))
	for step := 1.0; step > 1e-12; step /= 2 {
		for k := range x {
			try[k] = slices.Clone(x[k])
			for t := range try[k] {
				try[k][t] += step * d[k][t]
			}
		}
		if after := n.worth(try, mu); after >= before+0.1*step*gain {
			copy(x, try)
			return true
		}
	}
	return false
}

// newton is the direction of Newton's method, and what it would gain if the worth were
// linear. Kinds meet in the types alone, so that each has a small system of its own.
func (n *nash) newton(x [][]float64, mu float64) (d [][]float64, gain float64) {
	types := len(n.capacity)
	w := n.left(x)
	price, bend := make([]float64, types), make([]float64, types)
	for t := range w {
		if n.capacity[t] > 0 {
			price[t], bend[t] = mu/w[t], mu/(w[t]*w[t])
		}
	}
	// With z what all together take more of each type: (1 + join bend) z = right.
	join, right := square(types), make([]float64, types)
	free, inverse := make([][]float64, len(n.kinds)), make([][][]float64, len(n.kinds))
	slope := make([][]float64, len(n.kinds))
	for i := range n.kinds {
		k := &n.kinds[i]
		if k.count == 0 {
			slope[i], inverse[i], free[i] = make([]float64, types), square(types), make([]float64, types)
			continue
		}
		slope[i], inverse[i] = k.bend(x[i], price, mu)
		free[i] = times(inverse[i], slope[i])
		for t := range w {
			right[t] += k.count * k.size * free[i][t]
			for o := range w {
				join[t][o] += k.count * k.size * k.size * inverse[i][t][o] * bend[o]
			}
		}
	}
	for t := range w {
		join[t][t]++
	}
	z := times(invert(join), right)
	for t := range z {
		z[t] *= bend[t]
	}
	d = make([][]float64, len(n.kinds))
	for i, k := range n.kinds {
		back := times(inverse[i], z)
		d[i] = free[i]
		for t := range d[i] {
			d[i][t] -= k.size * back[t]
			gain += k.count * slope[i][t] * d[i][t]
		}
	}
	return d, gain
}

// bend is the slope of the worth of a job of a kind, and the inverse of its curvature.
func (k *peers) bend(x, price []float64, mu float64) (slope []float64, inverse [][]float64) {
	rate, time := k.rate(x), 1.0
	for t, s := range k.speed {
		if s > 0 {
			time -= x[t]
		}
	}
	slope, curve := make([]float64, len(x)), square(len(x))
	for t, s := range k.speed {
		if s == 0 {
			curve[t][t] = 1
			continue
		}
		slope[t] = s/rate + mu/x[t] - mu/time - k.size*price[t]
		for o, q := range k.speed {
			if q > 0 {
				curve[t][o] = s*q/(rate*rate) + mu/(time*time)
			}
		}
		curve[t][t] += mu / (x[t] * x[t])
	}
	inverse = invert(curve)
	for t, s := range k.speed {
		if s == 0 {
			inverse[t][t] = 0
		}
	}
	return slope, inverse
}

// square is a matrix of zeros.
func square(n int) [][]float64 {
	flat, m := make([]float64, n*n), make([][]float64, n)
	for i := range m {
		m[i] = flat[i*n : (i+1)*n : (i+1)*n]
	}
	return m
}

// times is the product of a matrix and a vector.
func times(m [][]float64, v []float64) []float64 {
	out := make([]float64, len(m))
	for i, row := range m {
		for k, a := range row {
			out[i] += a * v[k]
		}
	}
	return out
}

// invert is the inverse of a small matrix, by elimination with the largest pivot. It
// destroys the matrix.
func invert(m [][]float64) [][]float64 {
	out := square(len(m))
	for i := range out {
		out[i][i] = 1
	}
	for c := range m {
		best := c
		for r := c + 1; r < len(m); r++ {
			if math.Abs(m[r][c]) > math.Abs(m[best][c]) {
				best = r
			}
		}
		m[c], m[best], out[c], out[best] = m[best], m[c], out[best], out[c]
		pivot := m[c][c]
		for k := range m {
			m[c][k] /= pivot
			out[c][k] /= pivot
		}
		for r := range m {
			if f := m[r][c]; r != c && f != 0 {
				for k := range m {
					m[r][k] -= f * m[c][k]
					out[r][k] -= f * out[c][k]
				}
			}
		}
	}
	return out
}
