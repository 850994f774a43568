package gavel

// WaterFilling is MaxMin over and over: those whose share cannot grow stay where
// they are, and the others go on growing, until nobody can.
func WaterFilling(p *Problem) (Allocation, error) {
	return p.fill(func(done []bool) []float64 {
		w := make([]float64, len(p.Jobs))
		for m := range w {
			if !done[m] {
				w[m] = p.Jobs[m].Weight
			}
		}
		return w
	})
}

// Hierarchical is water filling in which jobs grow as fast as the weight of their
// entity says: divided among all of its jobs that still grow, or that of the first
// of them alone.
func Hierarchical(p *Problem) (Allocation, error) {
	return p.fill(func(done []bool) []float64 {
		w := make([]float64, len(p.Jobs))
		sum := make([]float64, len(p.Entities))
		for m := range p.Jobs {
			if j := &p.Jobs[m]; !done[m] {
				if p.Entities[j.Entity].FIFO && sum[j.Entity] > 0 {
					continue
				}
				sum[j.Entity] += j.Weight
				w[m] = j.Weight
			}
		}
		for m := range p.Jobs {
			if e := p.Jobs[m].Entity; w[m] > 0 {
				w[m] *= p.Entities[e].Weight / sum[e]
			}
		}
		return w
	})
}

// fill raises the levels of all jobs in proportion to the weights of those that are
// not done: a job with the weight 0 waits for others. The level of a job is its
// throughput relative to its proportional share.
//
// In the middle of all optima a job that is held back has a price, and one that is
// not has more than it needs; both are never zero. So each round tells who is done.
func (p *Problem) fill(weights func(done []bool) []float64) (Allocation, error) {
	n := len(p.Jobs)
	done, levels := make([]bool, n), make([]float64, n)
	var a Allocation
	left := 0
	for m := range p.Jobs {
		if done[m] = p.fastest(&p.Jobs[m]) == 0; !done[m] {
			left++
		}
	}
	a = p.nothing()
	for left > 0 {
		w := weights(done)
		out, err := p.rise(w, levels)
		if err != nil {
			if left == n {
				return nil, err
			}
			return a, nil // what is left to gain is lost in the arithmetic
		}
		a = out.Allocation
		left -= p.settle(out, w, done, levels)
	}
	return p.few(a), nil
}

// rise finds how far the levels can rise together, from a hair below what was
// reached, so that there is room to compute in.
func (p *Problem) rise(w, levels []float64) (out *outcome, err error) {
	for _, hair := range []float64{1e-9, 1e-8, 1e-7, 1e-6, 1e-5} {
		out, err = p.program(1, nil, func(m int) goal {
			j := &p.Jobs[m]
			g := goal{rate: 1 / p.Equal(j), floor: levels[m] * (1 - hair)}
			if w[m] > 0 {
				g.step = w[m] / j.Size
			}
			return g
		})
		if err == nil {
			return out, nil
		}
	}
	return nil, err
}

// settle raises the levels of those that grew and finds who is done; at least one
// is.
func (p *Problem) settle(out *outcome, w []float64, done []bool, levels []float64) int {
	most, who := -1.0, -1
	scale := 0.0 // of levels, to compare slacks by
	rates := p.Throughputs(out.Allocation)
	for m := range p.Jobs {
		if w[m] > 0 {
			j := &p.Jobs[m]
			levels[m] = min(levels[m]+out.level*w[m]/j.Size, rates[m]/p.Equal(j))
			scale = max(scale, levels[m])
			if price := out.prices[m] * w[m] / p.Jobs[m].Size; price > most {
				most, who = price, m
			}
		}
	}
	n := 0
	for m := range p.Jobs {
		price, slack := out.prices[m]*w[m]/p.Jobs[m].Size, out.slacks[m]/scale
		if w[m] > 0 && (m == who || price > slack) {
			done[m] = true
			n++
		}
	}
	return n
}
