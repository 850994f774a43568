package blocks

import (
	"math"
)

// factors is a small square matrix, by rows, and then what it is factored into: one
// triangle below and one above the diagonal, by elimination with pivots.
type factors struct {
	n    int
	a    []float64
	swap []int32 // row c was swapped with it
}

// factor is false where the matrix is singular.
func (f *factors) factor() bool {
	n, a := f.n, f.a
	for c := range n {
		best := c
		for r := c + 1; r < n; r++ {
			if math.Abs(a[r*n+c]) > math.Abs(a[best*n+c]) {
				best = r
			}
		}
		pivot := a[best*n+c]
		if pivot == 0 || pivot != pivot || math.IsInf(pivot, 0) {
			return false
		}
		if f.swap[c] = int32(best); best != c {
			for i := range n {
				a[c*n+i], a[best*n+i] = a[best*n+i], a[c*n+i]
			}
		}
		top := a[c*n : (c+1)*n]
		for r := c + 1; r < n; r++ {
			row := a[r*n : (r+1)*n]
			if row[c] == 0 {
				continue
			}
			q := row[c] / pivot
			row[c] = q
			for i := c + 1; i < n; i++ {
				row[i] -= q * top[i]
			}
		}
	}
	return true
}

// solve replaces a right-hand side by the answer.
func (f *factors) solve(x []float64) {
	n, a := f.n, f.a
	for c := range n {
		x[c], x[f.swap[c]] = x[f.swap[c]], x[c]
	}
	for r := 1; r < n; r++ {
		sum := x[r]
		for i, v := range a[r*n : r*n+r] {
			sum -= v * x[i]
		}
		x[r] = sum
	}
	for r := n - 1; r >= 0; r-- {
		sum := x[r]
		for i := r + 1; i < n; i++ {
			sum -= a[r*n+i] * x[i]
		}
		x[r] = sum / a[r*n+r]
	}
}
