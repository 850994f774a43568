package report

import (
	"testing"
	"time"

	"github.com/norn-scheduler/norn/cluster"
	"github.com/norn-scheduler/norn/eventlog"
	"github.com/norn-scheduler/norn/job"
	"github.com/norn-scheduler/norn/perf"
	"github.com/norn-scheduler/norn/state"
	"github.com/norn-scheduler/norn/tenant"
)

// TestLosses: the time to 90 % of the fall of a loss is found between two reports, from the
// submission on, and only of jobs that have done their work.
func TestLosses(t *testing.T) {
	s := state.New(cluster.New(), tenant.NewTree(0))
	for id := range job.ID(2) {
		d := job.GPUs(1)
		if err := s.Submit(&job.Job{ID: id, Key: string(rune('a' + id)), Demand: &d, Submit: 5 * time.Second}, -1); err != nil {
			t.Fatal(err)
		}
		s.Record(id).FirstStart = 10 * time.Second
	}
	var f falls
	tell := func(at float64, id job.ID, when perf.When, losses ...float64) {
		s.Now = time.Duration(at * float64(time.Second))
		m := &perf.Reading{When: when}
		if len(losses) > 0 {
			m.Add(perf.Loss, losses...)
		}
		f.event(&eventlog.Event{Kind: eventlog.Measured, Job: id, Measured: m}, s)
	}
	tell(20, 0, perf.InRun, 11, 6)
	tell(22, 1, perf.InRun, 3, 2)
	tell(25, 0, perf.InRun)
	tell(30, 0, perf.InRun, 1.5)
	if f.result() != nil {
		t.Error("a job counts that has not ended")
	}
	tell(50, 0, perf.AtEnd, 1)
	got := f.result()
	if got.Jobs != 1 { // from 11 to 1: 2 is 90 %, between 6 and 1.5; 1.5 is 95 %
		t.Fatalf("%+v", got)
	}
	if want := 15*time.Second + 10*time.Second*8/9; (got.To90.Mean - want).Abs() > time.Microsecond {
		t.Errorf("90 %% after %v, want %v", got.To90.Mean, want)
	}
	if want := 25 * time.Second; (got.To95.Mean - want).Abs() > time.Microsecond {
		t.Errorf("95 %% after %v, want %v", got.To95.Mean, want)
	}
}
