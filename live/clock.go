package live

import (
	"math"
	"slices"
	"time"

	"github.com/norn-scheduler/norn/cluster/unit"
)

// Clock turns wall time into time since the origin of the log.
type Clock struct {
	Origin time.Time
	base   time.Duration // at start
	start  time.Time
}

// NewClock makes a clock that shows at least so much now.
func NewClock(origin time.Time, atLeast time.Duration) Clock {
	now := time.Now()
	return Clock{Origin: origin, base: max(now.Sub(origin).Round(0), atLeast), start: now}
}

// Now is monotonic: a wall clock that is set back does not turn it back.
func (c *Clock) Now() time.Duration { return c.base + time.Since(c.start) }

// Wall is the time of day of a moment; the zero time for one that never was.
func (c *Clock) Wall(at time.Duration) time.Time {
	if at < 0 {
		return time.Time{}
	}
	return c.start.Add(at - c.base).Round(time.Microsecond)
}

// Since is the moment of a time of day; one that is centuries away is the last that there is.
func (c *Clock) Since(t time.Time) time.Duration {
	return min(t.Sub(c.start), math.MaxInt64-c.base) + c.base
}

// timers are things to be done at moments.
type timers struct{ all []timer }

type timer struct {
	at time.Duration
	f  func()
}

func (t *timers) add(at time.Duration, f func()) { t.all = append(t.all, timer{at, f}) }

// next is the moment of the first one.
func (t *timers) next() time.Duration {
	next := time.Duration(unit.Never)
	for i := range t.all {
		next = min(next, t.all[i].at)
	}
	return next
}

// due takes out those whose moment has come. There are few of them.
func (t *timers) due(now time.Duration) (out []func()) {
	t.all = slices.DeleteFunc(t.all, func(e timer) bool {
		if e.at <= now {
			out = append(out, e.f)
		}
		return e.at <= now
	})
	return out
}
