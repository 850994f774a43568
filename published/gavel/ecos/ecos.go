// Package ecos solves small programs, linear ones and such with second-order cones, step
// by step as ECOS does, so that what is found among equal optima, and what is left of
// shares that should be zero, is what ECOS finds, as far as rounding allows. Policies of
// published simulators depend on both. It is no general solver: see package solve.
//
//	minimise c·x  subject to  Gx + s = h, s >= 0, or s in cones: s0 >= |s1, s2, …|
//
// Source: Domahidi, Chu, Boyd, "ECOS: An SOCP Solver for Embedded Systems", European
// Control Conference 2013; the figures are those of its version 2.
package ecos

import (
	"errors"
	"math"
)

// Row is a row of G: its coefficients by variable.
type Row struct {
	Index []int
	Value []float64
	Limit float64 // h
}

// The figures of ECOS and of its interface in cvxpy.
const (
	maxIterations = 100
	tolerance     = 1e-8
	lessThan      = 1e-4 // residuals of an answer that is inaccurate
	inaccurate    = 5e-5 // and how far from an optimum it is
	gamma         = 0.99
	leastStep     = 1e-6
	mostStep      = 0.999
	leastCentring = 1e-4
	equilibrate   = 3 // times
	refinements   = 9
	refined       = 6 // by how much one must make the error smaller
	accuracy      = 1e-14
	leastPivot    = 1e-14 // relative
)

// ErrFailed tells that no optimum was found: there is none, or the arithmetic failed.
var ErrFailed = errors.New("the program has no optimum that could be found")

// solver is a program, scaled, and its iterate.
type solver struct {
	n, m       int
	linear     int // rows that are in no cone: the first ones
	cones      []cone
	rows       []Row
	c, h       []float64
	colScale   []float64
	x, s, z    []float64
	tau, kappa float64

	w2         []float64 // s over z
	chol       []float64 // of G' (1/w2) G
	x1, z1     []float64 // answer for the constant right-hand side
	x2, z2     []float64
	lambda     []float64
	rx, rz     []float64
	rt         float64
	tmp, extra []float64
	extraZ     []float64
}

// Solve finds x. The last rows are cones of so many rows each, two at least.
func Solve(c []float64, rows []Row, cones ...int) ([]float64, error) {
	p := newSolver(c, rows, cones)
	if !p.start() {
		return nil, ErrFailed
	}
	for range maxIterations {
		p.residuals()
		if p.done(tolerance, tolerance) {
			return p.answer(), nil
		}
		if p.tau < tolerance*p.kappa || p.tau != p.tau || !p.step() {
			break
		}
	}
	if p.residuals(); p.done(lessThan, inaccurate) { // cvxpy takes it with a warning
		return p.answer(), nil
	}
	return nil, ErrFailed
}

// answer is x in the units of the program.
func (p *solver) answer() []float64 {
	x := make([]float64, p.n)
	for i := range x {
		x[i] = p.x[i] / p.tau / p.colScale[i]
	}
	return x
}

func newSolver(c []float64, rows []Row, cones []int) *solver {
	p := &solver{n: len(c), m: len(rows), linear: len(rows), cones: newCones(cones, len(rows)), c: append([]float64(nil), c...), tau: 1, kappa: 1}
	if len(cones) > 0 {
		p.linear = p.cones[0].from
	}
	for _, r := range rows {
		p.rows = append(p.rows, Row{r.Index, append([]float64(nil), r.Value...), r.Limit})
		p.h = append(p.h, r.Limit)
	}
	for _, a := range []*[]float64{&p.x, &p.x1, &p.x2, &p.rx} {
		*a = make([]float64, p.n)
	}
	for _, a := range []*[]float64{&p.s, &p.z, &p.w2, &p.z1, &p.z2, &p.lambda, &p.rz, &p.tmp, &p.extra, &p.extraZ} {
		*a = make([]float64, p.m)
	}
	p.chol = make([]float64, p.n*p.n)
	p.scale()
	return p
}

// scale brings the largest coefficient of each row and column near one. The rows of a
// cone go by the sum of theirs.
func (p *solver) scale() {
	p.colScale = make([]float64, p.n)
	for i := range p.colScale {
		p.colScale[i] = 1
	}
	rowScale := make([]float64, p.m)
	for i := range rowScale {
		rowScale[i] = 1
	}
	for range equilibrate {
		col, row := make([]float64, p.n), make([]float64, p.m)
		for r := range p.rows {
			for k, i := range p.rows[r].Index {
				v := math.Abs(p.rows[r].Value[k])
				col[i], row[r] = max(col[i], v), max(row[r], v)
			}
		}
		for i := range p.cones {
			part, sum := row[p.cones[i].from:p.cones[i].to], 0.0
			for _, v := range part {
				sum += v
			}
			for r := range part {
				part[r] = sum
			}
		}
		root := func(a []float64) {
			for i, v := range a {
				if a[i] = 1; math.Abs(v) >= 1e-6 {
					a[i] = math.Sqrt(v)
				}
			}
		}
		root(col)
		root(row)
		for r := range p.rows {
			for k, i := range p.rows[r].Index {
				p.rows[r].Value[k] /= row[r] * col[i]
			}
			rowScale[r] *= row[r]
		}
		for i := range col {
			p.colScale[i] *= col[i]
		}
	}
	for r := range p.h {
		p.h[r] /= rowScale[r]
	}
	for i := range p.c {
		p.c[i] /= p.colScale[i]
	}
}

func dot(a, b []float64) float64 {
	sum := 0.0
	for i := range a {
		sum += a[i] * b[i]
	}
	return sum
}

func norm(a []float64) float64 { return math.Sqrt(dot(a, a)) }

// times is out += sign G x, turned out += sign G' z.
func (p *solver) times(x, out []float64, sign float64) {
	for r := range p.rows {
		for k, i := range p.rows[r].Index {
			out[r] += sign * p.rows[r].Value[k] * x[i]
		}
	}
}

func (p *solver) turned(z, out []float64, sign float64) {
	for r := range p.rows {
		for k, i := range p.rows[r].Index {
			out[i] += sign * p.rows[r].Value[k] * z[r]
		}
	}
}

// start finds the first iterate: x with the least residual, z with the least norm,
// brought into the cone.
func (p *solver) start() bool {
	for i := range p.w2 {
		p.w2[i] = 1
	}
	if !p.factor() {
		return false
	}
	zero := make([]float64, p.n)
	p.solve(zero, p.h, p.x, p.z)
	for i := range p.z {
		p.s[i] = -p.z[i]
	}
	p.inside(p.s)
	minus := make([]float64, p.n)
	for i := range minus {
		minus[i] = -p.c[i]
	}
	p.solve(minus, make([]float64, p.m), p.x2, p.z)
	p.inside(p.z)
	return true
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
	for i := range r[:p.linear] {
		r[i] += 1 + alpha
	}
	for _, k := range p.cones {
		r[k.from] += 1 + alpha
	}
}

// residuals finds what is missing.
func (p *solver) residuals() {
	for i := range p.rx {
		p.rx[i] = -p.c[i] * p.tau
	}
	p.turned(p.z, p.rx, -1)
	for r := range p.rz {
		p.rz[r] = p.s[r] - p.h[r]*p.tau
	}
	p.times(p.x, p.rz, 1)
	p.rt = p.kappa + dot(p.c, p.x) + dot(p.h, p.z)
}

// done tells whether the iterate is near enough to an optimum.
func (p *solver) done(feasible, near float64) bool {
	cx, hz, gap := dot(p.c, p.x), dot(p.h, p.z), dot(p.s, p.z)
	primal := norm(p.rz) / max(max(1, norm(p.h))+norm(p.x)+norm(p.s), 1) / p.tau
	dual := norm(p.rx) / max(max(1, norm(p.c))+norm(p.z), 1) / p.tau
	relative := math.Inf(1)
	if cx < 0 {
		relative = gap / (-cx / p.tau)
	} else if -hz > 0 {
		relative = gap / (-hz / p.tau)
	}
	return (-cx > 0 || -hz >= -near) && primal < feasible && dual < feasible && (gap < near || relative < near)
}

// scalings finds W, and lambda, which is Wz. It fails when an iterate left its cone.
func (p *solver) scalings() bool {
	for i := range p.linear {
		p.w2[i] = p.s[i] / p.z[i]
		p.lambda[i] = math.Sqrt(p.s[i] * p.z[i])
	}
	for i := range p.cones {
		k := &p.cones[i]
		if !k.scaling(p.s, p.z) {
			return false
		}
		k.times(p.z, p.lambda)
	}
	return true
}

// correction is lambda \ (lambda∘lambda + ds∘dz - sigma mu e).
func (p *solver) correction(ds, dz []float64, smu float64) []float64 {
	part := make([]float64, p.m)
	for r := range p.linear {
		part[r] = (p.lambda[r]*p.lambda[r] + ds[r]*dz[r] - smu) / p.lambda[r]
	}
	square := make([]float64, p.m)
	for i := range p.cones {
		k := &p.cones[i]
		k.product(ds, dz, part)
		k.product(p.lambda, p.lambda, square)
		for r := k.from; r < k.to; r++ {
			part[r] += square[r]
		}
		part[k.from] -= smu
		k.divide(p.lambda, part, part)
	}
	return part
}

// step goes on to the next iterate.
func (p *solver) step() bool {
	mu := (dot(p.s, p.z) + p.kappa*p.tau) / float64(p.linear+len(p.cones)+1)
	if !p.scalings() || !p.factor() {
		return false
	}
	bx, bz := make([]float64, p.n), make([]float64, p.m)
	for i := range bx {
		bx[i] = -p.c[i]
	}
	p.solve(bx, p.h, p.x1, p.z1)
	below := p.kappa/p.tau - dot(p.c, p.x1) - dot(p.h, p.z1)
	// where the border would be met without centring
	for r := range bz {
		bz[r] = p.s[r] - p.rz[r]
	}
	p.solve(p.rx, bz, p.x2, p.z2)
	dtau := (p.rt - p.kappa + dot(p.c, p.x2) + dot(p.h, p.z2)) / below
	ds, wdz := p.tmp, p.extra // W⁻¹ ds, W dz
	for r := range wdz {
		p.z2[r] += dtau * p.z1[r]
	}
	p.weigh(p.z2, wdz)
	for r := range wdz {
		ds[r] = -wdz[r] - p.lambda[r]
	}
	dkappa := -p.kappa - p.kappa/p.tau*dtau
	far := p.reach(ds, wdz, dtau, dkappa)
	sigma := min(1, max(leastCentring, (1-far)*(1-far)*(1-far)))
	// the step
	part := p.correction(ds, wdz, sigma*mu)
	p.weigh(part, bz)
	for r := range bz {
		bz[r] += -(1 - sigma) * p.rz[r]
	}
	for i := range bx {
		bx[i] = (1 - sigma) * p.rx[i]
	}
	bkappa := p.kappa*p.tau + dkappa*dtau - sigma*mu
	p.solve(bx, bz, p.x2, p.z2)
	dtau = ((1-sigma)*p.rt - bkappa/p.tau + dot(p.c, p.x2) + dot(p.h, p.z2)) / below
	for r := range wdz {
		p.z2[r] += dtau * p.z1[r]
	}
	p.weigh(p.z2, wdz)
	for r := range wdz {
		ds[r] = -(part[r] + wdz[r])
	}
	dkappa = -(bkappa + p.kappa*dtau) / p.tau
	length := gamma * p.reach(ds, wdz, dtau, dkappa)
	p.weigh(ds, bz)
	p.move(length, bz, dtau, dkappa)
	return true
}

// move goes so far along what step found; ds is the direction of the slacks.
func (p *solver) move(length float64, ds []float64, dtau, dkappa float64) {
	for i := range p.x {
		p.x[i] += length * (p.x2[i] + dtau*p.x1[i])
	}
	for r := range p.z {
		p.z[r] += length * p.z2[r]
		p.s[r] += length * ds[r]
	}
	p.kappa += length * dkappa
	p.tau += length * dtau
}

// reach is how far one can go.
func (p *solver) reach(ds, dz []float64, dtau, dkappa float64) float64 {
	least := math.Inf(1)
	for i, l := range p.lambda[:p.linear] {
		least = min(least, ds[i]/l, dz[i]/l)
	}
	alpha := 1e13
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
		if far := max(p.cones[i].reach(p.lambda, ds), p.cones[i].reach(p.lambda, dz)); far > 0 {
			alpha = min(alpha, 1/far)
		}
	}
	return min(max(alpha, leastStep), mostStep)
}
