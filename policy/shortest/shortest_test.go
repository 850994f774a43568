package shortest_test

import (
	"testing"
	"time"

	"github.com/norn-scheduler/norn/cluster"
	"github.com/norn-scheduler/norn/job"
	"github.com/norn-scheduler/norn/perf"
	"github.com/norn-scheduler/norn/perf/predict"
	"github.com/norn-scheduler/norn/policy/shortest"
	"github.com/norn-scheduler/norn/sched"
	"github.com/norn-scheduler/norn/sim/simtest"
	"github.com/norn-scheduler/norn/trace"
)

func sjf(change func(*shortest.SJF)) func() (sched.Policy, error) {
	return func() (sched.Policy, error) {
		c := shortest.NewSJF()
		if change != nil {
			change(c)
		}
		return c.Policy()
	}
}

// starts compares first starts.
func starts(t *testing.T, run *simtest.Run, want map[string]float64) {
	t.Helper()
	for key, at := range want {
		if got := run.Start(key); got != at {
			t.Errorf("%s starts at %v, want %v\n%v", key, got, at, run.Log)
		}
	}
}

// The shortest of those that wait goes first, whoever came first, and who runs
// is left alone.
func TestShortestFirst(t *testing.T) {
	run := simtest.Go(t, simtest.Config{Cluster: simtest.Nodes(1, 1), Make: sjf(nil)},
		simtest.Job{Key: "first", GPUs: 1, Run: 100},
		simtest.Job{Key: "long", At: 1, GPUs: 1, Run: 50},
		simtest.Job{Key: "short", At: 2, GPUs: 1, Run: 10})
	starts(t, run, map[string]float64{"first": 0, "short": 100, "long": 110})
}

// Helios, section 4.2: the shortest job that does not fit blocks those behind it.
// PAI, section 6: whoever fits goes ahead.
func TestBlock(t *testing.T) {
	for block, want := range map[bool]map[string]float64{
		true:  {"wide": 50, "narrow": 60},
		false: {"wide": 50, "narrow": 2},
	} {
		run := simtest.Go(t, simtest.Config{Cluster: simtest.Nodes(1, 8), Make: sjf(func(c *shortest.SJF) { c.Block = block })},
			simtest.Job{Key: "first", GPUs: 4, Run: 50},
			simtest.Job{Key: "wide", At: 1, GPUs: 8, Run: 10},
			simtest.Job{Key: "narrow", At: 2, GPUs: 4, Run: 20})
		starts(t, run, want)
	}
}

// By service, GPUs count as much as time.
func TestByService(t *testing.T) {
	for by, want := range map[shortest.By]map[string]float64{
		shortest.Time:    {"wide": 10, "narrow": 30},
		shortest.Service: {"narrow": 10, "wide": 35},
	} {
		run := simtest.Go(t, simtest.Config{Cluster: simtest.Nodes(1, 4), Make: sjf(func(c *shortest.SJF) { c.By = by })},
			simtest.Job{Key: "first", GPUs: 4, Run: 10},
			simtest.Job{Key: "wide", At: 1, GPUs: 4, Run: 20},
			simtest.Job{Key: "narrow", At: 2, GPUs: 1, Run: 25})
		starts(t, run, want)
	}
}

// A job without an estimate goes after all others, in order of submission.
func TestWithoutEstimates(t *testing.T) {
	for name, make := range map[string]func() (sched.Policy, error){"sjf": sjf(nil), "srtf": shortest.NewSRTF().Policy, "srsf": shortest.NewSRSF().Policy} {
		run := simtest.Go(t, simtest.Config{Cluster: simtest.Nodes(1, 1), Make: make, Estimator: predict.None{}},
			simtest.Job{Key: "a", GPUs: 1, Run: 30}, simtest.Job{Key: "b", At: 1, GPUs: 1, Run: 5}, simtest.Job{Key: "c", At: 2, GPUs: 1, Run: 1})
		if run.Start("a") != 0 || run.Start("b") != 30 || run.Start("c") != 35 {
			t.Errorf("%s: %v", name, run.Log)
		}
	}
}

// The time to start a job counts as remaining time. At 60 job a has 70 s left,
// and b needs 30 s to start, so b ends sooner only if it runs for less than 40.
func TestStartsCount(t *testing.T) {
	for run, preemptions := range map[float64]int{35: 1, 50: 0} {
		cfg := simtest.Config{Cluster: simtest.Nodes(1, 1), Make: shortest.NewSRTF().Policy}
		cfg.Costs.Base.Restore, cfg.Costs.Base.Start = 30*time.Second, 30*time.Second
		r := simtest.Go(t, cfg, simtest.Job{Key: "a", GPUs: 1, Run: 100}, simtest.Job{Key: "b", At: 60, GPUs: 1, Run: run})
		if got := r.Preemptions(); got != preemptions {
			t.Errorf("b runs for %v s: %d preemptions, want %d\n%v", run, got, preemptions, r.Log)
		}
	}
}

// TestPaceOfAWaitingJob: a job that has reported a lower pace and was stopped for a shorter
// one waits for the end of that. Taken to go on at its old pace, it would go first again, be
// slow again, and be stopped again, for ever.
func TestPaceOfAWaitingJob(t *testing.T) {
	cost := perf.Cost{Start: 9 * time.Second, Restore: 9 * time.Second, Checkpoint: 6 * time.Second}
	run := simtest.Go(t, simtest.Config{
		Cluster: simtest.Nodes(1, 1), Costs: perf.Costs{Base: cost},
		Make: func() (sched.Policy, error) { return shortest.NewSRTF().Policy() },
	},
		simtest.Job{Key: "slower", GPUs: 1, Run: 100, Course: []trace.Turn{
			{Reported: job.Reported{Batch: 32, Pace: 1}}, {From: 30 * time.Second, Reported: job.Reported{Batch: 64, Pace: 0.5}},
		}},
		simtest.Job{Key: "steady", At: 10, GPUs: 1, Run: 95})
	if n := run.Record("slower").Preemptions; n != 1 || run.Record("steady").Preemptions != 0 {
		t.Errorf("it is stopped %d times\n%v", n, run.Log)
	}
	if a, b := run.Record("steady").End, run.Record("slower").End; a >= b {
		t.Errorf("they end at %v and %v\n%v", a, b, run.Log)
	}
}

// slow has every job run at half of the speed that its estimate is about, wherever it is.
type slow struct{}

// Speed implements perf.Model.
func (slow) Speed(*job.Job, *cluster.Cluster, *cluster.Alloc) float64 { return 0.5 }

// Jobs that run slower than a job that waits is taken to run do not take each other's GPUs in turn:
// a start does not put a job behind one that it went before a moment earlier.
func TestSlowJobsDoNotTakeTurns(t *testing.T) {
	for name, build := range map[string]func() (sched.Policy, error){"srtf": shortest.NewSRTF().Policy, "srsf": shortest.NewSRSF().Policy} {
		run, err := simtest.Try(simtest.Config{
			Cluster: simtest.Nodes(1, 2), Make: build, Model: slow{},
			Costs: perf.Costs{Base: perf.Cost{Start: 12 * time.Second, Checkpoint: 12 * time.Second, Restore: 9 * time.Second}},
		},
			simtest.Job{Key: "a", GPUs: 2, Run: 100},
			simtest.Job{Key: "b", GPUs: 2, Run: 101},
			simtest.Job{Key: "c", At: 20, GPUs: 2, Run: 250}, // has the order looked at again
		)
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		if n := run.Preemptions(); n != 0 {
			t.Errorf("%s: %d preemptions\n%v", name, n, run.Log)
		}
	}
}
