package gen

import (
	"sort"
	"time"
)

// limits are the wall-time limits that users write: round figures.
var limits = makeLimits()

func makeLimits() []time.Duration {
	var out []time.Duration
	for _, m := range []time.Duration{5, 10, 15, 20, 30, 45} {
		out = append(out, m*time.Minute)
	}
	for _, h := range []time.Duration{1, 2, 3, 4, 6, 8, 10, 12, 18} {
		out = append(out, h*time.Hour)
	}
	for _, d := range []time.Duration{1, 2, 3, 4, 5, 7, 10, 14, 21, 30, 45, 60, 90, 120, 180, 365} {
		out = append(out, d*24*time.Hour)
	}
	return out
}

// usualMost is the longest limit that a user writes for a job that does not
// need it.
const usualMost = 7 * 24 * time.Hour

// roundUp is the smallest limit of at least d; d itself beyond the largest.
func roundUp(d time.Duration) time.Duration {
	i := sort.Search(len(limits), func(i int) bool { return limits[i] >= d })
	if i == len(limits) {
		return d
	}
	return limits[i]
}

// usualLimit is the limit that the user of a session writes by habit: the run
// time typical of its template times the factor by which she over-estimates,
// rounded up, and at most a week unless the typical job needs more.
func (s *session) usualLimit(common float64) time.Duration {
	d := &s.shape.cells[s.cell]
	typical := d.curve.At(probability(common*s.score) * d.top)
	least := roundUp(time.Duration(typical * 1e9))
	habit := time.Duration(min(typical*s.template.over, 1e9) * 1e9)
	return min(roundUp(habit), max(least, usualMost))
}

// estimate is what the user says about a job that will run for so long: her
// usual limit, or the next larger one that suffices.
func (s *session) estimate(run time.Duration) time.Duration {
	return max(s.limit, roundUp(run))
}
