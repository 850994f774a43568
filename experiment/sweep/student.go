package sweep

import (
	"math"
	"slices"

	"gonum.org/v1/gonum/stat"
	"gonum.org/v1/gonum/stat/distuv"
)

// Level is that of all intervals: the part of them that hold the true mean, were all of it
// done again and again.
const Level = 0.95

// Mean is the mean of a figure over seeds.
type Mean struct {
	N    int     // seeds in which the figure is known
	Mean float64 // 0 where N is 0
	SD   float64 // standard deviation of one seed; 0 where all are equal
	Half float64 // the interval of 95 % is Mean-Half to Mean+Half; 0 where all values are equal, which tell of none
	Min  float64
	Max  float64
}

// MeanOf is the mean of values with its interval, by Student's t.
func MeanOf(values []float64) Mean {
	m := Mean{N: len(values)}
	if m.N == 0 {
		return m
	}
	m.Min, m.Max = slices.Min(values), slices.Max(values)
	if m.Min == m.Max { // sums would be off by a rounding
		m.Mean = m.Min
		return m
	}
	m.Mean, m.SD = stat.MeanStdDev(values, nil)
	t := distuv.StudentsT{Sigma: 1, Nu: float64(m.N - 1)}
	m.Half = t.Quantile(0.5+Level/2) * m.SD / math.Sqrt(float64(m.N))
	return m
}

// Paired is how two policies differ over the same seeds. Where they differ by the same in each, as
// where seeds change nothing, the seeds say nothing about chance: both p are NaN.
type Paired struct {
	Diff     Mean    // of the figure minus that of the baseline, seed by seed
	Base     float64 // mean of the baseline over these seeds
	T        float64 // two-sided p of the paired t-test
	Wilcoxon float64 // two-sided p of Wilcoxon's signed-rank test
}

// PairedOf compares values with those of a baseline, which stand at the same places.
func PairedOf(values, base []float64) Paired {
	diffs := make([]float64, len(values))
	sum := 0.0
	for i, v := range values {
		diffs[i] = v - base[i]
		sum += base[i]
	}
	p := Paired{Diff: MeanOf(diffs), Base: sum / float64(max(1, len(base))), T: math.NaN(), Wilcoxon: math.NaN()}
	if p.Diff.SD == 0 {
		return p
	}
	t := math.Abs(p.Diff.Mean) / (p.Diff.SD / math.Sqrt(float64(p.Diff.N)))
	p.T = 2 * distuv.StudentsT{Sigma: 1, Nu: float64(p.Diff.N - 1)}.Survival(t)
	p.Wilcoxon = wilcoxon(diffs)
	return p
}

// mostExact is for how many seeds the distribution of Wilcoxon's test is counted out: above,
// it is as good as normal.
const mostExact = 100

// wilcoxon is the two-sided p of the signed-rank test: how often ranks with signs by chance
// are as lopsided as these, were policies alike. Differences of zero are left out and
// equal ones share their ranks, as Wilcoxon has it. It counts all assignments of signs to the ranks
// that there are. NaN: nothing differs.
func wilcoxon(diffs []float64) float64 {
	ranks, plus := signedRanks(diffs)
	if len(ranks) == 0 {
		return math.NaN()
	}
	total := 0
	for _, r := range ranks {
		total += r
	}
	less := min(plus, total-plus)
	if len(ranks) > mostExact {
		variance := 0.0
		for _, r := range ranks {
			variance += float64(r) * float64(r) / 4
		}
		z := (float64(total)/2 - float64(less)) / math.Sqrt(variance)
		return 2 * distuv.UnitNormal.Survival(z)
	}
	// share[s] is the part of all assignments whose positive ranks sum up to s.
	share := make([]float64, total+1)
	share[0] = 1
	for _, r := range ranks {
		for s := total; s >= 0; s-- {
			share[s] /= 2
			if s >= r {
				share[s] += share[s-r] / 2
			}
		}
	}
	p := 0.0
	for _, x := range share[:less+1] {
		p += x
	}
	return min(1, 2*p)
}

// signedRanks are twice the ranks of the differences that are not zero, by size, and the sum of
// those that belong to positive ones. Twice, so that those of equal differences are whole.
func signedRanks(diffs []float64) (ranks []int, plus int) {
	var sorted []float64
	for _, d := range diffs {
		if d != 0 {
			sorted = append(sorted, d)
		}
	}
	slices.SortFunc(sorted, func(a, b float64) int {
		switch x, y := math.Abs(a), math.Abs(b); {
		case x < y:
			return -1
		case x > y:
			return 1
		}
		return 0
	})
	for from := 0; from < len(sorted); {
		to := from + 1
		for to < len(sorted) && math.Abs(sorted[to]) == math.Abs(sorted[from]) {
			to++
		}
		for i := from; i < to; i++ {
			rank := from + 1 + to // ranks from+1 to to: twice their mean
			ranks = append(ranks, rank)
			if sorted[i] > 0 {
				plus += rank
			}
		}
		from = to
	}
	return ranks, plus
}
