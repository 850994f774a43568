package runner

import (
	"fmt"
	"math"
	"slices"
	"strconv"
	"time"

	"golang.org/x/sys/unix"

	"github.com/norn-scheduler/norn/local/cgroup"
	"github.com/norn-scheduler/norn/local/rundir"
)

// limits are what the run may use.
type limits struct {
	wanted, now rundir.Limits
	none        string    // why it is in no cgroup
	short       bool      // its memory is still to come down
	tried       time.Time // when that was last tried
}

// The time in which a run that is throttled is stopped and goes on once. It is long
// against what freezing takes, and against the work that a GPU has been given when its
// process stops. Without a freezer all processes of the machine are looked at each
// time, and the period is a second at least.
const (
	usualPeriod  = 500 * time.Millisecond
	signalPeriod = time.Second
)

// regulate puts limits in force that are others than before.
func (r *runner) regulate(now time.Time) {
	l := &r.limits
	again := l.short && now.Sub(l.tried) >= pollWant
	if l.wanted == l.now && !again {
		return
	}
	l.now = l.wanted
	if r.group != nil {
		l.short = r.group.Update(cgroup.Limits{CPUs: l.now.CPUs, Memory: l.now.Memory, Weight: l.now.Weight})
		l.tried = now
	}
	if is := r.isolation(); !slices.Equal(is, r.status.Isolation) {
		r.status.Isolation, r.changed = is, true
	}
}

// isolation says what is in force for the run and what is not, a sentence each.
func (r *runner) isolation() []string {
	var out []string
	if r.limits.none != "" {
		out = append(out, r.limits.none)
	}
	if r.group != nil {
		out = append(out, r.group.Isolation()...)
	}
	switch l := &r.limits.now; {
	case l.Throttle >= 1000:
		out = append(out, "it is stopped, so that others have its devices for themselves")
	case l.Throttle > 0 && l.Paced:
		out = append(out, fmt.Sprintf("it leaves its devices to others for %s%% of the time, between its steps", percent(l.Throttle)))
	case l.Throttle > 0:
		out = append(out, fmt.Sprintf("it is stopped for %s%% of each %v, so that others have its devices for themselves", percent(l.Throttle), r.period()))
	}
	return append(out, r.identity(), "files, network and other processes of the machine are not hidden from it")
}

func percent(milli int) string { return strconv.FormatFloat(float64(milli)/10, 'f', -1, 64) }

// period is the time in which the run is stopped and goes on once.
func (r *runner) period() time.Duration {
	p := r.run.Period.Duration()
	if p <= 0 {
		p = usualPeriod
	}
	if !r.freezer() {
		p = max(p, signalPeriod)
	}
	return p
}

// waits tells whether the run is to stand still for the others on its devices, and
// for how long that holds. All runners of the machine go by the same clock, so that
// those who share a device can take turns.
func (r *runner) waits(now time.Time) (waits bool, next time.Duration) {
	l := &r.limits.now
	switch {
	case l.Throttle <= 0 || r.leave != nil || l.Paced && l.Throttle < 1000:
		return false, pollWant
	case l.Throttle >= 1000:
		return true, pollWant
	}
	period := r.period()
	turn := period * time.Duration(1000-l.Throttle) / 1000
	begins := period * time.Duration(l.Phase) / 1000
	at := (r.clock.show(now) - begins) % period
	if at < 0 {
		at += period
	}
	if at < turn {
		return false, turn - at
	}
	return true, period - at
}

// clock is one that all processes of the machine share and nobody sets: what it showed
// at a moment.
type clock struct {
	at time.Time
	up time.Duration
}

// readClock reads it a few times, as this process may have to wait in between, and keeps
// the quickest reading.
func readClock() (c clock) {
	quickest := time.Duration(math.MaxInt64)
	for range 5 {
		var ts unix.Timespec
		at := time.Now()
		err := unix.ClockGettime(unix.CLOCK_MONOTONIC, &ts)
		if took := time.Since(at); err == nil && took < quickest {
			c, quickest = clock{at, time.Duration(ts.Nano())}, took
		}
	}
	return c
}

// show is what the clock shows at a moment.
func (c clock) show(now time.Time) time.Duration { return c.up + now.Sub(c.at) }
