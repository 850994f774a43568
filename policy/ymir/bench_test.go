package ymir_test

import (
	"testing"

	"github.com/norn-scheduler/norn/engine"
	"github.com/norn-scheduler/norn/perf"
	"github.com/norn-scheduler/norn/perf/predict"
	"github.com/norn-scheduler/norn/policy/ymir"
	"github.com/norn-scheduler/norn/sim"
	"github.com/norn-scheduler/norn/sim/simtest"
	"github.com/norn-scheduler/norn/trace"
	"github.com/norn-scheduler/norn/trace/gen"
)

// BenchmarkDecide3000 is one decision with 3,000 new jobs of one backbone on 240
// GPUs: estimates of all pairs, matching, division, placement. The paper's took 0.23 s
// on average and 5.43 s at most.
func BenchmarkDecide3000(b *testing.B) {
	w, err := gen.NewFineTuning(gen.FineTuning{Families: []string{"roberta"}, Jobs: 3000, GPUs: 240, Load: 2, Seed: 1})
	if err != nil {
		b.Fatal(err)
	}
	entries := append([]trace.Entry(nil), w.Entries...)
	for i := range entries {
		entries[i].Job.Submit = 0
	}
	for b.Loop() {
		b.StopTimer()
		c := ymir.NewConfig()
		c.ProfileTime = 0
		p, err := c.Policy()
		if err != nil {
			b.Fatal(err)
		}
		costs := perf.Costs{Switch: w.Switch}
		world := sim.New(sim.Config{Source: trace.FromMemory(entries), Model: w.Speeds, Costs: costs, Transfer: w.Truth})
		e := engine.New(engine.Config{
			Cluster: simtest.Nodes(60, 4), Policy: p, PolicyName: "ymir", Estimator: predict.User{}, Costs: &costs, Speeds: w.Speeds, Transfer: w.Belief,
		}, world)
		if err := world.Attach(e.State()); err != nil {
			b.Fatal(err)
		}
		b.StartTimer()
		if err := e.Step(); err != nil {
			b.Fatal(err)
		}
	}
}
