package main

import (
	"github.com/norn-scheduler/norn/perf"
	"github.com/norn-scheduler/norn/run"
	"github.com/norn-scheduler/norn/sim"
	"github.com/norn-scheduler/norn/trace"
	"github.com/norn-scheduler/norn/trace/gen"
)

// assumeTuning is what a user writes to have the jobs of any trace tune foundation
// models.
const assumeTuning = "tuning"

// tune has the jobs of a trace tune foundation models: how fast they are at each size,
// what they learn from each other, and what it costs to begin one with and without
// a runtime, unless --cost says what transitions cost.
func (f *simFlags) tune(x *run.Experiment, src trace.Source) (*gen.AssumedTuning, error) {
	tuned, err := gen.AssumeTuning(src, gen.FineTuning{Seed: f.seed})
	if err != nil {
		return nil, err
	}
	x.Model, x.Transfer = tuned.Speeds, tuned.Belief
	if len(f.cost) == 0 {
		costs := perf.Costs{}
		if x.Costs != nil {
			costs = *x.Costs
		}
		costs.Switch = tuned.Switch
		x.Costs = &costs
	}
	world := x.World
	x.World = func(c *sim.Config) {
		if world != nil {
			world(c)
		}
		c.Transfer = tuned.Truth
	}
	return tuned, nil
}
