package main

import (
	"fmt"

	"github.com/norn-scheduler/norn/perf"
	"github.com/norn-scheduler/norn/run"
	"github.com/norn-scheduler/norn/sim"
	"github.com/norn-scheduler/norn/trace"
	"github.com/norn-scheduler/norn/trace/gen"
)

// slowDemands is the model of jobs that share a GPU where nothing else is said.
const slowDemands = "demands"

// slowdowns are the models of jobs that share a GPU; that of demands is made elsewhere.
var slowdowns = map[string]perf.Sharing{slowDemands: nil, "parts": perf.Calibrated{}, "gaps": perf.Paced{}, "services": perf.Served{}}

// share makes a world in which jobs that share a GPU disturb each other as was measured
// (--pairs) and, where nothing was, as far as they demand the same, and pay for switching
// between their processes (--switching).
func (f *simFlags) share(x *run.Experiment) error {
	var truth perf.Sharing = perf.Profiled{Turns: perf.Interleave{Overhead: perf.PublishedOverhead()}, Others: perf.Demands{Switch: f.switching}}
	if f.switching > 0 {
		truth = perf.Demands{Switch: f.switching}
	}
	if other := slowdowns[f.slowdown]; other != nil {
		truth = other
	}
	if f.pairs != "" {
		measured, err := trace.ReadPairs(f.pairs)
		if err != nil {
			return err
		}
		f.measured = measured
		table := measured.Table
		table.Else = truth
		truth = table
	}
	world := x.World
	x.World = func(c *sim.Config) {
		if world != nil {
			world(c)
		}
		c.Sharing, c.Measure = truth, true
	}
	return nil
}

// named is a trace whose jobs that tell no model are each one of those whose sharing was
// measured; and what to tell a user of it when it has been read, nothing when nothing was
// given.
func (f *simFlags) named(src trace.Source) (trace.Source, func() string) {
	if f.measured == nil {
		return src, func() string { return "" }
	}
	a := &gen.AssumedModels{Source: src, Seed: f.seed, Models: f.measured.Models}
	return a, func() string {
		if a.Jobs == 0 {
			return ""
		}
		return fmt.Sprintf("what %s train was not told: each was taken to train one of the %s in %s, drawn by its number (--seed %d)", count(a.Jobs, "job"), count(len(a.Models), "model"), f.pairs, f.seed)
	}
}
