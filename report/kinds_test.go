package report_test

import (
	"math"
	"strings"
	"testing"

	"github.com/norn-scheduler/norn/cluster"
	"github.com/norn-scheduler/norn/engine"
	"github.com/norn-scheduler/norn/job"
	"github.com/norn-scheduler/norn/perf"
	"github.com/norn-scheduler/norn/policy/fifo"
	"github.com/norn-scheduler/norn/report"
	"github.com/norn-scheduler/norn/sched"
	"github.com/norn-scheduler/norn/sim/simtest"
)

// slow is a model by which a job runs at the speed that its name says.
type slow struct{ perf.Reference }

// Speed implements perf.Model.
func (slow) Speed(j *job.Job, _ *cluster.Cluster, _ *cluster.Alloc) float64 {
	if strings.HasPrefix(j.Key, "slow") {
		return 0.5
	}
	return 1
}

// One GPU: service a has it for 100 s. Service b waits for these and then runs for 100 s. A third one
// runs at half its speed, which is within a target of 2 and not within one of 1.5.
func TestKinds(t *testing.T) {
	service := func(target float64) func(*job.Job) {
		return func(j *job.Job) {
			j.Kind, j.Stop, j.Hints = job.Inference, job.Pinned, &job.Hints{Latency: target}
		}
	}
	for _, c := range []struct{ target, kept, worst float64 }{{2, (100 + 100 + 200) / 700., 0.5}, {1.5, (100 + 100) / 700., 0}} {
		collect := report.NewCollector(report.Options{Series: true})
		run := simtest.Go(t, simtest.Config{
			Cluster: simtest.Nodes(1, 1), Model: slow{}, Sinks: []engine.Sink{collect},
			Make: func() (sched.Policy, error) { return fifo.NewConfig().Policy() },
		},
			simtest.Job{Key: "a", GPUs: 1, Run: 100, Spec: service(c.target)},
			simtest.Job{Key: "b", GPUs: 1, Run: 100, Spec: service(c.target)},
			simtest.Job{Key: "slow", At: 0, GPUs: 1, Run: 100, Spec: service(c.target)},
			simtest.Job{Key: "train", At: 0, GPUs: 1, Run: 50},
		)
		r := collect.Result(run.State)
		if len(r.Kinds) != 2 || r.Kinds[0].Kind != "training" || r.Kinds[1].Kind != "inference" {
			t.Fatalf("%+v", r.Kinds)
		}
		train, served := r.Kinds[0], r.Kinds[1]
		if train.JCT.Mean.Seconds() != 450 || train.Wait.Mean.Seconds() != 400 || math.Abs(train.Work-50/3600.) > 1e-9 || train.Latency != nil {
			t.Errorf("%+v", train)
		}
		l := served.Latency
		if served.JCT.N != 0 || l == nil || l.Services != 3 || math.Abs(l.Kept-c.kept) > 1e-9 || math.Abs(l.Waited-300/700.) > 1e-9 || math.Abs(l.Hours-700/3600.) > 1e-9 {
			t.Errorf("target %v: %+v, %+v", c.target, served, l)
		}
		if math.Abs(l.Worst-c.worst) > 1e-9 {
			t.Errorf("target %v: the worst service has %v", c.target, l.Worst)
		}
		var text, csv strings.Builder
		if err := report.WriteKinds(&text, []report.Named{{Name: "fifo", Result: r}}, 200); err != nil || !strings.Contains(text.String(), "within target") {
			t.Errorf("%q, %v", text.String(), err)
		}
		if err := r.WriteJobs(&csv, run.State, nil); err != nil || !strings.Contains(csv.String(), "inference,0.5\n") {
			t.Errorf("%s", csv.String())
		}
	}
	one := report.NewCollector(report.Options{})
	run := simtest.Go(t, simtest.Config{Cluster: simtest.Nodes(1, 1), Sinks: []engine.Sink{one}, Make: func() (sched.Policy, error) { return fifo.NewConfig().Policy() }}, simtest.Job{Key: "a", GPUs: 1, Run: 1})
	if kinds := one.Result(run.State).Kinds; kinds != nil {
		t.Errorf("jobs of one kind are told apart: %+v", kinds)
	}
}
