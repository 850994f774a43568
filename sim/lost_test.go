package sim_test

import (
	"strings"
	"testing"
	"time"

	"github.com/norn-scheduler/norn/cluster"
	"github.com/norn-scheduler/norn/cluster/unit"
	"github.com/norn-scheduler/norn/eventlog"
	"github.com/norn-scheduler/norn/job"
	"github.com/norn-scheduler/norn/perf"
	"github.com/norn-scheduler/norn/policy/shortest"
	"github.com/norn-scheduler/norn/sim"
	"github.com/norn-scheduler/norn/sim/simtest"
)

// TestLostAsItBegins: b is assigned cores that a is leaving when their node is lost. The eviction
// of c frees others, so b begins, and is evicted in the same instant. It does not end while it
// waits.
func TestLostAsItBegins(t *testing.T) {
	down := []eventlog.Event{
		{Time: 15 * time.Second, Kind: eventlog.NodeSet, Node: 0, Health: cluster.Down}, {Time: 60 * time.Second, Kind: eventlog.NodeSet, Node: 0, Health: cluster.Up},
	}
	c := cluster.New()
	typ, err := c.AddType(cluster.GPUType{Name: "T"})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := c.AddNode(cluster.NodeSpec{Name: "n0", GPUs: []cluster.GPUs{{Type: typ, Count: 3}}, CPU: 4 * unit.One}); err != nil {
		t.Fatal(err)
	}
	needs := func(gpus unit.Milli) *job.Demand {
		d := job.GPUs(1)
		d.Roles[0].GPU, d.Roles[0].CPU = gpus, 2*unit.One
		return &d
	}
	run := simtest.Go(t, simtest.Config{
		Cluster: c, Make: shortest.NewSRTF().Policy, Costs: perf.Costs{Base: perf.Cost{Checkpoint: 10 * time.Second}},
		World: func(c *sim.Config) { c.Script = down },
	}, simtest.Job{Key: "c", Run: 50, Demand: needs(unit.One)}, simtest.Job{Key: "a", Run: 100, Demand: needs(0)}, simtest.Job{Key: "b", At: 10, Run: 10, Demand: needs(unit.One)})
	for _, want := range []string{"10 assign b on n0[1]", "15 start b on n0[1]", "15 evict b", "60 start b on n0[", "70 end b done"} {
		if log := strings.Join(run.Log, "\n"); !strings.Contains(log, want) {
			t.Errorf("%q is not in\n%s", want, log)
		}
	}
}
