// Package muri makes Norn behave like the simulator that was published with
// Muri (Zhao et al., SIGCOMM 2022; Rivendile/Muri), for the policies that Muri is
// compared with there, shortest (SRTF), shortest-gpu (SRSF) and dlas-gpu
// (Tiresias), and for Muri itself (multi-resource-...). That simulator is a fork of the one of Tiresias which counts work
// in iterations and time in floating point.
//
// Nouns: an event is a moment at which the published loop looks at the jobs; the
// overhead of a job is what any event costs it while it runs.
//
// Units: seconds, as floating point numbers, since the zero of the trace. The
// engine counts nanoseconds; the numbers that decide who goes first are computed
// here, operation by operation as published, so that ties break the same way.
package muri

import (
	"context"
	"fmt"

	"github.com/norn-scheduler/norn/internal/published/harness"
	"github.com/norn-scheduler/norn/internal/published/tiresias"
	"github.com/norn-scheduler/norn/internal/published/yarn"
	"github.com/norn-scheduler/norn/job"
	"github.com/norn-scheduler/norn/perf"
	"github.com/norn-scheduler/norn/sched"
	"github.com/norn-scheduler/norn/sim"
	"github.com/norn-scheduler/norn/state"
)

// Policy is a schedule of the simulator, with its placement yarn.
type Policy struct {
	Name string
	Note string // what is odd about it; empty where nothing is

	make func(yarn.Spec, *clock) sched.Policy

	groups bool // jobs share devices

	check func(yarn.Spec, *workload) error // what it cannot play; nil: nothing
}

// Policies are all policies, in the order in which they are shown.
func Policies() []Policy {
	const eventsCost = "every event costs every running job its overhead"
	const oddGroups = eventsCost + ", in a group those of all members; matched pairs are merged unsorted"
	blossom := func(most int, known, matched bool, order perf.Ordering) func(yarn.Spec, *clock) sched.Policy {
		return func(s yarn.Spec, c *clock) sched.Policy { return newGroups(s, c, most, known, matched, order) }
	}
	return []Policy{
		{"shortest", eventsCost, func(s yarn.Spec, c *clock) sched.Policy { return newShortest(s, c, false) }, false, nil},
		{"shortest-gpu", eventsCost, func(s yarn.Spec, c *clock) sched.Policy { return newShortest(s, c, true) }, false, nil},
		{"dlas-gpu", eventsCost, func(s yarn.Spec, c *clock) sched.Policy { return newDlas(s, c) }, false, nil},
		{"themis", eventsCost + "; ratios of seconds to iterations; what is left over is shared as ECOS ends", func(s yarn.Spec, c *clock) sched.Policy { return newThemis(s, c) }, false, nil},
		{"antman", eventsCost + "; guaranteed jobs hold GPUs while they wait for more, and feel nothing of the others", func(s yarn.Spec, c *clock) sched.Policy { return newAntman(s, c) }, true, antmanPlays},
		{"multi-resource-blossom-same-gpu", oddGroups, blossom(perf.MaxInterleaved, true, true, perf.BestOrder), true, nil},
		{"multi-resource-blossom-same-gpu-unaware", oddGroups, blossom(perf.MaxInterleaved, false, true, perf.BestOrder), true, nil},
		{"multi-resource-blossom-same-gpu-unaware-worstordering", oddGroups, blossom(perf.MaxInterleaved, false, true, perf.WorstOrder), true, nil},
		{"multi-resource-blossom-same-gpu-unaware-packing-2", oddGroups + "; groups of two (--packing_num 2)", blossom(2, false, true, perf.BestOrder), true, nil},
		{"multi-resource-blossom-same-gpu-unaware-packing-3", oddGroups + "; groups of up to three (--packing_num 3)", blossom(3, false, true, perf.BestOrder), true, nil},
		{"multi-resource-gpu-unaware", oddGroups, blossom(perf.MaxInterleaved, false, false, perf.BestOrder), true, nil},
	}
}

// Find finds a policy.
func Find(name string) (Policy, error) {
	return harness.Find("policy of muri", name, Policies(), func(p *Policy) string { return p.Name })
}

// CPUs and memory (GB) of the nodes of a cluster that is only named.
const (
	nodeCPUs   = 92
	nodeMemory = 520
)

// Run runs a policy on a trace and a cluster as the simulator would: its name
// (nNgG) or the path of a cluster spec.
func Run(ctx context.Context, tracePath, clusterName, policyName string) (*harness.Result, error) {
	p, err := Find(policyName)
	if err != nil {
		return nil, err
	}
	spec, err := yarn.ParseSpec(clusterName, nodeCPUs, nodeMemory)
	if err != nil {
		return nil, err
	}
	t, err := readTrace(tracePath)
	if err != nil {
		return nil, err
	}
	return p.run(ctx, spec, t)
}

func (p Policy) run(ctx context.Context, spec yarn.Spec, t *workload) (*harness.Result, error) {
	c, err := spec.Pooled()
	if err != nil {
		return nil, err
	}
	if p.check != nil {
		if err := p.check(spec, t); err != nil {
			return nil, fmt.Errorf("policy %s: %w", p.Name, err)
		}
	}
	if p.groups {
		t.stretch()
	}
	k := newClock(t)
	k.groups = p.groups
	setup := harness.Setup{
		Cluster: c, Policy: p.make(spec, k), World: sim.Config{Source: t.jobs.Source(), Disturb: k.disturb},
		Around: func(w *sim.Sim) harness.World {
			k.Sim = w
			return k
		},
	}
	s, err := setup.Run(ctx)
	if err != nil {
		return nil, err
	}
	return result(s, t), nil
}

func result(s *state.State, t *workload) *harness.Result {
	r := &harness.Result{Columns: tiresias.Columns(), Rows: make([]harness.Row, 0, s.Jobs())}
	for i := range s.Jobs() {
		if rec := s.Record(job.ID(i)); rec.Phase.Over() {
			r.Rows = append(r.Rows, harness.Row{
				Key: rec.Job.Key, Submit: t.facts[i].submit, Start: rec.FirstStart.Seconds(), End: rec.End.Seconds(),
				Preempt: -1, Job: int32(i), // with yarn the simulator prints a zero for them
			})
		}
	}
	r.Append = func(dst []byte, row *harness.Row) []byte {
		rec := s.Record(job.ID(row.Job))
		dst = append(dst, rec.Job.Key...)
		dst = harness.AppendInts(dst, int64(rec.Job.Demand.GPUs()))
		for _, v := range []float64{row.Submit, row.Start, row.End, row.JCT(), t.facts[row.Job].duration, rec.WaitAt(rec.End).Seconds()} {
			dst = harness.AppendFloat(append(dst, ','), v)
		}
		return append(dst, ",0,,0"...)
	}
	return r
}
