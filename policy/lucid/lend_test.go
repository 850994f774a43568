package lucid

import (
	"strconv"
	"testing"

	"github.com/norn-scheduler/norn/job"
	"github.com/norn-scheduler/norn/sched"
	"github.com/norn-scheduler/norn/sim/simtest"
)

// burst is a run on five nodes, of which the last is the profiler's. One job
// holds half of the first node. Then 13 jobs of 8 GPUs come at once and take 50
// s each. One that needs three whole nodes comes 319 s later.
func burst(t *testing.T, at float64, lend int) *simtest.Run {
	t.Helper()
	cfg := packing(Never, nil)
	cfg.Cluster = simtest.Nodes(5, 8)
	cfg.Make = func() (sched.Policy, error) {
		c := NewConfig()
		c.Predict, c.Packing, c.Profile, c.Lend.Nodes = Given, Never, 0.2, lend
		return c.Policy()
	}
	jobs := []simtest.Job{{Key: "stays", GPUs: 4, Run: 10_000, Spec: func(j *job.Job) { j.Stop = job.Pinned }}}
	for i := range 13 {
		jobs = append(jobs, simtest.Job{Key: "j" + strconv.Itoa(i), At: at, GPUs: 8, Run: 50})
	}
	return simtest.Go(t, cfg, append(jobs, simtest.Job{Key: "wide", At: at + 319, GPUs: 24, Run: 100})...)
}

// Section 2, time-aware scaling: with more than ten jobs that wait to be
// measured, a node is lent at the next ten seconds. It is given back at the
// next hundred at which it is idle, fewer than five jobs wait, and few GPUs are
// foreseen.
func TestLend(t *testing.T) {
	run := burst(t, 1, 1)
	for key, want := range map[string]float64{"j0": 1, "j1": 10, "j2": 51, "j3": 60, "j11": 260, "j12": 301, "wide": 400} {
		if got := run.Start(key); got != want {
			t.Errorf("%s starts at %v, want %v%s", key, got, want, text(run))
		}
	}
	// The first ten minutes saw 108 GPUs asked for, the next 24: the mean is 132 / 4 = 33, at
	// most 5 x 8, from 40 minutes on.
	if run := burst(t, 301, 1); run.Start("j1") != 310 || run.Start("wide") != 2400 {
		t.Errorf("many are foreseen: j1 starts at %v, wide at %v%s", run.Start("j1"), run.Start("wide"), text(run))
	}
	if run := burst(t, 1, 0); run.Start("j1") != 51 || run.End("j12") != 651 || run.Start("wide") != 320 {
		t.Errorf("nothing is lent:%s", text(run))
	}
}
