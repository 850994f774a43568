package harness

import (
	"time"

	"github.com/norn-scheduler/norn/eventlog"
	"github.com/norn-scheduler/norn/job"
	"github.com/norn-scheduler/norn/sim"
)

// Clock is the simulated world in which jobs end when the published code, which counts
// on its own, says so.
type Clock struct {
	*sim.Sim
	Ends []End // to come, in the order in which those of one moment are told
}

// End is when a job ends, or is given up.
type End struct {
	Job     job.ID
	At      time.Duration
	GivenUp bool
}

// Next implements engine.World.
func (c *Clock) Next(wake time.Duration, out []eventlog.Event) (time.Duration, []eventlog.Event, error) {
	for _, e := range c.Ends {
		wake = min(wake, e.At)
	}
	now, out, err := c.Sim.Next(wake, out)
	if err != nil {
		return now, out, err
	}
	left := c.Ends[:0]
	for _, e := range c.Ends {
		if e.At > now {
			left = append(left, e)
			continue
		}
		ev := eventlog.Event{Time: now, Kind: eventlog.Cancel, Job: e.Job}
		if !e.GivenUp {
			c.Sim.Stop(e.Job)
			ev = eventlog.Event{Time: now, Kind: eventlog.End, Job: e.Job, Outcome: job.Done}
		}
		out = append(out, ev)
	}
	c.Ends = left
	return now, out, nil
}
