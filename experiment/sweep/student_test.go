package sweep

import (
	"math"
	"testing"

	"pgregory.net/rapid"
)

func near(a, b, within float64) bool { return math.Abs(a-b) <= within }

// TestSleep: Student's own example (The probable error of a mean, 1908): the hours of sleep that ten
// patients gained by two drugs. R tells t = 4.0621, p = 0.002833 and the interval
// 0.7001142 to 2.4598858 of it. Of the signed ranks, nine are positive and none negative:
// 2 of 512 assignments are as lopsided.
func TestSleep(t *testing.T) {
	first := []float64{0.7, -1.6, -0.2, -1.2, -0.1, 3.4, 3.7, 0.8, 0, 2.0}
	second := []float64{1.9, 0.8, 1.1, 0.1, -0.1, 4.4, 5.5, 1.6, 4.6, 3.4}
	p := PairedOf(second, first)
	if p.Diff.N != 10 || !near(p.Diff.Mean, 1.58, 1e-12) || !near(p.Diff.Mean-p.Diff.Half, 0.7001142, 1e-7) || !near(p.Diff.Mean+p.Diff.Half, 2.4598858, 1e-7) {
		t.Errorf("%+v", p.Diff)
	}
	if !near(p.T, 0.002833, 5e-7) || !near(p.Base, 0.75, 1e-12) {
		t.Errorf("p %v, base %v", p.T, p.Base)
	}
	if !near(p.Wilcoxon, 2.0/512, 1e-12) {
		t.Errorf("Wilcoxon %v", p.Wilcoxon)
	}
}

// TestStudentTable: half intervals of values with a standard deviation of one are the values
// of the table of t at 0.975 over the root of their number.
func TestStudentTable(t *testing.T) {
	for n, want := range map[int]float64{2: 12.7062, 3: 4.3027, 5: 2.7764, 10: 2.2622, 31: 2.0423} {
		values := make([]float64, n)
		for i := range values {
			values[i] = float64(i)
		}
		m := MeanOf(values)
		if got := m.Half / m.SD * math.Sqrt(float64(n)); !near(got, want, 5e-5) {
			t.Errorf("%d values: t is %v, want %v", n, got, want)
		}
	}
}

// TestWilcoxonTable: the critical values of the table of Wilcoxon (two-sided, 5 %): sums of
// ranks up to them are significant, and one more is not.
func TestWilcoxonTable(t *testing.T) {
	for n, critical := range map[int]int{6: 0, 7: 2, 8: 3, 9: 5, 10: 8, 12: 13, 15: 25, 20: 52, 25: 89} {
		for sum, significant := range map[int]bool{critical: true, critical + 1: false} {
			diffs := make([]float64, n)
			left := sum
			for r := n; r >= 1; r-- { // the negative ranks sum up to sum
				diffs[r-1] = float64(r)
				if r <= left {
					diffs[r-1], left = -float64(r), left-r
				}
			}
			if left != 0 {
				t.Fatalf("%d ranks have no sum of %d", n, sum)
			}
			if p := wilcoxon(diffs); (p <= 0.05) != significant {
				t.Errorf("%d seeds, a sum of %d: p %v", n, sum, p)
			}
		}
	}
}

// TestWilcoxonByCounting: p is the part of all assignments of signs that are as lopsided, also where
// differences are equal or zero.
func TestWilcoxonByCounting(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		diffs := rapid.SliceOfN(rapid.Map(rapid.IntRange(-5, 5), func(n int) float64 { return float64(n) }), 1, 9).Draw(t, "differences")
		ranks, plus := signedRanks(diffs)
		if len(ranks) == 0 {
			if p := wilcoxon(diffs); !math.IsNaN(p) {
				t.Fatalf("p %v of nothing", p)
			}
			return
		}
		total := 0
		for _, r := range ranks {
			total += r
		}
		as := 0
		for signs := range 1 << len(ranks) {
			sum := 0
			for i, r := range ranks {
				if signs>>i&1 == 1 {
					sum += r
				}
			}
			if min(sum, total-sum) <= min(plus, total-plus) {
				as++
			}
		}
		if want := float64(as) / float64(int(1)<<len(ranks)); !near(wilcoxon(diffs), want, 1e-12) {
			t.Fatalf("p %v, want %v", wilcoxon(diffs), want)
		}
	})
}

// TestWilcoxonMany: where the distribution is not counted out any more, p hardly changes.
func TestWilcoxonMany(t *testing.T) {
	diffs := make([]float64, mostExact)
	for i := range diffs {
		if diffs[i] = float64(i + 1); i%5 < 2 {
			diffs[i] = -diffs[i]
		}
	}
	exact, normal := wilcoxon(diffs), wilcoxon(append(diffs, 0.5)) // which has the smallest rank
	if !near(math.Log(exact), math.Log(normal), 0.15) {
		t.Errorf("p %v of %d seeds, %v of one more", exact, mostExact, normal)
	}
}

// TestEqual: values that are equal tell of no interval, and of no chance.
func TestEqual(t *testing.T) {
	if m := MeanOf([]float64{0.1, 0.1, 0.1}); m.Mean != 0.1 || m.SD != 0 || m.Half != 0 {
		t.Errorf("%+v", m)
	}
	if p := PairedOf([]float64{3, 3, 3}, []float64{1, 1, 1}); p.Diff.Mean != 2 || !math.IsNaN(p.T) || !math.IsNaN(p.Wilcoxon) {
		t.Errorf("%+v", p)
	}
	if m := MeanOf(nil); m.N != 0 || m.Mean != 0 {
		t.Errorf("%+v", m)
	}
}
