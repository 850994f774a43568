package sim_test

import (
	"math"
	"strings"
	"testing"

	"github.com/norn-scheduler/norn/cluster"
	"github.com/norn-scheduler/norn/cluster/unit"
	"github.com/norn-scheduler/norn/job"
	"github.com/norn-scheduler/norn/perf"
	"github.com/norn-scheduler/norn/sched"
	"github.com/norn-scheduler/norn/sim"
	"github.com/norn-scheduler/norn/sim/simtest"
)

// TestBatch: a job that is told another batch runs at the speed of that batch,
// without a pause. This holds also for a job that is alone, which may run
// faster than with its own batch. The job takes the memory of that batch, and
// is evicted if that is too much.
func TestBatch(t *testing.T) {
	step := &perf.Stepping{Own: 100, Sample: unit.GiB / 20, Steady: 0.5, Noise: 1e9} // a sample is worth the same in any batch
	truth := perf.Rebatched{Of: perf.Alone{}, Steps: func(*job.Job) *perf.Stepping { return step }}
	batch := func(b int32) func(v *sched.View, p *sched.Plan) {
		return func(v *sched.View, p *sched.Plan) {
			p.Adjust(0, func(a *cluster.Alloc) { a.Shares[0].Batch = b })
		}
	}
	try := func(second int32) *simtest.Run {
		c := cluster.New()
		typ, err := c.AddType(cluster.GPUType{Name: "T", Memory: 16 * unit.GiB})
		if err == nil {
			_, err = c.AddNode(cluster.NodeSpec{Name: "n", GPUs: []cluster.GPUs{{Type: typ, Count: 1}}})
		}
		if err != nil {
			t.Fatal(err)
		}
		return simtest.Go(t, simtest.Config{
			Cluster: c, Shared: true, Unchecked: true, World: func(c *sim.Config) { c.Sharing = truth },
			Make: byHand(shareOut(1000), map[float64]func(v *sched.View, p *sched.Plan){10: batch(200), 20: batch(second)}),
		}, simtest.Job{Key: "a", GPUs: 1, Run: 100, GPUMemory: 8 * unit.GiB})
	}
	// 10 s at speed 1, 10 s at 200/100 / (0.5 + 0.5 x 2) = 4/3, and the rest with half a
	// batch at 0.5 / 0.75 = 2/3.
	run := try(50)
	if end := 20 + (100-10-10*4.0/3)/(2.0/3); math.Abs(run.End("a")-end) > 1e-4 || run.Record("a").Lost != 0 {
		t.Errorf("a ends at %v, want %v\n%s", run.End("a"), end, strings.Join(run.Log, "\n"))
	}
	// With 300 samples it takes 8 + 10 GiB of 16.
	if run := try(300); run.Preemptions() == 0 || !strings.Contains(strings.Join(run.Log, "\n"), "20 evict a: the memory of its GPU") {
		t.Errorf("\n%s", strings.Join(run.Log, "\n"))
	}
}
