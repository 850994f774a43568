package blocks

import (
	"math"
)

// method is the iterates of a solve, scaled: joint rows by their limits, blocks by
// their caps, goals by what they can reach, the objective by its largest term.
//
// All variables are at least 0 and in one array. Those of the blocks come
// first. Then come the slack of each block below its cap and its surplus beyond
// its goal, then the slack of each joint row, then t. Rows are equations in one
// array: for each block its cap and its goal, then the joint rows.
type method struct {
	p      *Program
	blocks []scaled
	joint  int // number of joint rows
	rows   int
	vars   int
	first  int // first slack of the blocks
	firstW int // first slack of the joint rows
	at     int // t

	cost  float64
	tUnit float64
	hasT  bool

	b, c         []float64 // right-hand sides; costs, to be minimised
	v, z, y      []float64 // variables, their reduced costs, the prices of the rows
	bestV, bestY []float64 // the best so far
	bestZ        []float64
	rp, rd, rc   []float64 // what is missing: in the rows, in the reduced costs, in v times z
	dv, dz, dy   []float64 // a direction
	dvA, dzA     []float64 // that of the predictor
	mu           float64   // mean of v times z

	use, rate []float64 // by variable of the blocks: its coefficients
	more      []part    // what they take in other joint rows, in their order

	local  []factors   // of each block
	join   [][]float64 // by block: its inverse times its columns in the border
	edge   factors     // of the border
	schur  []float64
	right  []float64 // of the border
	space  []float64 // unknowns of all blocks
	fd, fp []float64 // right-hand sides of variables and rows
	pv, py []float64 // answers
}

// part is a coefficient of a variable in a joint row.
type part struct {
	block, at, row int
	use            float64
}

// scaled is a block in the units of the method.
type scaled struct {
	from, to int // its variables
	goal     bool
	unit     float64 // of its goal
	step     float64
}

func newMethod(p *Program) *method {
	m := &method{p: p, joint: len(p.Limits), hasT: p.Level > 0, tUnit: 1}
	for k := range p.Blocks {
		b := &p.Blocks[k]
		s := scaled{from: m.vars, to: m.vars + len(b.Vars), goal: b.Goal, unit: 1, step: b.Step}
		m.vars = s.to
		m.blocks = append(m.blocks, s)
	}
	m.first = m.vars
	m.firstW = m.first + 2*len(p.Blocks)
	m.at = m.firstW + m.joint
	m.vars = m.at + 1
	m.rows = 2*len(p.Blocks) + m.joint
	m.scaleGoals()
	m.use, m.rate = make([]float64, m.first), make([]float64, m.first)
	for k := range m.blocks {
		s, b := &m.blocks[k], &p.Blocks[k]
		for i := range b.Vars {
			v := &b.Vars[i]
			m.use[s.from+i] = v.Use * b.Cap / p.Limits[v.Row]
			for _, u := range v.More {
				m.more = append(m.more, part{block: k, at: s.from + i, row: u.Row, use: u.Use * b.Cap / p.Limits[u.Row]})
			}
			if s.goal {
				m.rate[s.from+i] = v.Rate * b.Cap / s.unit
			}
		}
	}
	for _, a := range []*[]float64{&m.c, &m.v, &m.z, &m.rd, &m.rc, &m.dv, &m.dz, &m.dvA, &m.dzA, &m.bestV, &m.bestZ, &m.fd, &m.pv} {
		*a = make([]float64, m.vars)
	}
	for _, a := range []*[]float64{&m.b, &m.y, &m.rp, &m.dy, &m.bestY, &m.fp, &m.py} {
		*a = make([]float64, m.rows)
	}
	n := m.border()
	m.local, m.join = make([]factors, len(p.Blocks)), make([][]float64, len(p.Blocks))
	m.schur, m.right, m.space = make([]float64, n*n), make([]float64, n), make([]float64, m.first+2*len(p.Blocks))
	m.edge = factors{a: make([]float64, n*n), swap: make([]int32, n)}
	m.fill()
	return m
}

// scaleGoals finds units in which goals and t are about one.
func (m *method) scaleGoals() {
	reach := 0.0 // of t, by what a block can do alone
	for k := range m.blocks {
		s, b := &m.blocks[k], &m.p.Blocks[k]
		most := 0.0
		for i := range b.Vars {
			most = max(most, math.Abs(b.Vars[i].Rate)*b.Cap)
		}
		if s.unit = max(most, math.Abs(b.Floor)); s.unit == 0 {
			s.unit = 1
		}
		if b.Goal && b.Step > 0 && most > 0 {
			if r := most / b.Step; reach == 0 || r < reach {
				reach = r
			}
		}
	}
	if reach > 0 {
		m.tUnit = reach
	}
}

// fill writes right-hand sides, costs and where to begin.
func (m *method) fill() {
	most := 0.0
	for k := range m.blocks {
		s, b := &m.blocks[k], &m.p.Blocks[k]
		m.b[2*k] = 1
		if s.goal {
			m.b[2*k+1] = b.Floor / s.unit
			s.step = b.Step * m.tUnit / s.unit
		} else {
			s.step = 0
		}
		for i := range b.Vars {
			m.c[s.from+i] = -b.Vars[i].Gain * b.Cap
			most = max(most, math.Abs(m.c[s.from+i]))
		}
	}
	if m.hasT {
		m.c[m.at] = -m.p.Level * m.tUnit
		most = max(most, math.Abs(m.c[m.at]))
	}
	if m.cost = most; most == 0 {
		m.cost = 1
	}
	for i := range m.c {
		m.c[i] /= m.cost
	}
	for k := range m.joint {
		m.b[2*len(m.blocks)+k] = 1
	}
	for i := range m.v {
		m.v[i], m.z[i] = 1, 1
	}
	for k := range m.blocks {
		s := &m.blocks[k]
		for i := s.from; i < s.to; i++ {
			m.v[i] = 0.5 / float64(s.to-s.from)
		}
		m.v[m.first+2*k] = 0.5
	}
	if !m.hasT {
		m.v[m.at], m.z[m.at] = 0, 1
	}
}

// times adds up A·x into out, which has a place for each row.
func (m *method) times(x, out []float64) {
	clear(out)
	g := out[2*len(m.blocks):]
	for k := range m.blocks {
		s, b := &m.blocks[k], &m.p.Blocks[k]
		for i := range b.Vars {
			use, rate := m.use[s.from+i], m.rate[s.from+i]
			xi := x[s.from+i]
			out[2*k] += xi
			out[2*k+1] += rate * xi
			g[b.Vars[i].Row] += use * xi
		}
		out[2*k] += x[m.first+2*k]
		if s.goal {
			out[2*k+1] -= x[m.first+2*k+1] + s.step*x[m.at]
		} else {
			out[2*k+1] = 0
		}
	}
	for _, u := range m.more {
		g[u.row] += u.use * x[u.at]
	}
	for k := range m.joint {
		g[k] += x[m.firstW+k]
	}
}

// turned adds up the transpose of A times y into out, which has a place for each
// variable.
func (m *method) turned(y, out []float64) {
	g := y[2*len(m.blocks):]
	t := 0.0
	for k := range m.blocks {
		s, b := &m.blocks[k], &m.p.Blocks[k]
		for i := range b.Vars {
			use, rate := m.use[s.from+i], m.rate[s.from+i]
			out[s.from+i] = y[2*k] + rate*y[2*k+1] + use*g[b.Vars[i].Row]
		}
		out[m.first+2*k] = y[2*k]
		out[m.first+2*k+1] = 0
		if s.goal {
			out[m.first+2*k+1] = -y[2*k+1]
			t -= s.step * y[2*k+1]
		}
	}
	for _, u := range m.more {
		out[u.at] += u.use * g[u.row]
	}
	for k := range m.joint {
		out[m.firstW+k] = g[k]
	}
	out[m.at] = t
}

// live tells whether a variable takes part: goals that are not there have no
// slack, and there may be no t.
func (m *method) live(i int) bool {
	switch {
	case i == m.at:
		return m.hasT
	case i >= m.first && i < m.firstW && (i-m.first)%2 == 1:
		return m.blocks[(i-m.first)/2].goal
	}
	return true
}

// measure finds the residuals and tells how far from an optimum the iterate is.
func (m *method) measure() float64 {
	m.times(m.v, m.rp)
	primal, dual := 0.0, 0.0
	for i := range m.rp {
		m.rp[i] = m.b[i] - m.rp[i]
		primal = max(primal, math.Abs(m.rp[i]))
	}
	for k := range m.blocks {
		if !m.blocks[k].goal {
			m.rp[2*k+1] = 0
		}
	}
	m.turned(m.y, m.rd)
	m.mu = 0
	n, here, there := 0, 0.0, 0.0
	for i := range m.rd {
		if !m.live(i) {
			m.rd[i] = 0
			continue
		}
		m.rd[i] = m.c[i] - m.rd[i] - m.z[i]
		dual = max(dual, math.Abs(m.rd[i]))
		m.mu += m.v[i] * m.z[i]
		here += m.c[i] * m.v[i]
		n++
	}
	for i := range m.b {
		there += m.b[i] * m.y[i]
	}
	m.mu /= float64(max(n, 1))
	gap := math.Abs(here-there) / (1 + math.Abs(here))
	return max(primal, dual, gap)
}

// keep remembers the iterate.
func (m *method) keep() {
	copy(m.bestV, m.v)
	copy(m.bestY, m.y)
	copy(m.bestZ, m.z)
}

// solution is the best iterate in the units of the program, a hair inside its
// rows.
func (m *method) solution() *Solution {
	p := m.p
	s := &Solution{Values: make([][]float64, len(p.Blocks)), Prices: make([]float64, len(p.Blocks)), Slacks: make([]float64, len(p.Blocks))}
	used := make([]float64, m.joint)
	flat := make([]float64, m.first)
	for k := range m.blocks {
		q, b := &m.blocks[k], &p.Blocks[k]
		x := flat[q.from:q.to:q.to]
		sum := 0.0
		for i := range x {
			x[i] = m.bestV[q.from+i] * b.Cap
			sum += x[i]
		}
		for i := range x {
			x[i] *= min(1, b.Cap/sum)
			used[b.Vars[i].Row] += b.Vars[i].Use * x[i]
			for _, u := range b.Vars[i].More {
				used[u.Row] += u.Use * x[i]
			}
		}
		s.Values[k] = x
	}
	for k := range m.blocks {
		q, b := &m.blocks[k], &p.Blocks[k]
		for i := range s.Values[k] {
			fit := 1.0
			if row := b.Vars[i].Row; used[row] > p.Limits[row] {
				fit = p.Limits[row] / used[row]
			}
			for _, u := range b.Vars[i].More {
				fit = min(fit, p.Limits[u.Row]/used[u.Row])
			}
			s.Values[k][i] *= fit
			s.Objective += b.Vars[i].Gain * s.Values[k][i]
		}
		if q.goal {
			s.Prices[k] = math.Max(0, m.bestY[2*k+1]*m.cost/q.unit)
			s.Slacks[k] = m.bestV[m.first+2*k+1] * q.unit
		}
	}
	if m.hasT {
		s.Level = m.bestV[m.at] * m.tUnit
		s.Objective += p.Level * s.Level
	}
	return s
}
