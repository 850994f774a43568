package local_test

import (
	"slices"
	"testing"
	"time"

	"github.com/norn-scheduler/norn/api"
	"github.com/norn-scheduler/norn/eventlog"
	"github.com/norn-scheduler/norn/job"
	"github.com/norn-scheduler/norn/local"
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

// The noise of gradients is news once in a while at most, and another batch at once; what is believed
// of a job in between is what was noted last.
func TestNoiseIsNoNews(t *testing.T) {
	t.Parallel()
	h := newHere(t, "fifo", 1, func(o *local.Options) { o.Defaults.SpeedFor = time.Hour })
	id := h.submit(h.sh(1, awaits("end")))
	h.running(id, 1)
	for _, r := range []api.Report{{Step: 1, Noise: 100}, {Step: 2, Noise: 200}, {Step: 3, Noise: 400}, {Step: 4, Noise: 300, Batch: 32}, {Step: 5, Noise: 900}} {
		if _, err := h.task(id, 1).Report(background, r); err != nil {
			t.Fatal(err)
		}
	}
	var told []job.Reported
	for _, e := range h.life(id, eventlog.Config) {
		told = append(told, e.Reported)
	}
	if want := []job.Reported{{Noise: 100}, {Batch: 32, Noise: 300}}; !slices.Equal(told, want) {
		t.Errorf("the log has %+v, want %+v", told, want)
	}
	h.make("end")
	h.until(id, api.Done)
}

// The losses that rank 0 reports, and how the job stood, are told while it runs, and after its
// end by the history; of a run that went back to a checkpoint the later report of a step counts.
func TestTellsLosses(t *testing.T) {
	t.Parallel()
	h := newHere(t, "fifo", 1, nil)
	id := h.submit(h.sh(1, awaits("end")))
	h.running(id, 1)
	for _, r := range []api.Report{{Step: 10, Loss: 3}, {Step: 20, Loss: 2}, {Step: 30, Loss: 1.5}, {Step: 20, Loss: 2.5}, {Step: 25}, {Rank: 1, Step: 40, Loss: 9}} {
		if _, err := h.task(id, 1).Report(background, r); err != nil {
			t.Fatal(err)
		}
	}
	check := func(when string) {
		t.Helper()
		w := h.why(id)
		if !slices.Equal(w.Losses, []api.LossPoint{{Step: 10, Loss: 3}, {Step: 20, Loss: 2.5}}) {
			t.Errorf("%s its losses are %+v", when, w.Losses)
		}
		if n := len(w.Course); n == 0 || w.Course[n-1].State != api.Running || w.Course[n-1].On != "slot0" || w.Course[n-1].To.IsZero() != (when == "as it runs") {
			t.Errorf("%s it stood %+v", when, w.Course)
		}
	}
	check("as it runs")
	h.make("end")
	h.until(id, api.Done)
	check("after its end")
	h.down()
	h.up()
	check("under the next daemon")
}
