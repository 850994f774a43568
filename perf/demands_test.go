package perf_test

import (
	"math"
	"testing"

	"pgregory.net/rapid"

	"github.com/norn-scheduler/norn/cluster"
	"github.com/norn-scheduler/norn/job"
	"github.com/norn-scheduler/norn/perf"
)

// demanding is a job that keeps busy what d says.
func demanding(d perf.Demand) *job.Job {
	return &job.Job{Hints: &job.Hints{GPUUse: d[perf.SM], MemoryUse: d[perf.Bandwidth], HostUse: d[perf.HostLink], CPUUse: d[perf.Processors]}}
}

// Demands by hand: what is not short slows nobody down, what is short slows those
// down who use it, as far as they use it.
func TestDemandsByHand(t *testing.T) {
	gpu := cluster.GPUType{Name: "V100"}
	compute, memory, small := demanding(perf.Demand{0.8}), demanding(perf.Demand{0, 0.5}), demanding(perf.Demand{0.05, 0.1, 0, 0.3})
	half := demanding(perf.Demand{0.5})
	silent := &job.Job{}
	for _, c := range []struct {
		name   string
		m      perf.Demands
		j      *job.Job
		others []*job.Job
		t      cluster.GPUType
		want   float64 // slowdown
	}{
		{"alone", perf.Demands{Switch: 0.03}, compute, nil, gpu, 1},
		{"complementary", perf.Demands{}, compute, []*job.Job{memory}, gpu, 1},
		{"switching", perf.Demands{Switch: 0.03}, compute, []*job.Job{memory, small}, gpu, 1.06},
		{"both compute", perf.Demands{}, compute, []*job.Job{compute}, gpu, 1 + 0.8*0.6},
		{"directed", perf.Demands{}, half, []*job.Job{compute}, gpu, 1 + 0.5*0.3},
		{"the other way", perf.Demands{}, compute, []*job.Job{half}, gpu, 1 + 0.8*0.3},
		{"three for memory", perf.Demands{}, memory, []*job.Job{memory, memory}, gpu, 1 + 0.5*0.5},
		{"not concerned", perf.Demands{}, memory, []*job.Job{compute, compute}, gpu, 1},
		{"nothing told", perf.Demands{}, silent, []*job.Job{silent}, gpu, 2},
		{"on processors", perf.Demands{Switch: 0.03}, compute, []*job.Job{compute}, cluster.GPUType{Host: true}, 1},
		{"processors short", perf.Demands{}, small, []*job.Job{small, small, small}, cluster.GPUType{Host: true}, 1 + 0.3*0.2},
		{"told otherwise", perf.Demands{Of: func(*job.Job) perf.Demand { return perf.Demand{2, -1} }}, silent, []*job.Job{silent}, gpu, 2},
	} {
		if got := 1 / c.m.Beside(c.j, c.others, c.t); math.Abs(got-c.want) > 1e-12 {
			t.Errorf("%s: slowdown %v, want %v", c.name, got, c.want)
		}
	}
}

// Whatever is beside it, a job's factor is above 0 and at most 1, one more neighbour
// never helps, and the order of neighbours means nothing.
func TestDemandsProperties(t *testing.T) {
	part := rapid.Float64Range(0, 1)
	draw := rapid.Custom(func(t *rapid.T) *job.Job {
		return demanding(perf.Demand{part.Draw(t, "sm"), part.Draw(t, "bw"), part.Draw(t, "host"), part.Draw(t, "cpu")})
	})
	rapid.Check(t, func(t *rapid.T) {
		m := perf.Demands{Switch: rapid.Float64Range(0, 0.2).Draw(t, "switch")}
		j, others := draw.Draw(t, "j"), rapid.SliceOfN(draw, 1, 6).Draw(t, "others")
		gpu := cluster.GPUType{Host: rapid.Bool().Draw(t, "host")}
		all, fewer := m.Beside(j, others, gpu), m.Beside(j, others[1:], gpu)
		if !(all > 0 && all <= 1) || all > fewer {
			t.Fatalf("factor %v beside all, %v beside one fewer", all, fewer)
		}
		turned := append([]*job.Job{}, others...)
		for i, o := range others {
			turned[len(others)-1-i] = o
		}
		if other := m.Beside(j, turned, gpu); math.Abs(other-all) > 1e-12 {
			t.Fatalf("factor %v, %v in another order", all, other)
		}
	})
}
