package perf

import (
	"testing"

	"github.com/norn-scheduler/norn/cluster"
	"github.com/norn-scheduler/norn/job"
)

// TestTable: speeds are relative to the reference type at the size asked for. A gang
// waits for its slowest member. A size that was not measured grows in proportion. A gang
// that cannot run together cannot run apart either.
func TestTable(t *testing.T) {
	c := cluster.New()
	var nodes []cluster.NodeID
	for _, name := range []string{"K80", "V100", "V100"} {
		typ, _ := c.AddType(cluster.GPUType{Name: name, Speed: 3})
		id, err := c.AddNode(cluster.NodeSpec{GPUs: []cluster.GPUs{{Type: typ, Count: 4}}})
		if err != nil {
			t.Fatal(err)
		}
		nodes = append(nodes, id)
	}
	table := &Table{Reference: "v100"}
	for m, rate := range map[Measured]float64{
		{"net", 1, "v100", false}: 10, {"net", 2, "v100", false}: 16, {"net", 2, "v100", true}: 12,
		{"net", 1, "k80", false}: 2, {"net", 1, "k80", true}: 2, {"net", 2, "k80", false}: 0,
	} {
		table.Add(m, rate)
	}
	k80, v100 := cluster.TypeID(0), cluster.TypeID(1)
	one, two, three := job.GPUs(1), job.GPUs(2), job.GPUs(3)
	for _, k := range []struct {
		name   string
		d      *job.Demand
		t      cluster.TypeID
		spread bool
		want   float64
	}{
		{"net", &one, v100, false, 1}, {"net", &one, k80, false, 0.2}, {"net", &two, v100, false, 1}, {"net", &two, v100, true, 0.75},
		{"net", &two, k80, false, 0}, {"net", &two, k80, true, 0}, {"net", &three, v100, true, 0.75}, {"other", &one, k80, false, 3},
	} {
		j := &job.Job{Name: k.name, Demand: k.d}
		if got := table.On(j, c, k.t, int(k.d.Roles[0].Tasks), k.spread); got != k.want {
			t.Errorf("%s with %d GPUs on type %d, spread %v: %v, want %v", k.name, k.d.GPUs(), k.t, k.spread, got, k.want)
		}
	}
	a := &cluster.Alloc{}
	for _, n := range nodes[1:] {
		first, _ := c.DeviceRange(n)
		a.Pieces = append(a.Pieces, cluster.Piece{Node: n, Tasks: 1, Shares: 1})
		a.Shares = append(a.Shares, cluster.Share{Device: first, Milli: 1000})
	}
	if got := table.Speed(&job.Job{Name: "net", Demand: &two}, c, a); got != 0.75 {
		t.Errorf("on two nodes: %v, want 0.75", got)
	}
	first, _ := c.DeviceRange(nodes[0])
	a.Shares[0].Device, a.Pieces[0].Node = first, nodes[0]
	if got := table.Speed(&job.Job{Name: "net", Demand: &two}, c, a); got != 0 {
		t.Errorf("with a member that cannot run: %v, want 0", got)
	}
}
