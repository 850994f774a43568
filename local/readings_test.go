package local_test

import (
	"math"
	"slices"
	"strconv"
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
	spec := h.sh(1, awaits("end"))
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

// TestSlowDevice: a device on which similar jobs make progress half as fast as on the others is named, by three jobs
// and under a policy that learns nothing, and the next daemon still names it.
func TestSlowDevice(t *testing.T) {
	longtest.Skip(t)
	t.Parallel()
	h := newHere(t, "fifo", 4, nil)
	for round := range 3 {
		spec := h.sh(1, awaits("end"+strconv.Itoa(round)))
		spec.Name = "same"
		ids := []string{h.submit(spec), h.submit(spec), h.submit(spec), h.submit(spec)}
		tell := func(samples int64, when api.Seconds) {
			for _, id := range ids {
				h.running(id, 1)
				at := samples
				if h.job(id).Devices[0] == "slot1" {
					at = (samples + 1) / 2
				}
				if _, err := h.task(id, 1).Report(background, api.Report{Samples: at, Step: at, At: when}); err != nil {
					t.Fatal(err)
				}
			}
		}
		tell(1, 1)
		tell(4001, 11)
		h.make("end" + strconv.Itoa(round))
		for _, id := range ids {
			h.until(id, api.Done)
		}
	}
	for range 2 {
		nodes, err := h.Nodes(background, h.me, api.NodeQuery{Devices: true})
		if err != nil {
			t.Fatal(err)
		}
		for i, d := range nodes[0].Devices {
			if slow := i == 1; slow != (math.Abs(d.Slow-2) < 0.1 && d.SlowJobs == 3) || !slow && d.Slow != 0 {
				t.Errorf("%s: slow %v, of %d jobs", d.Name, d.Slow, d.SlowJobs)
			}
		}
		status, err := h.Status(background)
		if text := strings.Join(status.Trouble, "\n"); err != nil || !strings.Contains(text, "slot1 is slow: jobs take ") || !strings.Contains(text, "as was seen of 3 jobs") {
			t.Errorf("%v; what is wrong is told as %q", err, text)
		}
		h.down()
		h.up()
	}
}
