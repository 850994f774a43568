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
	return m.prepare() || m.twice == nil && m.double()
}

// double goes over to numbers of twice the digits.
func (m *method) double() bool {
	m.twice = newTwiceFactor(m.f)
	return m.prepare()
}

func (m *method) prepare() bool {
	if m.twice == nil && !m.f.factor(m) || m.twice != nil && !m.twice.factor(m) {
		return false
	}
	if !m.hasT {
		return true
	}
	clear(m.right)
	for k, s := range m.rise {
		m.right[2*k+1] = s
	}
	m.solve(m.right, m.alongT)
	t := len(m.cols)
	m.pivotT = m.z[t]/m.x[t] + m.rises(m.alongT).high
	return m.pivotT > 0 && !math.IsInf(m.pivotT, 0)
}

// solve solves with the factor at hand. The right-hand side is lost.
func (m *method) solve(right []float64, out []twice) {
	if m.twice != nil {
		m.twice.solve(right, out)
		return
	}
	m.f.solve(right)
	for r, v := range right {
		out[r] = twice{high: v}
	}
}

// direction finds the direction for what is missing. Where the arithmetic loses it, all
// that follows is done with twice the digits.
func (m *method) direction() bool {
	off := m.mended()
	if m.twice == nil && !(off <= max(precision, fine*m.off)) {
		if !m.double() {
			return false
		}
		off = m.mended()
	}
	return off < math.Inf(1)
}

// mended finds a direction, and mends it by what the arithmetic has left of what is
// missing. It returns how much of that stays.
//
// The correction is added to the changes of values and of prices on its own: next to a
// price it may be less than the last digit, and yet count for a value.
func (m *method) mended() float64 {
	m.still()
	t := len(m.cols)
	worst := math.Inf(1)
	for n := 0; ; n++ {
		rest := 0.0 // of the equation of t
		if m.hasT {
			rest = m.rx[t]/m.x[t] + m.rd[t] - m.alongStep(m.dy) - m.z[t]/m.x[t]*m.dx[t]
		}
		off := max(m.left(), math.Abs(rest))
		if n > 0 && !(off > 1e-12 && off < worst/2) || n == mendings {
			return off
		}
		if n > 0 {
			worst = off
		}
		m.solve(m.right, m.change)
		dt := 0.0
		if m.hasT {
			dt = m.rises(m.change).minus(twice{high: rest}).high / -m.pivotT
			for r := range m.change {
				m.change[r] = m.change[r].plus(m.alongT[r].times(twice{high: dt}))
			}
		}
		m.follow(dt)
	}
}

// still is the direction in which no price changes, nor t.
func (m *method) still() {
	t := len(m.cols)
	clear(m.dy)
	for i := range m.cols {
		m.dz[i], m.dx[i] = -m.rd[i], (m.rx[i]+m.x[i]*m.rd[i])/m.z[i]
	}
	if m.dx[t], m.dz[t] = 0, 0; m.hasT {
		m.dz[t] = m.rx[t] / m.x[t]
	}
	for r := range m.ds {
		if m.ds[r] = 0; m.live(r) {
			m.ds[r] = m.rs[r] / m.y[r]
		}
	}
}

// follow adds to a direction what follows from the change of the prices at hand and from
// that of t. Changes that are large may add up to little for a column.
func (m *method) follow(dt float64) {
	for i := range m.cols {
		c := &m.cols[i]
		var sum twice
		for k := range c.n {
			sum = sum.plus(m.change[c.row[k]].times(twice{high: c.a[k]}))
		}
		m.dz[i] += sum.high
		m.dx[i] -= m.x[i] / m.z[i] * sum.high
	}
	if t := len(m.cols); m.hasT {
		m.dx[t] += dt
		m.dz[t] -= m.z[t] / m.x[t] * dt
	}
	for r, d := range m.change {
		m.dy[r] += d.high
		if m.live(r) {
			m.ds[r] -= m.s[r] / m.y[r] * d.high
		}
	}
}

// rises is the product of the column of t with a change of prices.
func (m *method) rises(y []twice) (sum twice) {
	for k, s := range m.rise {
		sum = sum.plus(y[2*k+1].times(twice{high: s}))
	}
	return sum
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
		off = max(off, math.Abs(m.right[r])/m.demand(r))
		if m.right[r] != m.right[r] {
			return m.right[r]
		}
	}
	return off
}
