package parallel

import (
	"math"
	"slices"
)

// Accuracy is how near estimates come to measured iterations.
type Accuracy struct {
	Rows  int
	Mean  float64 // of the absolute relative errors
	Worst float64 // the largest of them
	Rank  float64 // Spearman's correlation of estimated and measured times; NaN for fewer than two rows
}

// Accuracy compares the estimates of a profile with measured iterations.
func (p *Profile) Accuracy(seen []Measured) (Accuracy, error) {
	a := Accuracy{Rows: len(seen)}
	var told, measured []float64
	for _, s := range seen {
		e, err := p.Estimate(s.Model, s.Plan)
		if err != nil {
			return a, err
		}
		off := math.Abs(e.Iteration/s.Seconds - 1)
		a.Mean += off / float64(len(seen))
		a.Worst = max(a.Worst, off)
		told, measured = append(told, e.Iteration), append(measured, s.Seconds)
	}
	a.Rank = correlation(ranks(told), ranks(measured))
	return a, nil
}

// ranks are the places of numbers in ascending order; equal ones share the mean of theirs.
func ranks(x []float64) []float64 {
	order := make([]int, len(x))
	for i := range order {
		order[i] = i
	}
	slices.SortFunc(order, func(a, b int) int {
		switch {
		case x[a] < x[b]:
			return -1
		case x[a] > x[b]:
			return 1
		}
		return 0
	})
	out := make([]float64, len(x))
	for i := 0; i < len(order); {
		k := i
		for k < len(order) && x[order[k]] == x[order[i]] {
			k++
		}
		for _, at := range order[i:k] {
			out[at] = float64(i+k-1) / 2
		}
		i = k
	}
	return out
}

// correlation is Pearson's.
func correlation(a, b []float64) float64 {
	n := float64(len(a))
	var meanA, meanB, ab, aa, bb float64
	for i := range a {
		meanA, meanB = meanA+a[i]/n, meanB+b[i]/n
	}
	for i := range a {
		x, y := a[i]-meanA, b[i]-meanB
		ab, aa, bb = ab+x*y, aa+x*x, bb+y*y
	}
	return ab / math.Sqrt(aa*bb)
}
