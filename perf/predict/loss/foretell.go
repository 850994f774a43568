package loss

import "math"

// Form is a function that losses follow.
type Form interface {
	// Loss is the loss after k steps.
	Loss(k float64) float64
}

// Decay is the weights by which each sample counts that many times as much as the next one,
// the last one 1. SLAQ takes 0.9.
func Decay(samples int, factor float64) func(i int) float64 {
	return func(i int) float64 { return math.Pow(factor, float64(samples-1-i)) }
}

// Thirds is the weights by which the first third of the samples counts 1, the second 16 and
// the last 256, as in the prototype of Optimus, where their deviations are 1, 1/4 and 1/16.
func Thirds(samples int) func(i int) float64 {
	return func(i int) float64 {
		switch {
		case 3*i < samples:
			return 1
		case 3*i < 2*samples:
			return 16
		}
		return 256
	}
}

// Converged is the first step, from the given one on, at which a loss has fallen by no more than
// fall within ten steps, as in Optimus: l(e-9) - l(e) is what is meant. ok is false where that is so
// in no step up to most.
func Converged(f Form, from, fall float64, most int) (step int, ok bool) {
	const within = 9
	for e := max(within+1, int(math.Ceil(from))); e <= most; e++ {
		if f.Loss(float64(e-within))-f.Loss(float64(e)) <= fall+1e-9 {
			return e, true
		}
	}
	return 0, false
}

// FitRecent is Fit in which recent losses count more (Thirds).
func FitRecent(samples []Sample) (Curve, error) {
	c, _, err := fitCurve(samples, Thirds(len(samples)))
	return c, err
}

// Foretell finds the form that is nearest to losses in order of steps: a Curve or a
// Geometric, whichever is off less in its weighted squares. It fails with fewer than
// MinSamples, and on losses that are not above 0.
func Foretell(samples []Sample, weight func(i int) float64) (Form, error) {
	curve, off, err := fitCurve(samples, weight)
	if err != nil {
		return nil, err
	}
	if g, other := fitGeometric(samples, weight); other < off {
		return g, nil
	}
	return curve, nil
}
