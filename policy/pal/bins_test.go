package pal

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"
)

// TestOutlier is the example of the specification: of seven scores none can be three standard
// deviations off, and with 60 more that are typical the largest is a bin of its own.
func TestOutlier(t *testing.T) {
	few := []float64{0.95, 0.96, 0.97, 1.00, 1.01, 1.02, 2.50}
	if limit := outlier(few, 3); math.Abs(limit-2.92) > 0.01 {
		t.Errorf("the limit of seven scores is %v, not 2.92", limit)
	}
	many := slices.Clone(few)
	for range 60 {
		many = append(many, 1)
	}
	if limit := outlier(many, 3); limit >= 2.5 {
		t.Errorf("with 60 more the limit is %v", limit)
	}
	if bins := Bins(many, 3, 10); bins[6] != 2.5 {
		t.Errorf("the outlier is in a bin of %v", bins[6])
	}
}

// TestBins: scores about which there is no doubt.
func TestBins(t *testing.T) {
	for _, k := range []struct{ scores, want []float64 }{
		{[]float64{1, 1, 1}, []float64{1, 1, 1}},
		{[]float64{1}, []float64{1}},
		{nil, nil},
		{[]float64{1.1, 1, 1.1, 1}, []float64{1.1, 1, 1.1, 1}},
		{[]float64{1, 1.02, 1.2, 1.22, 1.5, 1.52}, []float64{1.01, 1.01, 1.21, 1.21, 1.51, 1.51}},
	} {
		got := Bins(k.scores, 3, 10)
		for i := range k.want {
			if math.Abs(got[i]-k.want[i]) > 1e-12 {
				t.Errorf("the bins of %v are %v, not %v", k.scores, got, k.want)
				break
			}
		}
	}
}

// TestBinsOracle compares with the definitions, taken literally: of all divisions of a few numbers the
// one of the least squares, for each number of parts, and of those the one of the best mean silhouette.
func TestBinsOracle(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	for range 300 {
		scores := make([]float64, 2+r.IntN(7))
		for i := range scores {
			if scores[i] = 0.9 + r.Float64(); i > 0 && r.IntN(4) == 0 {
				scores[i] = scores[r.IntN(i)]
			}
		}
		sorted := slices.Sorted(slices.Values(scores))
		if sorted[0] == sorted[len(sorted)-1] {
			continue
		}
		best, value := []int(nil), math.Inf(-1)
		for k := 2; k <= len(slices.Compact(slices.Clone(sorted))); k++ {
			ends := cheapest(sorted, k)
			if s := silhouette(sorted, ends); s > value+1e-9 {
				best, value = ends, s
			}
		}
		got := Bins(scores, 1000, 10)
		slices.Sort(got)
		if parts := len(slices.Compact(slices.Clone(got))); math.Abs(silhouetteOf(sorted, got)-value) > 1e-9 {
			t.Fatalf("the bins of %v are %v, in %d parts; the best division ends at %v", sorted, got, parts, best)
		}
	}
}

// cheapest tries all divisions of numbers in order into k parts.
func cheapest(sorted []float64, k int) []int {
	var best []int
	least := math.Inf(1)
	var try func(ends []int)
	try = func(ends []int) {
		from := 0
		if len(ends) > 0 {
			from = ends[len(ends)-1]
		}
		if len(ends) == k-1 {
			all := append(slices.Clone(ends), len(sorted))
			if c := squares(sorted, all); from < len(sorted) && c < least-1e-12 {
				best, least = all, c
			}
			return
		}
		for end := from + 1; end < len(sorted); end++ {
			try(append(slices.Clone(ends), end))
		}
	}
	try(nil)
	return best
}

func squares(sorted []float64, ends []int) (sum float64) {
	from := 0
	for _, end := range ends {
		mean := 0.0
		for _, x := range sorted[from:end] {
			mean += x / float64(end-from)
		}
		for _, x := range sorted[from:end] {
			sum += (x - mean) * (x - mean)
		}
		from = end
	}
	return sum
}

// silhouetteOf is silhouette of the division that bins in order make.
func silhouetteOf(sorted, bins []float64) float64 {
	var ends []int
	for i := range bins {
		if i+1 == len(bins) || bins[i+1] != bins[i] {
			ends = append(ends, i+1)
		}
	}
	return silhouette(sorted, ends)
}

// silhouette goes through all pairs of numbers.
func silhouette(sorted []float64, ends []int) float64 {
	part := func(i int) int { return slices.IndexFunc(ends, func(end int) bool { return i < end }) }
	total := 0.0
	for i, x := range sorted {
		sums, counts := make([]float64, len(ends)), make([]float64, len(ends))
		for k, y := range sorted {
			if k != i {
				sums[part(k)] += math.Abs(x - y)
				counts[part(k)]++
			}
		}
		own := part(i)
		if counts[own] == 0 {
			continue
		}
		a, b := sums[own]/counts[own], math.Inf(1)
		for p := range ends {
			if p != own {
				b = min(b, sums[p]/counts[p])
			}
		}
		if m := max(a, b); m > 0 {
			total += (b - a) / m
		}
	}
	return total / float64(len(sorted))
}

func BenchmarkBins(b *testing.B) {
	r := rand.New(rand.NewPCG(1, 2))
	scores := make([]float64, 40_000)
	for i := range scores {
		scores[i] = 1 + 0.05*r.NormFloat64()
	}
	for b.Loop() {
		if out := Bins(scores, 3, 10); len(out) != len(scores) {
			b.Fatal("no bins")
		}
	}
}
