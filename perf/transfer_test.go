package perf

import (
	"math"
	"testing"
	"time"

	"github.com/norn-scheduler/norn/cluster"
	"github.com/norn-scheduler/norn/job"
)

func near(t *testing.T, what string, got, want float64) {
	t.Helper()
	if math.Abs(got-want) > 1e-9 {
		t.Errorf("%s: %v, want %v", what, got, want)
	}
}

// TestGains: what one takes after another, and the passes of two trained as one,
// by hand.
func TestGains(t *testing.T) {
	a, b := Task{"vit", "a"}, Task{"vit", "b"}
	g := NewGains(map[Task]float64{a: 320, b: 640}, []Gain{{From: a, To: b, After: 2, Together: 4}, {From: b, To: a, After: 0.5, Together: 1}})
	ja, jb, jc := &job.Job{Backbone: "vit", Dataset: "a"}, &job.Job{Backbone: "vit", Dataset: "b"}, &job.Job{Backbone: "bert", Dataset: "a"}
	near(t, "b after a", g.After(jb, ja), 2)
	near(t, "a after b", g.After(ja, jb), 0.5)
	near(t, "a stranger", g.After(ja, jc), 1)
	// a takes 864 samples alone, 2.7 passes of 320; b takes 2688, 4.2 passes, of
	// which a quarter is left: 1.05. Both are done after 2.7 passes of 960.
	fa, fb := g.Together(ja, jb, [2]time.Duration{864 * time.Second, 2688 * time.Second})
	near(t, "a together", fa, 864/2592.)
	near(t, "b together", fb, 2688/2592.)
	fa, fb = g.Together(ja, jc, [2]time.Duration{30 * time.Second, 10 * time.Second})
	near(t, "a beside a stranger", fa, 0.75)
	near(t, "a stranger beside a", fb, 0.25)
	g.Rate = func(j *job.Job) float64 { return 2 }
	near(t, "samples", g.Samples(ja, 3*time.Second), 6)
}

// TestSteps: the formula by hand, with and without accumulation, and speeds
// relative to the size that was asked for.
func TestSteps(t *testing.T) {
	s := Step{Fixed: 0.1, Sample: 0.01, Batch: 16, Near: 0.02, NearGPU: 0.005, Far: 0.03, FarGPU: 0.001}
	near(t, "one GPU, two rounds", s.Seconds(32, 1, false), 2*(0.1+0.16))
	near(t, "two GPUs", s.Seconds(32, 2, false), 0.1+0.16+0.03)
	near(t, "eight GPUs over nodes", s.Seconds(32, 8, true), 0.1+0.04+0.038)
	m := &Steps{ByBackbone: map[string]Step{"vit": s}, NodeGPUs: 4}
	d := job.GPUs(2)
	d.Roles[0].Min, d.Roles[0].Max = 1, 8
	j := &job.Job{Backbone: "vit", Batch: 32, Demand: &d}
	near(t, "speed as asked", m.On(j, nil, 0, 2, false), 1)
	near(t, "speed on one", m.On(j, nil, 0, 1, false), 0.29/0.52)
	near(t, "samples a second", m.Rate(j), 32/0.29)
	c := cluster.New()
	typ, _ := c.AddType(cluster.GPUType{Name: "gpu"})
	var nodes []cluster.NodeID
	for range 2 {
		n, err := c.AddNode(cluster.NodeSpec{GPUs: []cluster.GPUs{{Type: typ, Count: 4}}})
		if err != nil {
			t.Fatal(err)
		}
		nodes = append(nodes, n)
	}
	al := &cluster.Alloc{}
	for _, n := range nodes {
		first, count := c.DeviceRange(n)
		al.Pieces = append(al.Pieces, cluster.Piece{Node: n, Tasks: int32(count), Shares: int32(count)})
		for k := range count {
			al.Shares = append(al.Shares, cluster.Share{Device: first + cluster.DeviceID(k), Milli: 1000})
		}
	}
	near(t, "speed on two nodes", m.Speed(j, c, al), 0.29/0.178)
	j.Backbone = "other"
	near(t, "of another backbone", m.On(j, c, 0, 4, false), 2)
	near(t, "rate of another backbone", m.Rate(j), 1)
}
