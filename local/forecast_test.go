package local_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/norn-scheduler/norn/api"
	"github.com/norn-scheduler/norn/internal/longtest"
	"github.com/norn-scheduler/norn/local"
)

// est is a job of so many GPUs that is believed to take, and takes, so many
// tenths of seconds.
func (h *here) est(gpus float64, tenths int, mode string) string {
	h.t.Helper()
	spec := h.sh(gpus, fmt.Sprintf("sleep %d.%d", tenths/10, tenths%10))
	spec.Estimate, spec.Stop = api.Of(time.Duration(tenths)*time.Second/10), api.Stop{Mode: mode}
	return h.submit(spec)
}

// expected is when a waiting job is expected to start; what holds it up is part
// of the answer.
func (h *here) expected(id string) time.Time {
	h.t.Helper()
	w := h.why(id)
	if w.Expected.IsZero() {
		h.t.Errorf("nobody knows when job %s starts: %s (%s)", id, w.Unknown, w.Reason)
	}
	return w.Expected
}

// Forecasts come true if estimates hold: the order of starts is as forecast,
// and no start is earlier. (How much later is a matter of the machine: a launch
// takes time, and a loaded machine takes more.)
func TestForecast(t *testing.T) {
	longtest.Skip(t)
	for policy, jobs := range map[string][]struct {
		gpus   float64
		tenths int
		mode   string
	}{
		// b waits for both GPUs, c goes ahead of it on the free one, d would delay it.
		"fifo(mode=easy)": {{1, 20, "never"}, {2, 5, "never"}, {1, 10, "never"}, {1, 30, "never"}},
		// The shortest goes first: d, then b, and c last.
		"srtf": {{2, 15, "never"}, {2, 10, "never"}, {2, 20, "never"}, {2, 5, "never"}},
	} {
		t.Run(policy, func(t *testing.T) {
			t.Parallel()
			h := newHere(t, policy, 2, nil)
			var ids []string
			for _, j := range jobs {
				ids = append(ids, h.est(j.gpus, j.tenths, j.mode))
			}
			foretold := map[string]time.Time{}
			var order []string
			for _, id := range ids {
				if h.job(id).State == api.Waiting {
					foretold[id] = h.expected(id)
					order = append(order, id)
				}
			}
			if len(order) < 2 {
				t.Fatalf("only %v wait", order)
			}
			f, err := h.Forecast(background, h.me)
			if err != nil || !f.Whole || f.Policy != policy || len(f.Starts) != len(order) {
				t.Fatalf("%+v, %v", f, err)
			}
			for i, s := range f.Starts {
				if s.At.Sub(foretold[s.Job]).Abs() > time.Second || i > 0 && s.At.Before(f.Starts[i-1].At) {
					t.Errorf("job %s is foretold to start at %v by itself, and at %v of all", s.Job, foretold[s.Job], s.At)
				}
			}
			_, bob := others()
			if f, err := h.Forecast(background, bob); err != nil || len(f.Starts) > 0 {
				t.Errorf("bob is told %+v, %v", f, err)
			}
			for _, id := range ids {
				h.until(id, api.Done)
			}
			for i, id := range order {
				started := h.job(id).Started
				if started.Before(foretold[id].Add(-time.Second)) {
					t.Errorf("job %s was foretold to start at %v, and started earlier: at %v", id, foretold[id], started)
				}
				for _, other := range order[:i] {
					if foretold[other].Before(foretold[id]) != h.job(other).Started.Before(started) {
						t.Errorf("jobs %s and %s were foretold to start at %v and %v, and started at %v and %v",
							other, id, foretold[other], foretold[id], h.job(other).Started, started)
					}
				}
			}
		})
	}
}

// The work of a running job in its present run counts, so a later question does
// not get a later start.
func TestForecastLater(t *testing.T) {
	longtest.Skip(t)
	t.Parallel()
	h := newHere(t, "fifo", 1, nil)
	spec := h.sh(1, "touch up; "+awaits("end"))
	spec.Estimate = 1000
	a := h.submit(spec)
	h.made("up")
	b := h.est(1, 1, "never")
	until(t, "it has run for a second", func() bool { return h.job(a).Ran > 1 })
	end := h.job(a).ExpectEnd
	if at := h.expected(b); at.Sub(end).Abs() > 100*time.Millisecond {
		t.Errorf("it is to start at %v, when the other one ends at %v", at, end)
	}
	h.make("end")
	h.until(b, api.Done)
}

// Where it cannot be told when a job starts, it is said why; who holds what it
// needs, who goes ahead and what would free it is told all the same.
func TestNoForecast(t *testing.T) {
	t.Parallel()
	h := newHere(t, "fifo", 2, func(o *local.Options) { o.Machine.Devices[0].Name, o.Machine.Devices[1].Name = "gpu0", "gpu1" })
	a := h.submit(h.sh(2, "touch up; "+awaits("enough")))
	h.made("up")
	b := h.est(1, 1, "never")
	c := h.est(1, 1, "never")
	w := h.why(c)
	if !w.Expected.IsZero() || w.Unknown != "jobs that go ahead of it have no estimate, or wait for something else" {
		t.Errorf("%v, %q", w.Expected, w.Unknown)
	}
	if fmt.Sprint(w.Ahead) != "["+b+"]" || fmt.Sprint(w.Holders) != "[job "+a+" holds gpu0, gpu1, and nobody knows until when]" ||
		len(w.Frees) != 1 || !strings.HasPrefix(w.Frees[0], "the end of jobs that hold what it needs: job "+a) {
		t.Errorf("ahead %v, holders %v, frees %v", w.Ahead, w.Holders, w.Frees)
	}
	if w.Reason != "waits behind job "+b+", which goes first" || h.why(b).Reason != "needs 1 GPU; 0 free" {
		t.Errorf("%q, %q", w.Reason, h.why(b).Reason)
	}
	h.make("enough")
	h.until(c, api.Done)
	if w := h.why(c); !strings.HasPrefix(w.Reason, "is done since ") || w.Stop != "nothing: it has ended" {
		t.Errorf("%+v", w)
	}
}
