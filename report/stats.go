package report

import (
	"math"
	"math/bits"
	"slices"
	"time"

	"github.com/norn-scheduler/norn/cluster/unit"
)

// Stats describes a set of durations. Quantiles are interpolated linearly
// between the two nearest values. The quantile p of n sorted values x is the
// value at place (n-1)p, counted from 0. This is type 7 of Hyndman and Fan,
// "Sample Quantiles in Statistical Packages", 1996, the default of NumPy and R.
type Stats struct {
	N                           int
	Mean, Median, P90, P99, Max time.Duration
}

// MarshalJSON writes seconds; null when there are no values.
func (s Stats) MarshalJSON() ([]byte, error) {
	if s.N == 0 {
		return []byte("null"), nil
	}
	b := []byte(`{"mean":`)
	b = unit.AppendSeconds(b, s.Mean)
	b = append(b, `,"median":`...)
	b = unit.AppendSeconds(b, s.Median)
	b = append(b, `,"p90":`...)
	b = unit.AppendSeconds(b, s.P90)
	b = append(b, `,"p99":`...)
	b = unit.AppendSeconds(b, s.P99)
	b = append(b, `,"max":`...)
	b = unit.AppendSeconds(b, s.Max)
	return append(b, '}'), nil
}

// Describe computes the Stats of durations, which it reorders.
func Describe(xs []time.Duration) Stats { return describe(xs) }

// describe computes the Stats of xs, which it reorders.
func describe(xs []time.Duration) Stats {
	s := Stats{N: len(xs)}
	if len(xs) == 0 {
		return s
	}
	var sum total
	for _, x := range xs {
		sum.add(x)
		s.Max = max(s.Max, x)
	}
	s.Mean = sum.mean(len(xs))
	left := xs
	s.P99, left = quantile(xs, left, 0.99)
	s.P90, left = quantile(xs, left, 0.9)
	s.Median, _ = quantile(xs, left, 0.5)
	return s
}

// quantile is the quantile p of xs. head is a part at the front of xs that is
// known to hold its smallest values; a shorter one is returned, for the next
// smaller quantile.
func quantile(xs, head []time.Duration, p float64) (time.Duration, []time.Duration) {
	place := float64(len(xs)-1) * p
	k := int(place)
	choose(head, k)
	low, rest := head[k], head[k+1:]
	if len(rest) == 0 {
		rest = xs[len(head):]
	}
	if len(rest) == 0 {
		return low, head
	}
	step := float64(slices.Min(rest)-low) * (place - float64(k))
	return low + time.Duration(math.Round(step)), head[:k+1]
}

// choose reorders xs so that the value of place k stands there, with nothing
// larger before and nothing smaller behind it (Hoare's selection).
func choose(xs []time.Duration, k int) {
	lo, hi := 0, len(xs)-1
	for lo < hi {
		pivot := middle(xs[lo], xs[(lo+hi)/2], xs[hi])
		i, j := lo, hi
		for i <= j {
			for xs[i] < pivot {
				i++
			}
			for xs[j] > pivot {
				j--
			}
			if i <= j {
				xs[i], xs[j] = xs[j], xs[i]
				i++
				j--
			}
		}
		switch {
		case k <= j:
			hi = j
		case k >= i:
			lo = i
		default:
			return
		}
	}
}

func middle(a, b, c time.Duration) time.Duration {
	return max(min(a, b), min(max(a, b), c))
}

// total is an exact sum of durations that are not negative.
type total struct{ hi, lo uint64 }

func (t *total) add(d time.Duration) {
	var carry uint64
	t.lo, carry = bits.Add64(t.lo, uint64(max(0, d)), 0)
	t.hi += carry
}

// join adds another sum.
func (t *total) join(u total) {
	var carry uint64
	t.lo, carry = bits.Add64(t.lo, u.lo, 0)
	t.hi += u.hi + carry
}

// mean is the sum divided by the number of durations, to the nearest
// nanosecond.
func (t total) mean(n int) time.Duration {
	if n == 0 {
		return 0
	}
	q, r := bits.Div64(t.hi, t.lo, uint64(n))
	if r >= uint64(n)-r {
		q++
	}
	return time.Duration(q)
}

// jain is Jain's index of fairness of xs: 1 when all are equal, 1/n when one
// has everything (Jain, Chiu and Hawe, "A Quantitative Measure of Fairness and
// Discrimination", DEC-TR-301, 1984). It is 1 for no values and for all zeros.
func jain(xs []float64) float64 {
	var sum, squares float64
	for _, x := range xs {
		sum += x
		squares += x * x
	}
	if squares == 0 {
		return 1
	}
	return sum * sum / (float64(len(xs)) * squares)
}
