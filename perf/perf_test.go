package perf

import (
	"math"
	"testing"
	"time"

	"github.com/norn-scheduler/norn/cluster"
	"github.com/norn-scheduler/norn/job"
)

// TestCosts: the last tier that a job is large enough for counts.
func TestCosts(t *testing.T) {
	one, two := Cost{Start: time.Second}, Cost{Start: 2 * time.Second}
	c := Costs{Base: Cost{Restore: time.Minute}, Tiers: []Tier{{4, one}, {8, two}}}
	for gpus, want := range map[int]Cost{0: c.Base, 3: c.Base, 4: one, 7: one, 8: two, 1000: two} {
		if got := c.Of(gpus); got != want {
			t.Errorf("%d GPUs cost %+v, want %+v", gpus, got, want)
		}
	}
}

// TestAnalytic: speed is scaling x type x spread, as the comment says.
func TestAnalytic(t *testing.T) {
	c := cluster.New()
	slow, _ := c.AddType(cluster.GPUType{Name: "P100", Speed: 0.5})
	plain, _ := c.AddType(cluster.GPUType{Name: "V100"}) // no speed: 1
	rack, _ := c.AddDomain("rack", "r", 0)
	for _, spec := range []cluster.NodeSpec{
		{Domain: rack, GPUs: []cluster.GPUs{{Type: plain, Count: 4}}}, {Domain: rack, GPUs: []cluster.GPUs{{Type: slow, Count: 4}}}, {GPUs: []cluster.GPUs{{Type: plain, Count: 4}}},
	} {
		if _, err := c.AddNode(spec); err != nil {
			t.Fatal(err)
		}
	}
	on := func(tasks int32, nodes ...cluster.NodeID) *cluster.Alloc {
		a := &cluster.Alloc{}
		for _, n := range nodes {
			first, _ := c.DeviceRange(n)
			a.Pieces = append(a.Pieces, cluster.Piece{Node: n, Tasks: tasks, Shares: 1})
			a.Shares = append(a.Shares, cluster.Share{Device: first, Milli: 1000})
		}
		return a
	}
	rigid, elastic := job.GPUs(2), job.GPUs(2)
	elastic.Roles[0].Min, elastic.Roles[0].Max = 1, 8
	m := Analytic{Scaling: 0.5, Spread: 0.8}
	for _, k := range []struct {
		d    *job.Demand
		a    *cluster.Alloc
		want float64
	}{
		{&rigid, on(2, 0), 1},
		{&rigid, on(2, 1), 0.5},
		{&rigid, on(1, 0, 1), 0.5 * 0.8},     // a slow member, one rack
		{&rigid, on(1, 0, 2), 0.8 * 0.8},     // two steps up the tree
		{&elastic, on(8, 0), 2},              // (8/2)^0.5
		{&elastic, on(1, 0), math.Sqrt2 / 2}, // (1/2)^0.5
		{&elastic, on(4, 0, 1), 2 * 0.5 * 0.8},
		{&rigid, &cluster.Alloc{Pieces: []cluster.Piece{{Node: 0, Tasks: 2}}}, 1}, // no GPUs at all
	} {
		if got := m.Speed(&job.Job{Demand: k.d}, c, k.a); math.Abs(got-k.want) > 1e-12 {
			t.Errorf("%v on %+v: speed %v, want %v", k.d, k.a.Pieces, got, k.want)
		}
	}
	if (Reference{}).Speed(&job.Job{}, c, on(1, 0, 1)) != 1 {
		t.Error("the reference is not 1")
	}
}
