package ecos

import (
	"math"
	"testing"

	"pgregory.net/rapid"
)

// TestLDL: the matrix times what solve finds is the right-hand side, on random systems
// with pivots of both signs.
func TestLDL(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		n := rapid.IntRange(1, 20).Draw(t, "unknowns")
		var m pattern
		var values, sign []float64
		full := make([][]float64, n)
		for j := range n {
			full[j] = make([]float64, n)
			m.start = append(m.start, len(m.index))
			for i := range j {
				if v := rapid.IntRange(-3, 3).Draw(t, "entry"); v > 0 {
					m.index, values = append(m.index, i), append(values, float64(v))
					full[i][j], full[j][i] = float64(v), float64(v)
				}
			}
			sign = append(sign, rapid.SampledFrom([]float64{-1, 1}).Draw(t, "sign"))
			full[j][j] = sign[j] * 100
			m.index, values = append(m.index, j), append(values, full[j][j])
		}
		m.start = append(m.start, len(m.index))
		f := newLDL(m, sign)
		for e, v := range values {
			f.values[f.entry[e]] = v
		}
		f.factor()
		b := rapid.SliceOfN(rapid.Float64Range(-5, 5), n, n).Draw(t, "right-hand side")
		x := make([]float64, n)
		f.solve(b, x)
		for i := range b {
			if got := dot(full[i], x); math.Abs(got-b[i]) > 1e-9 {
				t.Fatalf("row %d is %v, not %v", i, got, b[i])
			}
		}
	})
}
