package engine_test

import (
	"testing"
	"time"

	"github.com/norn-scheduler/norn/cluster"
	"github.com/norn-scheduler/norn/eventlog"
	"github.com/norn-scheduler/norn/policy"
	"github.com/norn-scheduler/norn/sim"
	"github.com/norn-scheduler/norn/sim/simtest"
	"github.com/norn-scheduler/norn/state"
	"github.com/norn-scheduler/norn/tenant"
)

// TestOverbookedGoesOn carries jobs over into a new log whose nodes others use, too:
// more of them than is left beside the jobs. The jobs hold what they held.
func TestOverbookedGoesOn(t *testing.T) {
	w := simtest.World{Jobs: []simtest.Job{{Key: "a", GPUs: 2, Run: 100}, {Key: "b", GPUs: 1, Run: 100}}}
	w.Cluster, w.Tenants = simtest.Nodes(1, 4), tenant.NewTree(time.Minute)
	use := cluster.Foreign{GPUs: []cluster.Share{{Device: 0, Milli: 1000}, {Device: 3, Milli: 700}}}
	w.World = func(c *sim.Config) {
		c.Script = []eventlog.Event{{Time: 10 * time.Second, Kind: eventlog.Foreign, Foreign: &use}}
	}
	p, err := policy.Table()[0].New().Policy()
	if err != nil {
		t.Fatal(err)
	}
	carried := false
	err = w.Steps(p, func(s *state.State, _ *sim.Sim) bool {
		if s.Now < 10*time.Second {
			return true
		}
		again, err := simtest.Reopen(s)
		if err != nil {
			t.Fatal(err)
		}
		over := again.Cluster.Overbooked(0)
		if len(over.GPUs) != 1 || over.GPUs[0] != (cluster.Share{Device: 0, Milli: 1000}) || again.Cluster.FreeGPUs(0, 0) != 0 || again.Cluster.FreeMilli(0, 0) != 300 {
			t.Errorf("overbooked by %+v, %v free", over.GPUs, again.Cluster.FreeMilli(0, 0))
		}
		if err := again.Check(); err != nil {
			t.Error(err)
		}
		carried = true
		return false
	})
	if err != nil || !carried {
		t.Fatal(err, carried)
	}
}
