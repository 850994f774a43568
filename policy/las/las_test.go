package las_test

import (
	"testing"
	"time"

	"github.com/norn-scheduler/norn/job"
	"github.com/norn-scheduler/norn/perf"
	"github.com/norn-scheduler/norn/policy/las"
	"github.com/norn-scheduler/norn/sched"
	"github.com/norn-scheduler/norn/sim/simtest"
)

func make(change func(*las.Config)) func() (sched.Policy, error) {
	return func() (sched.Policy, error) {
		c := las.NewConfig()
		change(c)
		return c.Policy()
	}
}

// Gu et al., NSDI 2019, section 2.2, figure 3: least attained service with
// quanta of one second. J1 attains 2 GPU-seconds in the first second, J2 1 in
// the next, J3 2, J2 again, then J1 ends; from there J2 has one quantum for each
// GPU-second it lags behind J3.
func TestThreeJobExample(t *testing.T) {
	run := simtest.Go(t, simtest.Config{
		Cluster: simtest.Nodes(1, 2),
		Make:    make(func(c *las.Config) { c.Round = time.Second }),
	},
		simtest.Job{Key: "J1", GPUs: 2, Run: 2}, simtest.Job{Key: "J2", GPUs: 1, Run: 8}, simtest.Job{Key: "J3", GPUs: 2, Run: 6})
	for key, want := range map[string]float64{"J1": 5, "J2": 14, "J3": 16} {
		if got := run.End(key); got != want {
			t.Errorf("%s ends at %v, want %v", key, got, want)
		}
	}
}

// Two jobs of different widths arrive together on GPUs that hold only the wide
// one or the narrow one. By GPU-time the narrow one has two rounds for each
// round of the wide one (wide 0-10, narrow 10-30, wide 30-40, narrow 40-50,
// wide 50-60), by time alone they take turns.
func TestServiceIsGPUsTimesTime(t *testing.T) {
	for _, want := range []struct {
		oneD         bool
		wide, narrow float64
		preemptions  int
	}{
		{false, 60, 50, 3},
		{true, 50, 60, 4},
	} {
		run := simtest.Go(t, simtest.Config{
			Cluster: simtest.Nodes(1, 2),
			Make:    make(func(c *las.Config) { c.Round, c.OneD = 10*time.Second, want.oneD }),
		}, simtest.Job{Key: "wide", GPUs: 2, Run: 30}, simtest.Job{Key: "narrow", GPUs: 1, Run: 30})
		if w, n, p := run.End("wide"), run.End("narrow"), run.Preemptions(); w != want.wide || n != want.narrow || p != want.preemptions {
			t.Errorf("1d=%v: ends %v and %v with %d preemptions, want %v, %v, %d", want.oneD, w, n, p, want.wide, want.narrow, want.preemptions)
		}
	}
}

// TestServiceOfLargeJobs: the service of 8,000 GPUs over 35 days is more than an
// hour's of any, and more GPU-nanoseconds than an int64 holds.
func TestServiceOfLargeJobs(t *testing.T) {
	const day = 86400
	run := simtest.Go(t, simtest.Config{Cluster: simtest.Nodes(1000, 8), Make: las.NewConfig().Policy, Unchecked: true},
		simtest.Job{Key: "a", GPUs: 8000, Run: 40 * day},
		simtest.Job{Key: "b", At: 35 * day, GPUs: 8000, Run: 3600},
	)
	if run.Start("b") != 35*day || run.End("b") != 35*day+3600 {
		t.Errorf("b runs from %v to %v", run.Start("b"), run.End("b"))
	}
}

// TestCostsAboveTheRound: where a restore takes longer than a round, jobs still
// get on: one is not stopped before it has made any progress.
func TestCostsAboveTheRound(t *testing.T) {
	for _, round := range []time.Duration{0, 5 * time.Minute, 10 * time.Minute} {
		run := simtest.Go(t, simtest.Config{
			Cluster: simtest.Nodes(1, 1), Make: make(func(c *las.Config) { c.Round = round }),
			Costs: perf.Costs{Base: perf.Cost{Checkpoint: time.Minute, Restore: 10 * time.Minute}},
		},
			simtest.Job{Key: "a", GPUs: 1, Run: 7200}, simtest.Job{Key: "b", GPUs: 1, Run: 7200},
			simtest.Job{Key: "c", GPUs: 1, At: 30, Run: 3600},
		)
		for _, key := range []string{"a", "b", "c"} {
			if run.Record(key).Phase != job.Done {
				t.Errorf("round %v: %s is %v", round, key, run.Record(key).Phase)
			}
		}
	}
}
