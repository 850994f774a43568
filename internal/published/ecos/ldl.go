package ecos

import "github.com/norn-scheduler/norn/internal/published/ecos/amd"

// pattern is the upper triangle of a symmetric matrix by columns, each of which ends
// with its diagonal.
type pattern struct{ start, index []int }

// ldl is a sparse symmetric matrix in an order of elimination, and its factors LDL'.
//
// Source: Davis, "Algorithm 849: a concise sparse Cholesky factorization package", ACM
// Transactions on Mathematical Software 31(4), 2005: row after row of L is found by a
// sparse triangular solve along the paths of the elimination tree.
type ldl struct {
	place  []int // where an unknown is
	entry  []int // where an entry of the matrix is among values
	sign   []float64
	matrix pattern
	values []float64

	parent  []int   // elimination tree
	lower   pattern // of L by columns, without the diagonal
	l, d    []float64
	filled  []int // entries of a column of L so far
	row     []float64
	path    []int
	visited []int
	x       []float64
}

// newLDL plans the factors. Signs are those that D must have.
func newLDL(m pattern, sign []float64) *ldl {
	n := len(m.start) - 1
	f := &ldl{entry: make([]int, len(m.index)), values: make([]float64, len(m.index))}
	for _, a := range []*[]int{&f.place, &f.parent, &f.filled, &f.path, &f.visited} {
		*a = make([]int, n)
	}
	for _, a := range []*[]float64{&f.sign, &f.d, &f.row, &f.x} {
		*a = make([]float64, n)
	}
	for k, i := range amd.Order(m.start, m.index) {
		f.place[i], f.sign[k] = k, sign[i]
	}
	f.permute(m)
	f.plan()
	return f
}

// permute writes the matrix in its new order, entries of a column in the old one.
func (f *ldl) permute(m pattern) {
	n := len(f.place)
	f.matrix = pattern{make([]int, n+1), make([]int, len(m.index))}
	for j := range n {
		for _, i := range m.index[m.start[j]:m.start[j+1]] {
			f.matrix.start[max(f.place[i], f.place[j])+1]++
		}
	}
	for k := range n {
		f.matrix.start[k+1] += f.matrix.start[k]
	}
	next := append([]int(nil), f.matrix.start...)
	for j := range n {
		for e := m.start[j]; e < m.start[j+1]; e++ {
			a, b := f.place[m.index[e]], f.place[j]
			to := next[max(a, b)]
			next[max(a, b)]++
			f.matrix.index[to], f.entry[e] = min(a, b), to
		}
	}
}

// plan finds the elimination tree and how many entries each column of L has.
func (f *ldl) plan() {
	n := len(f.place)
	f.lower.start = make([]int, n+1)
	for k := range n {
		f.parent[k], f.visited[k] = -1, k
		for _, i := range f.matrix.index[f.matrix.start[k]:f.matrix.start[k+1]] {
			for ; f.visited[i] != k; i = f.parent[i] {
				if f.parent[i] < 0 {
					f.parent[i] = k
				}
				f.lower.start[i+1]++
				f.visited[i] = k
			}
		}
	}
	for k := range n {
		f.lower.start[k+1] += f.lower.start[k]
	}
	f.lower.index, f.l = make([]int, f.lower.start[n]), make([]float64, f.lower.start[n])
}

// factor factors the values at hand. A pivot that is not well on its side of zero is
// replaced.
func (f *ldl) factor() {
	for k := range f.d {
		f.visited[k], f.filled[k] = k, f.lower.start[k]
		top := f.scatter(k)
		d := f.row[k]
		f.row[k] = 0
		for _, i := range f.path[top:] {
			y := f.row[i]
			f.row[i] = 0
			from, to := f.lower.start[i], f.filled[i]
			index, l := f.lower.index[from:to], f.l[from:to]
			for e, r := range index {
				f.row[r] -= float64(l[e] * y)
			}
			v := y / f.d[i]
			d -= float64(v * y)
			f.lower.index[to], f.l[to] = k, v
			f.filled[i]++
		}
		if f.sign[k]*d <= leastPivot {
			d = f.sign[k] * pivot
		}
		f.d[k] = d
	}
}

// scatter spreads column k of the matrix out, and finds which columns of L it hangs on:
// the end of path, each after those that it hangs on itself.
func (f *ldl) scatter(k int) (top int) {
	top = len(f.path)
	for e := f.matrix.start[k]; e < f.matrix.start[k+1]; e++ {
		i, n := f.matrix.index[e], 0
		f.row[i] = f.values[e]
		for ; f.visited[i] != k; i = f.parent[i] {
			f.path[n] = i
			n++
			f.visited[i] = k
		}
		for n > 0 {
			top--
			n--
			f.path[top] = f.path[n]
		}
	}
	return top
}

// solve finds the x that the matrix makes b of.
func (f *ldl) solve(b, out []float64) {
	x := f.x
	for i, k := range f.place {
		x[k] = b[i]
	}
	for j := range x {
		from, to := f.lower.start[j], f.lower.start[j+1]
		index, l, v := f.lower.index[from:to], f.l[from:to], x[j]
		for e, r := range index {
			x[r] -= float64(l[e] * v)
		}
	}
	for j := range x {
		x[j] /= f.d[j]
	}
	for j := len(x) - 1; j >= 0; j-- {
		from, to := f.lower.start[j], f.lower.start[j+1]
		index, l, v := f.lower.index[from:to], f.l[from:to], x[j]
		for e, r := range index {
			v -= float64(l[e] * x[r])
		}
		x[j] = v
	}
	for i, k := range f.place {
		out[i] = x[k]
	}
}
