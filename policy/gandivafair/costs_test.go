package gandivafair_test

import (
	"testing"
	"time"

	"github.com/norn-scheduler/norn/job"
	"github.com/norn-scheduler/norn/perf"
	"github.com/norn-scheduler/norn/policy/gandivafair"
	"github.com/norn-scheduler/norn/sim/simtest"
)

// TestCostsAboveTheQuantum: where a restore takes longer than a quantum, jobs still
// get on.
func TestCostsAboveTheQuantum(t *testing.T) {
	run := simtest.Go(t, simtest.Config{
		Cluster: simtest.Nodes(1, 1), Make: with(func(c *gandivafair.Config) { c.Quantum = time.Minute }),
		Costs: perf.Costs{Base: perf.Cost{Checkpoint: 20 * time.Second, Restore: 5 * time.Minute}},
	}, simtest.Job{Key: "a", GPUs: 1, Run: 600}, simtest.Job{Key: "b", GPUs: 1, Run: 600}, simtest.Job{Key: "c", At: 30, GPUs: 1, Run: 600})
	for _, key := range []string{"a", "b", "c"} {
		if run.Record(key).Phase != job.Done {
			t.Errorf("%s is %v", key, run.Record(key).Phase)
		}
	}
}
