// Package ecos solves small programs, linear ones and those with second-order
// cones, as ECOS does, operation by operation. So it finds to the last digit
// what ECOS finds, among equal optima and for shares that should be zero.
// Policies of published simulators depend on both. It is no general solver: see
// package solve.
//
//	minimise c·x  subject to  Gx + s = h, s >= 0, or s in cones: s0 >= |s1, s2, …|
//
// Products are converted before they are added up, since a machine that does both at
// once rounds but once.
//
// Source: Domahidi, Chu, Boyd, "ECOS: An SOCP Solver for Embedded Systems", European
// Control Conference 2013; the figures are those of its version 2.
package ecos

import (
	"errors"
	"math"
)

// Row is a row of G: its coefficients by variable, in the order of the variables.
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
	leastPivot    = 1e-13
	pivot         = 2e-7 // in the place of one that is less
	static        = 7e-8 // added to the diagonal of the system
	jump          = 500  // by how much residuals may grow in a step
)

// ErrFailed tells that no optimum was found: there is none, or the arithmetic failed.
var ErrFailed = errors.New("the program has no optimum that could be found")

// ErrInaccurate comes with an answer: no better one could be found. cvxpy takes it, with a
// warning.
var ErrInaccurate = errors.New("the optimum was found with less accuracy than asked for")

// solver is a program, scaled, and its iterate.
type solver struct {
	n, m     int
	linear   int // rows that are in no cone: the first ones
	cones    []cone
	rows     []Row
	c, h     []float64
	colScale []float64
	kkt      *kkt
	point
	best   point
	length float64 // of the last step

	w2, w  []float64 // of linear rows: s over z, and its root
	x1, z1 []float64 // answer for the constant right-hand side
	x2, z2 []float64
	lambda []float64
	rx, rz []float64
	rt     float64
	bx, bz []float64
	b      []float64 // right-hand side as the system has it
	ds, dz []float64 // W⁻¹ ds, W dz
	part   []float64
}

// Solve finds x. The last rows are cones of so many rows each, two at least.
func Solve(c []float64, rows []Row, cones ...int) ([]float64, error) {
	p := newSolver(c, rows, cones)
	p.start()
	residuals := 0.0
	for iteration := 0; ; iteration++ {
		p.residuals()
		p.measure()
		if iteration > 0 && (p.primal > jump*residuals || p.gap < 0) {
			return p.settle()
		}
		residuals = p.primal
		switch p.judge(tolerance, tolerance) {
		case optimal:
			return p.answer(), nil
		case hopeless:
			return nil, ErrFailed
		}
		if iteration > 0 && p.stuck() {
			return p.settle()
		}
		if iteration == maxIterations || math.IsNaN(p.cx/p.tau) {
			if p.better(&p.best) {
				p.best.save(&p.point)
			}
			return p.settle()
		}
		if iteration == 0 || p.better(&p.best) {
			p.best.save(&p.point)
		}
		if !p.scalings() {
			return p.settle()
		}
		p.kkt.update()
		p.kkt.factor()
		p.step()
	}
}

// settle goes back to the best iterate, which may do.
func (p *solver) settle() ([]float64, error) {
	p.point.save(&p.best)
	if p.judge(lessThan, inaccurate) != optimal {
		return nil, ErrFailed
	}
	return p.answer(), ErrInaccurate
}

// answer is x in the units of the program.
func (p *solver) answer() []float64 {
	x := make([]float64, p.n)
	for i := range x {
		x[i] = p.x[i] / (p.colScale[i] * p.tau)
	}
	return x
}

func newSolver(c []float64, rows []Row, cones []int) *solver {
	p := &solver{n: len(c), m: len(rows), linear: len(rows), cones: newCones(cones, len(rows)), c: append([]float64(nil), c...)}
	if len(cones) > 0 {
		p.linear = p.cones[0].from
	}
	for _, r := range rows {
		p.rows = append(p.rows, Row{r.Index, append([]float64(nil), r.Value...), r.Limit})
		p.h = append(p.h, r.Limit)
	}
	p.tau, p.kappa, p.best.primal = 1, 1, math.Inf(1)
	for _, a := range []*[]float64{&p.x, &p.best.x, &p.x1, &p.x2, &p.rx, &p.bx} {
		*a = make([]float64, p.n)
	}
	for _, a := range []*[]float64{&p.s, &p.z, &p.best.s, &p.best.z, &p.w2, &p.w, &p.z1, &p.z2, &p.lambda, &p.rz, &p.bz, &p.ds, &p.dz, &p.part} {
		*a = make([]float64, p.m)
	}
	p.b = make([]float64, p.n+p.m+2*len(cones))
	p.scale()
	p.kkt = newKKT(p)
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
				p.rows[r].Value[k] = p.rows[r].Value[k] / row[r] / col[i]
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
		sum += float64(a[i] * b[i])
	}
	return sum
}

func norm(a []float64) float64 { return math.Sqrt(dot(a, a)) }

// times is G x.
func (p *solver) times(x, out []float64) {
	for r := range p.rows {
		row, sum := &p.rows[r], 0.0
		for k, i := range row.Index {
			sum += float64(row.Value[k] * x[i])
		}
		out[r] = sum
	}
}

// less takes G' z away.
func (p *solver) less(z, out []float64) {
	for r := range p.rows {
		row, v := &p.rows[r], z[r]
		for k, i := range row.Index {
			out[i] -= float64(row.Value[k] * v)
		}
	}
}
