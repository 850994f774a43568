package ecos

import "math"

// point is an iterate, and how good it is.
type point struct {
	x, s, z    []float64
	tau, kappa float64
	cx, hz     float64 // what it costs, and the bound that z gives, minus, both times tau

	gap, relative, mu      float64
	primal, dual           float64 // residuals
	unbounded, unreachable float64 // how far it is from the proof that it is so; NaN where that is not in sight
}

// save copies an iterate.
func (a *point) save(b *point) {
	x, s, z := a.x, a.s, a.z
	copy(x, b.x)
	copy(s, b.s)
	copy(z, b.z)
	*a = *b
	a.x, a.s, a.z = x, s, z
}

// better tells whether an iterate is worth more than another one.
func (a *point) better(b *point) bool {
	less := func(u, v float64) bool { return u > 0 && u < v }
	if !(b.gap > 0 && less(a.gap, b.gap) && b.mu > 0 && less(a.mu, b.mu)) {
		return false
	}
	if a.kappa/a.tau > 1 {
		return less(a.unreachable, b.primal)
	}
	return less(a.primal, b.primal) && less(a.dual, b.dual) && less(a.kappa/a.tau, b.kappa/b.tau)
}

// residuals finds what is missing, and how far from a proof that there is no optimum
// the iterate is.
func (p *solver) residuals() {
	p.cx, p.hz = dot(p.c, p.x), dot(p.h, p.z)
	clear(p.rx)
	p.less(p.z, p.rx)
	p.times(p.x, p.rz)
	for r := range p.rz {
		p.rz[r] += p.s[r]
	}
	nx, nz, ns := norm(p.x), norm(p.z), norm(p.s)
	p.unreachable, p.unbounded = math.NaN(), math.NaN()
	if p.hz/max(nz, 1) < -tolerance {
		p.unreachable = norm(p.rx) / max(nz, 1)
	}
	if p.cx/max(nx, 1) < -tolerance {
		p.unbounded = norm(p.rz) / max(nx+ns, 1)
	}
	for i := range p.rx {
		p.rx[i] -= float64(p.tau * p.c[i])
	}
	for r := range p.rz {
		p.rz[r] -= float64(p.tau * p.h[r])
	}
	p.rt = p.kappa + p.cx + p.hz
	p.primal = norm(p.rz) / max(max(1, norm(p.h))+nx+ns, 1) / p.tau
	p.dual = norm(p.rx) / max(max(1, norm(p.c))+nz, 1) / p.tau
}

// measure finds how far the iterate is from an optimum.
func (p *solver) measure() {
	p.gap = dot(p.s, p.z)
	p.mu = (p.gap + float64(p.kappa*p.tau)) / float64(p.linear+len(p.cones)+1)
	p.relative = math.NaN()
	if cost, bound := p.cx/p.tau, -p.hz/p.tau; cost < 0 {
		p.relative = p.gap / -cost
	} else if bound > 0 {
		p.relative = p.gap / bound
	}
}

// stuck tells whether the last step was the least there is.
func (p *solver) stuck() bool {
	least := float64(leastStep)
	least *= gamma // as it is rounded, not the constant
	return p.length == least
}

type verdict int

const (
	open verdict = iota
	optimal
	hopeless // there is no optimum
)

// judge tells whether the iterate is near enough to an optimum, or to a proof that
// there is none.
func (p *solver) judge(feasible, near float64) verdict {
	switch {
	case (-p.cx > 0 || -p.hz >= -near) && p.primal < feasible && p.dual < feasible && (p.gap < near || p.relative < near):
		return optimal
	case p.unbounded < feasible && p.tau < p.kappa,
		p.unreachable < feasible && p.tau < p.kappa,
		p.tau < tolerance && p.kappa < tolerance && p.unreachable < tolerance:
		return hopeless
	}
	return open
}
