package gavel_test

import (
	"context"
	"fmt"
	"math"
	"testing"
	"time"

	"github.com/norn-scheduler/norn/experiment"
	"github.com/norn-scheduler/norn/job"
	"github.com/norn-scheduler/norn/perf"
	"github.com/norn-scheduler/norn/sim"
	"github.com/norn-scheduler/norn/trace"
	"github.com/norn-scheduler/norn/trace/clusterspec"
)

// TestSharesBecomeRounds is the example of acceptance 1 in the simulated world.
// In 300 rounds the jobs do the throughputs that LAS gives them, 200/11, 64/11
// and 600/11 steps per second, so jobs with as many steps end together.
func TestSharesBecomeRounds(t *testing.T) {
	const lasts = 300 * 360.0
	table := &perf.Table{Reference: "v100"}
	var entries []trace.Entry
	d := job.GPUs(1)
	for i, speed := range [][2]float64{{40, 10}, {12, 4}, {100, 50}} {
		name := fmt.Sprint("job", i)
		table.Add(perf.Measured{Job: name, GPUs: 1, Type: "v100"}, speed[0])
		table.Add(perf.Measured{Job: name, GPUs: 1, Type: "k80"}, speed[1])
		steps := []float64{200. / 11, 64. / 11, 600. / 11}[i] * lasts
		entries = append(entries, trace.Entry{
			Job:   job.Job{ID: job.ID(i), Key: name, Name: name, Demand: &d, Retries: -1},
			Truth: trace.Truth{Work: time.Duration(steps / speed[0] * 1e9)},
		})
	}
	spec, err := clusterspec.Load("1x1:V100+1x1:K80")
	if err != nil {
		t.Fatal(err)
	}
	x := experiment.Experiment{Spec: spec, Seed: 1, Model: table}
	if x.Estimate, err = experiment.ParseEstimate("none"); err != nil {
		t.Fatal(err)
	}
	settings := []experiment.Setting{{Name: "idle", Value: "false"}}
	o, err := x.Run(context.Background(), experiment.Choice{Policy: "gavel", Settings: settings}, trace.FromMemory(entries))
	if err != nil {
		t.Fatal(err)
	}
	for i := range entries {
		if end := o.State.Record(job.ID(i)).End.Seconds(); math.Abs(end/lasts-1) > 0.02 {
			t.Errorf("job %d ends after %v s, want %v", i, end, lasts)
		}
	}
}

// TestPairsBecomeRounds is the example of acceptance 6 in the simulated world.
// Two jobs do 7 and 6 of their 10 steps per second together. In the mean both
// do 70/11, with a GPU that is theirs together for 10/11 of the time.
func TestPairsBecomeRounds(t *testing.T) {
	const lasts = 400 * 360.0
	var entries []trace.Entry
	d := job.GPUs(1)
	for i, name := range []string{"a", "b"} {
		entries = append(entries, trace.Entry{
			Job:   job.Job{ID: job.ID(i), Key: name, Model: name, Demand: &d, Retries: -1},
			Truth: trace.Truth{Work: time.Duration(math.Round(7. / 11 * lasts * 1e9))},
		})
	}
	spec, err := clusterspec.Load("1x1:V100")
	if err != nil {
		t.Fatal(err)
	}
	x := experiment.Experiment{Spec: spec, Seed: 1}
	x.World = func(c *sim.Config) {
		c.Sharing = perf.Pairs{Speed: map[perf.Pair]float64{{Job: "a", Beside: "b"}: 0.7, {Job: "b", Beside: "a"}: 0.6}}
	}
	if x.Estimate, err = experiment.ParseEstimate("none"); err != nil {
		t.Fatal(err)
	}
	settings := []experiment.Setting{{Name: "idle", Value: "false"}, {Name: "packed", Value: "true"}}
	o, err := x.Run(context.Background(), experiment.Choice{Policy: "gavel", Settings: settings}, trace.FromMemory(entries))
	if err != nil {
		t.Fatal(err)
	}
	for i := range entries {
		if end := o.State.Record(job.ID(i)).End.Seconds(); math.Abs(end/lasts-1) > 0.02 {
			t.Errorf("job %d ends after %v s, want %v", i, end, lasts)
		}
	}
}

// TestClaimsBeforeIdleGPUs: a job whose whole target is P100s, where it is fastest, runs
// there, although V100s come first and are idle. A job without a claim on a free type gets
// the fastest free one. So it is on gen300s with as many GPUs of each type as it has jobs.
func TestClaimsBeforeIdleGPUs(t *testing.T) {
	table := &perf.Table{Reference: "v100"}
	for m, rate := range map[perf.Measured]float64{
		{Job: "p", GPUs: 1, Type: "v100"}: 10, {Job: "p", GPUs: 1, Type: "p100"}: 20, {Job: "p", GPUs: 1, Type: "k80"}: 1,
		{Job: "k", GPUs: 1, Type: "v100"}: 10, {Job: "k", GPUs: 1, Type: "p100"}: 1, {Job: "k", GPUs: 1, Type: "k80"}: 40,
	} {
		table.Add(m, rate)
	}
	spec, err := clusterspec.Load("1x2:V100+1x2:P100+1x2:K80")
	if err != nil {
		t.Fatal(err)
	}
	d := job.GPUs(1)
	for _, objective := range []string{"las", "water-filling", "hierarchical", "fifo", "sjf", "makespan", "ftf", "throughput", "cost", "cost-slo", "strategy-proof", "cost-ratio", "cost-ratio-slo"} {
		var entries []trace.Entry
		for i, name := range []string{"p", "k", "p"} {
			entries = append(entries, trace.Entry{
				Job:   job.Job{ID: job.ID(i), Key: fmt.Sprint(i), Name: name, Submit: time.Duration(i) * 7 * time.Minute, Demand: &d, Retries: -1},
				Truth: trace.Truth{Work: 4 * time.Hour},
			})
		}
		x := experiment.Experiment{Spec: spec, Seed: 1, Model: table}
		settings := []experiment.Setting{{Name: "objective", Value: objective}}
		for _, policy := range []string{"gavel", "pop"} {
			o, err := x.Run(context.Background(), experiment.Choice{Policy: policy, Settings: settings}, trace.FromMemory(entries))
			if err != nil {
				t.Fatal(err)
			}
			for i, want := range []time.Duration{2 * time.Hour, time.Hour, 2 * time.Hour} {
				if r := o.State.Record(job.ID(i)); r.End-r.Job.Submit != want {
					t.Errorf("%s(objective=%s): job %d of sort %s takes %v, want %v", policy, objective, i, r.Job.Name, r.End-r.Job.Submit, want)
				}
			}
		}
	}
}
