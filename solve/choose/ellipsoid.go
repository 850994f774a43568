package choose

import "math"

// ellipsoid is where the best prices lie: around center, by the matrix shape.
type ellipsoid struct {
	n      int
	center []float64
	shape  []float64 // n x n
	step   []float64 // scratch: shape times the slope
}

// newEllipsoid is one around the box from zero to high.
func newEllipsoid(high []float64) *ellipsoid {
	n := len(high)
	e := &ellipsoid{n: n, center: make([]float64, n), shape: make([]float64, n*n), step: make([]float64, n)}
	for k, h := range high {
		e.center[k] = h / 2
		h = max(h, 1e-300)
		e.shape[k*n+k] = h * h / 4 * float64(n)
	}
	return e
}

// below is a price that is below zero, or -1.
func (e *ellipsoid) below() int {
	for k, c := range e.center {
		if c < 0 {
			return k
		}
	}
	return -1
}

// reach is by how much a function with this slope in the center can sink inside.
func (e *ellipsoid) reach(slope []float64) float64 {
	sum := 0.0
	for i := range e.n {
		e.step[i] = 0
		for k := range e.n {
			e.step[i] += e.shape[i*e.n+k] * slope[k]
		}
		sum += e.step[i] * slope[i]
	}
	return math.Sqrt(max(0, sum))
}

// cut keeps the part where a function with this slope in the center is lower
// than there by at least excess. It is false when there is nothing to cut.
func (e *ellipsoid) cut(slope []float64, excess float64) bool {
	norm := e.reach(slope)
	if !(norm > 1e-250) {
		return false
	}
	depth := excess / norm
	if depth >= 1 {
		return false
	}
	n := float64(e.n)
	move, squeeze, stretch := (1+n*depth)/(n+1), 2*(1+n*depth)/((n+1)*(1+depth)), 0.0
	if e.n == 1 { // an interval: its ends are known
		low, high := -1.0, -depth
		move, stretch, squeeze = -(low+high)/2, (high-low)*(high-low)/4, 0
	} else {
		stretch = n * n / (n*n - 1) * (1 - depth*depth)
	}
	for i := range e.n {
		e.step[i] /= norm
	}
	for i := range e.n {
		e.center[i] -= move * e.step[i]
		for k := range e.n {
			e.shape[i*e.n+k] = stretch * (e.shape[i*e.n+k] - squeeze*e.step[i]*e.step[k])
		}
	}
	return true
}
