package perf_test

import (
	"testing"

	"github.com/norn-scheduler/norn/cluster"
	"github.com/norn-scheduler/norn/job"
	"github.com/norn-scheduler/norn/perf"
)

// TestDeclared: a declaration for a model counts before one for all models, and
// that before the type itself. A gang waits for its slowest member, and an
// elastic job gains by its size.
func TestDeclared(t *testing.T) {
	c := cluster.New()
	for _, typ := range []cluster.GPUType{{Name: "A100"}, {Name: "T4"}, {Name: "P100", Speed: 0.25}} {
		if _, err := c.AddType(typ); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := c.AddNode(cluster.NodeSpec{GPUs: []cluster.GPUs{{Type: 0, Count: 2}, {Type: 1, Count: 2}, {Type: 2, Count: 2}}}); err != nil {
		t.Fatal(err)
	}
	d := perf.Declared{{Type: "T4"}: 0.5, {Model: "bert", Type: "T4"}: 0.1, {Model: "gpt", Type: "T4"}: 0}
	two := job.GPUs(2)
	elastic := job.GPUs(2)
	elastic.Roles[0].Min, elastic.Roles[0].Max = 1, 4
	for _, k := range []struct {
		model   string
		demand  *job.Demand
		devices []cluster.DeviceID
		want    float64
	}{
		{"", &two, []cluster.DeviceID{0, 1}, 1},
		{"", &two, []cluster.DeviceID{2, 3}, 0.5},
		{"resnet", &two, []cluster.DeviceID{1, 2}, 0.5},
		{"bert", &two, []cluster.DeviceID{2, 3}, 0.1},
		{"gpt", &two, []cluster.DeviceID{0, 2}, 0},
		{"bert", &two, []cluster.DeviceID{4, 5}, 0.25},
		{"bert", &two, []cluster.DeviceID{0, 4}, 0.25},
		{"bert", &elastic, []cluster.DeviceID{0, 1, 2, 3}, 0.2},
		{"bert", &elastic, []cluster.DeviceID{4}, 0.125},
	} {
		j := &job.Job{Model: k.model, Demand: k.demand}
		n := int32(len(k.devices))
		a := &cluster.Alloc{Pieces: []cluster.Piece{{Tasks: n, Shares: n}}}
		for _, dev := range k.devices {
			a.Shares = append(a.Shares, cluster.Share{Device: dev, Milli: 1000})
		}
		if got := d.Speed(j, c, a); got != k.want {
			t.Errorf("%q on %v: %v, not %v", k.model, k.devices, got, k.want)
		}
	}
	if got := d.Speed(&job.Job{Demand: &two}, c, &cluster.Alloc{Pieces: []cluster.Piece{{Tasks: 2}}}); got != 1 {
		t.Errorf("without GPUs: %v", got)
	}
}
