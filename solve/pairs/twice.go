package pairs

import (
	"math"
)

// twice is a number of twice the digits: what high leaves of it is low.
type twice struct{ high, low float64 }

func (a twice) plus(b twice) twice {
	s := a.high + b.high
	v := s - a.high
	e := (a.high - (s - v)) + (b.high - v) + a.low + b.low
	h := s + e
	return twice{h, e - (h - s)}
}

func (a twice) minus(b twice) twice { return a.plus(twice{-b.high, -b.low}) }

func (a twice) times(b twice) twice {
	p := float64(a.high * b.high) // rounded, on every machine
	e := math.FMA(a.high, b.high, -p) + a.high*b.low + a.low*b.high
	h := p + e
	return twice{h, e - (h - p)}
}

func (a twice) over(b twice) twice {
	q := twice{high: a.high / b.high}
	return q.plus(twice{high: a.minus(b.times(q)).high / b.high})
}

func (a twice) root() twice {
	q := twice{high: math.Sqrt(a.high)}
	return q.plus(twice{high: a.minus(q.times(q)).high / (2 * q.high)})
}

// twiceFactor is what factor is, in numbers of twice the digits.
type twiceFactor struct {
	f           *factor
	a           []twice
	root, space []twice
	low         [][]twice
}

func newTwiceFactor(f *factor) *twiceFactor {
	return &twiceFactor{f: f, a: make([]twice, len(f.a)), root: make([]twice, f.n), low: columns[twice](f), space: make([]twice, f.n)}
}

// factor writes the normal equations of an iterate and factors them.
func (g *twiceFactor) factor(m *method) bool {
	f, n, a := g.f, g.f.n, g.a
	for c := range n {
		a[c*n+c] = twice{}
		for _, r := range f.fill[c] {
			a[int(r)*n+c] = twice{}
		}
	}
	for i := range m.cols {
		c := &m.cols[i]
		d := twice{high: m.x[i] / m.z[i]}
		for k := range c.n {
			p, v := int(f.at[c.row[k]]), d.times(twice{high: c.a[k]})
			for l := range k + 1 {
				q := int(f.at[c.row[l]])
				at := max(p, q)*n + min(p, q)
				a[at] = a[at].plus(v.times(twice{high: c.a[l]}))
			}
		}
	}
	for r := range m.s {
		p, v := int(f.at[r]), 1.0
		if m.live(r) {
			v = m.s[r] / m.y[r]
		}
		a[p*n+p] = a[p*n+p].plus(twice{high: v})
	}
	for c := range n {
		f.diagonal[c] = a[c*n+c].high
	}
	return g.cholesky()
}

func (g *twiceFactor) cholesky() bool {
	n, a := g.f.n, g.a
	for c := range n {
		d := a[c*n+c]
		if d.high != d.high || math.IsInf(d.high, 0) {
			return false
		}
		if d.high <= lost*lost*g.f.diagonal[c] {
			d = twice{high: huge}
		}
		g.root[c] = d.root()
		fill, column := g.f.fill[c], g.low[c]
		for i, r := range fill {
			column[i] = a[int(r)*n+c].over(g.root[c])
		}
		for i, r := range fill {
			v := column[i]
			if v.high == 0 {
				continue
			}
			row := a[int(r)*n : (int(r)+1)*n]
			for k, q := range fill[:i+1] {
				row[q] = row[q].minus(v.times(column[k]))
			}
		}
	}
	return true
}

// solve solves for a right-hand side, in the order of the program's rows.
func (g *twiceFactor) solve(x []float64, out []twice) {
	f, y := g.f, g.space
	for r, p := range f.at {
		y[p] = twice{high: x[r]}
	}
	for c, fill := range f.fill {
		y[c] = y[c].over(g.root[c])
		for i, r := range fill {
			y[r] = y[r].minus(g.low[c][i].times(y[c]))
		}
	}
	for c := f.n - 1; c >= 0; c-- {
		for i, r := range f.fill[c] {
			y[c] = y[c].minus(g.low[c][i].times(y[r]))
		}
		y[c] = y[c].over(g.root[c])
	}
	for r, p := range f.at {
		out[r] = y[p]
	}
}
