package gp

import "math"

// Search looks for the least value of a function on a number of points by confidence
// bounds: it asks next for the value at the point whose lower bound, the mean less a
// number of standard deviations, is least. Values are standardised by those observed, so
// that the kernel is one for values with mean 0 and variance 1.
type Search struct {
	Kernel Kernel
	Points [][]float64
	Delta  float64 // the bounds shall hold with probability 1 - Delta; 0: 0.1

	Rounds   int     // values to ask for at most; 0: 50
	Patience int     // rounds in a row without news after which it ends; 0: 10
	Tol      float64 // what is news: a change of the least mean, in parts of it; 0: 0.01
}

// Defaults of a Search.
const (
	Delta    = 0.1
	Rounds   = 50
	Patience = 10
	Tol      = 0.01
)

// Beta is by how many standard deviations the bound of round t, from 1, is away:
// sqrt(2 ln(t^2 pi^2 / (6 delta))).
func Beta(t int, delta float64) float64 {
	return math.Sqrt(2 * math.Log(float64(t)*float64(t)*math.Pi*math.Pi/(6*delta)))
}

// Seen is a value that was measured.
type Seen struct {
	Point int
	Value float64
}

// Next is the point to be measured next when these values were seen, which are one at
// least; ok is false when every point has been measured, or the rounds are over. It is a
// function of what was seen.
func (s *Search) Next(seen []Seen) (point int, ok bool) {
	if len(seen) > def(s.Rounds, Rounds) || s.settled(seen) {
		return 0, false
	}
	p, known := s.believe(seen)
	beta := Beta(len(seen), orDelta(s.Delta))
	least := math.Inf(1)
	for i := range s.Points {
		if bound := p.Mean(i) - beta*p.Deviation(i); !known[i] && bound < least {
			point, least, ok = i, bound, true
		}
	}
	return point, ok
}

// Best is the least value that was seen, the first of equal ones.
func Best(seen []Seen) Seen {
	best := seen[0]
	for _, x := range seen[1:] {
		if x.Value < best.Value {
			best = x
		}
	}
	return best
}

// believe is the process after what was seen, standardised, and which points were.
func (s *Search) believe(seen []Seen) (p *Process, known []bool) {
	mean, sd := 0.0, 0.0
	for _, x := range seen {
		mean += x.Value / float64(len(seen))
	}
	for _, x := range seen {
		sd += (x.Value - mean) * (x.Value - mean) / float64(len(seen))
	}
	if sd = math.Sqrt(sd); sd == 0 {
		sd = 1
	}
	p, known = New(s.Kernel, s.Points), make([]bool, len(s.Points))
	for _, x := range seen {
		p.Observe(x.Point, (x.Value-mean)/sd)
		known[x.Point] = true
	}
	return p, known
}

// settled tells whether the least value has hardly changed for some rounds.
func (s *Search) settled(seen []Seen) bool {
	n := def(s.Patience, Patience)
	if len(seen) <= n {
		return false
	}
	tol := s.Tol
	if tol == 0 {
		tol = Tol
	}
	before, now := Best(seen[:len(seen)-n]).Value, Best(seen).Value
	return before-now <= tol*math.Abs(before)
}

func def(n, other int) int {
	if n <= 0 {
		return other
	}
	return n
}

func orDelta(d float64) float64 {
	if d <= 0 {
		return Delta
	}
	return d
}
