package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"runtime"
	"runtime/coverage"
	"runtime/debug"
	"strconv"
	"strings"
	"time"

	"github.com/norn-scheduler/norn/experiment"
	"github.com/norn-scheduler/norn/trace"
	"github.com/norn-scheduler/norn/trace/clusterspec"
	"github.com/norn-scheduler/norn/trace/gen"
)

// longRun is a policy whose whole runs are measured, over jobs like those of Philly.
type longRun struct {
	policy string
	assume experiment.Assumption
	by     string
	day    bool             // no job is longer than a day
	alone  bool             // every job belongs to a tenant of its own
	calm   bool             // statements are counted where few jobs have to wait
	bounds [2]time.Duration // with 10,000 jobs and with 100,000; 0: there is none
	grows  float64          // how many times as many statements a job may take at the larger size; 0: see mostRunGrowth
}

// longRuns are the runs whose growth is watched.
func longRuns() []longRun {
	return []longRun{
		{policy: "maxmin", day: true, bounds: [2]time.Duration{0, 2 * time.Second}},
		{policy: "drf", alone: true, bounds: [2]time.Duration{0, 20 * time.Second}},
		{policy: "gandiva", assume: experiment.AssumeUse, calm: true, bounds: [2]time.Duration{5 * time.Second, time.Minute}, grows: 1.6},
		{policy: "themis", bounds: [2]time.Duration{0, time.Minute}},
		{policy: "antman", assume: experiment.AssumeUse, by: experiment.ByGaps, calm: true, bounds: [2]time.Duration{0, time.Minute}, grows: 2.6},
		{policy: "fairshare", day: true, bounds: [2]time.Duration{0, 2 * time.Second}},
		{policy: "lucid", assume: experiment.AssumeUse, calm: true, bounds: [2]time.Duration{5 * time.Second, time.Minute}, grows: 1.6},
	}
}

// runSize is a cluster of nodes of eight GPUs, and a number of jobs at a load.
type runSize struct {
	nodes, jobs int
	load        float64
	small       bool // no job has more than eight GPUs, or is longer than a day
}

// The sizes at which runs are measured.
var longSizes = [2]runSize{{1250, 10_000, 1, false}, {1250, 100_000, 1, false}}

// The sizes at which the statements of runs are counted: one four times the other. Both
// are as crowded, so that as many jobs in a hundred meet a full cluster.
var (
	onceRun = runSize{25, 1500, 1.5, true}
	moreRun = runSize{100, 6000, 1.5, true}
)

// entries are the jobs of a run.
func (r *longRun) entries(s runSize) ([]trace.Entry, error) {
	if r.calm && s.small {
		s.load /= 4
	}
	o := gen.Options{Like: gen.Philly, Jobs: s.jobs, GPUs: 8 * s.nodes, Load: s.load, Seed: 1}
	if r.day || s.small {
		o.MaxRun = 24 * time.Hour
	}
	if s.small {
		o.MaxGPUs = 8
	}
	g, err := gen.New(o)
	if err != nil {
		return nil, err
	}
	var out []trace.Entry
	for {
		var e trace.Entry
		if err := g.Next(&e); errors.Is(err, io.EOF) {
			return out, nil
		} else if err != nil {
			return nil, err
		}
		if r.alone {
			e.Job.Tenant = strconv.Itoa(len(out))
		}
		out = append(out, e)
	}
}

// run simulates it once.
func (r *longRun) run(s runSize, meter func() (int64, error)) (int64, error) {
	choice, err := experiment.ParseChoice(r.policy)
	if err != nil {
		return 0, err
	}
	jobs, err := r.entries(s)
	if err != nil {
		return 0, err
	}
	spec, err := clusterspec.Parse(fmt.Sprintf("%dx8:V100", s.nodes))
	if err != nil {
		return 0, err
	}
	before, err := meter()
	if err != nil {
		return 0, err
	}
	x := experiment.Experiment{Spec: spec, Seed: 1, Assume: r.assume, Slowdown: experiment.Slowdown{By: r.by}}
	if _, err := x.Run(context.Background(), choice, trace.FromMemory(jobs)); err != nil {
		return 0, err
	}
	after, err := meter()
	return after - before, err
}

// name is how the run is called in tables.
func (r *longRun) name() string {
	name := r.policy
	if r.assume != "" {
		name += ", " + strings.Trim(string(r.assume)+", "+r.by, ", ")
	}
	if r.day {
		name += ", jobs of at most a day"
	}
	if r.alone {
		name += ", as many tenants as jobs"
	}
	return name
}

// runSteps counts the statements that a run takes for each of its jobs, at two sizes.
func runSteps(w io.Writer, only string) error {
	meter := func() (int64, error) {
		sum, err := counted()
		return int64(sum), err
	}
	for _, r := range longRuns() {
		if !among(r.policy, only) {
			continue
		}
		var of [2]float64
		for i, s := range [2]runSize{onceRun, moreRun} {
			if err := coverage.ClearCounters(); err != nil {
				return fmt.Errorf("build with -cover -covermode=atomic: %w", err)
			}
			sum, err := r.run(s, meter)
			if err != nil {
				return err
			}
			of[i] = float64(sum) / float64(s.jobs)
		}
		fmt.Fprintf(w, "%s\t%.0f\t%.0f\t%.2f\n", r.name(), of[0], of[1], of[1]/of[0])
	}
	return nil
}

// runs measures the CPU time of whole runs in this process, at both sizes.
func runs(w io.Writer, only string) error {
	defer debug.SetGCPercent(debug.SetGCPercent(400)) // as norn has it
	fmt.Fprintf(w, "### Whole runs on %d GPUs, load 1.0\n\nProcess CPU of one run each. Growth is the CPU of a job among 100,000 in times that among 10,000.\n\n"+
		"| run | 10,000 jobs | bound | | 100,000 jobs | bound | | growth |\n|---|--:|--:|---|--:|--:|---|--:|\n", 8*longSizes[0].nodes)
	for _, r := range longRuns() {
		if !among(r.policy, only) {
			continue
		}
		fmt.Fprintf(w, "| %s |", r.name())
		var each [2]float64
		for i, s := range longSizes {
			runtime.GC()
			cpu, err := r.run(s, func() (int64, error) { return processCPU(), nil })
			if err != nil {
				return err
			}
			each[i] = float64(cpu) / float64(s.jobs)
			bound, met := "", ""
			if r.bounds[i] > 0 {
				bound, met = r.bounds[i].String(), verdict(cpu <= int64(r.bounds[i]))
			}
			fmt.Fprintf(w, " %.2f s | %s | %s |", time.Duration(cpu).Seconds(), bound, met)
		}
		fmt.Fprintf(w, " %.2f |\n", each[1]/each[0])
	}
	fmt.Fprintln(w)
	return nil
}
