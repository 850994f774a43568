package policy_test

import (
	"testing"

	"github.com/norn-scheduler/norn/cluster"
	"github.com/norn-scheduler/norn/cluster/unit"
	"github.com/norn-scheduler/norn/job"
	"github.com/norn-scheduler/norn/perf"
	"github.com/norn-scheduler/norn/policy"
	"github.com/norn-scheduler/norn/sim"
	"github.com/norn-scheduler/norn/sim/simtest"
)

// TestTooLargeForAnyGPU: a job that takes more memory than a GPU has, which was
// not declared, fails in the end, unless the policy has given it up before.
// Under no policy is it put there again and again, or in the way of other jobs
// for ever.
func TestTooLargeForAnyGPU(t *testing.T) {
	for _, e := range policy.Table() {
		c := cluster.New()
		typ, err := c.AddType(cluster.GPUType{Name: "gpu", Memory: 16 * unit.GiB})
		if err != nil {
			t.Fatal(err)
		}
		if _, err := c.AddNode(cluster.NodeSpec{GPUs: []cluster.GPUs{{Type: typ, Count: 1}}}); err != nil {
			t.Fatal(err)
		}
		run, err := simtest.Try(simtest.Config{
			Cluster: c, Make: e.New().Policy, Shared: true, Sharing: perf.Demands{}, World: func(c *sim.Config) { c.Sharing = perf.Demands{} },
		},
			simtest.Job{Key: "large", GPUs: 1, Run: 100, GPUMemory: 20 * unit.GiB}, simtest.Job{Key: "small", At: 10, GPUs: 1, Run: 100, GPUMemory: 2 * unit.GiB})
		if err != nil || run.Record("small").Phase != job.Done || run.Record("large").Phase != job.FailedPhase && !run.Record("large").Reason.Never() {
			t.Errorf("%s: %v: %v", e.Name, err, run.Log[max(0, len(run.Log)-10):])
		}
	}
}
