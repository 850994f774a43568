package perf

import (
	"math"
	"testing"

	"github.com/norn-scheduler/norn/cluster"
	"github.com/norn-scheduler/norn/job"
)

// The worked example of SJF-BSBF has B = 64, 10 + 2b ms for a pass, 40 ms of
// exchange, and no overlap. A step takes 178 ms with b = 64 and 4 x 42 + 40 =
// 208 ms with b = 16.
func TestAccumulation(t *testing.T) {
	s := Stepping{Own: 64, Steady: 10.0 / 138, Exchange: 40.0 / 138, Overlap: 1, Sample: 100}
	if got := 1 / s.Rate(16); math.Abs(got-208.0/178) > 1e-9 || s.Rate(64) != 1 || s.Rate(0) != 1 {
		t.Errorf("with a quarter of the batch a step takes %v as long, want 1.169", got)
	}
	if s.Grows(16) != -4800 || s.Grows(0) != 0 {
		t.Errorf("%v", s.Grows(16))
	}
}

// The closed form of IADeep: two equal jobs, s = 0.4 sqrt(x y) each, a noise scale of four
// batches: PD(x,x) = (0.3 + 0.7x)(1 + 0.4x)/x (4 + x)/5.
func TestRebatched(t *testing.T) {
	step := &Stepping{Own: 1000, Steady: 0.3, Noise: 4000}
	m := Rebatched{Of: Crowds{Sum: map[Crowd]float64{"m+m": 0.8}}, Steps: func(*job.Job) *Stepping { return step }}
	j := &job.Job{Model: "m", Demand: &job.Demand{}}
	for _, x := range []float64{1, 0.7, 0.8, 2} {
		s := Sharer{Job: j, Share: cluster.Share{Batch: int32(1000 * x)}}
		want := (0.3 + 0.7*x) * (1 + 0.4*x) / x * (4 + x) / 5
		if got := 1 / m.Among(s, []Sharer{s}, cluster.GPUType{}); math.Abs(got-want) > 1e-9 {
			t.Errorf("PD(%v) is %v, want %v", x, got, want)
		}
	}
	if got := m.Among(Sharer{Job: j}, nil, cluster.GPUType{}); got != 1 {
		t.Errorf("alone: %v", got)
	}
}

// A crowd's sum is borne in proportion to the use of the GPU; one that was not measured is
// made up of pressures.
func TestCrowds(t *testing.T) {
	m := Crowds{Sum: map[Crowd]float64{"a+b": 0.9, "b+b": -0.3}, Pressure: map[string]float64{"a": 0.1, "b": 0.2}}
	a := &job.Job{Model: "a", Demand: &job.Demand{}, Hints: &job.Hints{GPUUse: 0.2}}
	b := &job.Job{Model: "b", Demand: &job.Demand{}, Hints: &job.Hints{GPUUse: 0.4}}
	for i, c := range []struct {
		j      *job.Job
		others []*job.Job
		want   float64
	}{
		{a, []*job.Job{b}, 1 / 1.3}, {b, []*job.Job{a}, 1 / 1.6}, {b, []*job.Job{b}, 1}, {a, nil, 1},
		{a, []*job.Job{a, b}, 1 / (1 + 2*(0.1+0.1+0.2)*0.25)},
	} {
		if got := m.Beside(c.j, c.others, cluster.GPUType{}); math.Abs(got-c.want) > 1e-9 {
			t.Errorf("case %d: %v, want %v", i, got, c.want)
		}
	}
}
