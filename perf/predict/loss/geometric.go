package loss

import "math"

// Geometric is the loss after k steps of a method that converges linearly,
// Height exp(-Rate (k - From)) + Floor. None of Height, Rate and Floor is below 0.
//
// SLAQ writes it mu^(k-b) + c: mu is exp(-Rate), c is Floor, and b is where Height would be 1.
type Geometric struct {
	Floor, Height, From, Rate float64
}

// Loss is the loss after k steps.
func (g Geometric) Loss(k float64) float64 { return g.Height*math.Exp(-g.Rate*(k-g.From)) + g.Floor }

// fitGeometric finds the Geometric that is nearest to measured losses by the weighted sum of
// the squares of what it is off, and that sum. For a rate the best height and floor are found
// exactly; the rate is searched for.
func fitGeometric(samples []Sample, weight func(i int) float64) (best Geometric, least float64) {
	least = math.Inf(1)
	from, span := samples[0].K, samples[len(samples)-1].K-samples[0].K
	if !(span > 0) {
		return best, least
	}
	try := func(log float64) float64 {
		g := Geometric{From: from, Rate: math.Exp(log) / span}
		e := g.level(samples, weight)
		if e < least {
			best, least = g, e
		}
		return e
	}
	const slow, fast, steps = -4.0, 4.0, 32 // logarithms of how often the loss falls by e within the span
	at, lowest := 0, math.Inf(1)
	for i := range steps + 1 {
		if e := try(slow + (fast-slow)*float64(i)/steps); e < lowest {
			at, lowest = i, e
		}
	}
	narrow(slow+(fast-slow)*float64(at-1)/steps, slow+(fast-slow)*float64(at+1)/steps, try)
	return best, least
}

// level finds the best height and floor for the rate, and the weighted sum of the squares of
// what they are off.
func (g *Geometric) level(samples []Sample, weight func(i int) float64) float64 {
	var one, e, ee, y, ey float64
	for i, s := range samples {
		w, x := weight(i), math.Exp(-g.Rate*(s.K-g.From))
		one, e, ee, y, ey = one+w, e+w*x, ee+w*x*x, y+w*s.Loss, ey+w*x*s.Loss
	}
	det := one*ee - e*e
	if g.Height, g.Floor = 0, y/one; det > 1e-12*one*ee {
		g.Height = (one*ey - e*y) / det
		g.Floor = (y - g.Height*e) / one
	}
	switch {
	case g.Height < 0:
		g.Height, g.Floor = 0, max(0, y/one)
	case g.Floor < 0:
		g.Height, g.Floor = max(0, ey/ee), 0
	}
	sum := 0.0
	for i, s := range samples {
		d := g.Loss(s.K) - s.Loss
		sum += weight(i) * d * d
	}
	return sum
}
