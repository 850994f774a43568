package cassini

import (
	"cmp"
	"math"
	"slices"
	"time"

	"github.com/norn-scheduler/norn/job"
)

// Circle is the iterations of a job on a link, rolled up: a time around it stands for all times that are a whole
// number of periods away.
type Circle struct {
	Period time.Duration
	Arcs   []Arc // in order of time; none overlap
}

// Arc is a part of an iteration in which a job sends so many GB/s over the link, one way.
type Arc struct {
	From, To time.Duration
	GBps     float64
}

// CircleOf is that of a job of which so many flows cross a link. A period is a whole number of steps, so that a job
// may have to wait for less than a step after each iteration.
func CircleOf(h *job.Hints, flows float64, step time.Duration) Circle {
	c := Circle{Period: (h.Iteration + step - 1) / step * step}
	for i := range h.Bursts[:h.Bursts.Len()] {
		b := &h.Bursts[i]
		c.Arcs = append(c.Arcs, Arc{b.From, b.To, b.GBps * flows})
	}
	return c
}

// mean is the mean GB/s.
func (c *Circle) mean() (gbps float64) {
	for _, a := range c.Arcs {
		gbps += a.GBps * float64(a.To-a.From) / float64(c.Period)
	}
	return gbps
}

// mostPerimeter is the longest unified circle. Where it would be longer, jobs come to meet at every angle.
const mostPerimeter = 10 * time.Second

// Link is a link on which circles are rotated against each other.
type Link struct {
	Capacity float64 // GB/s, one way
	Circles  []Circle
	p        time.Duration // perimeter of the unified circle; 0: there is none
	turns    []turn        // scratch
}

// turn is a moment of the unified circle at which the demand changes.
type turn struct {
	at   time.Duration
	more float64
}

// NewLink is the link with a unified circle: its perimeter is the least common multiple of all periods.
func NewLink(capacity float64, circles []Circle) *Link {
	l := &Link{Capacity: capacity, Circles: circles, p: 1}
	for i := range circles {
		if l.p = lcm(l.p, circles[i].Period); l.p > mostPerimeter {
			l.p = 0
			break
		}
	}
	return l
}

func lcm(a, b time.Duration) time.Duration {
	x, y := a, b
	for y != 0 {
		x, y = y, x%y
	}
	if b/x > mostPerimeter/a {
		return mostPerimeter + 1
	}
	return a * (b / x)
}

// Unified tells whether there is a unified circle, so that shifts make a difference.
func (l *Link) Unified() bool { return l.p > 0 }

// Score is how well circles fit when each is rotated by a shift: 1 less the mean of the demand beyond the capacity
// over the capacity. 1: they fit; it may be below 0.
func (l *Link) Score(shifts []time.Duration) float64 {
	l.turns = l.turns[:0]
	demand := 0.0 // at 0
	for i := range l.Circles {
		c := &l.Circles[i]
		for _, a := range c.Arcs {
			for at := time.Duration(0); at < l.p; at += c.Period {
				from, to := (at+a.From+shifts[i])%l.p, (at+a.To+shifts[i])%l.p
				if to < from {
					demand += a.GBps
				}
				if from != to || a.From == a.To {
					l.turns = append(l.turns, turn{from, a.GBps}, turn{to, -a.GBps})
				} else { // it fills the circle
					demand += a.GBps
				}
			}
		}
	}
	slices.SortFunc(l.turns, func(a, b turn) int { return cmp.Compare(a.at, b.at) })
	excess, last := 0.0, time.Duration(0)
	for _, t := range l.turns {
		excess += max(0, demand-l.Capacity) * float64(t.at-last)
		demand, last = demand+t.more, t.at
	}
	excess += max(0, demand-l.Capacity) * float64(l.p-last)
	return 1 - excess/(float64(l.p)*l.Capacity)
}

// alike is the difference of scores that is none.
const alike = 1e-9

// Fit finds shifts, each below the period of its circle, that give the best score. Angles are so many degrees of a
// job's own circle apart. The first circle is not rotated. Up to three circles are tried at all angles. Of more, one
// after the other is added at its best angle, and then each is rotated until none gets better, ten times at most. Of
// equal scores the one with the smallest shifts counts. Without a unified circle the score is the mean over all
// angles.
func (l *Link) Fit(degrees float64) (score float64, shifts []time.Duration) {
	shifts = make([]time.Duration, len(l.Circles))
	switch n := len(l.Circles); {
	case !l.Unified():
		return l.anyhow(), shifts
	case n > 3:
		return l.descend(shifts, degrees), shifts
	case n == 3:
		best, second := math.Inf(-1), time.Duration(0)
		third, sum := time.Duration(0), time.Duration(0)
		for _, at := range angles(l.Circles[1].Period, degrees) {
			shifts[1] = at
			got := l.rotate(shifts, 2, degrees)
			if got > best+alike || got > best-alike && at+shifts[2] < sum {
				best, second, third, sum = got, at, shifts[2], at+shifts[2]
			}
		}
		shifts[1], shifts[2] = second, third
		return best, shifts
	case n == 2:
		return l.rotate(shifts, 1, degrees), shifts
	}
	return l.Score(shifts), shifts
}

// angles are the shifts of a circle that are tried.
func angles(period time.Duration, degrees float64) []time.Duration {
	n := int(math.Round(360 / degrees))
	out := make([]time.Duration, n)
	for i := range out {
		out[i] = period * time.Duration(i) / time.Duration(n)
	}
	return out
}

// rotate finds the best shift of one circle, beside the others as they stand.
func (l *Link) rotate(shifts []time.Duration, i int, degrees float64) float64 {
	best, at := math.Inf(-1), time.Duration(0)
	for _, a := range angles(l.Circles[i].Period, degrees) {
		shifts[i] = a
		if got := l.Score(shifts); got > best+alike {
			best, at = got, a
		}
		if best >= 1-alike {
			break
		}
	}
	shifts[i] = at
	return best
}

// sweeps is how often every circle is rotated at most.
const sweeps = 10

func (l *Link) descend(shifts []time.Duration, degrees float64) float64 {
	all := l.Circles
	for n := 2; n <= len(all); n++ {
		l.Circles = all[:n]
		l.rotate(shifts, n-1, degrees)
	}
	best := l.Score(shifts)
	for range sweeps {
		was := best
		for i := 1; i < len(all); i++ {
			at := shifts[i]
			if got := l.rotate(shifts, i, degrees); got > best+alike {
				best = got
			} else {
				shifts[i] = at
			}
		}
		if best <= was+alike {
			break
		}
	}
	return best
}

// mostLevels bounds the sums of demands that are told apart.
const mostLevels = 4096

// anyhow is the mean score over all angles: each circle is at any of its moments, whatever the others do.
func (l *Link) anyhow() float64 {
	levels := map[float64]float64{0: 1} // GB/s, and for which part of the time
	for i := range l.Circles {
		c, next := &l.Circles[i], map[float64]float64{}
		silent := 1.0
		for _, a := range c.Arcs {
			part := float64(a.To-a.From) / float64(c.Period)
			silent -= part
			for v, w := range levels {
				next[round(v+a.GBps, len(levels))] += w * part
			}
		}
		for v, w := range levels {
			next[v] += w * silent
		}
		levels = next
	}
	sums := make([]float64, 0, len(levels))
	for v := range levels {
		sums = append(sums, v)
	}
	slices.Sort(sums)
	excess := 0.0
	for _, v := range sums {
		excess += max(0, v-l.Capacity) * levels[v]
	}
	return 1 - excess/l.Capacity
}

// round keeps sums that differ by little together, the less finely the more there are.
func round(v float64, n int) float64 {
	step := 1e-6
	if n > mostLevels {
		step = 1e-2
	}
	return math.Round(v/step) * step
}
