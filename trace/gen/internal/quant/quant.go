// Package quant keeps the distribution of a positive quantity as a short list
// of quantiles.
//
// Nouns: Levels are the probabilities at which a Table holds quantiles, closer
// together in the upper tail, where most of the GPU time of a cluster lies; a
// Curve is a Table made ready for drawing from. Between two levels the
// logarithm of the quantity grows linearly.
//
// Units: those of the values that were fitted.
package quant

import (
	"math"
	"sort"
)

// Points is the number of quantiles in a Table.
const Points = 33

// levels are the probabilities of the quantiles in a Table.
var levels = [Points]float64{
	0, .01, .025, .05, .075, .1, .15, .2, .25, .3, .35, .4, .45, .5, .55, .6, .65, .7, .75, .8, .85, .875, .9,
	.925, .95, .96, .97, .98, .985, .99, .995, .998, 1,
}

// Table holds the quantiles at Levels, all positive and in increasing order.
type Table [Points]float64

// Fit returns the quantiles of the values, which must be positive. The upper
// ones are moved, where needed, so that the mean of the Curve is the mean of
// the values. It returns the zero Table for no values.
func Fit(values []float64) Table {
	var t Table
	if len(values) == 0 {
		return t
	}
	sorted := append([]float64(nil), values...)
	sort.Float64s(sorted)
	sum := 0.0
	for _, v := range sorted {
		sum += v
	}
	for i, p := range levels {
		t[i] = at(sorted, p)
	}
	t.aim(sum / float64(len(sorted)))
	return t
}

// At is the quantile of sorted values at probability p, interpolated linearly
// between order statistics.
func at(sorted []float64, p float64) float64 {
	x := p * float64(len(sorted)-1)
	i := int(x)
	if i+1 >= len(sorted) {
		return sorted[len(sorted)-1]
	}
	return sorted[i] + (x-float64(i))*(sorted[i+1]-sorted[i])
}

// tail is the first of the quantiles that aim may move.
const tail = 23 // above the 0.9 quantile

// aim stretches or shrinks the tail until the mean is the one wanted: each
// quantile above the 0.9 quantile q moves to q*(t/q)^s, which keeps the order.
func (t *Table) aim(mean float64) {
	was, q := *t, t[tail-1]
	lo, hi := 0.0, 3.0
	for range 60 {
		s := (lo + hi) / 2
		for i := tail; i < Points; i++ {
			t[i] = q * math.Pow(was[i]/q, s)
		}
		c := t.Curve()
		if c.Mean(1) < mean {
			lo = s
		} else {
			hi = s
		}
	}
}

// Curve is a Table ready for drawing from.
type Curve struct{ log, val [Points]float64 }

// Curve makes the Table ready.
func (t *Table) Curve() Curve {
	c := Curve{val: *t}
	for i, v := range t {
		c.log[i] = math.Log(v)
	}
	return c
}

// At is the quantile at probability p in [0, 1].
func (c *Curve) At(p float64) float64 {
	lo, hi := 0, Points-1
	for hi-lo > 1 {
		if mid := (lo + hi) / 2; levels[mid] <= p {
			lo = mid
		} else {
			hi = mid
		}
	}
	return math.Exp(c.log[lo] + (c.log[hi]-c.log[lo])*(p-levels[lo])/(levels[hi]-levels[lo]))
}

// Below is the probability of a value of at most x.
func (c *Curve) Below(x float64) float64 {
	switch {
	case x < c.val[0]:
		return 0
	case x >= c.val[Points-1]:
		return 1
	}
	i := sort.Search(Points, func(i int) bool { return c.val[i] > x }) - 1
	return levels[i] + (levels[i+1]-levels[i])*(math.Log(x)-c.log[i])/(c.log[i+1]-c.log[i])
}

// Mean is the mean of the values whose probability level is at most p, for p in
// (0, 1].
func (c *Curve) Mean(p float64) float64 {
	sum := 0.0
	for i := 0; i+1 < Points && levels[i] < p; i++ {
		from, to := levels[i], levels[i+1]
		a, b := c.val[i], c.val[i+1]
		if to > p {
			to, b = p, c.At(p)
		}
		if b/a-1 < 1e-9 {
			sum += (to - from) * a
		} else {
			sum += (to - from) * (b - a) / math.Log(b/a)
		}
	}
	return sum / p
}
