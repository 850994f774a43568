package experiment_test

import (
	"context"
	"maps"
	"strings"
	"testing"
	"time"

	"github.com/norn-scheduler/norn/engine"
	"github.com/norn-scheduler/norn/eventlog"
	"github.com/norn-scheduler/norn/experiment"
	"github.com/norn-scheduler/norn/job"
	"github.com/norn-scheduler/norn/perf/predict"
	"github.com/norn-scheduler/norn/state"
	"github.com/norn-scheduler/norn/trace"
	"github.com/norn-scheduler/norn/trace/clusterspec"
	"github.com/norn-scheduler/norn/trace/gen"
)

func TestParseEstimate(t *testing.T) {
	for in, want := range map[string]experiment.Estimate{
		"oracle": {}, "none": {From: experiment.None}, "user": {From: experiment.User}, "history": {From: experiment.History},
		"oracle+50%": {Noise: 0.5}, "user+7%": {From: experiment.User, Noise: 0.07}, "history+0.1%": {From: experiment.History, Noise: 0.001},
		"oracle+300%": {Noise: 3}, "oracle+helios": {Helios: true},
	} {
		got, err := experiment.ParseEstimate(in)
		if err != nil || got != want {
			t.Errorf("%s is %+v (%v), want %+v", in, got, err, want)
		}
		if got.String() != in {
			t.Errorf("%s is written %s", in, got)
		}
	}
	for _, in := range []string{"", "oracles", "oracle+", "oracle+50", "oracle+%", "oracle+-5%", "oracle+x%", "oracle+NaN%", "oracle+Inf%", "history+Helios"} {
		if e, err := experiment.ParseEstimate(in); err == nil || !strings.Contains(err.Error(), "history") {
			t.Errorf("%q is taken as %+v (%v)", in, e, err)
		}
	}
}

// hour believes that every job runs for an hour.
type hour struct{ predict.None }

func (hour) Estimate(*job.Job) (time.Duration, bool) { return time.Hour, true }

func TestMake(t *testing.T) {
	demand := job.GPUs(1)
	j := &job.Job{Key: "1", Demand: &demand, Estimate: 5 * time.Minute}
	ask := func(s string, seed uint64) (time.Duration, bool) {
		t.Helper()
		e, err := experiment.ParseEstimate(s)
		if err != nil {
			t.Fatal(err)
		}
		est, err := e.Make(hour{}, seed)
		if err != nil {
			t.Fatal(err)
		}
		if e.From == experiment.History {
			est.Observe(j, 20*time.Minute)
		}
		return est.Estimate(j)
	}
	for in, want := range map[string]time.Duration{"oracle": time.Hour, "user": 5 * time.Minute, "history": 20 * time.Minute} {
		if d, ok := ask(in, 1); !ok || d != want {
			t.Errorf("%s: %v (%v), want %v", in, d, ok, want)
		}
		for _, noise := range []string{"+30%", "+helios"} {
			one, _ := ask(in+noise, 1)
			same, _ := ask(in+noise, 1)
			other, _ := ask(in+noise, 2)
			if one == want || one != same || one == other {
				t.Errorf("%s%s: %v, again %v, under another seed %v", in, noise, one, same, other)
			}
		}
	}
	for _, in := range []string{"none", "none+30%"} {
		if d, ok := ask(in, 1); ok {
			t.Errorf("%s: %v", in, d)
		}
	}
	if _, err := (experiment.Estimate{From: 9}).Make(hour{}, 1); err == nil {
		t.Error("an unknown source is made")
	}
}

// told notes which estimate each job was given at its submission.
type told map[job.ID]time.Duration

func (n told) Event(ev *eventlog.Event, _ *state.State) {
	if ev.Kind == eventlog.Submit {
		n[ev.Job] = ev.Estimate
	}
}

// estimates runs jobs and returns the estimate of each, and when it ended.
func estimates(t *testing.T, jobs experiment.Jobs, from experiment.From) (at told, ends map[job.ID]time.Duration) {
	t.Helper()
	spec, err := clusterspec.Load("2x8")
	if err != nil {
		t.Fatal(err)
	}
	at, ends = told{}, map[job.ID]time.Duration{}
	x := experiment.Experiment{Spec: spec, Seed: 3, Estimate: experiment.Estimate{From: from}, Watch: func(string) engine.Sink { return at }}
	o, err := x.Run(context.Background(), experiment.Choice{Policy: "sjf"}, jobs.Source())
	if err != nil {
		t.Fatal(err)
	}
	for i := range o.State.Jobs() {
		ends[job.ID(i)] = o.State.Record(job.ID(i)).End
	}
	return at, ends
}

// TestNoPeeking: the estimates from history that are given until some moment do
// not change when the truth about the jobs that have not ended by then does. The
// oracle's do, and so do those from history when the past changes: otherwise the
// test would see nothing.
func TestNoPeeking(t *testing.T) {
	g, err := gen.Sample()
	if err != nil {
		t.Fatal(err)
	}
	var src trace.Source = g
	jobs, err := experiment.ReadAll(trace.ByKey(src))
	if err != nil {
		t.Fatal(err)
	}
	moment := jobs[len(jobs)/2].Job.Submit
	before := func(all told) told {
		out := told{}
		for id, d := range all {
			if jobs[id].Job.Submit <= moment {
				out[id] = d
			}
		}
		return out
	}
	for from, sees := range map[experiment.From]bool{experiment.History: false, experiment.Oracle: true} {
		was, ends := estimates(t, jobs, from)
		change := func(ended bool) experiment.Jobs {
			out := append(experiment.Jobs(nil), jobs...)
			for i := range out {
				if end := ends[job.ID(i)]; (end >= 0 && end < moment) == ended {
					out[i].Truth.Work = 3*out[i].Truth.Work + 77*time.Second
				}
			}
			return out
		}
		future, _ := estimates(t, change(false), from)
		if maps.Equal(before(was), before(future)) == sees {
			t.Errorf("source %d: another future changes estimates: %v, want %v", from, !sees, sees)
		}
		past, _ := estimates(t, change(true), from)
		if maps.Equal(before(was), before(past)) {
			t.Errorf("source %d: another past changes no estimate", from)
		}
	}
}
