package perf_test

import (
	"math"
	"testing"

	"github.com/norn-scheduler/norn/cluster"
	"github.com/norn-scheduler/norn/job"
	"github.com/norn-scheduler/norn/perf"
)

// machines is a cluster of a node with 4 A100s, two with 2 A40s, and one with 4 GPUs that were not measured.
func machines(t *testing.T) *cluster.Cluster {
	t.Helper()
	c := cluster.New()
	for _, typ := range []cluster.GPUType{{Name: "A100"}, {Name: "A40"}, {Name: "X", Speed: 2}} {
		if _, err := c.AddType(typ); err != nil {
			t.Fatal(err)
		}
	}
	for _, g := range []cluster.GPUs{{Type: 0, Count: 4}, {Type: 1, Count: 2}, {Type: 1, Count: 2}, {Type: 2, Count: 4}} {
		if _, err := c.AddNode(cluster.NodeSpec{GPUs: []cluster.GPUs{g}}); err != nil {
			t.Fatal(err)
		}
	}
	return c
}

func trains(model string, batch, gpus int, types string) *job.Job {
	d := job.GPUs(gpus)
	d.Types = types
	d.Roles[0].Min, d.Roles[0].Max = 1, 16
	return &job.Job{Model: model, Batch: batch, Demand: &d}
}

// TestPlans is the part of acceptance 4 of the specification of Crius about places: 100 samples a second on one
// node are 90 on two and 81 on four. What was not measured follows from a larger model, and a cell that cannot be,
// or in which an iteration takes more than five minutes, has speed 0.
func TestPlans(t *testing.T) {
	c := machines(t)
	p := &perf.Plans{}
	add := func(model, typ string, nodes, each int, seconds float64) {
		p.Add(perf.Trained{Model: model, Batch: 100}, perf.Cell{Type: typ, Nodes: nodes, Each: each}, seconds)
	}
	add("bert_760M", "a100", 1, 4, 1)
	add("bert_760M", "a100", 1, 2, 2)
	add("bert_760M", "a100", 1, 1, 301)
	add("bert_760M", "a40", 2, 2, 0)
	add("bert_1.3B", "a40", 1, 2, 3.6)
	j := trains("bert__760M", 100, 4, "A100")
	on := func(typ cluster.TypeID, nodes ...int) float64 {
		var a cluster.Alloc
		first := map[cluster.TypeID][]cluster.DeviceID{0: {0, 1, 2, 3}, 1: {4, 5, 6, 7}}[typ]
		for i, n := range nodes {
			a.Pieces = append(a.Pieces, cluster.Piece{Node: cluster.NodeID(i), Tasks: int32(n), Shares: int32(n)})
			for range n {
				a.Shares = append(a.Shares, cluster.Share{Device: first[0], Milli: 1000})
				first = first[1:]
			}
		}
		return p.Speed(j, c, &a)
	}
	for _, test := range []struct {
		what       string
		have, want float64
	}{
		{"together", on(0, 4), 1}, {"on two nodes", on(0, 2, 2), 0.9}, {"on four nodes", on(0, 1, 1, 1, 1), 0.81},
		{"two", on(0, 2), 0.5}, {"three count as two", on(0, 3), 0.5}, {"one takes too long", on(0, 1), 0},
		{"of another type, which cannot be", on(1, 2, 2), 0}, {"by a larger model", on(1, 2), 1.8 / 3.6},
		{"before it is placed", p.On(j, c, 0, 4, false), 1}, {"spread", p.On(j, c, 0, 4, true), 0.9}, {"of a type of which nothing is known", p.On(j, c, 2, 4, false), 0},
	} {
		if math.Abs(test.have-test.want) > 1e-12 {
			t.Errorf("%s: %v, not %v", test.what, test.have, test.want)
		}
	}
	if rate, ok := p.Samples(j, c); !ok || rate != 100 {
		t.Errorf("%v samples a second", rate)
	}
	if s := p.On(trains("resnet", 100, 4, "A100"), c, 0, 4, false); s != 1 {
		t.Errorf("another model runs at %v", s)
	}
}

// TestFittedPlans: without measurements, models are as fast as Large says, on other GPU types by their speed,
// and need their memory.
func TestFittedPlans(t *testing.T) {
	c := machines(t)
	var p perf.Plans
	j := trains("bert_2.6B", 256, 4, "A100")
	m, _ := perf.LargeModel("bert_2.6B")
	asked, _ := m.Iteration("A100", 4, 256)
	other, _ := m.Iteration("V100", 4, 256)
	for _, test := range []struct{ have, want float64 }{
		{p.On(j, c, 0, 4, false), 1}, {p.On(j, c, 0, 2, false), 0}, {p.On(j, c, 2, 4, false), asked / other * 2},
	} {
		if math.Abs(test.have-test.want) > 1e-12 {
			t.Errorf("%v, not %v", test.have, test.want)
		}
	}
	if !p.Runs(j, c, 1, 4) || p.Runs(j, c, 1, 2) {
		t.Error("4 A40s have the memory, 2 do not")
	}
}
