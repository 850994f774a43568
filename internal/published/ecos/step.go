package ecos

import "math"

// start finds the first iterate: x with the least residual, z with the least norm,
// brought into the cone.
func (p *solver) start() {
	p.kkt.factor()
	p.kkt.spread(p.bx, p.h, p.b)
	p.kkt.solve(p.b, p.x, p.z, true)
	for i := range p.z {
		p.s[i] = -p.z[i]
	}
	p.inside(p.s)
	for i := range p.bx {
		p.bx[i] = -p.c[i]
	}
	p.kkt.spread(p.bx, p.bz, p.b)
	p.kkt.solve(p.b, p.x2, p.z, true)
	p.inside(p.z)
}

// inside adds as much to slacks as brings all of them above zero, or into their cones.
func (p *solver) inside(r []float64) {
	alpha := -gamma
	within := func(v float64) {
		if v <= 0 && -v > alpha {
			alpha = -v
		}
	}
	for _, v := range r[:p.linear] {
		within(v)
	}
	for _, k := range p.cones {
		within(r[k.from] - norm(r[k.from+1:k.to]))
	}
	alpha += 1
	for i := range r[:p.linear] {
		r[i] += alpha
	}
	for _, k := range p.cones {
		r[k.from] += alpha
	}
}

// scalings finds W, and lambda, which is Wz. It fails when an iterate left its cone.
func (p *solver) scalings() bool {
	for r := range p.linear {
		p.w2[r] = over(p.s[r], p.z[r])
		p.w[r] = math.Sqrt(p.w2[r])
	}
	for i := range p.cones {
		if !p.cones[i].scaling(p.s, p.z) {
			return false
		}
	}
	p.weigh(p.z, p.lambda)
	return true
}

// weigh is W z.
func (p *solver) weigh(z, out []float64) {
	for r, w := range p.w[:p.linear] {
		out[r] = w * z[r]
	}
	for i := range p.cones {
		p.cones[i].times(z, out)
	}
}

// correct is lambda \ (lambda∘lambda + ds∘dz - sigma mu e).
func (p *solver) correct(smu float64) {
	for r := range p.linear {
		both := float64(p.lambda[r]*p.lambda[r]) + (float64(p.ds[r]*p.dz[r]) - smu)
		p.part[r] = over(both, p.lambda[r])
	}
	for i := range p.cones {
		k := &p.cones[i]
		k.product(p.lambda, p.lambda, p.part)
		k.product(p.ds, p.dz, p.bz)
		p.bz[k.from] -= smu
		for r := k.from; r < k.to; r++ {
			p.part[r] += p.bz[r]
		}
		k.divide(p.lambda, p.part, p.part)
	}
}

// step goes on to the next iterate.
func (p *solver) step() {
	for i := range p.bx {
		p.bx[i] = -p.c[i]
	}
	p.kkt.spread(p.bx, p.h, p.b)
	p.kkt.solve(p.b, p.x1, p.z1, false)
	below := p.kappa/p.tau - dot(p.c, p.x1) - dot(p.h, p.z1)
	// where the border would be met without centring
	for r := range p.bz {
		p.bz[r] = p.s[r] - p.rz[r]
	}
	p.kkt.spread(p.rx, p.bz, p.b)
	p.kkt.solve(p.b, p.x2, p.z2, false)
	dtau := (p.rt - p.kappa + dot(p.c, p.x2) + dot(p.h, p.z2)) / below
	for r := range p.z2 {
		p.z2[r] += float64(dtau * p.z1[r])
	}
	p.weigh(p.z2, p.dz)
	for r := range p.ds {
		p.ds[r] = -p.dz[r] - p.lambda[r]
	}
	dkappa := -p.kappa - float64(p.kappa/p.tau*dtau)
	far := 1 - p.reach(dtau, dkappa)
	sigma := min(1, max(leastCentring, far*far*far))
	// the step
	p.correct(float64(sigma * p.mu))
	p.weigh(p.part, p.bz)
	for r := range p.bz {
		p.bz[r] += float64(-(1 - sigma) * p.rz[r])
	}
	for i := range p.bx {
		p.bx[i] = p.rx[i] * (1 - sigma)
	}
	p.kkt.spread(p.bx, p.bz, p.b)
	p.kkt.solve(p.b, p.x2, p.z2, false)
	bkappa := float64(p.kappa*p.tau) + float64(dkappa*dtau) - float64(sigma*p.mu)
	dtau = (float64((1-sigma)*p.rt) - bkappa/p.tau + dot(p.c, p.x2) + dot(p.h, p.z2)) / below
	for i := range p.x2 {
		p.x2[i] += float64(dtau * p.x1[i])
	}
	for r := range p.z2 {
		p.z2[r] += float64(dtau * p.z1[r])
	}
	p.weigh(p.z2, p.dz)
	for r := range p.ds {
		p.ds[r] = -(p.part[r] + p.dz[r])
	}
	dkappa = -(bkappa + float64(p.kappa*dtau)) / p.tau
	p.length = p.reach(dtau, dkappa) * gamma
	p.weigh(p.ds, p.bz)
	p.move(dtau, dkappa)
}

// move goes along what step found; bz is the direction of the slacks.
func (p *solver) move(dtau, dkappa float64) {
	for i := range p.x {
		p.x[i] += float64(p.length * p.x2[i])
	}
	for r := range p.z {
		p.z[r] += float64(p.length * p.z2[r])
		p.s[r] += float64(p.length * p.bz[r])
	}
	p.kappa += float64(p.length * dkappa)
	p.tau += float64(p.length * dtau)
}

// reach is how far one can go.
func (p *solver) reach(dtau, dkappa float64) float64 {
	least := math.Inf(1)
	for r, l := range p.lambda[:p.linear] {
		if v := p.ds[r] / l; v < least {
			least = v
		}
		if v := p.dz[r] / l; v < least {
			least = v
		}
	}
	alpha := 1 / leastPivot
	if least < 0 {
		alpha = 1 / -least
	}
	if t := -p.tau / dtau; t > 0 && t < alpha {
		alpha = t
	}
	if k := -p.kappa / dkappa; k > 0 && k < alpha {
		alpha = k
	}
	for i := range p.cones {
		far := max(0, p.cones[i].reach(p.lambda, p.ds), p.cones[i].reach(p.lambda, p.dz))
		if far != 0 && 1/far < alpha {
			alpha = 1 / far
		}
	}
	return min(max(alpha, leastStep), mostStep)
}
