package energy

import (
	"math"

	"gonum.org/v1/gonum/mat"
)

// nonNegative are the numbers, none below 0, by which the rows come nearest to the values, which are
// above 0, by the squares of relative errors. There are few columns: every choice of those that are not
// 0 is tried.
func nonNegative(rows [][]float64, values []float64) []float64 {
	n := len(rows[0])
	best, least := make([]float64, n), math.Inf(1)
	for set := 1; set < 1<<n; set++ {
		var columns []int
		for i := range n {
			if set>>i&1 == 1 {
				columns = append(columns, i)
			}
		}
		x, ok := solveFor(rows, values, columns)
		if !ok {
			continue
		}
		if err := off(rows, values, x); err < least*(1-1e-12) {
			best, least = x, err
		}
	}
	return best
}

// off is the sum of the squares of relative errors.
func off(rows [][]float64, values, x []float64) (sum float64) {
	for r, row := range rows {
		has := 0.0
		for i, v := range row {
			has += v * x[i]
		}
		sum += math.Pow(has/values[r]-1, 2)
	}
	return sum
}

// solveFor is the least squares with some columns alone. ok is false where these do not tell one
// solution, or one below 0.
func solveFor(rows [][]float64, values []float64, columns []int) (x []float64, ok bool) {
	if len(rows) < len(columns) {
		return nil, false
	}
	scale := make([]float64, len(columns)) // of columns, so that all count alike
	for r, row := range rows {
		for i, c := range columns {
			scale[i] = math.Hypot(scale[i], row[c]/values[r])
		}
	}
	a, ones := mat.NewDense(len(rows), len(columns), nil), mat.NewVecDense(len(rows), nil)
	for r, row := range rows {
		for i, c := range columns {
			if scale[i] == 0 {
				return nil, false
			}
			a.Set(r, i, row[c]/values[r]/scale[i])
		}
		ones.SetVec(r, 1)
	}
	var of mat.VecDense
	if of.SolveVec(a, ones) != nil {
		return nil, false
	}
	x = make([]float64, len(rows[0]))
	for i, c := range columns {
		if x[c] = of.AtVec(i) / scale[i]; x[c] < 0 {
			return nil, false
		}
	}
	return x, true
}
