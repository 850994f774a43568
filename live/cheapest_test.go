package live

import (
	"fmt"
	"math"
	"math/bits"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/norn-scheduler/norn/cluster"
	"github.com/norn-scheduler/norn/job"
	"github.com/norn-scheduler/norn/perf"
	"github.com/norn-scheduler/norn/state"
	"github.com/norn-scheduler/norn/tenant"
)

// crowded is a state with single-GPU jobs of all ways to stop on some nodes of four GPUs, at minute 10, and the jobs of
// each node.
func crowded(t *rapid.T, nodes int) (*state.State, [][]job.ID) {
	c := cluster.New()
	typ, err := c.AddType(cluster.GPUType{Name: "V100"})
	for range nodes {
		if err == nil {
			_, err = c.AddNode(cluster.NodeSpec{GPUs: []cluster.GPUs{{Type: typ, Count: 4}}})
		}
	}
	if err != nil {
		t.Fatal(err)
	}
	st, on := state.New(c, tenant.NewTree(0)), make([][]job.ID, nodes)
	one := job.GPUs(1)
	for n := range nodes {
		for g := range rapid.IntRange(0, 4).Draw(t, "jobs") {
			id := job.ID(st.Jobs())
			stop := rapid.SampledFrom([]job.StopMode{job.Checkpoint, job.Restart, job.Freeze, job.Pinned, job.LastSave}).Draw(t, "stop")
			st.Now = time.Duration(rapid.IntRange(0, 9).Draw(t, "start")) * time.Minute
			err := st.Submit(&job.Job{ID: id, Key: fmt.Sprint(id), Demand: &one, Stop: stop, Submit: st.Now}, -1)
			if err == nil {
				a := &cluster.Alloc{Pieces: []cluster.Piece{{Node: cluster.NodeID(n), Tasks: 1, Shares: 1}}, Shares: []cluster.Share{{Device: cluster.DeviceID(4*n + g), Milli: 1000}}}
				err = st.Begin(id, a, 0)
			}
			if err != nil {
				t.Fatal(err)
			}
			on[n] = append(on[n], id)
		}
	}
	st.Now = 10 * time.Minute
	return st, on
}

// Where no job is at two places, what is chosen loses the least that any choice of so many could.
func TestCheapest(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		nodes := rapid.IntRange(1, 6).Draw(t, "nodes")
		n, killed := rapid.IntRange(0, nodes).Draw(t, "n"), rapid.Bool().Draw(t, "killed")
		st, on := crowded(t, nodes)
		costs := &perf.Costs{Base: perf.Cost{Checkpoint: time.Minute, Restore: 2 * time.Minute}}
		lost := func(places uint) (sum float64) {
			for i := range on {
				for _, id := range on[i] {
					if places>>i&1 == 1 {
						sum += loss(st, costs, id, killed)
					}
				}
			}
			return sum
		}
		var chosen uint
		for _, i := range Cheapest(st, costs, on, n, killed) {
			chosen |= 1 << i
		}
		if bits.OnesCount(chosen) != n {
			t.Fatalf("%b are chosen, not %d", chosen, n)
		}
		least := math.Inf(1)
		for places := range uint(1) << nodes {
			if bits.OnesCount(places) == n {
				least = min(least, lost(places))
			}
		}
		if got := lost(chosen); got > least*(1+1e-9) {
			t.Errorf("%b lose %v, the least is %v", chosen, got, least)
		}
	})
}

// A job on two places costs once: its second place is the next.
func TestCheapestOfGangs(t *testing.T) {
	c := cluster.New()
	typ, err := c.AddType(cluster.GPUType{Name: "V100"})
	for range 3 {
		if err == nil {
			_, err = c.AddNode(cluster.NodeSpec{GPUs: []cluster.GPUs{{Type: typ, Count: 1}}})
		}
	}
	if err != nil {
		t.Fatal(err)
	}
	st := state.New(c, tenant.NewTree(0))
	two, one := job.GPUs(2), job.GPUs(1)
	two.Roles[0].Tasks, two.Roles[0].GPU = 2, 1000
	for i, d := range []*job.Demand{&two, &one} {
		if err := st.Submit(&job.Job{ID: job.ID(i), Key: fmt.Sprint(i), Demand: d, Stop: job.Restart}, -1); err != nil {
			t.Fatal(err)
		}
	}
	piece := func(n int) cluster.Piece { return cluster.Piece{Node: cluster.NodeID(n), Tasks: 1, Shares: 1} }
	share := func(n int) cluster.Share { return cluster.Share{Device: cluster.DeviceID(n), Milli: 1000} }
	wide := &cluster.Alloc{Pieces: []cluster.Piece{piece(0), piece(2)}, Shares: []cluster.Share{share(0), share(2)}}
	if err := st.Begin(0, wide, 0); err != nil {
		t.Fatal(err)
	}
	st.Now = 8 * time.Minute
	if err := st.Begin(1, &cluster.Alloc{Pieces: []cluster.Piece{piece(1)}, Shares: []cluster.Share{share(1)}}, 0); err != nil {
		t.Fatal(err)
	}
	st.Now = 10 * time.Minute
	on := [][]job.ID{{0}, {1}, {0}}
	for n, want := range map[int]string{0: "[]", 1: "[1]", 2: "[1 0]", 3: "[1 0 2]"} {
		if got := fmt.Sprint(Cheapest(st, &perf.Costs{}, on, n, false)); got != want {
			t.Errorf("%d: %s, not %s", n, got, want)
		}
	}
}
