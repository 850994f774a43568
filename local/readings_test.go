package local_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/norn-scheduler/norn/api"
	"github.com/norn-scheduler/norn/eventlog"
	"github.com/norn-scheduler/norn/internal/longtest"
	"github.com/norn-scheduler/norn/perf"
)

// TestReadings: what a job that tunes reports is measured, for a policy that learns from it. It
// is estimated by its loss, norn why tells from what, and the next daemon believes the same. Its
// need is told before its end.
func TestReadings(t *testing.T) {
	longtest.Skip(t)
	t.Parallel()
	h := newHere(t, "ymir(profile=0s,interval=1s,gap=1s)", 1, nil)
	spec := h.sh(1, `while [ ! -e end ]; do sleep 0.01; done`)
	spec.Backbone, spec.Dataset, spec.Batch = "vit", "shapes", 10
	id := h.submit(spec)
	h.running(id, 1)
	task := h.task(id, 1)
	k := int64(0)
	tell := func(r api.Report) {
		t.Helper()
		k++
		r.Samples, r.Epoch, r.Loss = 100*k, float64(k)/10, 4/(float64(k)+1) // the curve of the examples, K = 31
		if _, err := task.Report(background, r); err != nil {
			t.Fatal(err)
		}
	}
	tell(api.Report{Embedding: []float64{1, 2, 3}, Quality: map[string]float64{"accuracy": 0.5}})
	until(t, "its loss is believed", func() bool {
		if k < 25 {
			tell(api.Report{})
		} else {
			k--
			tell(api.Report{})
		}
		return strings.Contains(strings.Join(h.why(id).Beliefs, "; "), "K = ")
	})
	if j := h.job(id); j.Progress == nil || len(j.Progress.Embedding) != 3 {
		t.Errorf("its progress is %+v", j.Progress)
	}
	before := h.why(id).Beliefs
	estimated := h.last(id, eventlog.Estimate)
	if !strings.Contains(estimated.Reason.Text, "of its loss trace") {
		t.Errorf("it is estimated because of %q", estimated.Reason.Text)
	}
	h.down()
	h.up()
	h.running(id, 1)
	if after := h.why(id).Beliefs; !slices.Equal(after, before) {
		t.Errorf("the next daemon believes %q, the one before %q", after, before)
	}
	task = h.task(id, 1)
	tell(api.Report{})
	h.make("end")
	h.until(id, api.Done)
	m := h.last(id, eventlog.Measured).Measured
	if m == nil || m.When != perf.AtEnd {
		t.Fatalf("measured last was %+v", m)
	}
	if n, ok := m.Figure(perf.Samples); !ok || n != float64(100*k) {
		t.Errorf("it needed %v samples, want %d", n, 100*k)
	}
}
