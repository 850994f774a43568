package lucid

import (
	"math"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/norn-scheduler/norn/cluster/unit"
	"github.com/norn-scheduler/norn/job"
	"github.com/norn-scheduler/norn/perf"
	"github.com/norn-scheduler/norn/sched"
	"github.com/norn-scheduler/norn/sim"
	"github.com/norn-scheduler/norn/sim/simtest"
)

// packing is a run on one 8-GPU node with exact estimates; others share as pairs
// says, named by the jobs.
func packing(mode Packing, pairs map[perf.Pair]float64) simtest.Config {
	m := perf.Pairs{Speed: pairs, Sort: func(j *job.Job) string { return j.Key }}
	return simtest.Config{
		Cluster: simtest.Nodes(1, 8), Shared: true, Sharing: m,
		Make: func() (sched.Policy, error) {
			c := NewConfig()
			c.Predict, c.Packing = Given, mode
			return c.Policy()
		},
		World: func(c *sim.Config) { c.Sharing = m },
	}
}

// uses is a job that keeps its GPUs busy so much of the time and takes so much of
// their memory.
func uses(use float64, gib int) func(*job.Job) {
	return func(j *job.Job) { j.Hints = &job.Hints{GPUUse: use, GPUMemory: unit.Bytes(gib) * unit.GiB} }
}

func text(run *simtest.Run) string { return "\n" + strings.Join(run.Log, "\n") }

// Acceptance 1: a pair that shares, and what its members come to.
func TestPairRun(t *testing.T) {
	jobs := []simtest.Job{{Key: "J1", GPUs: 8, Run: 1000, Spec: uses(0.5, 3)}, {Key: "J2", At: 10, GPUs: 8, Run: 500, Spec: uses(0.5, 3)}}
	speeds := map[perf.Pair]float64{{Job: "J1", Beside: "J2"}: 0.9, {Job: "J2", Beside: "J1"}: 0.8}
	run := simtest.Go(t, packing(Always, speeds), jobs...)
	if run.Start("J2") != 10 || math.Abs(run.End("J2")-635) > 1e-6 || math.Abs(run.End("J1")-1062.5) > 1e-6 || run.Preemptions() != 0 {
		t.Errorf("J2 runs from %v to %v, J1 ends at %v: want 10, 635 and 1062.5%s", run.Start("J2"), run.End("J2"), run.End("J1"), text(run))
	}
	if got := run.MeanJCT(); math.Abs(got-843.75) > 1e-6 {
		t.Errorf("mean JCT %v, want 843.75", got)
	}
	if got := simtest.Go(t, packing(Never, speeds), jobs...).MeanJCT(); got != 1245 {
		t.Errorf("mean JCT without packing %v, want 1245", got)
	}
}

// Acceptance 2: who is refused in the same state, and who just not.
func TestRefusals(t *testing.T) {
	for name, c := range map[string]struct {
		job    simtest.Job
		shares bool
	}{
		"like it":        {simtest.Job{GPUs: 8, Run: 500, Spec: uses(0.5, 3)}, true},
		"jumbo":          {simtest.Job{GPUs: 8, Run: 500, Spec: uses(0.9, 3)}, false},
		"memory":         {simtest.Job{GPUs: 8, Run: 500, Spec: uses(0.2, 22)}, false},
		"memory, just":   {simtest.Job{GPUs: 8, Run: 500, Spec: uses(0.2, 20)}, true},
		"fewer GPUs":     {simtest.Job{GPUs: 4, Run: 500, Spec: uses(0.5, 3)}, false},
		"too long":       {simtest.Job{GPUs: 8, Run: 2001, Spec: uses(0.5, 3)}, false},
		"not too long":   {simtest.Job{GPUs: 8, Run: 2000, Spec: uses(0.5, 3)}, true},
		"tells no use":   {simtest.Job{GPUs: 8, Run: 500}, false},
		"never measured": {simtest.Job{GPUs: 8, Run: 500, Spec: func(j *job.Job) { j.Hints = &job.Hints{GPUUse: 0.1} }}, false},
	} {
		c.job.Key, c.job.At = "J2", 10
		run := simtest.Go(t, packing(Always, nil), simtest.Job{Key: "J1", GPUs: 8, Run: 1000, Spec: uses(0.5, 3)}, c.job)
		if shared := run.Start("J2") == 10; shared != c.shares {
			t.Errorf("%s: shares: %v, want %v%s", name, shared, c.shares, text(run))
		}
	}
}

// Acceptance 3: while nobody shares, a job that does not fit holds up those behind
// it; otherwise it is skipped.
func TestHeadOfLine(t *testing.T) {
	jobs := []simtest.Job{{Key: "runs", GPUs: 4, Run: 100}, {Key: "head", At: 1, GPUs: 8, Run: 10}, {Key: "small", At: 2, GPUs: 1, Run: 500}}
	if run := simtest.Go(t, packing(Never, nil), jobs...); run.Start("small") < 100 {
		t.Errorf("nobody shares: the small job starts at %v%s", run.Start("small"), text(run))
	}
	if run := simtest.Go(t, packing(Always, nil), jobs...); run.Start("small") != 2 {
		t.Errorf("jobs share: the small job starts at %v%s", run.Start("small"), text(run))
	}
}

// Acceptance 4: a short job ends while it is measured, a longer one is stopped then
// and never measured again; of those who wait for it the ones with the fewest GPUs
// go first.
func TestProfiler(t *testing.T) {
	cfg := packing(Never, nil)
	cfg.Cluster = simtest.Nodes(2, 4)
	cfg.Make = func() (sched.Policy, error) {
		c := NewConfig()
		c.Predict, c.Packing, c.Profile = Given, Never, 0.5
		return c.Policy()
	}
	run := simtest.Go(t, cfg, simtest.Job{Key: "short", GPUs: 4, Run: 150}, simtest.Job{Key: "four", At: 1, GPUs: 4, Run: 300},
		simtest.Job{Key: "one", At: 2, GPUs: 1, Run: 300}, simtest.Job{Key: "two", At: 3, GPUs: 2, Run: 100})
	if run.End("short") != 150 || run.Record("short").Preemptions != 0 || run.Start("one") != 150 || run.Start("two") != 150 || run.Start("four") != 350 {
		t.Error(text(run))
	}
	if one := run.Record("one"); one.Preemptions != 0 || one.Migrations != 1 || one.End != 450*time.Second {
		t.Errorf("%+v%s", one, text(run)) // it keeps its progress, as it can
	}
	if two := run.Record("two"); two.Preemptions != 0 || two.End != 250*time.Second {
		t.Errorf("%+v", two)
	}
	// The profiler's node is for that alone, as long as others run.
	run = simtest.Go(t, cfg, simtest.Job{Key: "a", GPUs: 4, Run: 1000}, simtest.Job{Key: "b", At: 1, GPUs: 4, Run: 1000})
	if a, b := run.Record("a"), run.Record("b"); a.Migrations != 1 || b.Preemptions != 1 || b.FirstStart != 200*time.Second || b.End != 1800*time.Second {
		t.Errorf("%+v %+v%s", a, b, text(run))
	}
}

// Acceptance 5: nobody is preempted, never are there three jobs on a GPU, and
// whoever is alone again has its whole speed at once: with pairs that do not disturb
// each other every job takes what it takes alone.
func TestInvariants(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var jobs []simtest.Job
		slow := map[perf.Pair]float64{}
		gap := float64(rapid.IntRange(0, 5).Draw(t, "gap"))
		for i := range rapid.IntRange(1, 12).Draw(t, "jobs") {
			key := string(rune('a' + i))
			jobs = append(jobs, simtest.Job{
				Key: key, At: float64(i) * gap, GPUs: rapid.SampledFrom([]int{1, 1, 2, 4, 8, 16}).Draw(t, "GPUs"),
				Run: float64(rapid.IntRange(1, 60).Draw(t, "run")), Spec: uses(float64(rapid.IntRange(1, 10).Draw(t, "use"))/10, rapid.IntRange(1, 14).Draw(t, "memory")),
			})
			for k := range i {
				slow[perf.Pair{Job: key, Beside: string(rune('a' + k))}] = 0.5
			}
		}
		cfg := packing(Always, slow)
		cfg.Cluster = simtest.Nodes(2, 8)
		watch := &simtest.Crowd{}
		cfg.Sinks = append(cfg.Sinks, watch)
		run, err := simtest.Try(cfg, jobs...)
		if err != nil {
			t.Fatalf("%v%s", err, text(run))
		}
		if watch.Most > 2 || run.Preemptions() > 0 || len(run.State.Ended()) != len(jobs) {
			t.Fatalf("%d jobs on a GPU, %d preemptions, %d of %d ended%s", watch.Most, run.Preemptions(), len(run.State.Ended()), len(jobs), text(run))
		}
	})
}

// Section 3: the scores of measured jobs that the spec lists, by the rule for when
// no tree is trained.
func TestScores(t *testing.T) {
	a := NewConfig().Analyser
	for _, c := range []struct {
		use  float64
		mb   int
		want Score
	}{
		{0.997, 20162, Jumbo}, {0.58, 2458, Medium}, {0.245, 2308, Tiny}, {0.97, 3884, Jumbo}, {0.43, 2508, Medium}, {0.99, 4078, Jumbo},
	} {
		j := job.Job{Demand: &job.Demand{}, Hints: &job.Hints{GPUUse: c.use, GPUMemory: unit.Bytes(c.mb) << 20}}
		if got, _, ok := a.Of(&j); got != c.want || !ok {
			t.Errorf("%v: %v, want %v", c.use, got, c.want)
		}
	}
}
