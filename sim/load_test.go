package sim_test

import (
	"math"
	"testing"
	"time"

	"github.com/norn-scheduler/norn/cluster"
	"github.com/norn-scheduler/norn/cluster/unit"
	"github.com/norn-scheduler/norn/job"
	"github.com/norn-scheduler/norn/perf"
	"github.com/norn-scheduler/norn/sched"
	"github.com/norn-scheduler/norn/sim"
	"github.com/norn-scheduler/norn/sim/simtest"
)

// together starts each job as it comes on the first GPU, the first with all of it but
// for a part, the others with that.
type together struct{ part int32 }

func (p together) Decide(v *sched.View, plan *sched.Plan) {
	for j := range v.Waiting() {
		if j.Reason().Code == job.OutOfMemory {
			plan.Wait(j.ID, job.Reason{Code: job.Because, Job: job.None, Text: "its memory ran out"})
			continue
		}
		share := cluster.Share{Milli: 1000 - p.part}
		if j.ID > 0 {
			share = cluster.Share{Milli: p.part, Memory: 6 * unit.GiB}
		}
		plan.StartOn(j.ID, &cluster.Alloc{Pieces: []cluster.Piece{{Tasks: 1, Shares: 1}}, Shares: []cluster.Share{share}})
	}
}

func gpu(t *testing.T) *cluster.Cluster {
	t.Helper()
	c := cluster.New()
	typ, err := c.AddType(cluster.GPUType{Name: "gpu", Memory: 16 * unit.GiB})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := c.AddNode(cluster.NodeSpec{GPUs: []cluster.GPUs{{Type: typ, Count: 1}}}); err != nil {
		t.Fatal(err)
	}
	return c
}

func uses(kind job.Kind, use float64, gib unit.Bytes) func(*job.Job) {
	return func(j *job.Job) {
		j.Kind, j.Hints = kind, &job.Hints{GPUUse: use, GPUMemory: gib * unit.GiB}
	}
}

// day doubles what services use from 100 s on.
type day struct{}

func (day) At(j *job.Job, now time.Duration) (float64, time.Duration) {
	if now < 100*time.Second {
		return 1, 100 * time.Second
	}
	return 2, unit.Never
}

// TestLoad: when a service comes to use more, it and those beside it change their speed
// at that moment.
func TestLoad(t *testing.T) {
	run := simtest.Go(t, simtest.Config{
		Cluster: gpu(t), Shared: true, Make: func() (sched.Policy, error) { return together{400}, nil },
		World: func(c *sim.Config) { c.Sharing, c.Load = perf.Paced{}, day{} },
	}, simtest.Job{Key: "service", GPUs: 1, Run: 200, Spec: uses(job.Inference, 0.4, 4)}, simtest.Job{Key: "job", GPUs: 1, Run: 200, Spec: uses(job.Training, 0.4, 4)})
	// 0.8 of the GPU are in use, then 1.6: both need 1.6 times as long for the rest.
	for _, key := range []string{"service", "job"} {
		if got := run.End(key); math.Abs(got-260) > 1e-6 {
			t.Errorf("%s ends at %v", key, got)
		}
	}
}

// TestSpill: a guest whose memory does not fit goes on in main memory, where
// another job would be evicted. A guest that is confined to its share of the
// memory fails by itself when it takes more.
func TestSpill(t *testing.T) {
	for name, c := range map[string]struct {
		part    int32
		sharing perf.Sharing
		takes   unit.Bytes
		evicted bool
	}{
		"a guest": {0, perf.Paced{}, 8, false}, "an owner": {400, perf.Paced{}, 8, true}, "within its share": {400, perf.Served{}, 6, false}, "beyond it": {400, perf.Served{}, 7, true},
	} {
		run := simtest.Go(t, simtest.Config{
			Cluster: gpu(t), Shared: true, Make: func() (sched.Policy, error) { return together{c.part}, nil },
			World: func(w *sim.Config) { w.Sharing, w.Measure = c.sharing, true },
		}, simtest.Job{Key: "first", GPUs: 1, Run: 100, Spec: uses(job.Inference, 0.1, 9)}, simtest.Job{Key: "second", GPUs: 1, Run: 50, Spec: uses(job.Training, 0.1, c.takes)})
		if got := run.Record("second").Preemptions > 0; got != c.evicted || run.End("first") < 100 || run.Record("first").Preemptions > 0 {
			t.Errorf("%s: evicted %v\n%v", name, got, run.Log)
		}
	}
}
