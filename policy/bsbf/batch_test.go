package bsbf

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

// Section 3b: B = 64, memory 2 + 0.15 b GB; a pass of 10 + 2b ms and 40 ms of exchange. With
// 6 GB free b is 16 at most, four passes, and a step takes 208 ms instead of 178. With
// all the memory free, or the setting off, it keeps its batch, or waits.
func TestSmallerBatches(t *testing.T) {
	const gb = unit.Bytes(1e9)
	for _, c := range []struct {
		name   string
		memory unit.Bytes // of the GPU
		b      unit.Bytes // that B takes of it
		passes string
		starts float64 // A, 0 s when it shares
		ends   float64
	}{
		{"four passes", 12 * gb, 6 * gb, "true", 0, 100 * 208.0 / 178},
		{"one pass fits", 16 * gb, 4 * gb, "true", 0, 100},
		{"no smaller batches", 12 * gb, 6 * gb, "false", 1000, 1100},
		{"none is small enough", 12 * gb, 11 * gb, "true", 1000, 1100},
	} {
		cl := cluster.New()
		typ, err := cl.AddType(cluster.GPUType{Name: "T", Memory: c.memory})
		if err != nil {
			t.Fatal(err)
		}
		if _, err := cl.AddNode(cluster.NodeSpec{GPUs: []cluster.GPUs{{Type: typ, Count: 1}}}); err != nil {
			t.Fatal(err)
		}
		truth := perf.Rebatched{Of: perf.Alone{}, Steps: func(j *job.Job) *perf.Stepping {
			if j.Name != "A" {
				return nil
			}
			return &perf.Stepping{Own: 64, Sample: 150e6, Steady: 10.0 / 138, Exchange: 40.0 / 138, Overlap: 1}
		}}
		asks := func(m unit.Bytes) func(*job.Job) {
			return func(j *job.Job) {
				d := *j.Demand
				d.Roles[0].GPUMemory = m
				j.Demand = &d
			}
		}
		run := simtest.Go(t, simtest.Config{
			Cluster: cl, Shared: true, Sharing: truth, World: func(c *sim.Config) { c.Sharing = truth },
			Make: func() (sched.Policy, error) {
				c2 := NewConfig()
				if err := c2.Params().Set("subbatch", c.passes); err != nil {
					return nil, err
				}
				return c2.Policy()
			},
		}, simtest.Job{Key: "B", GPUs: 1, Run: 1000, Spec: asks(c.b)}, simtest.Job{Key: "A", At: 0.000001, GPUs: 1, Run: 100, Spec: asks(11.6e9)})
		if math.Abs(run.Start("A")-c.starts) > 0.001 || math.Abs(run.End("A")-c.ends) > 0.01 || run.Preemptions() > 0 {
			t.Errorf("%s: A runs from %v to %v, want %v to %v\n%s", c.name, run.Start("A"), run.End("A"), c.starts, c.ends, strings.Join(run.Log, "\n"))
		}
	}
}

// A job that takes more memory than it told, so that it is thrown off a GPU that it
// shares, waits for one of its own, and nobody is put beside it there.
func TestThrownOff(t *testing.T) {
	cl := cluster.New()
	typ, err := cl.AddType(cluster.GPUType{Name: "T", Memory: 16 * unit.GiB})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := cl.AddNode(cluster.NodeSpec{GPUs: []cluster.GPUs{{Type: typ, Count: 1}}}); err != nil {
		t.Fatal(err)
	}
	cfg := setup(1, nil)
	cfg.Cluster = cl
	takes := func(key string, at, run float64) simtest.Job {
		return simtest.Job{Key: key, At: at, GPUs: 1, Run: run, GPUMemory: 12 * unit.GiB}
	}
	run := simtest.Go(t, cfg, takes("B", 0, 1000), takes("A", 1, 400), takes("C", 100, 50))
	at(t, run, map[string]float64{"B": 1000, "C": 1050, "A": 1450})
	if run.Preemptions() != 2 {
		t.Errorf("%d jobs were thrown off, want A and C once each\n%s", run.Preemptions(), strings.Join(run.Log, "\n"))
	}
}
