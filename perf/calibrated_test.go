package perf

import (
	"math"
	"testing"

	"pgregory.net/rapid"

	"github.com/norn-scheduler/norn/cluster"
	"github.com/norn-scheduler/norn/job"
)

func worker(u, b float64, milli, throttle int32) Sharer {
	return Sharer{Job: &job.Job{Demand: &job.Demand{}, Hints: &job.Hints{GPUUse: u, MemoryUse: b}}, Share: cluster.Share{Milli: milli, Throttle: throttle}}
}

// The figures of Gimbal's worked examples: u 0.6 beside u 0.9, and turns.
func TestCalibrated(t *testing.T) {
	m := Calibrated{}
	for _, c := range []struct {
		s, o Sharer
		want float64
	}{
		{worker(0.6, 0, 500, 0), worker(0.9, 0, 500, 0), 0.8333},
		{worker(0.9, 0, 500, 0), worker(0.6, 0, 500, 0), 0.5556},
		{worker(0.6, 0, 600, 0), worker(0.9, 0, 400, 0), 1},
		{worker(0.9, 0, 400, 0), worker(0.6, 0, 600, 0), 0.4444},
		{worker(0.5, 0.8, 500, 0), worker(0.5, 0.5, 500, 0), 1 / (1 + 0.3*0.8*0.5)},
		{worker(0.5, 0.8, 500, 0), worker(0.5, 0.5, 500, 1000), 1},      // the other is paused
		{worker(0.5, 0.8, 500, 1000), worker(0.5, 0.5, 500, 0), 0},      // it is paused itself
		{worker(0.5, 0.8, 0, 0), worker(0.4, 0.5, 1000, 0), 1 / 1.05},   // turns
		{worker(0.4, 0.5, 1000, 0), worker(0.5, 0.8, 0, 0), 1 / 1.05},   // and the other side
		{worker(0.8, 0.8, 0, 0), worker(0.6, 0.5, 1000, 0), 0.5 / 1.05}, // half of what it needs is left
		{worker(0.4, 0.5, 1000, 0), worker(0.5, 0.8, 0, 1000), 1},       // who yields is paused
		{worker(0, 0, 500, 0), worker(0.9, 0, 500, 0), 0.5 / 1},         // tells nothing: all of it
	} {
		if got := m.Among(c.s, []Sharer{c.o}, cluster.GPUType{}); math.Abs(got-c.want) > 1e-4 {
			t.Errorf("%+v %+v beside %+v: %v, want %v", c.s.Share, *c.s.Job.Hints, c.o.Share, got, c.want)
		}
	}
}

// A factor is from 0 to 1, grows with the own part, and is 1 without others.
func TestCalibratedBounds(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		f := func(n string) float64 { return rapid.Float64Range(0, 1).Draw(t, n) }
		m := Calibrated{}
		part := rapid.Int32Range(1, 900).Draw(t, "part")
		s, o := worker(f("u"), f("b"), part, 0), worker(f("v"), f("c"), rapid.Int32Range(0, 1000).Draw(t, "other"), rapid.Int32Range(0, 1000).Draw(t, "throttle"))
		less := m.Among(s, []Sharer{o}, cluster.GPUType{})
		s.Share.Milli += 100
		more := m.Among(s, []Sharer{o}, cluster.GPUType{})
		if less < 0 || more > 1 || less > more || m.Among(s, nil, cluster.GPUType{}) != 1 {
			t.Fatalf("%v %v", less, more)
		}
	})
}
