package loss

import (
	"math"
	"testing"

	"github.com/norn-scheduler/norn/job"
	"github.com/norn-scheduler/norn/perf"
)

// points are the losses of a form after 0 to last steps.
func points(last int, loss func(k float64) float64) (s []Sample) {
	for k := range last + 1 {
		s = append(s, Sample{float64(k), loss(float64(k))})
	}
	return s
}

// TestForetold is acceptance C of the specification of SLAQ and the fit of acceptance D of
// that of Optimus: without noise losses ahead are foretold within 1 %.
func TestForetold(t *testing.T) {
	for _, c := range []struct {
		name   string
		last   int
		loss   func(k float64) float64
		at     float64
		want   float64
		weight func(n int) func(int) float64
	}{
		{"SLAQ, first order", 15, func(k float64) float64 { return 1/(0.02*k*k+0.5*k+1) + 0.1 }, 25, 0.13846, func(n int) func(int) float64 { return Decay(n, 0.9) }},
		{"SLAQ, linear", 10, func(k float64) float64 { return math.Pow(0.8, k) + 0.2 }, 15, 0.23518, func(n int) func(int) float64 { return Decay(n, 0.9) }},
		{"Optimus", 20, func(k float64) float64 { return 1/(0.5*k+1) + 0.2 }, 50, 0.23846, func(n int) func(int) float64 { return Decay(n, 1) }},
	} {
		s := points(c.last, c.loss)
		f, err := Foretell(s, c.weight(len(s)))
		if err != nil {
			t.Fatal(err)
		}
		if got := f.Loss(c.at); math.Abs(got-c.want) > 0.01*c.want {
			t.Errorf("%s: the loss after %v steps is foretold as %v, want %v; %+v", c.name, c.at, got, c.want, f)
		}
		if _, first := f.(Curve); first != (c.name != "SLAQ, linear") {
			t.Errorf("%s was taken for %T", c.name, f)
		}
	}
}

// TestConverged is the rule of acceptance D of the specification of Optimus: the losses
// 1/(0.5k+1)+0.2 of 20 epochs have converged at epoch 22.
func TestConverged(t *testing.T) {
	s := points(20, func(k float64) float64 { return 1/(0.5*k+1) + 0.2 })
	c, err := FitRecent(s)
	if err != nil {
		t.Fatal(err)
	}
	if got := c.Loss(50); math.Abs(got-0.23846) > 0.01*0.23846 {
		t.Errorf("the loss after 50 epochs is foretold as %v", got)
	}
	exact := Curve{B0: 0.2, B1: 1, B2: 0.5}
	if e, ok := Converged(exact, 0, 0.05, 100); !ok || e != 22 {
		t.Errorf("converged at %d, want 22", e)
	}
	if _, ok := Converged(exact, 0, 1e-6, 100); ok {
		t.Error("it converges by less than is asked")
	}
	if e, _ := Converged(exact, 40.5, 0.05, 100); e != 41 {
		t.Errorf("from epoch 40.5 on it has converged at %d", e)
	}
	if w := Thirds(9); w(2) != 1 || w(3) != 16 || w(6) != 256 {
		t.Errorf("thirds weigh %v, %v, %v", w(2), w(3), w(6))
	}
}

// TestWeights: losses long ago do not matter to what is foretold.
func TestWeights(t *testing.T) {
	s := points(200, func(k float64) float64 { return 1/(0.3*k+1) + 0.1 })
	for i := range 10 {
		s[i].Loss = 7
	}
	f, err := Foretell(s, Decay(len(s), 0.9))
	if err != nil {
		t.Fatal(err)
	}
	if got, want := f.Loss(300), 1/(0.3*300+1)+0.1; math.Abs(got-want) > 0.01*want {
		t.Errorf("foretold %v, want %v", got, want)
	}
}

// reading is one of losses at samples.
func reading(rate float64, at []float64, losses ...float64) *perf.Reading {
	m := &perf.Reading{When: perf.InRun, Setup: perf.Setup{Tasks: 2}}
	if len(losses) > 0 {
		m.Add(perf.Loss, losses...)
	}
	m.Add(perf.Samples, at...)
	m.Add(perf.EpochSize, 100)
	m.Add(perf.Rate, rate)
	return m
}

// TestHistory: steps are epochs; the fall is by what was seen last while nothing is fitted,
// and then by the form. A job that was set back is foretold from where it went on.
func TestHistory(t *testing.T) {
	b, j := NewBeliever(perf.Prior{}), &job.Job{ID: 3, Key: "a"}
	if b.History(j) != nil {
		t.Error("something is known of a job that was not measured")
	}
	b.Observe(j, reading(50, []float64{0, 100}, 9, 5))
	h := b.History(j)
	if got := h.Fall(0.5); got != 2 {
		t.Errorf("falls by %v in half an epoch, want 2", got)
	}
	if r, on, ok := h.Rate(); !ok || r != 0.5 || on.Tasks != 2 {
		t.Errorf("%v epochs a second on %+v", r, on)
	}
	b.Observe(j, reading(50, []float64{200, 300}, 3, 2.5))
	if got := h.Steepest(); got != 4 {
		t.Errorf("steepest by %v an epoch, want 4", got)
	}
	if first, last, ok := h.Loss(); !ok || first != 9 || last != 2.5 || h.Epochs() != 3 {
		t.Errorf("losses %v to %v after %v epochs", first, last, h.Epochs())
	}
	if h.Form() == nil || h.Fall(1) <= 0 || h.Fall(1) >= 0.5 {
		t.Errorf("falls by %v from 2.5 in an epoch", h.Fall(1))
	}
	b.Observe(j, reading(50, []float64{200}, 3.1)) // it was set back
	if s := h.Samples(9); len(s) != 3 || s[2] != (Sample{2, 3.1}) {
		t.Errorf("its losses are %v", s)
	}
	b.Observe(j, &perf.Reading{When: perf.AtEnd})
	if b.History(j) != nil {
		t.Error("the history of a job that has ended is kept")
	}
}
