package pairs

import (
	"math"
)

// step goes on by a predictor and a corrector. It is false where no step can be
// computed.
func (m *method) step() bool {
	for i := range m.x {
		m.rx[i] = -m.x[i] * m.z[i]
	}
	for r := range m.s {
		m.rs[r] = -m.s[r] * m.y[r]
	}
	if !m.factor() || !m.direction() {
		return false
	}
	primal, dual := m.lengths()
	primal, dual = min(1, primal), min(1, dual)
	after, n := 0.0, 0
	for i := range m.x {
		after += (m.x[i] + primal*m.dx[i]) * (m.z[i] + dual*m.dz[i])
		n++
	}
	for r := range m.s {
		if m.live(r) {
			after += (m.s[r] + primal*m.ds[r]) * (m.y[r] + dual*m.dy[r])
			n++
		}
	}
	ratio := after / float64(n) / m.mu
	centre := ratio * ratio * ratio * m.mu
	for i := range m.x {
		m.rx[i] = centre - m.x[i]*m.z[i] - m.dx[i]*m.dz[i]
	}
	for r := range m.s {
		m.rs[r] = centre - m.s[r]*m.y[r] - m.ds[r]*m.dy[r]
	}
	if !m.direction() {
		return false
	}
	m.advance(1 - min(0.1, max(1e-4, m.mu)))
	return true
}

// advance goes in the direction at hand, but only so much of the way to the border.
func (m *method) advance(near float64) {
	primal, dual := m.lengths()
	primal, dual = min(1, near*primal), min(1, near*dual)
	for i := range m.x {
		m.x[i] += primal * m.dx[i]
		m.z[i] += dual * m.dz[i]
	}
	for r := range m.s {
		m.s[r] += primal * m.ds[r]
		m.y[r] += dual * m.dy[r]
	}
}

// centre goes from an optimum to the middle of all optima, where every variable times
// its reduced cost is the same. It keeps what it has where the arithmetic does not lead
// there.
func (m *method) centre() {
	copy(m.x, m.keptX)
	copy(m.z, m.keptZ)
	copy(m.s, m.keptS)
	copy(m.y, m.keptY)
	m.measure()
	for range centrings {
		for i := range m.x {
			m.rx[i] = middle - m.x[i]*m.z[i]
		}
		for r := range m.s {
			m.rs[r] = middle - m.s[r]*m.y[r]
		}
		if !m.factor() || !m.direction() {
			return
		}
		m.advance(0.9)
		off := m.measure()
		least, most := math.Inf(1), 0.0
		for i := range m.x {
			if i < len(m.cols) || m.hasT {
				least, most = min(least, m.x[i]*m.z[i]), max(most, m.x[i]*m.z[i])
			}
		}
		for r := range m.s {
			if m.live(r) {
				least, most = min(least, m.s[r]*m.y[r]), max(most, m.s[r]*m.y[r])
			}
		}
		if off <= passable && most < 1.1*least {
			m.keep()
			return
		}
	}
}

// lengths is how far one can go until a variable or a price is zero.
func (m *method) lengths() (primal, dual float64) {
	primal, dual = math.Inf(1), math.Inf(1)
	reach := func(v, d, far float64) float64 {
		if d < 0 && -v/d < far {
			return -v / d
		}
		return far
	}
	for i := range m.x {
		primal, dual = reach(m.x[i], m.dx[i], primal), reach(m.z[i], m.dz[i], dual)
	}
	for r := range m.s {
		primal, dual = reach(m.s[r], m.ds[r], primal), reach(m.y[r], m.dy[r], dual)
	}
	return primal, dual
}

// A direction solves
//
//	A dx + ds = rp,  A'dy - dz = rd,  z dx + x dz = rx,  y ds + s dy = rs
//
// by  (A (x/z) A' + s/y) dy = A (rx + x rd)/z + rs/y - rp,  with t, which is in every
// goal, kept apart as one more unknown.

// factor prepares for directions from the iterate at hand.
func (m *method) factor() bool {
	if !m.f.factor(m) {
		return false
	}
	if !m.hasT {
		return true
	}
	for k, s := range m.rise {
		m.alongT[2*k], m.alongT[2*k+1] = 0, s
	}
	clear(m.alongT[2*len(m.rise):])
	m.f.solve(m.alongT)
	t := len(m.cols)
	m.pivotT = m.z[t]/m.x[t] + m.alongStep(m.alongT)
	return m.pivotT > 0 && !math.IsInf(m.pivotT, 0)
}

// direction finds the direction for what is missing, and mends it by what the
// arithmetic has left of that.
func (m *method) direction() bool {
	t := len(m.cols)
	for r := range m.right {
		m.right[r] = 0
		if m.live(r) {
			m.right[r] = m.rs[r]/m.y[r] - m.rp[r]
		}
	}
	for i := range m.cols {
		c := &m.cols[i]
		v := (m.rx[i] + m.x[i]*m.rd[i]) / m.z[i]
		for k := range c.n {
			m.right[c.row[k]] += c.a[k] * v
		}
	}
	rightT := 0.0
	if m.hasT {
		rightT = m.rx[t]/m.x[t] + m.rd[t]
	}
	clear(m.dy)
	m.dx[t] = 0
	worst := math.Inf(1)
	for range 4 {
		m.f.solve(m.right)
		dt := 0.0
		if m.hasT {
			dt = (rightT - m.alongStep(m.right)) / m.pivotT
		}
		for r := range m.dy {
			m.dy[r] += m.right[r] + dt*m.alongT[r]
		}
		m.dx[t] += dt
		m.follow()
		off := m.left()
		if off != off || math.IsInf(off, 0) {
			return false
		}
		if off <= 1e-12 || off >= worst/2 {
			break
		}
		worst = off
		rightT = 0
		if m.hasT {
			rightT = m.rx[t]/m.x[t] + m.rd[t] - m.alongStep(m.dy) - m.z[t]/m.x[t]*m.dx[t]
		}
	}
	return true
}

// follow finds what follows from the change of the prices and of t.
func (m *method) follow() {
	t := len(m.cols)
	dt := m.dx[t]
	m.turned(m.dy, m.dz)
	for i := range m.dz {
		m.dz[i] -= m.rd[i]
		if i < t {
			m.dx[i] = (m.rx[i] - m.x[i]*m.dz[i]) / m.z[i]
		}
	}
	if m.dx[t] = dt; !m.hasT {
		m.dx[t], m.dz[t] = 0, 0
	} else {
		m.dz[t] = (m.rx[t] - m.z[t]*dt) / m.x[t]
	}
	for r := range m.ds {
		if m.ds[r] = 0; m.live(r) {
			m.ds[r] = (m.rs[r] - m.s[r]*m.dy[r]) / m.y[r]
		}
	}
}

// left writes into right what a direction leaves of the rows, and tells how much that
// is at most.
func (m *method) left() float64 {
	clear(m.right)
	m.times(m.dx, m.right)
	off := 0.0
	for r := range m.right {
		if !m.live(r) {
			m.right[r] = 0
			continue
		}
		m.right[r] += m.ds[r] - m.rp[r]
		off = max(off, math.Abs(m.right[r]))
		if m.right[r] != m.right[r] {
			return m.right[r]
		}
	}
	return off
}
