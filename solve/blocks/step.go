package blocks

import (
	"math"
	"slices"
)

// step goes on by a predictor and a corrector. It is false where no step can be
// computed.
func (m *method) step() bool {
	for i := range m.v {
		m.rc[i] = -m.v[i] * m.z[i]
	}
	if !m.eliminate() || !m.direction(m.dvA, m.dzA) {
		return false
	}
	primal, dual := m.lengths(m.dvA, m.dzA)
	after, n := 0.0, 0
	for i := range m.v {
		if m.live(i) {
			after += (m.v[i] + primal*m.dvA[i]) * (m.z[i] + dual*m.dzA[i])
			n++
		}
	}
	ratio := after / float64(n) / m.mu
	centre := ratio * ratio * ratio * m.mu
	for i := range m.v {
		m.rc[i] = centre - m.v[i]*m.z[i] - m.dvA[i]*m.dzA[i]
	}
	if !m.direction(m.dv, m.dz) {
		return false
	}
	m.advance(1 - min(0.1, max(1e-4, m.mu)))
	return true
}

// advance goes in the direction at hand, but only so much of the way to the border.
func (m *method) advance(near float64) {
	primal, dual := m.lengths(m.dv, m.dz)
	if primal < 1 {
		primal *= near
	}
	if dual < 1 {
		dual *= near
	}
	for i := range m.v {
		if m.live(i) {
			m.v[i] += primal * m.dv[i]
			m.z[i] += dual * m.dz[i]
		}
	}
	for i := range m.y {
		m.y[i] += dual * m.dy[i]
	}
}

// centre goes from an optimum to the middle of all optima, where every variable
// times its reduced cost is the same. It keeps what it has where the arithmetic does
// not lead there, and returns the steps it took.
func (m *method) centre() int {
	copy(m.v, m.bestV)
	copy(m.y, m.bestY)
	copy(m.z, m.bestZ)
	m.measure()
	for n := range centrings {
		for i := range m.v {
			m.rc[i] = middle - m.v[i]*m.z[i]
		}
		if !m.eliminate() || !m.direction(m.dv, m.dz) {
			return n
		}
		m.advance(0.9)
		off := m.measure()
		least, most := math.Inf(1), 0.0
		for i := range m.v {
			if m.live(i) {
				at := m.v[i] * m.z[i]
				least, most = min(least, at), max(most, at)
			}
		}
		if off <= passable && most < 1.1*least {
			m.keep()
			return n + 1
		}
	}
	return centrings
}

// lengths is how far one can go in a direction until a variable is zero.
func (m *method) lengths(dv, dz []float64) (primal, dual float64) {
	primal, dual = math.Inf(1), math.Inf(1)
	for i := range dv {
		if !m.live(i) {
			continue
		}
		if dv[i] < 0 {
			primal = min(primal, -m.v[i]/dv[i])
		}
		if dz[i] < 0 {
			dual = min(dual, -m.z[i]/dz[i])
		}
	}
	return min(1, primal), min(1, dual)
}

// A direction solves, for all variables v and rows y,
//
//	A'dy - (z/v) dv = rd - rc/v
//	A dv            = rp
//
// The variables of a block and its two rows are one small system, whose unknowns are
// in that order, with the slacks eliminated; all blocks together are joined by the
// border: the joint rows, their slacks and t. Blocks are eliminated into the border. Small
// systems with pivots keep the digits that the usual normal equations lose when a
// variable is settled by its rows alone.

// eliminate factors the blocks and the border.
func (m *method) eliminate() bool {
	n := m.border()
	clear(m.schur)
	t := n - 1
	for k := range m.joint {
		w := m.firstW + k
		m.schur[k*n+m.joint+k] = 1
		m.schur[(m.joint+k)*n+k] = 1
		m.schur[(m.joint+k)*n+m.joint+k] = -m.z[w] / m.v[w]
	}
	m.schur[t*n+t] = -1
	if m.hasT {
		m.schur[t*n+t] = -m.z[m.at] / m.v[m.at]
	}
	more := m.more
	for k := range m.blocks {
		s := &m.blocks[k]
		size := s.to - s.from + 2
		lu := &m.local[k]
		if lu.a == nil {
			*lu = factors{n: size, a: make([]float64, size*size), swap: make([]int32, size)}
			m.join[k] = make([]float64, size*(m.joint+1))
		}
		m.write(k, lu.a)
		if !lu.factor() {
			return false
		}
		m.enter(k, m.partsOf(k, &more))
	}
	m.edge.n = n
	copy(m.edge.a, m.schur)
	return m.edge.factor()
}

// enter enters what a block, once factored, takes off the border: own are its parts in
// other joint rows.
func (m *method) enter(k int, own []part) {
	s, b := &m.blocks[k], &m.p.Blocks[k]
	n, size, lu := m.border(), m.local[k].n, &m.local[k]
	t := n - 1
	// join is the inverse of the block times its columns in the border.
	join := m.join[k]
	for c := range m.joint + 1 {
		col := join[c*size : (c+1)*size]
		clear(col)
		used := c == m.joint && s.step != 0
		if c == m.joint {
			col[size-1] = -s.step
		}
		for i := range b.Vars {
			if b.Vars[i].Row == c {
				col[i] = m.use[s.from+i]
				used = true
			}
		}
		for _, u := range own {
			if u.row == c {
				col[u.at-s.from] = u.use
				used = true
			}
		}
		if !used {
			continue
		}
		lu.solve(col)
		at := c
		if c == m.joint {
			at = t
		}
		for i := range b.Vars {
			m.schur[b.Vars[i].Row*n+at] -= m.use[s.from+i] * col[i]
		}
		for _, u := range own {
			m.schur[u.row*n+at] -= u.use * col[u.at-s.from]
		}
		m.schur[t*n+at] += s.step * col[size-1]
	}
}

// partsOf takes the parts of a block off those that are left, from the first block on.
func (m *method) partsOf(k int, left *[]part) []part {
	n := 0
	for n < len(*left) && (*left)[n].block == k {
		n++
	}
	own := (*left)[:n]
	*left = (*left)[n:]
	return own
}

// write writes the system of a block.
func (m *method) write(k int, a []float64) {
	s, b := &m.blocks[k], &m.p.Blocks[k]
	clear(a)
	vars := s.to - s.from
	n, capRow, goalRow := vars+2, vars, vars+1
	for i := range b.Vars {
		rate := m.rate[s.from+i]
		a[i*n+i] = -m.z[s.from+i] / m.v[s.from+i]
		a[i*n+capRow], a[capRow*n+i] = 1, 1
		a[i*n+goalRow], a[goalRow*n+i] = rate, rate
	}
	a[capRow*n+capRow] = m.v[m.first+2*k] / m.z[m.first+2*k]
	if a[goalRow*n+goalRow] = 1; s.goal {
		a[goalRow*n+goalRow] = m.v[m.first+2*k+1] / m.z[m.first+2*k+1]
	}
}

// border is the number of unknowns of the border.
func (m *method) border() int { return 2*m.joint + 1 }

// enough is what the arithmetic may leave of a right-hand side.
const enough = 1e-14

// direction finds the direction for the residuals at hand, and mends it by what the
// arithmetic has left of them.
func (m *method) direction(dv, dz []float64) bool {
	for i := range dv {
		dv[i], m.fd[i] = 0, 0
		if m.live(i) {
			m.fd[i] = m.rd[i] - m.rc[i]/m.v[i]
		}
	}
	clear(m.dy)
	copy(m.fp, m.rp)
	worst := math.Inf(1)
	for range 3 {
		off := 0.0
		for _, f := range m.fp {
			off = max(off, math.Abs(f))
		}
		if off >= worst/2 || off <= enough && worst < math.Inf(1) {
			break
		}
		worst = off
		if !m.solve() {
			return false
		}
		for i := range dv {
			dv[i] += m.pv[i]
		}
		for i := range m.dy {
			m.dy[i] += m.py[i]
		}
		m.remainder(dv)
	}
	m.turned(m.dy, dz)
	for i := range dv {
		if dz[i] = m.rd[i] - dz[i]; !m.live(i) {
			dv[i], dz[i] = 0, 0
		}
	}
	return true
}

// remainder is what a direction leaves of the right-hand sides.
func (m *method) remainder(dv []float64) {
	m.times(dv, m.fp)
	for i := range m.fp {
		m.fp[i] = m.rp[i] - m.fp[i]
	}
	m.turned(m.dy, m.fd)
	for i := range m.fd {
		if !m.live(i) {
			m.fd[i] = 0
			continue
		}
		m.fd[i] = m.rd[i] - m.rc[i]/m.v[i] - m.fd[i] + m.z[i]/m.v[i]*dv[i]
	}
	for k := range m.blocks {
		if !m.blocks[k].goal {
			m.fp[2*k+1] = 0
		}
	}
}

// solve solves for the right-hand sides fd and fp; the answer is in pv and py.
func (m *method) solve() bool {
	n, t := m.border(), m.border()-1
	g := m.right
	for k := range m.joint {
		g[k], g[m.joint+k] = m.fp[2*len(m.blocks)+k], m.fd[m.firstW+k]
	}
	g[t] = 0
	if m.hasT {
		g[t] = m.fd[m.at]
	}
	more := m.more
	for k := range m.blocks {
		s, b := &m.blocks[k], &m.p.Blocks[k]
		x, size := m.unknowns(k), m.local[k].n
		copy(x, m.fd[s.from:s.to])
		// A slack s of the cap is v/z (dy - fd), one of the goal v/z (-dy - fd).
		cap, extra := m.first+2*k, m.first+2*k+1
		x[size-2] = m.fp[2*k] + m.v[cap]/m.z[cap]*m.fd[cap]
		if x[size-1] = 0; s.goal {
			x[size-1] = m.fp[2*k+1] - m.v[extra]/m.z[extra]*m.fd[extra]
		}
		m.local[k].solve(x)
		for i := range b.Vars {
			g[b.Vars[i].Row] -= m.use[s.from+i] * x[i]
		}
		for _, u := range m.partsOf(k, &more) {
			g[u.row] -= u.use * x[u.at-s.from]
		}
		g[t] += s.step * x[size-1]
	}
	m.edge.solve(g[:n])
	if slices.ContainsFunc(g, func(v float64) bool { return v != v || math.IsInf(v, 0) }) {
		return false
	}
	m.back(g)
	return true
}

// back finds the unknowns of the blocks, and with them the answer, from those of the border.
func (m *method) back(g []float64) {
	t := m.border() - 1
	for k := range m.blocks {
		s, x, size := &m.blocks[k], m.unknowns(k), m.local[k].n
		for c := range m.joint + 1 {
			f := g[t]
			if c < m.joint {
				f = g[c]
			}
			if f == 0 {
				continue
			}
			for i, v := range m.join[k][c*size : (c+1)*size] {
				x[i] -= f * v
			}
		}
		copy(m.pv[s.from:s.to], x)
		cap, extra := m.first+2*k, m.first+2*k+1
		m.py[2*k], m.py[2*k+1] = x[size-2], x[size-1]
		m.pv[cap] = m.v[cap] / m.z[cap] * (x[size-2] - m.fd[cap])
		if m.pv[extra] = 0; s.goal {
			m.pv[extra] = m.v[extra] / m.z[extra] * (-x[size-1] - m.fd[extra])
		}
	}
	for k := range m.joint {
		m.py[2*len(m.blocks)+k], m.pv[m.firstW+k] = g[k], g[m.joint+k]
	}
	m.pv[m.at] = g[t]
}

// unknowns is where the unknowns of a block are kept while a system is solved.
func (m *method) unknowns(k int) []float64 {
	from := m.blocks[k].from + 2*k
	return m.space[from : from+m.local[k].n]
}
