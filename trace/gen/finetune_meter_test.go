package gen

import (
	"math"
	"testing"
	"time"

	"github.com/norn-scheduler/norn/perf"
	"github.com/norn-scheduler/norn/perf/predict/loss"
	"github.com/norn-scheduler/norn/policy/ymir/estimator"
	"github.com/norn-scheduler/norn/sim"
)

// TestMeter: K that is foretold from measured loss traces is as wrong as the paper says, in the
// mean. Similarities of measured embeddings are correlated with gains as far as they can be.
func TestMeter(t *testing.T) {
	for _, c := range []struct {
		family  string
		error   float64 // mean relative error of K [Ymir, table]
		least   float64 // correlation
		similar float64 // the paper's
	}{{"vit", 0.057, 0.25, 0.44}, {"roberta", 0.083, 0.4, 0.79}, {"vicuna", 0.113, 0.35, 0.57}} {
		sum, n, r := 0.0, 0.0, 0.0
		for seed := range uint64(6) {
			w, err := NewFineTuning(FineTuning{Families: []string{c.family}, Jobs: 150, GPUs: 32, Load: 1, Seed: seed})
			if err != nil {
				t.Fatal(err)
			}
			embeddings := map[perf.Task]estimator.Embedding{}
			for i := range w.Entries {
				e := &w.Entries[i]
				m := perf.Reading{When: perf.InProfile, Setup: perf.Setup{Tasks: 1}}
				w.Meter.Measure(&sim.Look{Job: &e.Job, Truth: &e.Truth, Work: e.Truth.Work, Gain: 1, Ran: time.Minute}, &m)
				if err := m.Check(); err != nil {
					t.Fatal(err)
				}
				size, _ := m.Figure(perf.EpochSize)
				var points []loss.Sample
				for k, l := range m.Series(perf.Loss) {
					points = append(points, loss.Sample{K: m.Series(perf.Samples)[k] * stepsPerEpoch / size, Loss: l})
				}
				curve, err := loss.Fit(loss.Normalize(points))
				if err != nil {
					t.Fatal(err)
				}
				needs := w.Epochs[i] * stepsPerEpoch
				sum, n = sum+math.Abs(float64(curve.Iterations(0))-needs)/needs, n+1
				embeddings[perf.Task{Backbone: e.Job.Backbone, Dataset: e.Job.Dataset}] = m.Series(perf.Embedding)
			}
			r += correlation(w, embeddings) / 6
		}
		t.Logf("%s: K is off by %.1f %%, r = %.2f", c.family, 100*sum/n, r)
		if got := sum / n; got < 0.8*c.error || got > 1.25*c.error {
			t.Errorf("%s: K is off by %.3f in the mean, the paper has %.3f", c.family, got, c.error)
		}
		if r < c.least || r > c.similar+0.1 {
			t.Errorf("%s: similarities and gains are correlated by %.2f, the paper has %.2f", c.family, r, c.similar)
		}
	}
}

// correlation is Pearson's r between similarities and gains of different tasks.
func correlation(w *Workload, of map[perf.Task]estimator.Embedding) float64 {
	var x, y, xx, yy, xy, n float64
	for pair, g := range w.Meter.gains {
		a, b := of[pair[0]], of[pair[1]]
		to := w.Meter.tasks[pair[1]]
		if pair[0] == pair[1] || a == nil || b == nil {
			continue
		}
		s, gain := estimator.Similarity(a, b), to.curve.GainFor(max(1, int(math.Round(float64(to.k)/g.After))))
		x, y, xx, yy, xy, n = x+s, y+gain, xx+s*s, yy+gain*gain, xy+s*gain, n+1
	}
	return (n*xy - x*y) / math.Sqrt((n*xx-x*x)*(n*yy-y*y))
}
