package gandivafair

import (
	"testing"

	"github.com/norn-scheduler/norn/cluster"
	"github.com/norn-scheduler/norn/job"
	"github.com/norn-scheduler/norn/place"
)

// Section 3.3: of two servers of four GPUs with 150 and 100 tickets, a new job goes to
// the second; one that fits none goes where the strategy below says.
func TestLoad(t *testing.T) {
	c := cluster.New()
	typ, err := c.AddType(cluster.GPUType{Name: "gpu"})
	if err != nil {
		t.Fatal(err)
	}
	for range 2 {
		if _, err := c.AddNode(cluster.NodeSpec{GPUs: []cluster.GPUs{{Type: typ, Count: 4}}}); err != nil {
			t.Fatal(err)
		}
	}
	b := byLoad{below: place.Pack, tickets: []float64{150, 100}}
	for _, want := range []struct {
		gpus  int32
		nodes int
		first cluster.NodeID
	}{{1, 1, 1}, {4, 1, 1}, {6, 2, 0}} {
		d := job.GPUs(int(want.gpus))
		r := place.Request{Cluster: c, Demand: &d, Tasks: want.gpus}
		if why, ok := b.Place(&r); !ok {
			t.Fatalf("%d GPUs: %v", want.gpus, why)
		}
		if err := c.Valid(&r.Out); err != nil || len(r.Out.Pieces) != want.nodes || r.Out.Pieces[0].Node != want.first {
			t.Errorf("%d GPUs are placed on %+v (%v), want %d nodes, the first node %d", want.gpus, r.Out.Pieces, err, want.nodes, want.first)
		}
	}
}
