package main

import (
	"fmt"

	"github.com/norn-scheduler/norn/perf"
	"github.com/norn-scheduler/norn/run"
	"github.com/norn-scheduler/norn/sim"
	"github.com/norn-scheduler/norn/trace"
	"github.com/norn-scheduler/norn/trace/gen"
)

// What a user writes to have the jobs of any trace tune foundation models, or go through
// the stages of measured models.
const (
	assumeTuning = "tuning"
	assumeUse    = "use"
	assumeStages = "stages"
)

// assumptions are all that can be assumed of jobs.
var assumptions = []string{likeDLRM, assumeStages, assumeTuning, assumeUse}

// assumed is a trace with what its jobs are taken to be that do not tell; and what to
// tell a user of it when it has been read, nothing when nothing was assumed.
func (f *simFlags) assumed(x *run.Experiment, src trace.Source) (trace.Source, func() string, error) {
	told := func(jobs *int, what, taken string) func() string {
		return func() string {
			if *jobs == 0 {
				return ""
			}
			return fmt.Sprintf("what %s %s was not told: each was taken to %s (--assume %s, --seed %d)", count(*jobs, "job"), what, taken, f.assume, f.seed)
		}
	}
	switch f.assume {
	case likeDLRM:
		a := &gen.Assumed{Source: src, Seed: f.seed}
		return a, told(&a.Jobs, "demand", "train a recommendation model, drawn by its number"), nil
	case assumeUse:
		a := &gen.AssumedUse{Source: src, Seed: f.seed}
		return a, told(&a.Jobs, "use of their GPUs", "use as much as training jobs do that were measured, drawn by its number"), nil
	case assumeStages:
		a := &gen.AssumedStages{Source: src, Seed: f.seed}
		return a, told(&a.Jobs, "do in an iteration", "go through the stages of one of eight models, that of its name or one drawn by its number"), nil
	case assumeTuning:
		a, err := f.tune(x, src)
		if err != nil {
			return nil, nil, err
		}
		return a, told(&a.Jobs, "tune", "tune a foundation model, on 1 to 16 GPUs or as many as it asked for, drawn by its name"), nil
	}
	return src, func() string { return "" }, nil
}

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
