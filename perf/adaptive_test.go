package perf

import (
	"testing"

	"github.com/norn-scheduler/norn/cluster"
	"github.com/norn-scheduler/norn/job"
)

// TestAdaptive: the speed of a job is its goodput divided by that at the size
// asked for, on one node. A slow type and several nodes cost speed. A job that
// is not known runs as Otherwise says and reports nothing.
func TestAdaptive(t *testing.T) {
	c := cluster.New()
	fast, _ := c.AddType(cluster.GPUType{Name: "fast"})
	slow, _ := c.AddType(cluster.GPUType{Name: "slow", Speed: 0.5})
	for _, typ := range []cluster.TypeID{fast, fast, slow} {
		if _, err := c.AddNode(cluster.NodeSpec{GPUs: []cluster.GPUs{{Type: typ, Count: 4}}}); err != nil {
			t.Fatal(err)
		}
	}
	g := example(1)
	m := NewAdaptive(map[string]Goodput{"mine": g})
	m.Otherwise = Analytic{Scaling: 0.5, Spread: 1}
	d := job.GPUs(2)
	d.Roles[0].Min, d.Roles[0].Max = 1, 100
	j, other := &job.Job{Model: "Mine", Demand: &d}, &job.Job{Model: "x", Demand: &d}
	on := func(nodes ...cluster.NodeID) *cluster.Alloc {
		a := &cluster.Alloc{}
		for _, n := range nodes {
			first, _ := c.DeviceRange(n)
			a.Pieces = append(a.Pieces, cluster.Piece{Node: n, Tasks: 2, Shares: 2})
			a.Shares = append(a.Shares, cluster.Share{Device: first, Milli: 1000}, cluster.Share{Device: first + 1, Milli: 1000})
		}
		return a
	}
	for _, x := range []struct {
		what      string
		is, wants float64
	}{
		{"as asked", m.Speed(j, c, on(0)), 1}, {"on four, spread", m.Speed(j, c, on(0, 1)), .67478}, {"on four, together", m.On(j, c, fast, 4, false), 1.13567},
		{"on one", m.On(j, c, fast, 1, false), .59586}, {"on slow ones", m.Speed(j, c, on(2)), .5}, {"on both", m.Speed(j, c, on(0, 2)), .67478 / 2},
		{"of another", m.On(other, c, fast, 8, false), 2}, {"beyond all batches", m.On(j, c, fast, 101, true), 0},
	} {
		if !nearly(x.is, x.wants, 1e-3) && x.is != x.wants {
			t.Errorf("speed %s is %v, want %v", x.what, x.is, x.wants)
		}
	}
	r, ok := m.Report(j, 4, true)
	if !ok || r.Measurement != (Measurement{4, true, 64, g.Time.Pass(64), g.Time.Step(4, true, 64)}) || r.Noise != g.Noise || r.Batches != g.Batches {
		t.Errorf("it reports %+v", r)
	}
	if _, ok := m.Report(other, 4, true); ok || m.Knows(other) || !m.Knows(j) {
		t.Error("a job that is not known reports")
	}
	if _, ok := m.Report(j, 101, true); ok {
		t.Error("a job reports where it cannot run")
	}
}
