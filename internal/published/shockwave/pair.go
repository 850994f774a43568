package shockwave

import (
	"math"
	"slices"
)

// pair gives each row a column of its own so that all together cost least, and returns
// the column of each row, or -1 where no other was left that costs less than infinity.
// There are at least as many columns as rows.
//
// Of several optima it finds the one that linear_sum_assignment of SciPy (from 1.9 on)
// does, which package solve/assign need not: rows are placed one after the other, each
// along the shortest path to a free column. Columns are looked at from the last to the
// first; the one that would be looked at last takes the place of a column that was
// reached. Of columns equally near the one that is looked at first is reached, but a free
// one goes before one that is not, and of free ones the one that is looked at last counts.
// Prices are computed operation by operation, as rounding makes equals unequal.
//
// Source: Crouse, "On implementing 2D rectangular assignment algorithms", IEEE
// Transactions on Aerospace and Electronic Systems 52(4), 2016.
func pair(rows, cols int, cost func(row, col int) float64) []int {
	p := pairing{
		cost: cost, col: slices.Repeat([]int{-1}, rows), row: slices.Repeat([]int{-1}, cols),
		u: make([]float64, rows), v: make([]float64, cols), near: make([]float64, cols), from: make([]int, cols),
	}
	for i := range rows {
		p.place(i)
	}
	return p.col
}

// pairing is what pair knows.
type pairing struct {
	cost func(row, col int) float64
	col  []int     // by row
	row  []int     // by column
	u, v []float64 // prices of rows and columns

	near []float64 // by column: how far it is from the row that is placed
	from []int     // by column: the row before it on the path
}

// place gives row i a column.
func (p *pairing) place(i int) {
	end, far, reached := p.search(i)
	if end < 0 {
		return
	}
	p.u[i] += far
	for _, j := range reached {
		p.u[p.row[j]] += far - p.near[j]
		p.v[j] -= far - p.near[j]
	}
	for j := end; ; {
		r := p.from[j]
		p.row[j] = r
		j, p.col[r] = p.col[r], j
		if r == i {
			return
		}
	}
}

// search finds the free column that is nearest to row i, or -1, and how far it is, with
// the columns that were reached on the way.
func (p *pairing) search(i int) (end int, far float64, reached []int) {
	left := make([]int, len(p.row))
	for k := range left {
		left[k] = len(left) - 1 - k
		p.near[k] = math.Inf(1)
	}
	for {
		at, least := -1, math.Inf(1)
		for k, j := range left {
			if d := far + p.cost(i, j) - p.u[i] - p.v[j]; d < p.near[j] {
				p.near[j], p.from[j] = d, i
			}
			if d := p.near[j]; d < least || d == least && p.row[j] < 0 {
				at, least = k, d
			}
		}
		if math.IsInf(least, 1) {
			return -1, 0, nil
		}
		far = least
		j := left[at]
		if p.row[j] < 0 {
			return j, far, reached
		}
		reached = append(reached, j)
		left[at] = left[len(left)-1]
		left = left[:len(left)-1]
		i = p.row[j]
	}
}
