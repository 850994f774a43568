package report

import (
	"math"
	"sort"
)

// curves are the distributions of a run, as counts between fixed points: the
// same for every run, so that curves can be laid over each other.
type curves struct{ jct, wait, rho counts }

const (
	gridPoints = 512 // at most, in each grid
	perDecade  = 40
)

// counts[i] is the number of values between point i-1 of a grid (exclusive) and
// point i (inclusive); the last entry is what lies above the last point.
type counts [gridPoints + 1]int32

// The grids: times from 1 ms to about 190 years, rho from 0.01 to 10^5, forty
// points to a factor of ten.
var (
	secondsGrid = makeGrid(-3)
	rhoGrid     = makeGrid(-2)
)

func makeGrid(exponent float64) (grid [gridPoints]float64) {
	for i := range grid {
		grid[i] = math.Pow(10, exponent+float64(i)/perDecade)
	}
	return grid
}

func (c *counts) add(x float64, grid []float64) { c[sort.SearchFloat64s(grid, x)]++ }

// sum is the number of values.
func (c *counts) sum() int {
	n := 0
	for _, k := range c {
		n += int(k)
	}
	return n
}

// within is the first and the last place of the grid between which the values
// lie; ok is false when there are none.
func (c *counts) within() (first, last int, ok bool) {
	first, last = gridPoints, -1
	for i, k := range c {
		if k > 0 {
			first, last = min(first, i), i
		}
	}
	return max(0, first-1), min(last, gridPoints-1), last >= 0
}

// shares are the shares of values at or below the points from first to last.
func (c *counts) shares(first, last int) []float64 {
	out := make([]float64, 0, last-first+1)
	n, below := c.sum(), 0
	for i := range last + 1 {
		below += int(c[i])
		if i >= first {
			out = append(out, math.Round(float64(below)/float64(max(1, n))*1e5)/1e5)
		}
	}
	return out
}
