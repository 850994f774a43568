package lease_test

import (
	"cmp"
	"slices"
	"testing"
	"time"

	"github.com/norn-scheduler/norn/job"
	"github.com/norn-scheduler/norn/perf"
	"github.com/norn-scheduler/norn/place"
	"github.com/norn-scheduler/norn/policy/kit/lease"
	"github.com/norn-scheduler/norn/sched"
	"github.com/norn-scheduler/norn/sim/simtest"
)

// turns serves who has run least first.
type turns struct{ lease.Terms }

func (u *turns) Decide(v *sched.View, p *sched.Plan) {
	u.Terms.Decide(v, p, func(s *lease.Pass) {
		order := slices.Clone(s.Candidates)
		slices.SortStableFunc(order, func(a, b sched.Job) int { return cmp.Compare(a.RunTime(), b.RunTime()) })
		for _, j := range order {
			s.Serve(j)
		}
	})
}

func terms(aligned bool) func() (sched.Policy, error) {
	return func() (sched.Policy, error) {
		return &turns{lease.Terms{Length: time.Minute, Place: place.Pack, Aligned: aligned}}, nil
	}
}

// TestTurns: two jobs take turns on one GPU, a term each. A job that comes in
// the middle of a term waits for its end, which is a multiple of a minute where
// terms are aligned. A job alone keeps its GPU, and nothing happens to it.
func TestTurns(t *testing.T) {
	for aligned, want := range map[bool][3]float64{false: {90, 270, 350}, true: {60, 240, 350}} {
		run := simtest.Go(t, simtest.Config{Cluster: simtest.Nodes(1, 1), Make: terms(aligned)},
			simtest.Job{Key: "a", At: 30, GPUs: 1, Run: 200}, simtest.Job{Key: "b", At: 50, GPUs: 1, Run: 120})
		if got := [3]float64{run.Start("b"), run.End("b"), run.End("a")}; got != want {
			t.Errorf("aligned %v: b starts and ends and a ends at %v, want %v\n%v", aligned, got, want, run.Log)
		}
	}
}

// TestCostsAboveTheTerm: where a restore takes longer than a term, jobs still get on.
func TestCostsAboveTheTerm(t *testing.T) {
	for _, aligned := range []bool{false, true} {
		run := simtest.Go(t, simtest.Config{
			Cluster: simtest.Nodes(1, 1), Make: terms(aligned),
			Costs: perf.Costs{Base: perf.Cost{Checkpoint: 20 * time.Second, Restore: 5 * time.Minute}},
		}, simtest.Job{Key: "a", GPUs: 1, Run: 600}, simtest.Job{Key: "b", GPUs: 1, Run: 600}, simtest.Job{Key: "c", At: 30, GPUs: 1, Run: 600})
		for _, key := range []string{"a", "b", "c"} {
			if run.Record(key).Phase != job.Done {
				t.Errorf("aligned %v: %s is %v", aligned, key, run.Record(key).Phase)
			}
		}
	}
}
