package experiment_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/norn-scheduler/norn/eventlog"
	"github.com/norn-scheduler/norn/experiment"
	"github.com/norn-scheduler/norn/job"
	"github.com/norn-scheduler/norn/trace"
)

// opened reads a trace from a text.
func opened(t *testing.T, text string, opt trace.Options) *trace.Reader {
	t.Helper()
	r, err := trace.NewReader(strings.NewReader(text), "jobs.csv", opt)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// all reads a source to its end.
func all(t *testing.T, src trace.Source) experiment.Jobs {
	t.Helper()
	jobs, err := experiment.ReadAll(src)
	if err != nil {
		t.Fatal(err)
	}
	return jobs
}

// TestPrepareStages: a job goes through all stages in their order: services come ahead,
// GPU types are those of the cluster, jobs of one moment are ordered by their keys, and
// what is drawn goes by the numbers of the file.
func TestPrepareStages(t *testing.T) {
	const text = "job,submit,gpus,gpu_type,duration\nz,10,1,a100,60\nb,10,1,NVIDIA-A100-SXM4-80GB,60\na,5,2,,60\n"
	o := experiment.Preparation{Spec: spec(t, "1x2:A100"), Assume: experiment.AssumeServices, Seed: 1}
	p, err := experiment.Prepare(opened(t, text, trace.Options{}), o)
	if err != nil {
		t.Fatal(err)
	}
	jobs := all(t, p)
	var got []string
	for i := range jobs {
		j := &jobs[i].Job
		if int(j.ID) != i {
			t.Errorf("job %s has the number %d at place %d", j.Key, j.ID, i)
		}
		got = append(got, fmt.Sprintf("%s@%v %s", j.Key, j.Submit, j.Demand.Types))
	}
	if want := "service-1@0s |service-2@0s |a@5s |b@10s A100|z@10s A100"; strings.Join(got, "|") != want {
		t.Errorf("have %q\nwant %q", strings.Join(got, "|"), want)
	}
	if r := p.Remarks(); len(r) != 1 || !strings.HasPrefix(r[0], "2 services were put on the GPUs") || !strings.Contains(r[0], "what 3 jobs use") {
		t.Errorf("%q", r)
	}
	// The third stage does not depend on the fifth: job b is drawn as the second of the
	// file, wherever its key puts it.
	o.Assume = experiment.AssumeUse
	first, err := experiment.Prepare(opened(t, text, trace.Options{}), o)
	if err != nil {
		t.Fatal(err)
	}
	second, err := experiment.Prepare(opened(t, strings.ReplaceAll(text, "\nb,", "\nzz,"), trace.Options{}), o)
	if err != nil {
		t.Fatal(err)
	}
	uses := func(jobs experiment.Jobs, key string) job.Hints {
		for i := range jobs {
			if jobs[i].Job.Key == key {
				return *jobs[i].Job.Hints
			}
		}
		t.Fatalf("no job %s", key)
		return job.Hints{}
	}
	if a, b := uses(all(t, first), "b"), uses(all(t, second), "zz"); a != b || a.GPUUse == 0 {
		t.Errorf("b uses %v, zz %v", a, b)
	}
}

// TestPrepareModels: jobs that tell no model are given one of those that were measured,
// behind what is assumed.
func TestPrepareModels(t *testing.T) {
	pairs, err := trace.ParsePairs([]byte("model,beside,speed\nvgg,vgg,0.5\n"))
	if err != nil {
		t.Fatal(err)
	}
	pairs.File = "pairs.csv"
	x := experiment.Experiment{Spec: spec(t, "1x2"), Seed: 3, Assume: experiment.AssumeUse, Slowdown: experiment.Slowdown{Pairs: pairs}}
	p, err := experiment.Prepare(opened(t, "job,submit,gpus,duration,model\na,0,1,60,\nb,0,1,60,gpt\n", trace.Options{}), x.Preparation())
	if err != nil {
		t.Fatal(err)
	}
	if jobs := all(t, p); jobs[0].Job.Model != "vgg" || jobs[1].Job.Model != "gpt" {
		t.Errorf("%+v", jobs)
	}
	want := []string{"what 2 jobs use of their GPUs was not told", "what 1 job train was not told: each was taken to train one of the 1 model in pairs.csv, drawn by its number (--seed 3)"}
	if r := p.Remarks(); len(r) != 2 || !strings.HasPrefix(r[0], want[0]) || r[1] != want[1] {
		t.Errorf("%q", r)
	}
}

// TestPrepareOnce: a trace that is prepared is not prepared again, so that a program may
// do it itself and ask for the remarks.
func TestPrepareOnce(t *testing.T) {
	x := experiment.Experiment{Spec: spec(t, "1x2"), Seed: 1, Assume: experiment.AssumeServices}
	p, err := experiment.Prepare(opened(t, "job,submit,gpus,duration\na,0,1,60\n", trace.Options{}), x.Preparation())
	if err != nil {
		t.Fatal(err)
	}
	if again, err := experiment.Prepare(p, x.Preparation()); again != p || err != nil {
		t.Errorf("%p, %v, want %p", again, err, p)
	}
	outcomes, err := x.All(context.Background(), []experiment.Choice{{Policy: "fifo"}, {Policy: "muxflow"}}, p, nil)
	if err != nil {
		t.Fatal(err)
	}
	if n := outcomes[1].State.Jobs(); n != 3 {
		t.Errorf("%d jobs, want 2 services and 1 job", n)
	}
}

// TestPrepareErrors: what cannot be prepared, and a trace that is wrong from its first
// job on.
func TestPrepareErrors(t *testing.T) {
	src := opened(t, "job,submit,gpus,duration\na,0,1,60\n", trace.Options{})
	if _, err := experiment.Prepare(src, experiment.Preparation{Spec: spec(t, "1x2"), Assume: "vision"}); err == nil || !strings.Contains(err.Error(), "vision cannot be assumed: write batches, ") {
		t.Errorf("%v", err)
	}
	broken := errors.New("broken")
	x := experiment.Experiment{Spec: spec(t, "1x2"), Seed: 1}
	for _, choices := range [][]experiment.Choice{{{Policy: "fifo"}}, {{Policy: "fifo"}, {Policy: "srtf"}}} {
		if _, err := x.All(context.Background(), choices, unreadable{broken}, nil); !errors.Is(err, broken) || strings.Contains(err.Error(), "policy") {
			t.Errorf("%d choices: %v", len(choices), err)
		}
	}
	x.Slowdown.By = "much"
	if _, err := x.Run(context.Background(), experiment.Choice{Policy: "fifo"}, src); err == nil || !strings.Contains(err.Error(), "write demands, parts, gaps or services") {
		t.Errorf("%v", err)
	}
}

type unreadable struct{ err error }

func (f unreadable) Next(*trace.Entry) error { return f.err }

// TestBegins: the log of a run tells the time of day at its start, where the trace does,
// and the jobs arrive as fast as the day goes.
func TestBegins(t *testing.T) {
	const text = "job,submit,gpus,duration\na,2024-03-01 09:00:00,1,60\nb,2024-03-01 09:10:00,1,60\n"
	for load, want := range map[float64]time.Time{0: time.Date(2024, 3, 1, 9, 10, 0, 0, time.UTC), 2: {}} {
		var l logs
		x := experiment.Experiment{Spec: spec(t, "1x2"), Seed: 1, Log: l.open}
		src := opened(t, text, trace.Options{Load: load, From: time.Minute})
		if _, err := x.Run(context.Background(), experiment.Choice{Policy: "fifo"}, src); err != nil {
			t.Fatal(err)
		}
		r, err := eventlog.NewReader(l.of["fifo"], "log")
		if err != nil {
			t.Fatal(err)
		}
		if !r.Header.Origin.Equal(want) {
			t.Errorf("load %g: the log begins at %v, want %v", load, r.Header.Origin, want)
		}
	}
}

// TestAssumptions: each assumption changes what a policy that needs it makes of the
// built-in trace, and says of how many jobs it was made.
func TestAssumptions(t *testing.T) {
	needs := map[experiment.Assumption]string{
		experiment.AssumeBatches: "gimbal", experiment.AssumeBursts: "cassini", experiment.AssumeCommunication: "philly", experiment.AssumeCPU: "synergy", experiment.AssumeDatacenter: "lucid", experiment.AssumeDLRM: "rmixer", experiment.AssumeGoodput: "afs", experiment.AssumeHybrid: "afs", experiment.AssumeServices: "muxflow",
		experiment.AssumeQuality: "slaq", experiment.AssumeScaling: "elasticflow", experiment.AssumeSlices: "easyscale", experiment.AssumeStages: "muri-s", experiment.AssumeTasks: "iadeep", experiment.AssumeTransfer: "titan", experiment.AssumeTuning: "ymir", experiment.AssumeUse: "lucid",
	}
	if names := experiment.Assumptions(); len(names) != len(needs) {
		t.Errorf("%q", names)
	}
	jobs := sample(t, 60)
	mean := func(a experiment.Assumption, policy string) time.Duration {
		nodes := "2x8:V100"
		if policy == "cassini" { // which needs to know the network
			nodes = "cassini"
		}
		x := experiment.Experiment{Spec: spec(t, nodes), Seed: 1, Assume: a}
		p, err := experiment.Prepare(jobs.Source(), x.Preparation())
		if err != nil {
			t.Fatal(err)
		}
		o, err := x.Run(context.Background(), experiment.Choice{Policy: policy}, p)
		if err != nil {
			t.Fatalf("%s: %v", a, err)
		}
		if r := p.Remarks(); (len(r) == 1) != (a != "") || a != "" && !strings.Contains(r[0], "(--assume "+string(a)+", --seed 1)") {
			t.Errorf("%s: %q", a, r)
		}
		return o.Result.JCT.Mean
	}
	for a, policy := range needs {
		if parsed, err := experiment.ParseAssumption(string(a)); parsed != a || err != nil {
			t.Errorf("%q is read as %q, %v", a, parsed, err)
		}
		if with, without := mean(a, policy), mean("", policy); with == without {
			t.Errorf("%s changes nothing under %s: a mean JCT of %v", a, policy, with)
		}
	}
	if _, err := experiment.ParseAssumption("tunning"); err == nil || !strings.Contains(err.Error(), "tuning") {
		t.Errorf("%v", err)
	}
}
