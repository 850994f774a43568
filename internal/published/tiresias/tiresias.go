// Package tiresias makes Norn behave like the simulator that was published with
// Tiresias (Gu et al., NSDI 2019; SymbioticLab/Tiresias), so that its results
// can be reproduced job by job.
//
// The policies here copy what that code does, quirks included. Package
// policy/tiresias is the scheduler of the paper; docs/validate.md names the
// differences.
//
// Nouns: an event is a moment at which the published loop looks at the jobs: an
// arrival, the next completion, or a moment that its policy has asked for.
// Service is the time a job has run, times its GPUs where the policy says so. A
// scheme is how jobs are placed: count compares numbers of GPUs, yarn tells
// nodes apart (package published/yarn).
//
// Units: whole seconds, since the zero of the trace.
package tiresias

import (
	"context"
	"strings"
	"time"

	"github.com/norn-scheduler/norn/internal/published/harness"
	"github.com/norn-scheduler/norn/internal/published/yarn"
	"github.com/norn-scheduler/norn/job"
	"github.com/norn-scheduler/norn/sched"
	"github.com/norn-scheduler/norn/sim"
	"github.com/norn-scheduler/norn/state"
)

// Policy is a schedule of the simulator.
type Policy struct {
	Name string // with its scheme: fifo-count
	Note string // what is odd about it; empty where nothing is

	yarn  bool
	waits bool // it never preempts
	turns bool // it is gandiva, which keeps a clock of its own
	make  func(yarn.Spec) sched.Policy
}

// schedule is a policy under either scheme.
type schedule struct {
	name, note string
	waits      bool
	make       func(yarn.Spec, scheme) sched.Policy
}

// Policies are all policies, in the order in which they are shown.
func Policies() []Policy {
	var all []Policy
	for _, s := range append(fixed(), knobbed()...) {
		for _, tellNodes := range []bool{false, true} {
			p := Policy{Name: s.name + "-count", Note: s.note, yarn: tellNodes, waits: s.waits}
			if tellNodes {
				p.Name = s.name + "-yarn"
			}
			p.make = func(spec yarn.Spec) sched.Policy { return s.make(spec, newScheme(spec, tellNodes)) }
			all = append(all, p)
		}
	}
	return append(all, Policy{Name: "gandiva-gandiva", Note: "time slices on node sets; a job may end that did not run in the last step", yarn: true, turns: true})
}

func fixed() []schedule {
	const repaired = "with yarn, repaired: as shipped it forgets to give back memory and soon stalls"
	return []schedule{
		{"fifo", "", true, func(_ yarn.Spec, s scheme) sched.Policy { return &line{place: s} }},
		{"fjf", "", true, func(_ yarn.Spec, s scheme) sched.Policy { return &firstFit{place: s} }},
		{"lpjf", "every second pending job is overlooked", true, func(_ yarn.Spec, s scheme) sched.Policy { return &line{place: s, skip: true} }},
		{"sjf", repaired, false, func(_ yarn.Spec, s scheme) sched.Policy { return &shortest{place: s, key: size} }},
		{"shortest", repaired, false, func(_ yarn.Spec, s scheme) sched.Policy { return &shortest{place: s, key: remainingTime} }},
		{"shortest-gpu", repaired, false, func(_ yarn.Spec, s scheme) sched.Policy { return &shortest{place: s, key: remainingGPUTime} }},
		{"shortest-expected", "only the expectation of the job that came last is ever updated", false,
			func(_ yarn.Spec, s scheme) sched.Policy { return newExpected(s) }},
		{"gittins", "repaired: as shipped it crashes", false, func(spec yarn.Spec, _ scheme) sched.Policy { return newGittins(spec) }},
		{"dlas", "", false, func(spec yarn.Spec, _ scheme) sched.Policy { return newDlas(spec, false, 0) }},
		{"dlas-gpu", "", false, func(spec yarn.Spec, _ scheme) sched.Policy { return newDlas(spec, true, 0) }},
		{"dlas-gpu-pack", "no model may share a GPU, so that it is dlas-gpu", false,
			func(spec yarn.Spec, _ scheme) sched.Policy { return newDlas(spec, true, 0) }},
		{"dlas-gpu-gittins", "", false, func(spec yarn.Spec, _ scheme) sched.Policy { return newDlasGittins(spec) }},
	}
}

// knobbed are the policies with a promotion knob.
func knobbed() []schedule {
	var all []schedule
	add := func(name, note string, knob float64) {
		all = append(all, schedule{name, note, false, func(spec yarn.Spec, _ scheme) sched.Policy { return newDlas(spec, true, knob) }})
	}
	for _, k := range []struct {
		name string
		knob float64
	}{{"05", 0.5}, {"1", 1}, {"2", 2}, {"4", 4}, {"8", 8}, {"10", 10}, {"100", 100}, {"1000", 1000}} {
		add("dlas-gpu-"+k.name, "", k.knob)
	}
	for _, k := range []struct {
		name string
		knob float64
	}{{"1", 1}, {"2", 2}, {"4", 4}, {"8", 8}} {
		add("dlas-gpu-gittins-"+k.name, "ranks are never used: it is dlas-gpu-"+k.name, k.knob)
	}
	return all
}

// Find finds a policy.
func Find(name string) (Policy, error) {
	return harness.Find("policy of tiresias", name, Policies(), func(p *Policy) string { return p.Name })
}

// CPUs and memory (GB) of the nodes of a cluster that is only named.
const (
	nodeCPUs   = 128
	nodeMemory = 256
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
	jobs, err := ReadJobs(tracePath)
	if err != nil {
		return nil, err
	}
	return p.Run(ctx, spec, jobs)
}

// Run runs the policy on a cluster.
func (p Policy) Run(ctx context.Context, spec yarn.Spec, jobs harness.Jobs) (*harness.Result, error) {
	if p.turns {
		return runGandiva(ctx, spec, jobs)
	}
	c, err := spec.Pooled()
	if err != nil {
		return nil, err
	}
	policy := p.make(spec)
	setup := harness.Setup{Cluster: c, Policy: policy, World: sim.Config{Source: jobs.Source()}}
	world := &foretelling{jobs: jobs}
	switch _, wakes := policy.(sched.Waker); {
	case p.waits:
		setup.World.Model = harness.EndlessIfZero{Jobs: jobs}
	case wakes:
		setup.Around = func(w *sim.Sim) harness.World {
			world.Sim = w
			return world
		}
	}
	s, err := setup.Run(ctx)
	if err != nil {
		return nil, err
	}
	return p.result(s, policy, world), nil
}

// promoter is a policy that moves jobs up.
type promoter interface{ promotions(id int32) int32 }

// Columns are the columns of a per-job result of Tiresias and of its fork Muri.
func Columns() []string {
	return strings.Split("job_id,num_gpu,submit,start,end,jct,duration,pending,preempt,resume,promote", ",")
}

func (p Policy) result(s *state.State, policy sched.Policy, world *foretelling) *harness.Result {
	r := &harness.Result{Columns: Columns(), Rows: make([]harness.Row, 0, s.Jobs())}
	for i := range s.Jobs() {
		rec := s.Record(job.ID(i))
		if !rec.Phase.Over() {
			continue
		}
		r.Rows = append(r.Rows, harness.Row{
			Key: rec.Job.Key, Submit: rec.Job.Submit.Seconds(), Start: rec.FirstStart.Seconds(), End: rec.End.Seconds(),
			Preempt: rec.Preemptions, Job: int32(i),
		})
	}
	up, _ := policy.(promoter)
	r.Append = func(dst []byte, row *harness.Row) []byte {
		rec := s.Record(job.ID(row.Job))
		jct := rec.End - rec.Job.Submit
		pending := jct - rec.AllocatedTime
		if world.short != nil {
			pending -= world.short[row.Job]
		}
		dst = append(dst, rec.Job.Key...)
		dst = harness.AppendInts(dst, int64(rec.Job.Demand.GPUs()), secs(rec.Job.Submit), secs(rec.FirstStart), secs(rec.End),
			secs(jct), secs(world.jobs[row.Job].Truth.Work), secs(pending), int64(rec.Preemptions))
		dst = append(dst, ',')
		switch {
		case p.yarn: // that column is not printed
		case p.waits:
			dst = append(dst, '0')
		default:
			dst = harness.AppendInts(dst[:len(dst)-1], int64(rec.Starts))
		}
		promoted := int32(0)
		if up != nil {
			promoted = up.promotions(row.Job)
		}
		return harness.AppendInts(dst, int64(promoted))
	}
	return r
}

// secs is a duration in whole seconds.
func secs(d time.Duration) int64 { return int64(d / time.Second) }
