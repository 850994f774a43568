// Package fidelity holds the live world against the simulated one: the same jobs
// run on this machine as real processes under a real daemon, and in the simulator
// with the transition costs that were measured of them.
//
// Nouns:
//   - A Trial is the input for both worlds.
//   - A History is the course of events in one of them.
//   - A decision is a start or a stop that the policy chose.
//   - The Costs are the measured times of starts, checkpoints and restores in
//     the live world.
//   - A Result is both worlds side by side.
//   - A Difference is a decision on which they do not agree, with its cause.
//
// # Compressed time
//
// A trace of a day is run in a minute: every time in it is divided by a factor,
// and so is every setting of the policy that is a time or a time on GPUs
// (Scale). Times of the machine itself are not compressed. A launch of 20 ms
// stands for 20 s of a trace that is compressed a thousand times: about what a
// container and a model take to load.
//
// Times are those of the compressed trace since its beginning, unless they are
// said to be others.
package fidelity

import (
	"context"
	"fmt"
	"log/slog"
	"path/filepath"

	"github.com/norn-scheduler/norn/cluster"
	"github.com/norn-scheduler/norn/cluster/unit"
	"github.com/norn-scheduler/norn/engine"
	"github.com/norn-scheduler/norn/experiment"
	"github.com/norn-scheduler/norn/job"
	"github.com/norn-scheduler/norn/perf"
	"github.com/norn-scheduler/norn/perf/predict"
	"github.com/norn-scheduler/norn/sim"
	"github.com/norn-scheduler/norn/tenant"
)

// Trial is what both worlds are given.
type Trial struct {
	Policy  experiment.Choice // as for the trace, not compressed
	Jobs    experiment.Jobs   // compressed, keys from 1: see Trace
	Factor  float64           // by which they were compressed
	Devices int
	Burn    bool         // jobs burn CPU time instead of sleeping
	Stop    job.StopMode // what jobs do when they have to leave: Checkpoint or Freeze

	Exe string // a program that hands Verb to Main and runner.Verb to runner.Main
	Dir string // an empty folder, for the daemon and for the jobs
	Log *slog.Logger
}

// Run has the jobs run in both worlds, and compares what happened.
func (t *Trial) Run(ctx context.Context) (*Result, error) {
	if t.Stop != job.Checkpoint && t.Stop != job.Freeze {
		return nil, fmt.Errorf("jobs that are stopped by %s are no trial: write checkpoint or freeze", t.Stop)
	}
	choice, err := Scale(t.Policy, t.Factor)
	if err != nil {
		return nil, err
	}
	real, err := t.live(ctx, choice)
	if err != nil {
		return nil, fmt.Errorf("policy %s, live: %w", t.Policy, err)
	}
	costs, err := t.measure(real)
	if err != nil {
		return nil, fmt.Errorf("policy %s: %w", t.Policy, err)
	}
	virtual, err := t.simulate(ctx, choice, costs)
	if err != nil {
		return nil, fmt.Errorf("policy %s, simulated: %w", t.Policy, err)
	}
	r := compare(real, virtual, costs)
	r.Policy, r.Scaled = t.Policy.String(), choice.String()
	return r, nil
}

// simulate is the same jobs in the simulator. The time that the end of a job
// takes live counts as work there: the simulator has no cost of its own for it.
func (t *Trial) simulate(ctx context.Context, choice experiment.Choice, costs *Costs) (*History, error) {
	p, err := choice.Make()
	if err != nil {
		return nil, err
	}
	c := cluster.New()
	if _, err := c.AddType(slotType); err != nil {
		return nil, err
	}
	if _, err := c.AddNode(t.node()); err != nil {
		return nil, err
	}
	tenants, err := t.tenants()
	if err != nil {
		return nil, err
	}
	jobs := append(experiment.Jobs(nil), t.Jobs...)
	for i := range jobs {
		jobs[i].Truth.Work += costs.Leave.Mean
	}
	model := perf.Costs{Base: perf.Cost{Start: costs.Start.Mean, Checkpoint: costs.Checkpoint.Mean, Restore: costs.Restore.Mean}}
	world := sim.New(sim.Config{Source: jobs.Source(), Costs: model})
	h := &History{}
	e := engine.New(engine.Config{
		Cluster: c, Tenants: tenants, Policy: p, PolicyName: choice.Policy, Estimator: predict.User{},
		Costs: &model, Seed: 1, Sinks: []engine.Sink{h},
	}, world)
	if err := world.Attach(e.State()); err != nil {
		return nil, err
	}
	return h, e.Run(ctx)
}

var slotType = cluster.GPUType{Name: "slot"}

// node is the machine: declared slots and nothing else that could run out.
func (t *Trial) node() cluster.NodeSpec {
	return cluster.NodeSpec{Name: "box", GPUs: []cluster.GPUs{{Type: 0, Count: t.Devices}}}
}

// tenants are those of the trace, with equal parts of the devices guaranteed as
// far as these go round.
func (t *Trial) tenants() (*tenant.Tree, error) {
	tree := tenant.NewTree(0)
	names := map[string]bool{}
	for i := range t.Jobs {
		names[t.Jobs[i].Job.Tenant] = true
	}
	part := unit.Milli(t.Devices/max(1, len(names))) * unit.One
	for i := range t.Jobs {
		if name := t.Jobs[i].Job.Tenant; names[name] {
			delete(names, name)
			if _, err := tree.Add(name, tenant.Root, part, 0, 1); err != nil {
				return nil, err
			}
		}
	}
	return tree, nil
}

// state is the folder of the daemon, notes that of the jobs.
func (t *Trial) state() string { return filepath.Join(t.Dir, "state") }
func (t *Trial) notes() string { return filepath.Join(t.Dir, "jobs") }
