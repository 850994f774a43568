// Package gp is regression by a Gaussian process, and the search for the least value of
// a function of which only a few values can be measured.
//
// Nouns:
//   - A point is a list of numbers, each best between 0 and 1.
//   - A Kernel says how alike the values at two points are believed to be.
//   - A Process is what is believed of a function after some of its values were
//     observed: at each point a mean and a standard deviation.
//
// Sources: Rasmussen and Williams, "Gaussian Processes for Machine Learning", 2006,
// algorithm 2.1; Srinivas et al., "Gaussian Process Optimization in the Bandit Setting",
// ICML 2010, for the confidence bounds.
package gp

import "math"

// Kernel says how alike the values of a function are at two points: the sum of a part
// that falls with their distance, and a part that is linear, with noise on what is
// observed. Variances are in squares of the unit of the values.
type Kernel struct {
	Smooth float64 // variance of the part exp(-|x-y|^2 / (2 Length^2))
	Length float64 // of which the point changes before the values do; above 0
	Linear float64 // variance of the part 1 + x.y
	Noise  float64 // variance of an observation, above 0
}

// At is the covariance of the values at two points.
func (k *Kernel) At(x, y []float64) float64 {
	dot, dist := 1.0, 0.0
	for i := range x {
		dot += x[i] * y[i]
		dist += (x[i] - y[i]) * (x[i] - y[i])
	}
	v := k.Linear * dot
	if k.Smooth > 0 {
		v += k.Smooth * math.Exp(-dist/(2*k.Length*k.Length))
	}
	return v
}

// Process is what is believed of a function at a number of points, of which some were
// observed: a prior mean of 0 and the Kernel, conditioned on the observations. Make it
// with New.
type Process struct {
	kernel Kernel
	points [][]float64
	seen   []int       // points that were observed, perhaps more than once
	left   []float64   // what each observation told beyond those before it, whitened
	rows   [][]float64 // for each observation: that of the inverse factor, at all points
	mean   []float64
	spread []float64 // variance
}

// New is the belief before anything was observed.
func New(k Kernel, points [][]float64) *Process {
	p := &Process{kernel: k, points: points, mean: make([]float64, len(points)), spread: make([]float64, len(points))}
	for i, x := range points {
		p.spread[i] = k.At(x, x)
	}
	return p
}

// Mean is the mean at a point, by its number.
func (p *Process) Mean(i int) float64 { return p.mean[i] }

// Deviation is the standard deviation at a point, of the value itself without noise.
func (p *Process) Deviation(i int) float64 { return math.Sqrt(max(0, p.spread[i])) }

// Observe takes in a value at a point. It takes time in proportion to the number of
// points times that of the observations so far: a row of the Cholesky factor is added,
// and what it explains at each point.
func (p *Process) Observe(at int, value float64) {
	// The observation is believed to be mean[at], with this variance.
	sd := math.Sqrt(max(0, p.spread[at]) + p.kernel.Noise)
	row := make([]float64, len(p.points))
	for i, x := range p.points {
		c := p.kernel.At(x, p.points[at])
		for _, r := range p.rows {
			c -= r[i] * r[at]
		}
		row[i] = c / sd
	}
	white := (value - p.mean[at]) / sd
	for i := range p.points {
		p.mean[i] += row[i] * white
		p.spread[i] -= row[i] * row[i]
	}
	p.seen, p.left, p.rows = append(p.seen, at), append(p.left, white), append(p.rows, row)
}

// Smooth is a Kernel for values of mean 0 and variance 1 that change over about half of
// the range of each coordinate, with hardly any noise.
func Smooth() Kernel { return Kernel{Smooth: 1, Length: 0.4, Linear: 0.5, Noise: 1e-4} }
