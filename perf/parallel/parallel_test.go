package parallel

import (
	"fmt"
	"math"
	"testing"
)

func near(t *testing.T, what string, got, want float64) {
	t.Helper()
	if math.Abs(got-want) > 1e-9*math.Max(1, math.Abs(want)) {
		t.Errorf("%s is %v, want %v", what, got, want)
	}
}

func equal(p, m int, again bool, send float64) Pipeline {
	g := Pipeline{MicroBatches: m, Send: send}
	for r := range p {
		s := Stage{Forward: 1, Backward: 2}
		if again && r < p-1 {
			s.Again = 1
		}
		g.Stages = append(g.Stages, s)
	}
	return g
}

func length(g Pipeline) float64 {
	ends, _ := g.Ends()
	longest := 0.0
	for _, e := range ends {
		longest = max(longest, e)
	}
	return longest
}

// TestPipeline is acceptance 1 to 3 of the sheet of vTrain.
func TestPipeline(t *testing.T) {
	for _, c := range []struct {
		p, m  int
		again bool
		send  float64
		want  float64
	}{
		{2, 2, false, 0, 9}, {2, 4, false, 0, 15}, {2, 4, true, 0, 17}, {4, 8, false, 0, 33}, {4, 8, true, 0, 39},
		{1, 4, false, 0, 12}, {1, 4, true, 0, 12},
		{2, 1, false, .25, 6.5}, {2, 2, false, .25, 9.5}, {2, 4, false, .25, 16}, {4, 8, false, .25, 37},
	} {
		near(t, fmt.Sprintf("%+v", c), length(equal(c.p, c.m, c.again, c.send)), c.want)
	}
	near(t, "stages of unequal length", length(Pipeline{Stages: []Stage{{Forward: 1, Backward: 2}, {Forward: 2, Backward: 4}}, MicroBatches: 4}), 27)
	near(t, "three stages", length(Pipeline{Stages: []Stage{{Forward: 1, Backward: 2}, {Forward: 2, Backward: 4}, {Forward: 1, Backward: 2}}, MicroBatches: 3}), 22)
	g := equal(2, 4, false, 0)
	g.Schedule = AllForward
	near(t, "all forward passes first", length(g), 15)
}

// TestBubble is acceptance 6: with equal stages ranks wait for (p-1)/(m+p-1) of the time.
func TestBubble(t *testing.T) {
	for p := 1; p <= 8; p++ {
		for m := 1; m <= 12; m++ {
			g := equal(p, m, false, 0)
			ends, busy := g.Ends()
			worked := 0.0
			for _, b := range busy {
				worked += b
			}
			near(t, "part of waiting", 1-worked/(ends[0]*float64(p)), float64(p-1)/float64(m+p-1))
		}
	}
}

func profile() *Profile {
	return &Profile{GPU: "A100", Peak: 312e12, Memory: 80 << 30,
		Rates:   Rates{Launch: 1e-3, Math: 200e12, Attention: 200e9, Wide: 200e9, Logit: 50e9, Table: 50e9, Update: 30e9},
		Network: Network{NodeGPUs: 8, Inside: 150 * (1 << 30), Between: 100 * (1 << 30)}}
}

// TestExchanges is acceptance 4.
func TestExchanges(t *testing.T) {
	n := profile().Network
	near(t, "an all-reduce of 256 MiB", n.AllReduce(256<<20, 8), .25/150*1.75)
	near(t, "sending activations", n.send(100663296/2), 3.75e-3)
	n.Measured = map[int][]Point{8: {{1 << 20, 1e-4}, {2 << 20, 3e-4}}}
	for _, c := range []struct{ bytes, want float64 }{{1 << 19, 1e-4}, {1 << 20, 1e-4}, {1.5 * (1 << 20), 2e-4}, {2 << 20, 3e-4}, {4 << 20, 6e-4}} {
		near(t, fmt.Sprintf("an all-reduce of %v bytes by the table", c.bytes), n.AllReduce(c.bytes, 8), c.want)
	}
}

func megatron() Model {
	return Model{Layers: 105, Hidden: 20480, Heads: 128, Sequence: 2048, Vocabulary: 50257}
}

// TestDivides is acceptance 5.
func TestDivides(t *testing.T) {
	p := Plan{Tensor: 8, Data: 12, Pipeline: 35, GlobalBatch: 1920, MicroBatch: 1}
	if err := p.Check(megatron()); err != nil || p.MicroBatches() != 160 || p.GPUs() != 3360 {
		t.Errorf("%v, %d micro-batches, %d GPUs", err, p.MicroBatches(), p.GPUs())
	}
	near(t, "parameters", math.Round(megatron().Parameters()/1e9), 530)
	for _, wrong := range []Plan{{8, 12, 34, 1920, 1, false, false, 0}, {8, 13, 35, 1920, 1, false, false, 0}, {3, 12, 35, 1920, 1, false, false, 0}, {8, 12, 35, 1920, 3, false, false, 0}, {0, 1, 1, 1, 1, false, false, 0}} {
		if wrong.Check(megatron()) == nil {
			t.Errorf("%+v is a plan", wrong)
		}
	}
}

// TestFaster is acceptance 6: an iteration never takes longer on a faster network or GPU,
// and one rank exchanges nothing.
func TestFaster(t *testing.T) {
	m := Model{Layers: 24, Hidden: 2048, Heads: 16, Sequence: 1024, Vocabulary: 50257}
	for _, plan := range []Plan{{Tensor: 8, Data: 1, Pipeline: 1, GlobalBatch: 16, MicroBatch: 2}, {Tensor: 2, Data: 8, Pipeline: 4, GlobalBatch: 64, MicroBatch: 2}, {Tensor: 1, Data: 1, Pipeline: 8, GlobalBatch: 16, MicroBatch: 1, Recompute: true}} {
		before := math.Inf(1)
		for _, times := range []float64{1, 2, 4} {
			p := profile()
			p.Network.Inside *= times
			p.Network.Between *= times
			p.Rates.Math *= times
			e, err := p.Estimate(m, plan)
			if err != nil || e.Iteration > before {
				t.Errorf("%+v: %v s after %v s, %v", plan, e.Iteration, before, err)
			}
			if plan.Tensor == 1 && e.Tensor != 0 || plan.Tensor > 1 && e.Tensor <= 0 {
				t.Errorf("%+v exchanges activations for %v s", plan, e.Tensor)
			}
			before = e.Iteration
		}
	}
	p := profile()
	a, _ := p.Estimate(m, Plan{Tensor: 1, Data: 16, Pipeline: 2, GlobalBatch: 64, MicroBatch: 1})
	b, _ := p.Estimate(m, Plan{Tensor: 1, Data: 32, Pipeline: 2, GlobalBatch: 128, MicroBatch: 1})
	near(t, "the difference of more data-parallel ranks", b.Iteration-a.Iteration, b.Gradients-a.Gradients)
}

// TestFit finds operators and rates again from iterations that were simulated by them.
func TestFit(t *testing.T) {
	truth, guess := profile(), profile()
	guess.Rates = Rates{Launch: 5e-4, Math: 100e12, Attention: 400e9, Wide: 100e9, Logit: 100e9, Table: 20e9, Update: 10e9}
	var seen, other []Measured
	for _, h := range []int{1024, 2048, 4096} {
		for _, layers := range []int{12, 24} {
			m := Model{Layers: layers, Hidden: h, Heads: 16, Sequence: 1024, Vocabulary: 50257}
			for _, pipe := range []int{1, 2, 4} {
				for _, micro := range []int{2, 8} {
					for _, batch := range []int{16, 64} {
						plan := Plan{Tensor: 2, Data: 1, Pipeline: pipe, GlobalBatch: batch, MicroBatch: micro}
						e, err := truth.Estimate(m, plan)
						if err != nil {
							t.Fatal(err)
						}
						if pipe == 4 && layers == 24 {
							other = append(other, Measured{m, plan, e.Iteration})
						} else {
							seen = append(seen, Measured{m, plan, e.Iteration})
						}
					}
				}
			}
		}
	}
	guess.Rates = guess.FitRates(seen)
	for _, s := range other {
		e, _ := guess.Estimate(s.Model, s.Plan)
		if math.Abs(e.Iteration/s.Seconds-1) > .02 {
			t.Errorf("by rates %+v takes %v s, in truth %v", s.Plan, e.Iteration, s.Seconds)
		}
	}
	guess.Timed = guess.FitOperators(seen)
	if len(guess.Timed) != 6 {
		t.Errorf("%d shapes were timed, want 6", len(guess.Timed))
	}
	for _, s := range other {
		e, _ := guess.Estimate(s.Model, s.Plan)
		if math.Abs(e.Iteration/s.Seconds-1) > .005 {
			t.Errorf("by operators %+v takes %v s, in truth %v", s.Plan, e.Iteration, s.Seconds)
		}
	}
}

// TestSearch compares the best plan with all that there are, and tells plans that do not
// fit from those that do.
func TestSearch(t *testing.T) {
	m := Model{Layers: 40, Hidden: 6144, Heads: 48, Sequence: 2048, Vocabulary: 50257}
	p := profile()
	all, err := p.Search(m, Space{GPUs: 64, GlobalBatch: 256})
	if err != nil {
		t.Fatal(err)
	}
	fits := true
	for i, c := range all {
		if c.Plan.GPUs() != 64 || c.Plan.Tensor > 8 || c.Plan.Check(m) != nil {
			t.Errorf("%+v is no plan for 64 GPUs", c.Plan)
		}
		if c.Fits && !fits || i > 0 && c.Fits == fits && c.Iteration < all[i-1].Iteration {
			t.Errorf("%+v stands in the wrong place", c)
		}
		if fits = c.Fits; fits != (c.Memory <= p.Memory) {
			t.Errorf("%+v fits: %v", c, fits)
		}
	}
	if !all[0].Fits || all[len(all)-1].Fits {
		t.Error("no plan fits, or all do")
	}
	if _, err := p.Search(m, Space{GPUs: 7, GlobalBatch: 64}); err == nil {
		t.Error("40 layers, 48 heads and a batch of 64 are split over 7 GPUs")
	}
	one, err := p.Search(m, Space{GPUs: 64, GlobalBatch: 256, Tensor: 8, Pipeline: 2, MicroBatch: 4, Recompute: []bool{true}})
	if err != nil || len(one) != 1 || one[0].Plan.Data != 4 {
		t.Errorf("%+v, %v", one, err)
	}
}
