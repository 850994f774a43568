package sim_test

import (
	"testing"
	"time"

	"github.com/norn-scheduler/norn/job"
	"github.com/norn-scheduler/norn/perf"
	"github.com/norn-scheduler/norn/policy/fifo"
	"github.com/norn-scheduler/norn/sched"
	"github.com/norn-scheduler/norn/sim/simtest"
)

// TestPipelines: a pipeline of four stages begins cold after 46 s, and ends at 146. Its weights
// are written for 12 s more. Beginning warm takes 20 s. A pipeline that follows at once in the
// reverse order begins 23 s later, in the same order 32 s later, as does a job that is none. A
// pipeline that follows 4 s later waits 22 s, and one that follows another job 20 s.
func TestPipelines(t *testing.T) {
	tunes := func(plan string) func(*job.Job) {
		return func(j *job.Job) { j.Kind, j.Backbone, j.Hints = job.FineTuning, "vit", &job.Hints{Plan: plan} }
	}
	for _, c := range []struct {
		name, first, second string
		reverse             bool
		at, want            float64
	}{
		{"in the reverse order", job.Pipeline, job.Pipeline, true, 0, 146 + 23 + 100},
		{"in the same order", job.Pipeline, job.Pipeline, false, 0, 146 + 32 + 100},
		{"a job that is none", job.Pipeline, "", true, 0, 146 + 32 + 100},
		{"later", job.Pipeline, job.Pipeline, true, 150, 150 + 22 + 100},
		{"when all is written", job.Pipeline, job.Pipeline, true, 160, 160 + 20 + 100},
		{"after a job that is none", "", job.Pipeline, true, 0, 146 + 20 + 100},
	} {
		cost := perf.Switch{Cold: 46 * time.Second, Warm: 20 * time.Second, Save: 12 * time.Second, Reverse: c.reverse}
		run := simtest.Go(t, simtest.Config{
			Cluster: simtest.Nodes(1, 4), Make: func() (sched.Policy, error) { return fifo.NewConfig().Policy() },
			Costs: perf.Costs{Switch: map[string]perf.Switch{"vit": cost}},
		},
			simtest.Job{Key: "a", GPUs: 4, Run: 100, Spec: tunes(c.first)}, simtest.Job{Key: "b", At: c.at, GPUs: 4, Run: 100, Spec: tunes(c.second)})
		if run.End("a") != 146 || run.End("b") != c.want {
			t.Errorf("%s: jobs end at %v and %v, want 146 and %v\n%v", c.name, run.End("a"), run.End("b"), c.want, run.Log)
		}
	}
}
