package quant

import (
	"math"
	"sort"
	"testing"

	"pgregory.net/rapid"
)

// positive draws run times of any spread.
func positive(r *rapid.T) []float64 {
	return rapid.SliceOfN(rapid.Map(rapid.Float64Range(0, 15), math.Exp), 1, 300).Draw(r, "values")
}

func TestLevels(t *testing.T) {
	if levels[0] != 0 || levels[Points-1] != 1 || levels[tail-1] != .9 || !sort.Float64sAreSorted(levels[:]) {
		t.Errorf("levels %v", levels)
	}
}

// TestFit: a fitted table is in order, within the values but for its tail, and
// has the quantiles of the values below it.
func TestFit(t *testing.T) {
	rapid.Check(t, func(r *rapid.T) {
		values := positive(r)
		table := Fit(values)
		if !sort.Float64sAreSorted(table[:]) || table[0] <= 0 {
			r.Fatalf("%v", table)
		}
		sort.Float64s(values)
		if table[0] != values[0] {
			r.Fatalf("least %v, fitted %v", values[0], table[0])
		}
		c := table.Curve()
		for p := 0.05; p < .9; p += .05 {
			x := p * float64(len(values)-1)
			low, high := values[int(x)], values[min(len(values)-1, int(math.Ceil(x)))]
			before, after := p-.05, p+.05 // a level on each side
			if got := c.At(p); got < at(values, before)*(1-1e-9) || got > at(values, after)*(1+1e-9) {
				r.Fatalf("p%.2f is %v, the values have %v to %v", p, got, low, high)
			}
		}
	})
}

// TestBelow: Below is the inverse of At.
func TestBelow(t *testing.T) {
	rapid.Check(t, func(r *rapid.T) {
		table := Fit(positive(r))
		c := table.Curve()
		p := rapid.Float64Range(0, 1).Draw(r, "p")
		x := c.At(p)
		if back := c.At(c.Below(x)); math.Abs(back-x) > 1e-6*x {
			r.Fatalf("%v lies at %v, which is %v", x, c.Below(x), back)
		}
		if c.Below(x*1.000001) < p-1e-6 {
			r.Fatalf("below %v lies %v, drawn at %v", x, c.Below(x), p)
		}
	})
}

// TestMean: Mean is the mean of At over the levels, and for a skewed sample that
// of the sample.
func TestMean(t *testing.T) {
	values := make([]float64, 2000)
	sum := 0.0
	for i := range values {
		values[i] = math.Exp(3 * math.Erfinv(2*(float64(i)+.5)/2000-1) * math.Sqrt2)
		sum += values[i] / 2000
	}
	table := Fit(values)
	c := table.Curve()
	if got := c.Mean(1); math.Abs(got/sum-1) > .001 {
		t.Errorf("mean %v, the values have %v", got, sum)
	}
	for _, top := range []float64{.03, .5, .93, 1} {
		const steps = 400_000
		got := 0.0
		for i := range steps {
			got += c.At(top*(float64(i)+.5)/steps) / steps
		}
		if want := c.Mean(top); math.Abs(got/want-1) > .001 {
			t.Errorf("mean up to %v is %v, drawn %v", top, want, got)
		}
	}
}
