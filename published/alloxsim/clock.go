package alloxsim

import (
	"time"

	"github.com/norn-scheduler/norn/eventlog"
	"github.com/norn-scheduler/norn/job"
	"github.com/norn-scheduler/norn/sim"
)

// clock is the simulated world with the ends of tasks as the published code
// computes them.
type clock struct {
	*sim.Sim
	ends []end
}

// end is when a task ends, or is given up.
type end struct {
	id      job.ID
	at      time.Duration
	givenUp bool
}

// Next implements engine.World.
func (c *clock) Next(wake time.Duration, out []eventlog.Event) (time.Duration, []eventlog.Event, error) {
	for _, e := range c.ends {
		wake = min(wake, e.at)
	}
	now, out, err := c.Sim.Next(wake, out)
	if err != nil {
		return now, out, err
	}
	left := c.ends[:0]
	for _, e := range c.ends {
		if e.at > now {
			left = append(left, e)
			continue
		}
		ev := eventlog.Event{Time: now, Kind: eventlog.Cancel, Job: e.id}
		if !e.givenUp {
			c.Sim.Stop(e.id)
			ev = eventlog.Event{Time: now, Kind: eventlog.End, Job: e.id, Outcome: job.Done}
		}
		out = append(out, ev)
	}
	c.ends = left
	return now, out, nil
}
