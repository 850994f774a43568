package pairs

import (
	"math"
)

// method is the iterates of a solve, scaled: variables and rows by what their blocks
// can reach, the objective by its largest term.
//
// Row 2k is the cap of block k, row 2k+1 its goal (negated, so that every row is an
// upper limit), then come the joint rows. The last column is t, apart from the others:
// it takes part in every goal.
type method struct {
	p    *Program
	rows int
	cols []column
	of   []int // by block: its first column

	b     []float64 // by row
	cost  []float64 // by column, to be minimised; the last is that of t
	rise  []float64 // by block: the coefficient of t in its goal
	unit  []float64 // by block: of its goal
	scale float64   // of the objective
	tUnit float64
	hasT  bool

	x, z   []float64 // by column, t last: values, reduced costs
	s, y   []float64 // by row: what is left, prices
	keptX  []float64
	keptZ  []float64
	keptS  []float64
	keptY  []float64
	rp, rd []float64 // what is missing
	rx, rs []float64 // of x times z, of s times y
	dx, dz []float64
	ds, dy []float64
	mu     float64
	off    float64 // how far from an optimum

	f       *factor
	twice   *twiceFactor // in place of f, once that has lost digits
	right   []float64
	alongT  []twice // the inverse times the column of t
	change  []twice // of prices
	pivotT  float64
	scratch []float64
}

// column is a variable: its coefficients by row, no more than five.
type column struct {
	n    int
	row  [5]int32
	a    [5]float64
	unit float64 // of the variable
}

func (c *column) add(row int, a float64) {
	if a == 0 {
		return
	}
	for i := range c.n {
		if c.row[i] == int32(row) {
			c.a[i] += a
			return
		}
	}
	c.row[c.n], c.a[c.n] = int32(row), a
	c.n++
}

func newMethod(p *Program) *method {
	m := &method{p: p, rows: 2*len(p.Blocks) + len(p.Limits), hasT: p.Level > 0, tUnit: 1}
	m.units()
	m.columns()
	for _, a := range []*[]float64{&m.x, &m.z, &m.keptX, &m.keptZ, &m.rd, &m.rx, &m.dx, &m.dz} {
		*a = make([]float64, len(m.cols)+1)
	}
	for _, a := range []*[]float64{&m.s, &m.y, &m.keptS, &m.keptY, &m.rp, &m.rs, &m.ds, &m.dy, &m.right, &m.scratch} {
		*a = make([]float64, m.rows)
	}
	m.alongT, m.change = make([]twice, m.rows), make([]twice, m.rows)
	for i := range m.x {
		m.x[i], m.z[i] = 0.1, 1
	}
	if !m.hasT {
		m.x[len(m.cols)] = 0
	}
	for r := range m.s {
		m.s[r], m.y[r] = 1, 1
		if r < 2*len(p.Blocks) && r%2 == 1 && !p.Blocks[r/2].Goal {
			m.y[r] = 0
		}
	}
	m.f = newFactor(m)
	return m
}

// live tells whether a row takes part: a block may have no goal.
func (m *method) live(r int) bool {
	return r >= 2*len(m.p.Blocks) || r%2 == 0 || m.p.Blocks[r/2].Goal
}

// units finds the units of goals and of t.
func (m *method) units() {
	p := m.p
	m.unit, m.rise = make([]float64, len(p.Blocks)), make([]float64, len(p.Blocks))
	most := make([]float64, len(p.Blocks))
	for k := range p.Blocks {
		for _, v := range p.Blocks[k].Vars {
			most[k] = max(most[k], math.Abs(v.Rate)*p.Blocks[k].Cap)
		}
	}
	reach := 0.0
	for k := range p.Blocks {
		b := &p.Blocks[k]
		if m.unit[k] = max(most[k], math.Abs(b.Floor)); m.unit[k] == 0 {
			m.unit[k] = 1
		}
		if b.Goal && b.Step > 0 && most[k] > 0 {
			if r := most[k] / b.Step; reach == 0 || r < reach {
				reach = r
			}
		}
	}
	if reach > 0 {
		m.tUnit = reach
	}
}

// columns writes all columns, right-hand sides and costs.
func (m *method) columns() {
	p := m.p
	m.b = make([]float64, m.rows)
	for k := range p.Blocks {
		b := &p.Blocks[k]
		m.of = append(m.of, len(m.cols))
		m.b[2*k] = 1
		if b.Goal {
			m.b[2*k+1] = -b.Floor / m.unit[k]
			m.rise[k] = b.Step * m.tUnit / m.unit[k]
		}
		for _, v := range b.Vars {
			c := column{unit: b.Cap}
			c.add(2*k, 1)
			m.serve(&c, k, v.Rate)
			c.add(2*len(p.Blocks)+v.Row, v.Use*c.unit/p.Limits[v.Row])
			m.cols = append(m.cols, c)
			m.cost = append(m.cost, -v.Gain*c.unit)
		}
	}
	for i := range p.Pairs {
		v := &p.Pairs[i]
		c := column{unit: min(p.Blocks[v.A].Cap, p.Blocks[v.B].Cap)}
		for _, side := range []struct {
			k    int
			rate float64
		}{{v.A, v.RateA}, {v.B, v.RateB}} {
			c.add(2*side.k, c.unit/p.Blocks[side.k].Cap)
			m.serve(&c, side.k, side.rate)
		}
		c.add(2*len(p.Blocks)+v.Row, v.Use*c.unit/p.Limits[v.Row])
		m.cols = append(m.cols, c)
		m.cost = append(m.cost, -v.Gain*c.unit)
	}
	for k := range p.Limits {
		m.b[2*len(p.Blocks)+k] = 1
	}
	m.cost = append(m.cost, -p.Level*m.tUnit)
	for _, c := range m.cost {
		m.scale = max(m.scale, math.Abs(c))
	}
	if m.scale == 0 {
		m.scale = 1
	}
	for i := range m.cost {
		m.cost[i] /= m.scale
	}
}

// serve writes what a column does for the goal of a block.
func (m *method) serve(c *column, k int, rate float64) {
	if m.p.Blocks[k].Goal {
		c.add(2*k+1, -rate*c.unit/m.unit[k])
	}
}

// times adds A·x to out, which has a place for each row.
func (m *method) times(x, out []float64) {
	for i := range m.cols {
		c := &m.cols[i]
		for k := range c.n {
			out[c.row[k]] += c.a[k] * x[i]
		}
	}
	if t := x[len(m.cols)]; t != 0 {
		for k, s := range m.rise {
			out[2*k+1] += s * t
		}
	}
}

// turned is the product of the transpose of A with y.
func (m *method) turned(y, out []float64) {
	for i := range m.cols {
		c := &m.cols[i]
		sum := 0.0
		for k := range c.n {
			sum += c.a[k] * y[c.row[k]]
		}
		out[i] = sum
	}
	out[len(m.cols)] = m.alongStep(y)
}

// alongStep is the product of the column of t with y.
func (m *method) alongStep(y []float64) float64 {
	sum := 0.0
	for k, s := range m.rise {
		sum += s * y[2*k+1]
	}
	return sum
}

// measure finds what is missing and tells how far from an optimum the iterate is.
func (m *method) measure() float64 {
	clear(m.rp)
	m.times(m.x, m.rp)
	primal, dual, here, there := 0.0, 0.0, 0.0, 0.0
	m.mu = 0
	n := 0
	for r := range m.rp {
		if m.rp[r] = m.b[r] - m.rp[r] - m.s[r]; !m.live(r) {
			m.rp[r] = 0
			continue
		}
		primal = max(primal, math.Abs(m.rp[r])/m.demand(r))
		m.mu += m.s[r] * m.y[r]
		there -= m.b[r] * m.y[r]
		n++
	}
	m.turned(m.y, m.rd)
	for i := range m.rd {
		if i == len(m.cols) && !m.hasT {
			m.rd[i] = 0
			continue
		}
		m.rd[i] = m.z[i] - m.cost[i] - m.rd[i]
		dual = max(dual, math.Abs(m.rd[i]))
		m.mu += m.x[i] * m.z[i]
		here += m.cost[i] * m.x[i]
		n++
	}
	m.mu /= float64(max(n, 1))
	m.off = max(primal, dual, math.Abs(here-there)/(1+math.Abs(here)))
	return m.off
}

// demand is what a row is about, for what is missing of it to be told by: of a goal what
// is asked for, which may be far less than what could be reached.
func (m *method) demand(r int) float64 {
	if r >= 2*len(m.p.Blocks) || r%2 == 0 {
		return 1
	}
	return min(1, max(math.Abs(m.b[r]), m.rise[r/2]*m.x[len(m.cols)], 1e-6))
}

func (m *method) keep() {
	copy(m.keptX, m.x)
	copy(m.keptZ, m.z)
	copy(m.keptS, m.s)
	copy(m.keptY, m.y)
}

// solution is the best iterate in the units of the program, a hair inside its rows.
func (m *method) solution() *Solution {
	p := m.p
	n := len(p.Blocks)
	s := &Solution{
		Values: make([][]float64, n), Pairs: make([]float64, len(p.Pairs)), Prices: make([]float64, n), Caps: make([]float64, n),
		Slacks: make([]float64, n), Limits: make([]float64, len(p.Limits)), Level: m.keptX[len(m.cols)] * m.tUnit,
	}
	over := 1.0 // by how much the worst row is exceeded
	clear(m.scratch)
	m.times(m.keptX[:len(m.cols)+1], m.scratch)
	for r := range m.scratch {
		if r < 2*n && r%2 == 1 {
			continue
		}
		over = max(over, m.scratch[r]/m.b[r])
	}
	for k := range p.Blocks {
		b := &p.Blocks[k]
		s.Values[k] = make([]float64, len(b.Vars))
		for i := range b.Vars {
			x := m.keptX[m.of[k]+i] * b.Cap / over
			s.Values[k][i] = x
			s.Objective += b.Vars[i].Gain * x
		}
		s.Caps[k] = m.keptY[2*k] * m.scale / b.Cap
		if b.Goal {
			s.Prices[k] = m.keptY[2*k+1] * m.scale / m.unit[k]
			s.Slacks[k] = m.keptS[2*k+1] * m.unit[k]
		}
	}
	first := len(m.cols) - len(p.Pairs)
	for i := range p.Pairs {
		s.Pairs[i] = m.keptX[first+i] * m.cols[first+i].unit / over
		s.Objective += p.Pairs[i].Gain * s.Pairs[i]
	}
	for k, limit := range p.Limits {
		s.Limits[k] = m.keptY[2*n+k] * m.scale / limit
	}
	s.Objective += p.Level * s.Level
	return s
}
