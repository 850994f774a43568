package pairs

import (
	"math"
	"math/bits"
	"slices"
)

// factor is the normal equations and their Cholesky factor. Rows of the program are
// reordered: blocks by least degree, then the joint rows.
type factor struct {
	n      int
	paired int       // rows of blocks, two by two
	at     []int32   // by row of the program: its place
	a      []float64 // n by n, the lower triangle by rows; only what can be above zero is used
	fill   [][]int32 // by place: the places below in its column that can be above zero, in order

	diagonal []float64 // before it is factored

	root  []float64   // by place: the diagonal of the factor
	low   [][]float64 // by place: what is below in its column, as fill has it
	space []float64   // of an answer
}

// newFactor finds the order and what fills up.
func newFactor(m *method) *factor {
	blocks, joint := len(m.p.Blocks), len(m.p.Limits)
	f := &factor{n: m.rows, paired: 2 * blocks, at: make([]int32, m.rows), a: make([]float64, m.rows*m.rows), fill: make([][]int32, m.rows)}
	f.diagonal, f.root, f.space = make([]float64, m.rows), make([]float64, m.rows), make([]float64, m.rows)
	words := (blocks + 63) / 64
	meets := make([][]uint64, blocks)
	for k := range meets {
		meets[k] = make([]uint64, words)
	}
	for i := range m.p.Pairs {
		if a, b := m.p.Pairs[i].A, m.p.Pairs[i].B; a != b {
			meets[a][b/64] |= 1 << (b % 64)
			meets[b][a/64] |= 1 << (a % 64)
		}
	}
	order := eliminate(meets)
	place := make([]int32, blocks)
	for i, k := range order {
		place[k] = int32(i)
		f.at[2*k], f.at[2*k+1] = int32(2*i), int32(2*i+1)
	}
	for k := range joint {
		f.at[2*blocks+k] = int32(2*blocks + k)
	}
	for i, k := range order {
		below := make([]int32, 0, 8)
		for w, set := range meets[k] {
			for ; set != 0; set &= set - 1 {
				q := place[w*64+bits.TrailingZeros64(set)]
				below = append(below, 2*q, 2*q+1)
			}
		}
		slices.Sort(below)
		for j := range joint {
			below = append(below, int32(2*blocks+j))
		}
		f.fill[2*i+1] = below
		f.fill[2*i] = append([]int32{int32(2*i + 1)}, below...)
	}
	for k := range joint {
		for j := k + 1; j < joint; j++ {
			f.fill[2*blocks+k] = append(f.fill[2*blocks+k], int32(2*blocks+j))
		}
	}
	f.low = columns[float64](f)
	return f
}

// columns has a number for each place of a factor that can be above zero, the diagonal
// aside.
func columns[number any](f *factor) [][]number {
	low := make([][]number, f.n)
	for c := range low {
		low[c] = make([]number, len(f.fill[c]))
	}
	return low
}

// eliminate is an order of least degree. Afterwards meets holds for each block those
// that come later and that it meets then.
func eliminate(meets [][]uint64) []int {
	order := make([]int, 0, len(meets))
	gone := make([]bool, len(meets))
	degree := make([]int, len(meets))
	count := func(k int) {
		degree[k] = 0
		for _, w := range meets[k] {
			degree[k] += bits.OnesCount64(w)
		}
	}
	for k := range meets {
		count(k)
	}
	for range meets {
		best := -1
		for k := range meets {
			if !gone[k] && (best < 0 || degree[k] < degree[best]) {
				best = k
			}
		}
		gone[best] = true
		order = append(order, best)
		for w, set := range meets[best] {
			for ; set != 0; set &= set - 1 {
				k := w*64 + bits.TrailingZeros64(set)
				for i, v := range meets[best] {
					meets[k][i] |= v
				}
				meets[k][best/64] &^= 1 << (best % 64)
				meets[k][k/64] &^= 1 << (k % 64)
				count(k)
			}
		}
	}
	return order
}

// factor writes the normal equations of an iterate and factors them.
func (f *factor) factor(m *method) bool {
	n, a := f.n, f.a
	for c := range n {
		a[c*n+c] = 0
		for _, r := range f.fill[c] {
			a[int(r)*n+c] = 0
		}
	}
	for i := range m.cols {
		c := &m.cols[i]
		d := m.x[i] / m.z[i]
		for k := range c.n {
			p := int(f.at[c.row[k]])
			for l := range k + 1 {
				if q := int(f.at[c.row[l]]); p >= q {
					a[p*n+q] += d * c.a[k] * c.a[l]
				} else {
					a[q*n+p] += d * c.a[k] * c.a[l]
				}
			}
		}
	}
	for r := range m.s {
		p := int(f.at[r])
		if a[p*n+p] += 1; m.live(r) {
			a[p*n+p] += m.s[r]/m.y[r] - 1
		}
	}
	for c := range n {
		f.diagonal[c] = a[c*n+c]
	}
	return f.cholesky()
}

// The rest of a pivot that is only rounding, and the value that replaces it
// then.
const (
	lost = 1e-15
	huge = 1e100
)

func (f *factor) cholesky() bool {
	n, a := f.n, f.a
	for c := 0; c < n; c++ {
		if !f.column(c) {
			return false
		}
		fill, x := f.fill[c], f.low[c]
		if c >= f.paired {
			for i, r := range fill {
				f.lower(int(r), fill[:i+1], x[i], x)
			}
			continue
		}
		// The two rows of a block fill up alike: what they take from others is taken at once.
		for i, r := range fill {
			a[int(r)*n+c+1] -= x[0] * x[i]
		}
		if !f.column(c + 1) {
			return false
		}
		fill, x = fill[1:], x[1:]
		y := f.low[c+1]
		for i, r := range fill {
			f.lowerTwo(int(r), fill[:i+1], x[i], x, y[i], y)
		}
		c++
	}
	return true
}

// column is a column of the factor, when all before it are done.
func (f *factor) column(c int) bool {
	n, a := f.n, f.a
	d := a[c*n+c]
	if d != d || math.IsInf(d, 0) {
		return false
	}
	if d <= lost*f.diagonal[c] {
		d = huge // nothing is left of this row: its price stays as it is
	}
	f.root[c] = math.Sqrt(d)
	for i, r := range f.fill[c] {
		f.low[c][i] = a[int(r)*n+c] / f.root[c]
	}
	return true
}

// lower takes from a row what a column of the factor has of it, v times x.
func (f *factor) lower(r int, at []int32, v float64, x []float64) {
	if v == 0 {
		return
	}
	row, x := f.a[r*f.n:(r+1)*f.n], x[:len(at)]
	for k, q := range at {
		row[q] -= v * x[k]
	}
}

// lowerTwo is lower for two columns.
func (f *factor) lowerTwo(r int, at []int32, v float64, x []float64, w float64, y []float64) {
	if v == 0 && w == 0 {
		return
	}
	row, x, y := f.a[r*f.n:(r+1)*f.n], x[:len(at)], y[:len(at)]
	for k, q := range at {
		row[q] = row[q] - v*x[k] - w*y[k]
	}
}

// solve replaces a right-hand side, in the order of the program's rows, by the answer.
func (f *factor) solve(x []float64) {
	y := f.space
	for r, p := range f.at {
		y[p] = x[r]
	}
	for c, fill := range f.fill {
		y[c] /= f.root[c]
		for i, r := range fill {
			y[r] -= f.low[c][i] * y[c]
		}
	}
	for c := f.n - 1; c >= 0; c-- {
		for i, r := range f.fill[c] {
			y[c] -= f.low[c][i] * y[r]
		}
		y[c] /= f.root[c]
	}
	for r, p := range f.at {
		x[r] = y[p]
	}
}
