package perf_test

import (
	"math"
	"testing"
	"time"

	"github.com/norn-scheduler/norn/job"
	"github.com/norn-scheduler/norn/perf"
)

// TestPipeline: 32 samples go through four stages in sixteen parts of two, and the last part is
// through three steps after it has begun: 19 x (1 + 0.1 x 2) / 4 s. On one GPU a pipeline is as
// fast as any other job.
func TestPipeline(t *testing.T) {
	s := perf.Step{Fixed: 1, Sample: 0.1, Batch: 8, Near: 5, Far: 9}
	if got := s.Pipeline(32, 4); math.Abs(got-5.7) > 1e-12 {
		t.Errorf("a step takes %v s, want 5.7", got)
	}
	if got, want := s.Pipeline(32, 1), s.Seconds(32, 1, false); math.Abs(got-want) > 1e-12 {
		t.Errorf("a step on one GPU takes %v s, want %v", got, want)
	}
	d := job.GPUs(8)
	j := &job.Job{Backbone: "vit", Batch: 32, Demand: &d, Hints: &job.Hints{Plan: job.Pipeline}}
	m := perf.Steps{ByBackbone: map[string]perf.Step{"vit": s}, NodeGPUs: 4}
	if got, want := m.On(j, nil, 0, 4, true), s.Pipeline(32, 8)/5.7; math.Abs(got-want) > 1e-12 {
		t.Errorf("the speed with half of the GPUs is %v, want %v", got, want)
	}
}

// TestFollow: writing 12 s and loading 46 s, stage by stage, overlap in the reverse order but
// for one of four stages, 3 s; in the same order they do not.
func TestFollow(t *testing.T) {
	for _, c := range []struct {
		reverse     bool
		begin, save time.Duration
		stages      int
		want        time.Duration
	}{{true, 46, 12, 4, 49}, {false, 46, 12, 4, 58}, {true, 4, 16, 4, 17}, {true, 10, 10, 1, 20}, {true, 46, 0, 4, 46}} {
		if got := (perf.Switch{Reverse: c.reverse}).Follow(c.begin*time.Second, c.save*time.Second, c.stages); got != c.want*time.Second {
			t.Errorf("%+v: %v", c, got)
		}
	}
	costs := perf.Costs{Switch: map[string]perf.Switch{"vit": {Save: time.Second}}}
	for _, j := range []*job.Job{{Backbone: "vit"}, {Hints: &job.Hints{Plan: job.Pipeline}}, {Backbone: "bert", Hints: &job.Hints{Plan: job.Pipeline}}} {
		if got := costs.Save(j); got != 0 {
			t.Errorf("%+v writes for %v", j, got)
		}
	}
	if got := costs.Save(&job.Job{Backbone: "vit", Hints: &job.Hints{Plan: job.Pipeline}}); got != time.Second {
		t.Errorf("a pipeline writes for %v", got)
	}
}
