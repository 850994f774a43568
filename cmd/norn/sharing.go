package main

import (
	"github.com/norn-scheduler/norn/perf"
	"github.com/norn-scheduler/norn/sim"
)

// switching makes a world in which jobs that share a GPU also pay for switching between
// their processes: the given part of the time for each other one.
func switching(part float64, world func(*sim.Config)) func(*sim.Config) {
	return func(c *sim.Config) {
		if world != nil {
			world(c)
		}
		c.Sharing, c.Measure = perf.Demands{Switch: part}, true
	}
}
