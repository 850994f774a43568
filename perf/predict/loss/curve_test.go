package loss

import (
	"math"
	"math/rand/v2"
	"testing"
)

// TestIterationRule is acceptance 1 of the specification: the example by hand.
func TestIterationRule(t *testing.T) {
	c := Curve{B2: 1, B1: 1}
	for gain, want := range map[float64]int{0: 31, 0.25: 27, 1: 21} {
		if got := c.Iterations(gain); got != want {
			t.Errorf("with a gain of %v, K = %d, want %d", gain, got, want)
		}
	}
}

// TestIterationsAreFirst: no earlier step has stopped, and a larger gain never
// takes longer; GainFor is the way back.
func TestIterationsAreFirst(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	for range 300 {
		c := Curve{B0: r.Float64(), B1: 0.5 + r.Float64(), B2: r.ExpFloat64(), B3: r.ExpFloat64() * float64(r.IntN(2))}
		last := math.MaxInt
		for _, gain := range []float64{-0.5, 0, 0.3, 1, 4} {
			k := c.Iterations(gain)
			if k > last {
				t.Fatalf("%+v takes %d steps with a gain of %v, %d with less", c, k, gain, last)
			}
			last = k
			l := func(k int) float64 { return c.Loss(float64(k)) / (1 + gain) }
			if l(k)-l(k+1) > Stop+1e-12 || k > 1 && l(k-1)-l(k) <= Stop {
				t.Fatalf("%+v: %d is not the first step after which the loss stops to fall", c, k)
			}
		}
		want := 2 + r.IntN(100)
		if g := c.GainFor(want); c.Iterations(g) > want {
			t.Fatalf("%+v with gain %v takes %d steps, not %d", c, g, c.Iterations(g), want)
		}
	}
}

// TestFit: curves are found again from their own points, and nearly from points
// with noise, by what they say of K.
func TestFit(t *testing.T) {
	r := rand.New(rand.NewPCG(3, 4))
	for i := range 60 {
		c := Curve{B0: 0.3 * r.Float64(), B1: 1, B2: 0.2 + r.Float64()}
		if i%2 == 0 {
			c.B3 = 0.05 * r.Float64()
		}
		var exact, noisy []Sample
		for k := range 40 {
			l := c.Loss(float64(k))
			exact = append(exact, Sample{float64(k), l})
			noisy = append(noisy, Sample{float64(k), l * (1 + 0.01*r.NormFloat64())})
		}
		got, err := Fit(exact)
		if err != nil {
			t.Fatal(err)
		}
		if a, b := got.Iterations(0), c.Iterations(0); math.Abs(float64(a-b)) > 1 {
			t.Errorf("%+v was fitted as %+v: K = %d, not %d", c, got, a, b)
		}
		if math.Abs(got.Loss(100)-c.Loss(100)) > 0.01*c.Loss(100) {
			t.Errorf("%+v was fitted as %+v: loss %v after 100 steps, not %v", c, got, got.Loss(100), c.Loss(100))
		}
		if got, err = Fit(noisy); err != nil {
			t.Fatal(err)
		}
		if got.B0 < 0 || got.B1 < 0 || got.B2 < 0 || got.B3 < 0 {
			t.Errorf("negative factors: %+v", got)
		}
		if a, b := got.Iterations(0), c.Iterations(0); math.Abs(float64(a-b)) > 0.3*float64(b) {
			t.Errorf("%+v was fitted from noise as %+v: K = %d, not %d", c, got, a, b)
		}
	}
}

// TestFitRefuses: what is no loss trace is an error.
func TestFitRefuses(t *testing.T) {
	for _, bad := range [][]Sample{
		nil, {{0, 1}, {1, 0.5}}, {{0, 1}, {1, 0}, {2, 1}}, {{0, 1}, {0, 1}, {0, 1}}, {{0, math.NaN()}, {1, 1}, {2, 1}}, {{0, math.Inf(1)}, {1, 1}, {2, 1}},
	} {
		if c, err := Fit(bad); err == nil {
			t.Errorf("%v was fitted: %+v", bad, c)
		}
	}
}

// TestNormalize: the largest loss is 1.
func TestNormalize(t *testing.T) {
	got := Normalize([]Sample{{0, 4}, {1, 2}})
	if got[0].Loss != 1 || got[1].Loss != 0.5 || got[1].K != 1 {
		t.Errorf("%v", got)
	}
}
