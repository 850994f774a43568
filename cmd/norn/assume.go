package main

import (
	"fmt"

	"github.com/norn-scheduler/norn/clusterspec"
	"github.com/norn-scheduler/norn/perf"
	"github.com/norn-scheduler/norn/run"
	"github.com/norn-scheduler/norn/sim"
	"github.com/norn-scheduler/norn/trace"
	"github.com/norn-scheduler/norn/trace/gen"
	"github.com/norn-scheduler/norn/unit"
)

// What a user writes to have the jobs of any trace tune foundation models, go through
// the stages of measured models, choose their own batch sizes, or train with those that
// they are told.
const (
	assumeTuning  = "tuning"
	assumeUse     = "use"
	assumeStages  = "stages"
	assumeGoodput = "goodput"
	assumeTasks   = "tasks"
	assumeBatches = "batches"
	assumeCPU     = "cpu"
)

// assumptions are all that can be assumed of jobs.
var assumptions = []string{assumeBatches, assumeCPU, likeDLRM, assumeGoodput, assumeServices, assumeStages, assumeTasks, assumeTuning, assumeUse}

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
	case assumeServices:
		return f.serve(x, src)
	case assumeStages:
		a := &gen.AssumedStages{Source: src, Seed: f.seed}
		return a, told(&a.Jobs, "do in an iteration", "go through the stages of one of eight models, that of its name or one drawn by its number"), nil
	case assumeGoodput:
		a := &gen.AssumedAdaptive{Source: src, Seed: f.seed}
		x.Model = gen.AdaptiveSpeeds()
		return a, told(&a.Jobs, "train, or how it scales,", "train one of six models on 1 to 64 GPUs with the batch size that is best there, that of its name or one drawn by its name"), nil
	case assumeTasks:
		a := gen.AssumeTasks(src, f.seed)
		rebatch(x, a)
		return a, told(&a.Jobs, "train", "train one of eight models with the batch that it is told, that of its name or one drawn by its number"), nil
	case assumeBatches:
		a := gen.AssumeAccumulation(src, f.seed)
		rebatch(x, a)
		return a, told(&a.Jobs, "train", "train one of six models and add up gradients where its batch does not fit, that of its name or one drawn by its number"), nil
	case assumeCPU:
		a := &gen.AssumedRations{Source: src, Seed: f.seed, Grids: perf.MeasuredGrids()}
		return a, told(&a.Jobs, "train, or what it needs of cores and memory,", "train one of ten models, drawn by its number"+ration(x, a.Grids)), nil
	case assumeTuning:
		a, err := f.tune(x, src)
		if err != nil {
			return nil, nil, err
		}
		return a, told(&a.Jobs, "tune", "tune a foundation model, on 1 to 16 GPUs or as many as it asked for, drawn by its name"), nil
	}
	return src, func() string { return "" }, nil
}

// ration has the speed of jobs depend on the cores and the memory that they have, as in
// some grids. Nodes that tell neither have what the servers had on which those were
// measured, which it says. A job is as fast as its trace says with what the GPUs of the
// cluster have on average.
func ration(x *run.Experiment, grids map[string]*perf.Grid) string {
	spec := *x.Spec
	spec.Nodes = append([]clusterspec.Group(nil), spec.Nodes...)
	var all perf.Ration
	gpus, filled := 0, 0
	for i := range spec.Nodes {
		n, each := &spec.Nodes[i], 0
		for _, g := range n.GPUs {
			each += g.Count
		}
		if each > 0 && n.CPU == 0 && n.Memory == 0 {
			n.CPU, n.Memory = perf.FairShare().CPU*unit.Milli(each), perf.FairShare().Memory*unit.Bytes(each)
			filled += n.Count
		}
		if each > 0 {
			gpus += each * n.Count
			all.CPU, all.Memory = all.CPU+n.CPU*unit.Milli(n.Count), all.Memory+n.Memory*unit.Bytes(n.Count)
		}
	}
	of, _ := x.Model.(perf.Typed)
	m := &perf.Grids{Of: of, Models: grids}
	if gpus > 0 {
		m.Share = perf.Ration{CPU: all.CPU / unit.Milli(gpus), Memory: all.Memory / unit.Bytes(gpus)}
	}
	x.Spec, x.Model = &spec, m
	if filled == 0 {
		return ""
	}
	return fmt.Sprintf("; and %s to have %v cores and %v for each GPU", count(filled, "node"), perf.FairShare().CPU, perf.FairShare().Memory)
}

// rebatch makes a world in which jobs train with the batches that they are told.
func rebatch(x *run.Experiment, a *gen.AssumedBatches) {
	world := x.World
	x.World = func(c *sim.Config) {
		if world != nil {
			world(c)
		}
		if c.Sharing == nil {
			c.Sharing = perf.Demands{}
		}
		c.Sharing, c.Measure = a.Sharing(c.Sharing), true
	}
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
