package muri

import (
	"math"
	"slices"
	"time"

	"github.com/norn-scheduler/norn/cluster/unit"
	"github.com/norn-scheduler/norn/eventlog"
	"github.com/norn-scheduler/norn/internal/published/harness"
	"github.com/norn-scheduler/norn/job"
	"github.com/norn-scheduler/norn/sim"
	"github.com/norn-scheduler/norn/state"
)

// grace is what jobs are given on top of their work in the simulated world, so
// that none ends there before the clock ends it.
const grace = time.Second

// clock is the simulated world of Muri: at every event it takes the overhead
// from every running job. It keeps what the published code keeps of a job in
// floating point, foresees the next completion as that code does, and ends the
// jobs then. Whether two jobs end together or one after the other is decided by
// the last bit there, and costs the later one its overhead: nanoseconds would
// not do.
//
// The policies are shown it: shortest and shortest-gpu know what remains of
// each job, and all of them ask for moments in floating point.
type clock struct {
	*sim.Sim
	state *state.State
	work  *workload
	jobs  []progress // by number

	groups bool // jobs share devices, and slow each other down

	now    float64       // the event
	wake   float64       // the next event, arrivals aside
	ending float64       // the next completion, as of the last event
	ends   []int32       // who ends then
	next   int           // the next arrival
	last   time.Duration // the event before, as the engine counts
	asked  time.Duration // the moment that the engine was asked to wake at
}

// progress is how far a job has come, up to the last event.
type progress struct {
	left     float64 // iterations to go
	executed float64 // seconds that it has run, overhead included
	seen     float64 // the last event

	iteration float64 // how long one takes now
	overhead  float64 // what an event costs it now
}

func newClock(w *workload) *clock {
	return &clock{work: w, jobs: make([]progress, len(w.facts)), ending: math.Inf(1), wake: math.Inf(1)}
}

// Attach implements replay.World.
func (c *clock) Attach(s *state.State) error {
	c.state = s
	return c.Sim.Attach(s)
}

// remaining is the time that a job has to go, were it never disturbed.
func (c *clock) remaining(id int32) float64 { return c.jobs[id].left * c.jobs[id].iteration }

// Next implements engine.World.
func (c *clock) Next(wake time.Duration, out []eventlog.Event) (time.Duration, []eventlog.Event, error) {
	c.asked = wake
	now, out, err := c.Sim.Next(wake, out)
	if err != nil {
		return now, out, err
	}
	c.now = c.float(now)
	c.last = now
	for ; c.next < len(c.work.jobs) && c.work.jobs[c.next].Job.Submit <= now; c.next++ {
		f := &c.work.facts[c.next]
		c.jobs[c.next] = progress{left: f.left, seen: f.arrives, iteration: f.iteration, overhead: f.overhead}
	}
	return now, out, nil
}

// float is the event at a moment of the engine in floating point.
func (c *clock) float(now time.Duration) float64 {
	if c.next < len(c.work.jobs) && c.work.jobs[c.next].Job.Submit == now {
		return c.work.facts[c.next].arrives
	}
	return c.wake
}

// disturb takes the overhead from a running job, or ends it.
func (c *clock) disturb(j *job.Job, gap time.Duration) time.Duration {
	now := c.last + gap
	r := c.state.Record(j.ID)
	end := r.Ready + c.work.jobs[j.ID].Truth.Work - r.Progress
	event := c.float(now)
	if c.ending <= event && slices.Contains(c.ends, int32(j.ID)) {
		return now - end
	}
	p := &c.jobs[j.ID]
	p.left -= max(event-p.seen-p.overhead, 0) / p.iteration
	p.executed = p.executed + event - p.seen
	p.seen = event
	later := nanos(event+c.remaining(int32(j.ID))) + grace - end
	if c.groups { // it may slow down again, by more than can be taken from it at once
		return max(0, later)
	}
	return later
}

// started notes that a job runs from this event on.
func (c *clock) started(id int32) { c.jobs[id].seen = c.now }

// foresee notes who ends next, given the running jobs in order. Completions
// for which same is true count as one, at the time of the first of them.
func (c *clock) foresee(running []int32, same func(a, b float64) bool) {
	c.ending, c.ends = math.Inf(1), c.ends[:0]
	for _, id := range running {
		c.ending = min(c.ending, c.now+c.remaining(id))
	}
	limit := c.ending * (1 + 10*near) // nothing later ends with the first, or decides who does
	var times []float64
	best := -1
	for pass := range 2 {
		for _, id := range running {
			end := c.now + c.remaining(id)
			if end > limit {
				continue
			}
			at := slices.IndexFunc(times, func(t float64) bool { return same(t, end) })
			switch {
			case pass == 1 && at == best:
				c.ends = append(c.ends, id)
			case at < 0:
				times = append(times, end)
				if best < 0 || end < times[best] {
					best = len(times) - 1
				}
			}
		}
	}
	if best >= 0 {
		c.ending = times[best]
	}
}

// joinArrival has the next completion be one event with the next arrival, at the time of
// that, when they are near each other, or a tenth of a millisecond apart.
func (c *clock) joinArrival() {
	if c.next == len(c.work.facts) {
		return
	}
	if t := c.work.facts[c.next].arrives; isNear(c.ending, t) || math.Abs(c.ending-t) <= 1e-4 {
		c.ending = t
	}
}

// nextEvent notes the next event: the next completion, or the moment that the
// policy asks for when that is earlier. It returns it as the engine counts.
func (c *clock) nextEvent(policy float64, now time.Duration) time.Duration {
	c.wake = min(c.ending, policy)
	if c.wake > harness.MaxSeconds {
		return unit.Never
	}
	return max(nanos(c.wake), now+1)
}
