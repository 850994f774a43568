package report

import (
	"slices"
	"time"
)

// points is the largest number of buckets of a series.
const points = 1024

// series is the utilisation and the queue length over time, in buckets of equal
// width. It starts with buckets of a second and doubles their width whenever
// the run outgrows them, so that it stays the same size however long the run.
// Each bucket keeps the extremes beside the mean over time.
type series struct {
	begun       bool
	start       time.Duration
	width       time.Duration
	buckets     []bucket
	used, queue float64 // now
}

// bucket is one width of time.
type bucket struct {
	seconds     float64 // of it that are told
	used, queue band
}

// band is the extremes of a quantity and its integral over time.
type band struct{ min, max, sum float64 }

func newSeries() *series { return &series{width: time.Second} }

// set says what holds from now on.
func (s *series) set(used, queue float64) { s.used, s.queue = used, queue }

// advance tells that the values of the last set held from one moment to
// another.
func (s *series) advance(from, to time.Duration) {
	if !s.begun {
		s.begun, s.start = true, from
	}
	for from < to {
		i := int((from - s.start) / s.width)
		if i >= points {
			s.double()
			continue
		}
		for len(s.buckets) <= i {
			s.buckets = append(s.buckets, bucket{})
		}
		until := min(to, s.start+time.Duration(i+1)*s.width)
		b, dt := &s.buckets[i], (until - from).Seconds()
		b.used.add(s.used, dt, b.seconds == 0)
		b.queue.add(s.queue, dt, b.seconds == 0)
		b.seconds += dt
		from = until
	}
}

// double joins the buckets in pairs.
func (s *series) double() {
	n := 0
	for i := 0; i < len(s.buckets); i += 2 {
		b := s.buckets[i]
		if i+1 < len(s.buckets) {
			b.join(&s.buckets[i+1])
		}
		s.buckets[n] = b
		n++
	}
	s.buckets = s.buckets[:n]
	s.width *= 2
}

func (b *bucket) join(next *bucket) {
	if b.seconds == 0 {
		*b = *next
		return
	}
	if next.seconds == 0 {
		return
	}
	b.used.join(next.used)
	b.queue.join(next.queue)
	b.seconds += next.seconds
}

func (v *band) add(x, dt float64, first bool) {
	if first {
		v.min, v.max = x, x
	}
	v.min, v.max = min(v.min, x), max(v.max, x)
	v.sum += x * dt
}

func (v *band) join(next band) {
	v.min, v.max = min(v.min, next.min), max(v.max, next.max)
	v.sum += next.sum
}

// upTo is the series, told up to one moment, up to another. s is not changed.
func (s *series) upTo(told, end time.Duration) *series {
	c := *s
	c.buckets = slices.Clone(s.buckets)
	c.advance(told, max(told, end))
	return &c
}
