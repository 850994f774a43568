package memory

import (
	"math"
	"testing"

	"pgregory.net/rapid"

	"github.com/norn-scheduler/norn/cluster/unit"
	"github.com/norn-scheduler/norn/job"
	"github.com/norn-scheduler/norn/perf"
)

// dcn is the model of the specification's acceptance 4.
func dcn() job.Shape {
	c := Click{Rows: 1_000_001, Dim: 9, Slots: 26, Dense: 13, FC: []int64{512, 256, 128}, Cross: 2, Optimizer: job.Adam}
	return c.Shape()
}

// Acceptance 4: DCN with a million rows of 9 takes 1041.33 MB, part by part, and
// 1249.6 MB are booked for it.
func TestDCN(t *testing.T) {
	s := dcn()
	got := perf.PeakOf(&s, 512, 0)
	want := perf.Peak{Input: 2 * unit.MiB, Params: 36 * unit.MiB, Forward: 160 * unit.MiB, Backward: 2 * unit.MiB, Optimizer: 72 * unit.MiB, Context: 735 * unit.MiB, Gradient: 4 * 9 * 1_000_001}
	if got != want {
		t.Errorf("parts %+v, want %+v", got, want)
	}
	mb := float64(got.Total()) / float64(unit.MiB)
	if math.Round(mb*100) != 104133 || math.Round(1.2*mb*10) != 12496 {
		t.Errorf("%.3f MB, booked %.2f; want 1041.33 and 1249.6", mb, 1.2*mb)
	}
}

// Options that save memory: SGD keeps no state, sparse updates no dense
// gradient, and a context of one's own counts instead of that of the authors.
func TestTerms(t *testing.T) {
	s := dcn()
	all := perf.PeakOf(&s, 512, 0).Total()
	s.Optimizer = job.SGD
	if got := all - perf.PeakOf(&s, 512, 0).Total(); got != 72*unit.MiB {
		t.Errorf("Adam takes %v, want 72 MiB", got)
	}
	s.Sparse = true
	if e := perf.PeakOf(&s, 512, 500*unit.MiB); e.Gradient != 0 || e.Context != 500*unit.MiB {
		t.Errorf("%+v", e)
	}
	if s.Context = 600 * unit.MiB; perf.PeakOf(&s, 512, 500*unit.MiB).Context != 600*unit.MiB {
		t.Error("the context that the job tells does not go first")
	}
}

// More rows, wider rows, more slots, larger batches: never less memory; and each part
// but the dense gradient comes in blocks.
func TestGrows(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		n := func(name string, most int64) int64 { return rapid.Int64Range(1, most).Draw(t, name) }
		c := Click{
			Rows: n("rows", 1e7), Dim: n("dim", 64), Slots: n("slots", 40), Dense: n("dense", 20),
			FC: rapid.SliceOfN(rapid.Int64Range(1, 1024), 0, 4).Draw(t, "fc"), Cross: n("cross", 4) - 1,
			Wide: rapid.Bool().Draw(t, "wide"), Matrix: rapid.Bool().Draw(t, "matrix"), Optimizer: job.Optimizer(n("optimizer", 3) - 1),
		}
		batch := n("batch", 4096)
		total := func(c Click) unit.Bytes {
			s := c.Shape()
			e := perf.PeakOf(&s, batch, 0)
			for _, part := range []unit.Bytes{e.Input, e.Params, e.Forward, e.Backward, e.Optimizer} {
				if part < 0 || part%(2*unit.MiB) != 0 {
					t.Fatalf("a part of %d bytes in %+v", part, e)
				}
			}
			return e.Total()
		}
		was := total(c)
		for _, grow := range []func(*Click){
			func(c *Click) { c.Rows *= 2 }, func(c *Click) { c.Dim++ }, func(c *Click) { c.Slots++ },
			func(c *Click) { c.Cross++ }, func(c *Click) { c.Optimizer = job.Adam }, func(c *Click) { c.Wide = true }, func(*Click) { batch *= 2 },
		} {
			more := c
			if grow(&more); total(more) < was {
				t.Fatalf("%+v takes %v, %+v less: %v", c, was, more, total(more))
			}
		}
	})
}

// Every model of the authors has a shape, and what they measured is what Peak says at
// the batch at which they did; between two of them it is on the line. How near the
// shapes come is in docs/policies/rmixer.md.
func TestModels(t *testing.T) {
	models := Models()
	if len(models) != 14 {
		t.Fatalf("%d models", len(models))
	}
	for i := range models {
		m := &models[i]
		if i > 0 && m.Use >= models[i-1].Use {
			t.Errorf("%s stands behind a less intensive model", m.Name)
		}
		for _, p := range m.Profiles {
			if got := m.Peak(p.Batch, 0); got != p.Peak {
				t.Errorf("%s at %d: %v, measured %v", m.Name, p.Batch, got, p.Peak)
			}
			batch := p.Batch
			if batch == 0 && m.Click != nil {
				batch = DefaultBatch
			}
			batch = max(batch, 32)
			t.Logf("%-16s batch %4d: measured %6.0f MiB, from its shape %6.0f", m.Name, batch, float64(p.Peak)/float64(unit.MiB), float64(m.Estimate(batch, 0).Total())/float64(unit.MiB))
		}
		if got, least := m.Peak(100_000, 0), m.Estimate(100_000, 0).Total(); got < least {
			t.Errorf("%s takes %v at a large batch, less than its shape: %v", m.Name, got, least)
		}
	}
	if dien, ok := Find(models, "dien"); !ok || dien.Peak(64, 0) != (2531+4403)*unit.MiB/2 || dien.Peak(0, 0) != 2531*unit.MiB {
		t.Errorf("dien takes %v at 64, half way between 32 and 96", dien.Peak(64, 0))
	}
	for name, want := range map[string]string{"dcn": "criteo_dcn", "Criteo_DCN": "criteo_dcn", "widedeep": "criteo_widedeep", "avazu_widedeep": "avazu_widedeep", "din": "amazon_din", "": "", "resnet50": ""} {
		m, ok := Find(models, name)
		if ok != (want != "") || ok && m.Name != want {
			t.Errorf("%q: found %v %v, want %q", name, ok, m, want)
		}
	}
}
