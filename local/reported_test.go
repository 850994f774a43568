package local_test

import (
	"testing"

	"github.com/norn-scheduler/norn/api"
	"github.com/norn-scheduler/norn/eventlog"
	"github.com/norn-scheduler/norn/job"
	"github.com/norn-scheduler/norn/sched"
)

// The log tells when a job trains with something else: another batch, or noise of its
// gradients that differs by more than a tenth. The next daemon knows it, by the log that it
// goes on from.
func TestReportsWhatItTrainsWith(t *testing.T) {
	t.Parallel()
	h := newHere(t, "fifo", 1, nil)
	spec := h.sh(1, awaits("end"))
	spec.Batch = 64
	id := h.submit(spec)
	h.running(id, 1)
	for _, r := range []api.Report{
		{Step: 1, Batch: 64, Epoch: 0.5}, {Step: 2, GradSqr: 2, GradVar: 246.9}, {Step: 3, GradVar: 260}, // 123 and 130 are much the same
		{Step: 4, Batch: 128, Epoch: 2.7}, {Step: 5}, {Rank: 1, Batch: 9}, {Step: 6, Noise: 500},
	} {
		if _, err := h.task(id, 1).Report(background, r); err != nil {
			t.Fatal(err)
		}
	}
	want := []job.Reported{{Batch: 64}, {Batch: 64, Noise: 123}, {Batch: 128, Noise: 130, Epoch: 2}, {Batch: 128, Noise: 500, Epoch: 2}}
	told := h.life(id, eventlog.Config)
	if len(told) != len(want) {
		t.Fatalf("the log has %d reports, want %d", len(told), len(want))
	}
	for i := range told {
		if told[i].Reported != want[i] {
			t.Errorf("report %d is %+v, want %+v", i, told[i].Reported, want[i])
		}
	}
	h.down()
	h.up()
	var now job.Reported
	h.orders(func(v *sched.View, _ *sched.Plan) { now = v.Job(0).Config().Reported })
	if now != want[len(want)-1] {
		t.Errorf("the next daemon knows that it trains with %+v, want %+v", now, want[len(want)-1])
	}
	h.make("end")
	h.until(id, api.Done)
}
