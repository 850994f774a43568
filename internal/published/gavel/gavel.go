// Package gavel makes Norn behave like the simulator that was published with Gavel
// (Narayanan et al., OSDI 2020; stanford-futuredata/gavel).
//
// Nouns: the allocation is the share of its time that each job shall run on each
// type of GPU; a reset makes a new one; what a job has received is counted from the
// last reset. Rounds last as long as the longest of their jobs, at most six minutes.
//
// The programs are those of package policy/gavel, and jobs go by bids as they
// do in package rounds. This package has what else was published with them:
// whole steps, times in floating point, and the places in which the code does
// something else than the paper. Two jobs share a GPU under gandiva alone.
//
// Units: seconds from the zero of the trace; steps.
package gavel

import (
	"context"
	"strconv"
	"strings"

	"github.com/norn-scheduler/norn/internal/published/harness"
	"github.com/norn-scheduler/norn/job"
	policies "github.com/norn-scheduler/norn/policy/gavel"
	"github.com/norn-scheduler/norn/sched"
	"github.com/norn-scheduler/norn/sim"
	"github.com/norn-scheduler/norn/state"
)

// Policy is a policy of the simulator.
type Policy struct {
	Name string
	Note string // what is odd about it; empty where nothing is

	shuffled bool // types are given out in random order
	fifo     fifoMode
	program  policies.Program
	speeds   belief
	halfway  bool // it stops looking for the shortest time when that is known to 5 %
	pairs    bool // it is Gandiva, which has a loop of its own
}

// belief is what a policy takes the speeds of a job to be.
type belief uint8

const (
	measured belief = iota
	ones            // all types equal, also those on which it cannot run
	likeV100        // all types as fast as a V100
)

// fifoMode is how FIFO gives out types.
type fifoMode uint8

const (
	noFIFO fifoMode = iota
	anyType
	bestType
)

// Policies are all policies, in the order in which they are shown.
func Policies() []Policy {
	const order, optimum = "types in random order", "of equal optima the one that ECOS finds"
	return []Policy{
		{Name: "isolated", Note: order, shuffled: true, program: isolated},
		{Name: "fifo", Note: "what it draws is not what it gives", shuffled: true, fifo: anyType},
		{Name: "fifo_perf", fifo: bestType},
		{Name: "max_min_fairness", Note: order, shuffled: true, program: MaxMin, speeds: ones},
		{Name: "max_min_fairness_perf", Note: optimum, program: MaxMin},
		{Name: "max_min_fairness_water_filling_perf", Note: "the middle of all optima of another solver", program: policies.WaterFilling},
		{Name: "finish_time_fairness", Note: "every type as fast as a V100; " + order, shuffled: true, program: FinishTimes, speeds: likeV100},
		{Name: "finish_time_fairness_perf", Note: optimum, program: FinishTimes},
		{Name: "min_total_duration", Note: "every type as fast as a V100; " + order, shuffled: true, speeds: likeV100, halfway: true},
		{Name: "min_total_duration_perf", Note: "to within 5 %", halfway: true},
		{Name: "max_sum_throughput_perf", Note: "jobs that get no whole step are given up", program: Throughput},
		{Name: "gandiva", Note: "jobs are paired at random, and parted only if they lose on all types together", pairs: true},
	}
}

// Find finds a policy.
func Find(name string) (Policy, error) {
	return harness.Find("policy of gavel", name, Policies(), func(p *Policy) string { return p.Name })
}

// Options changes what the simulator reads.
type Options struct {
	Speeds string // path of the measured throughputs
}

// Check tells what is wrong with the name of a cluster or a policy, or nil.
func Check(clusterName, policyName string) error {
	if _, err := Find(policyName); err != nil {
		return err
	}
	_, err := readMachine(clusterName)
	return err
}

// Run runs a policy on a trace and a cluster as the simulator would.
func Run(ctx context.Context, tracePath, clusterName, policyName string, o Options) (*harness.Result, error) {
	p, err := Find(policyName)
	if err != nil {
		return nil, err
	}
	m, err := readMachine(clusterName)
	if err != nil {
		return nil, err
	}
	speeds, err := readSpeeds(o.Speeds)
	if err != nil {
		return nil, err
	}
	w, err := readTrace(tracePath, speeds, m)
	if err != nil {
		return nil, err
	}
	var beside colocated
	if p.pairs {
		if beside, err = readColocated(o.Speeds, w); err != nil {
			return nil, err
		}
	}
	return p.run(ctx, m, w, beside)
}

func (p Policy) run(ctx context.Context, m *machine, w *workload, beside colocated) (*harness.Result, error) {
	c, err := m.build()
	if err != nil {
		return nil, err
	}
	clock := &harness.Clock{}
	s := newScheduler(p, m, w, clock)
	var policy sched.Policy = s
	if p.pairs {
		policy = newGandiva(s, beside)
	}
	setup := harness.Setup{
		Cluster: c, Policy: policy, World: sim.Config{Source: w.jobs.Source()},
		Around: func(w *sim.Sim) harness.World { clock.Sim = w; return clock },
	}
	end, err := setup.Run(ctx)
	if err != nil {
		return nil, err
	}
	return s.result(end), nil
}

// result is the jobs that ended, in order of their numbers.
func (s *scheduler) result(end *state.State) *harness.Result {
	r := &harness.Result{Columns: strings.Split("job_id,submit,start,end,jct", ",")}
	for i := range s.work.facts {
		rec, arrives := end.Record(job.ID(i)), s.work.facts[i].arrives
		if rec.Phase != job.Done {
			continue
		}
		r.Rows = append(r.Rows, harness.Row{
			Key: rec.Job.Key, Submit: arrives, Start: rec.FirstStart.Seconds(), End: arrives + printed(s.jobs[i].latest-arrives), Preempt: -1, Job: int32(i),
		})
	}
	r.Append = func(dst []byte, row *harness.Row) []byte {
		dst = append(dst, row.Key...)
		for _, v := range []float64{row.Submit, row.Start, row.End, row.JCT()} {
			dst = harness.AppendFloat(append(dst, ','), v)
		}
		return dst
	}
	return r
}

// printed is a time as the simulator prints it, with three decimals.
func printed(v float64) float64 {
	v, _ = strconv.ParseFloat(strconv.FormatFloat(v, 'f', 3, 64), 64) // what was formatted can be read
	return v
}

var _ sched.Waker = (*scheduler)(nil)
