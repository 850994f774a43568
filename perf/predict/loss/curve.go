// Package loss foretells how the loss of a job goes on, from what it was so far.
//
// Nouns:
//   - A Sample is a loss that was measured after K steps, of whatever length.
//   - A Form is a function that losses follow: a Curve, for first-order methods, or a
//     Geometric, for those that converge linearly.
//   - A weight says how much it matters that a form is near to a sample.
//   - K is the step at which the loss has stopped to fall, so that the job is done.
//   - A History is what was measured of one job, and a Believer has those of all jobs.
//
// Sources: "Ymir: A Scheduler for Foundation Model Fine-tuning Workloads in Datacenters", ICS
// 2024, section 4; Zhang et al., "SLAQ: Quality-Driven Scheduling for Distributed Machine
// Learning", SoCC 2017; Peng et al., "Optimus", EuroSys 2018, section 3.1.
package loss

import (
	"errors"
	"math"
	"sort"
)

// Curve is the loss after k steps, 1/(B3 k² + B2 k + B1) + B0. None of the four is
// below 0.
type Curve struct {
	B0, B1, B2, B3 float64
}

// Stop is the fall of the loss from one step to the next at which a job is done.
const Stop = 0.001

// maxSteps is where the search for K ends.
const maxSteps = 1_000_000

// Loss is the loss after k steps.
func (c Curve) Loss(k float64) float64 { return 1/(c.B3*k*k+c.B2*k+c.B1) + c.B0 }

// fall is by how much the loss falls in the step after k.
func (c Curve) fall(k int) float64 { return c.Loss(float64(k)) - c.Loss(float64(k+1)) }

// Iterations is K: the first step after which the loss falls by no more than Stop
// within a step, at least 1. With a gain, the loss is that of the job alone divided
// by 1+gain; a gain of -1 or less is taken for one just above it.
func (c Curve) Iterations(gain float64) int {
	// The fall of the divided loss is the divided fall. It grows up to some step and shrinks
	// from there on. So where it is above the limit in the first step, it is until it first is
	// not, and never again after that.
	limit := Stop * max(1+gain, 1e-6) * (1 + 1e-12) // what is equal but for rounding has stopped
	if c.fall(1) <= limit {
		return 1
	}
	return 1 + sort.Search(maxSteps-1, func(i int) bool { return c.fall(1+i) <= limit })
}

// GainFor is a gain with which the job is done after k steps.
func (c Curve) GainFor(k int) float64 { return c.fall(max(1, k))/Stop - 1 }

// Sample is a loss that was measured after K steps.
type Sample struct{ K, Loss float64 }

// Normalize divides losses by the largest of them.
func Normalize(samples []Sample) []Sample {
	most := 0.0
	for _, s := range samples {
		most = max(most, s.Loss)
	}
	out := make([]Sample, len(samples))
	for i, s := range samples {
		out[i] = Sample{s.K, s.Loss / most}
	}
	return out
}

// MinSamples is how many measurements a fit needs.
const MinSamples = 3

var errSamples = errors.New("a loss curve needs at least 3 measurements with losses above 0 at different steps")

// Fit finds the curve that is nearest to measured losses, in the sense of least
// squares. Where B0 is given, the reciprocal of what is left of the loss is linear
// in the other three, and there the best one without negative factors is found
// exactly; B0 is searched for.
func Fit(samples []Sample) (Curve, error) {
	c, _, err := fitCurve(samples, func(int) float64 { return 1 })
	return c, err
}

// fitCurve is Fit with weights, and the sum of the weighted squares of what is off.
func fitCurve(samples []Sample, weight func(i int) float64) (Curve, float64, error) {
	least, top := math.Inf(1), 0.0
	for _, s := range samples {
		if !(s.Loss > 0) || s.K < 0 || math.IsInf(s.Loss, 1) || math.IsInf(s.K, 1) || math.IsNaN(s.K) {
			return Curve{}, 0, errSamples
		}
		least, top = min(least, s.Loss), max(top, s.K)
	}
	if len(samples) < MinSamples || top == 0 {
		return Curve{}, 0, errSamples
	}
	best, error2 := Curve{}, math.Inf(1)
	try := func(b0 float64) float64 {
		c, e := fitReciprocal(samples, weight, b0, top)
		if e < error2 {
			best, error2 = c, e
		}
		return e
	}
	const steps = 40
	at, lowest := 0, math.Inf(1)
	for i := range steps {
		if e := try(least * float64(i) / steps); e < lowest {
			at, lowest = i, e
		}
	}
	narrow(least*float64(max(0, at-1))/steps, least*(float64(at)+0.999)/steps, try)
	if math.IsInf(error2, 1) {
		return Curve{}, 0, errSamples
	}
	return best, error2, nil
}

// narrow looks for the least value of a function between two places by the golden
// section.
func narrow(low, high float64, f func(float64) float64) {
	const golden = 0.6180339887498949
	a, b := high-golden*(high-low), low+golden*(high-low)
	fa, fb := f(a), f(b)
	for range 60 {
		if fa < fb {
			high, b, fb = b, a, fa
			a = high - golden*(high-low)
			fa = f(a)
		} else {
			low, a, fa = a, b, fb
			b = low + golden*(high-low)
			fb = f(b)
		}
	}
}

// error2 is the weighted sum of the squares of what the curve is off; +Inf where it is above
// most.
func (c Curve) error2(samples []Sample, weight func(i int) float64, most float64) float64 {
	sum := 0.0
	for i, s := range samples {
		d := c.Loss(s.K) - s.Loss
		if sum += d * d * weight(i); !(sum <= most) {
			return math.Inf(1)
		}
	}
	return sum
}

// fitReciprocal finds B1, B2 and B3 for a B0: of the fits with some of them 0 the
// best one in which none is negative, and its error2. Being off by d in 1/y is being
// off by d y² in y, so each sample has the weight y⁴.
func fitReciprocal(samples []Sample, weight func(i int) float64, b0, top float64) (best Curve, least float64) {
	var m [3][4]float64
	for i, s := range samples {
		y := s.Loss - b0
		x := s.K / top
		row := [4]float64{1, x, x * x, 1 / y}
		w := y * y * y * y * weight(i)
		for i := range 3 {
			for j := range 4 {
				m[i][j] += w * row[i] * row[j]
			}
		}
	}
	least = math.Inf(1)
	for used := 1; used < 8; used++ {
		b, ok := solve(m, used)
		if !ok || b[0] < 0 || b[1] < 0 || b[2] < 0 {
			continue
		}
		c := Curve{B0: b0, B1: b[0], B2: b[1] / top, B3: b[2] / (top * top)}
		if e := c.error2(samples, weight, least); e < least {
			best, least = c, e
		}
	}
	return best, least
}

// solve solves the equations of the unknowns whose bits are set in used; the others
// are 0.
func solve(m [3][4]float64, used int) (b [3]float64, ok bool) {
	for i := range 3 {
		if used&(1<<i) == 0 {
			m[i] = [4]float64{}
			for j := range 3 {
				m[j][i] = 0
			}
			m[i][i] = 1
		}
	}
	for i := range 3 {
		pivot := i
		for j := i + 1; j < 3; j++ {
			if math.Abs(m[j][i]) > math.Abs(m[pivot][i]) {
				pivot = j
			}
		}
		m[i], m[pivot] = m[pivot], m[i]
		if math.Abs(m[i][i]) < 1e-300 {
			return b, false
		}
		for j := range 3 {
			if j == i {
				continue
			}
			f := m[j][i] / m[i][i]
			for k := i; k < 4; k++ {
				m[j][k] -= f * m[i][k]
			}
		}
	}
	for i := range 3 {
		b[i] = m[i][3] / m[i][i]
	}
	return b, true
}
