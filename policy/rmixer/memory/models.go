package memory

import (
	"strings"

	"github.com/norn-scheduler/norn/cluster/unit"
	"github.com/norn-scheduler/norn/job"
	"github.com/norn-scheduler/norn/perf"
)

// Profile is what the authors measured for a model.
type Profile struct {
	Batch int64 // 0: at their batch, whichever it was
	Peak  unit.Bytes
}

// Model is one of the recommendation models of the authors: data set and network.
type Model struct {
	Name     string  // criteo_dcn
	Use      float64 // mean GPU utilisation, percent
	Class    int     // 1 compute-intensive, 0 memory-intensive, -1 neither
	Profiles []Profile
	Click    *Click    // its shape
	Sequence *Sequence // or this
}

// criteo is the hyperparameters that the authors use for the Criteo log.
func criteo(dim int64, opt job.Optimizer, fc ...int64) Click {
	return Click{Rows: 1_000_001, Dim: dim, Slots: 26, Dense: 13, FC: fc, Optimizer: opt}
}

// amazon is those for the Amazon log of purchases.
func amazon(dim, layers int64, opt job.Optimizer, fc ...int64) Sequence {
	return Sequence{Items: 63_001, Categories: 801, Dim: dim, Length: 100, Layers: layers, FC: fc, Optimizer: opt}
}

// Models are the fourteen models of the authors, most intensive first, with the
// peak memory that they measured. Shapes are from their configuration files where
// those tell them, and else from the papers of the models.
func Models() []Model {
	mb := func(n float64) unit.Bytes { return unit.Bytes(n * float64(unit.MiB)) }
	one := func(n float64) []Profile { return []Profile{{0, mb(n)}} }
	click := func(c Click, change func(*Click)) *Click {
		change(&c)
		return &c
	}
	same := func(*Click) {}
	seq := func(s Sequence, change func(*Sequence)) *Sequence {
		change(&s)
		return &s
	}
	avazu := func(dim int64, fc ...int64) Click {
		return Click{Rows: 9_449_238, Dim: dim, Slots: 22, FC: fc, Optimizer: job.Adam}
	}
	return []Model{
		{"avazu_widedeep", 55, 1, one(16179), click(avazu(64, 400, 400, 400), func(c *Click) { c.Wide = true }), nil},
		{"criteo_difm", 39.5, 1, []Profile{{512, mb(1847)}, {2000, mb(3823)}}, click(criteo(9, job.Adam, 512, 256, 128, 32), func(c *Click) { c.Attention, c.Wide = 80, true }), nil},
		{"criteo_widedeep", 27, 1, one(1623), click(criteo(9, job.Adam, 512, 256, 128, 32), func(c *Click) { c.Wide = true }), nil},
		{"criteo_dcn2", 25, 1, one(2107), click(criteo(40, job.Adam, 768, 768), func(c *Click) { c.Rows, c.Cross, c.Matrix = 1_100_001, 2, true }), nil},
		{"criteo_dlrm", 23, 1, one(1517), click(criteo(16, job.SGD, 512, 256, 2), func(c *Click) { c.Bottom = []int64{512, 256, 64, 16} }), nil},
		{"beauty_bert4rec", 22, 1, nil, nil, seq(amazon(64, 2, job.Adam), func(s *Sequence) { s.Items, s.Categories, s.Length, s.Inner = 12_102, 1, 50, 256 })},
		{"alidisplay_dmr", 18, 1, one(2743), nil, seq(amazon(32, 1, job.Adam, 512, 256, 128), func(s *Sequence) { s.Items, s.Categories, s.Users, s.Length = 846_812, 12_978, 1_141_730, 50 })},
		{"kdd_dpin", 15, 1, one(1397), nil, seq(amazon(16, 1, job.Adam, 128, 64), func(s *Sequence) { s.Items, s.Categories, s.Length = 641_707, 1, 30 })},
		{"amazon_dien", 7.2, 0, []Profile{{32, mb(2531)}, {96, mb(4403)}}, nil, seq(amazon(64, 2, job.SGD, 200, 80), func(*Sequence) {})},
		{"amazon_bst", 6.8, 0, one(2533), nil, seq(amazon(96, 1, job.SGD, 1024, 512, 256), func(s *Sequence) { s.Users, s.Inner = 192_403, 768 })},
		{"criteo_dcn", 5.9, -1, one(1373), click(criteo(9, job.Adam, 512, 256, 128), func(c *Click) { c.Cross = 2 }), nil},
		{"avazu_flen", 5, 0, one(11161), click(avazu(32, 64, 32), func(c *Click) { c.Wide = true }), nil},
		{"amazon_din", 4.8, -1, one(1479), nil, seq(amazon(64, 0, job.SGD, 80, 40), func(*Sequence) {})},
		{"criteo_deepfm", 4.47, -1, one(1381), click(criteo(9, job.Adam, 512, 256, 128, 32), same), nil},
	}
}

// Shape is the shape of a model.
func (m *Model) Shape() job.Shape {
	if m.Click != nil {
		return m.Click.Shape()
	}
	return m.Sequence.Shape()
}

// Estimate is the peak memory of a model at a batch, from its shape.
func (m *Model) Estimate(batch int64, context unit.Bytes) perf.Peak {
	s := m.Shape()
	return perf.PeakOf(&s, batch, context)
}

// Peak is the peak memory of a model at a batch: what the authors measured, on the
// straight line through what they measured at two batches, and not less than the
// estimate from its shape. A batch of 0 is that of the first measurement, or
// DefaultBatch where there is none.
func (m *Model) Peak(batch int64, context unit.Bytes) unit.Bytes {
	if batch == 0 {
		batch = DefaultBatch
		if len(m.Profiles) > 0 && m.Profiles[0].Batch > 0 {
			batch = m.Profiles[0].Batch
		}
	}
	measured := unit.Bytes(0)
	switch len(m.Profiles) {
	case 1:
		measured = m.Profiles[0].Peak
	case 2:
		a, b := m.Profiles[0], m.Profiles[1]
		measured = a.Peak + (b.Peak-a.Peak)*unit.Bytes(batch-a.Batch)/unit.Bytes(b.Batch-a.Batch)
	}
	return max(measured, m.Estimate(batch, context).Total())
}

// DefaultBatch is the batch of a model that does not tell its own.
const DefaultBatch = 512

// Find finds a model by its name, or by that of its network alone (dcn), where the
// first of the list with that network is meant, but criteo_widedeep for widedeep.
func Find(models []Model, name string) (*Model, bool) {
	name = strings.ToLower(name)
	if name == "widedeep" {
		name = "criteo_widedeep"
	}
	for i := range models {
		full := models[i].Name
		if _, network, _ := strings.Cut(full, "_"); name != "" && (full == name || network == name) {
			return &models[i], true
		}
	}
	return nil, false
}
