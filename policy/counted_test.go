package policy_test

import (
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/norn-scheduler/norn/cluster"
	"github.com/norn-scheduler/norn/cluster/unit"
	"github.com/norn-scheduler/norn/job"
	"github.com/norn-scheduler/norn/perf"
	"github.com/norn-scheduler/norn/policy"
	"github.com/norn-scheduler/norn/sim"
	"github.com/norn-scheduler/norn/sim/simtest"
	"github.com/norn-scheduler/norn/state"
	"github.com/norn-scheduler/norn/tenant"
)

// TestCountedGPUs: on nodes that only count their GPUs, jobs have all of those that they
// ask for under policies that put jobs beside each other, too, whoever comes and goes.
func TestCountedGPUs(t *testing.T) {
	for _, name := range []string{"antman", "bsbf", "gandiva", "gimbal", "iadeep", "lucid", "muxflow"} {
		e, err := policy.ByName(name)
		if err != nil {
			t.Fatal(err)
		}
		t.Run(name, func(t *testing.T) {
			rapid.Check(t, func(t *rapid.T) {
				w := simtest.Draw(t, simtest.Shape{Packed: true, Shared: true})
				w.Fresh(t, simtest.Shape{}, nil)
				typ, _ := w.Cluster.AddType(cluster.GPUType{Name: "A"})
				if _, err := w.Cluster.AddNode(cluster.NodeSpec{GPUs: []cluster.GPUs{{Type: typ, Count: 8}}, Pooled: true}); err != nil {
					t.Fatal(err)
				}
				w.Sharing, w.Tenants = perf.Demands{}, tenant.NewTree(time.Minute)
				p, err := e.New().Policy()
				if err != nil {
					t.Fatal(err)
				}
				if err := w.Steps(p, func(s *state.State, _ *sim.Sim) bool {
					for id := range job.ID(s.Jobs()) {
						if r := s.Record(id); r.Phase == job.Running && r.Milli != unit.Milli(r.Job.Demand.GPUs())*unit.One {
							t.Fatalf("at %v job %s holds %v of its %d GPUs", s.Now, r.Job.Key, r.Milli, r.Job.Demand.GPUs())
						}
					}
					return true
				}); err != nil {
					t.Fatal(err)
				}
			})
		})
	}
}
