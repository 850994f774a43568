package report_test

import (
	"testing"
	"time"

	"github.com/norn-scheduler/norn/cluster"
	"github.com/norn-scheduler/norn/cluster/label"
	"github.com/norn-scheduler/norn/engine"
	"github.com/norn-scheduler/norn/policy/fifo"
	"github.com/norn-scheduler/norn/report"
	"github.com/norn-scheduler/norn/sched"
	"github.com/norn-scheduler/norn/sim"
	"github.com/norn-scheduler/norn/sim/simtest"
	"github.com/norn-scheduler/norn/trace"
)

// TestBorrowed: the time for which borrowed GPUs are there, the nodes that go back and whom
// that throws off.
func TestBorrowed(t *testing.T) {
	c := cluster.New()
	typ, err := c.AddType(cluster.GPUType{Name: "gpu"})
	if err != nil {
		t.Fatal(err)
	}
	for range 2 {
		spec := cluster.NodeSpec{GPUs: []cluster.GPUs{{Type: typ, Count: 4}}, Labels: []label.Label{{Key: cluster.LenderLabel, Value: "x"}}}
		if _, err := c.AddNode(spec); err != nil {
			t.Fatal(err)
		}
	}
	collector := report.NewCollector(report.Options{})
	run := simtest.Go(t, simtest.Config{
		Cluster: c, Make: func() (sched.Policy, error) { return fifo.NewConfig().Policy() }, Sinks: []engine.Sink{collector},
		World: func(c *sim.Config) {
			c.Loans = []trace.Loan{{Lender: "x", Nodes: 2}, {At: time.Hour, Lender: "x", Nodes: 1}, {At: 2 * time.Hour, Lender: "x"}, {At: 3 * time.Hour, Lender: "x", Nodes: 1}}
		},
	}, simtest.Job{Key: "a", GPUs: 4, Run: 3 * 3600})
	// a loses all of its two hours when the second node goes, and runs from the third to the sixth hour.
	b := collector.Result(run.State).Borrowed
	if want := (report.Borrowed{GPUHours: 8 + 4 + 12, Returns: 2, Preemptions: 1}); b == nil || *b != want {
		t.Errorf("%+v, not %+v", b, want)
	}
}
