package ecos

import "math"

// factor prepares solve for the scaling at hand.
func (p *solver) factor() bool {
	n, a := p.n, p.chol
	clear(a)
	for k := range p.cones {
		p.cones[k].gather(p.rows, n, a)
	}
	for r := range p.rows[:p.linear] {
		row := &p.rows[r]
		for k, i := range row.Index {
			f := row.Value[k] / p.w2[r]
			for l, j := range row.Index[:k+1] {
				if hi, lo := max(i, j), min(i, j); true {
					a[hi*n+lo] += f * row.Value[l]
				}
			}
		}
	}
	for i := range n {
		for j := range i + 1 {
			ri, rj := a[i*n:i*n+j], a[j*n:j*n+j]
			sum := a[i*n+j]
			for k, v := range ri {
				sum -= v * rj[k]
			}
			if i == j {
				if sum != sum || math.IsInf(sum, 0) {
					return false
				}
				// What is lost in the arithmetic is made up for by refinement.
				a[i*n+i] = math.Sqrt(max(sum, leastPivot*a[i*n+i], leastPivot))
			} else {
				a[i*n+j] = sum / a[j*n+j]
			}
		}
	}
	return true
}

// solve solves G'z = bx, Gx - W² z = bz, and refines the answer as long as that pays.
func (p *solver) solve(bx, bz, x, z []float64) {
	clear(x)
	clear(z)
	ex, ez := append([]float64(nil), bx...), append([]float64(nil), bz...)
	enough := (1 + max(largest(bx), largest(bz))) * accuracy
	before := math.Inf(1)
	dx, dz := make([]float64, p.n), make([]float64, p.m)
	for pass := range refinements + 2 {
		off := max(largest(ex), largest(ez))
		if pass > 1 && off > before { // the last one made it worse
			for i := range x {
				x[i] -= dx[i]
			}
			for r := range z {
				z[r] -= dz[r]
			}
			return
		}
		if pass > 0 && (pass > refinements || off < enough || pass > 1 && before < refined*off) {
			return
		}
		before = off
		p.once(ex, ez, dx, dz)
		for i := range x {
			x[i] += dx[i]
		}
		for r := range z {
			z[r] += dz[r]
		}
		copy(ex, bx)
		p.turned(z, ex, -1)
		copy(ez, bz)
		p.times(x, ez, -1)
		for r := range p.linear {
			ez[r] += p.w2[r] * z[r]
		}
		for i := range p.cones {
			k := &p.cones[i]
			k.times(z, p.extraZ)
			k.times(p.extraZ, p.extraZ)
			for r := k.from; r < k.to; r++ {
				ez[r] += p.extraZ[r]
			}
		}
	}
}

// once solves without refinement: (G' W⁻² G) x = bx + G' W⁻² bz, z = W⁻² (Gx - bz).
func (p *solver) once(bx, bz, x, z []float64) {
	copy(x, bx)
	copy(z, bz)
	p.overTwice(z)
	p.turned(z, x, 1)
	p.back(x)
	for r := range z {
		z[r] = -bz[r]
	}
	p.times(x, z, 1)
	p.overTwice(z)
}

// overTwice is W⁻² z, in place.
func (p *solver) overTwice(z []float64) {
	for r := range p.linear {
		z[r] /= p.w2[r]
	}
	for i := range p.cones {
		p.cones[i].over(z, z)
		p.cones[i].over(z, z)
	}
}

// weigh is W z.
func (p *solver) weigh(z, out []float64) {
	for r := range p.linear {
		out[r] = math.Sqrt(p.w2[r]) * z[r]
	}
	for i := range p.cones {
		p.cones[i].times(z, out)
	}
}

func largest(a []float64) float64 {
	most := 0.0
	for _, v := range a {
		most = max(most, math.Abs(v))
	}
	return most
}

// back solves with the factor in place.
func (p *solver) back(x []float64) {
	n, a := p.n, p.chol
	for i := range n {
		sum := x[i]
		for k, v := range a[i*n : i*n+i] {
			sum -= v * x[k]
		}
		x[i] = sum / a[i*n+i]
	}
	for i := n - 1; i >= 0; i-- {
		x[i] /= a[i*n+i]
		for k, v := range a[i*n : i*n+i] {
			x[k] -= v * x[i]
		}
	}
}
