package rmixer_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/norn-scheduler/norn/cluster"
	"github.com/norn-scheduler/norn/policy/rmixer"
	"github.com/norn-scheduler/norn/sim/simtest"
)

// A gang has its GPUs for itself: nobody joins it, and it waits for GPUs on which nobody
// is, ahead of jobs that would share them.
func TestGang(t *testing.T) {
	jobs := entries([]one{
		{key: "small", run: 50, memory: 10, use: 0.2}, {key: "gang", at: 10, run: 50, gpus: 2, memory: 10}, {key: "late", at: 20, run: 50, memory: 10, use: 0.2},
	})
	r := world(t, 2, false, jobs, func(*rmixer.Config) {})
	if r.Start("gang") != 70 || r.Start("late") != 20 {
		t.Errorf("gang starts at %v, late at %v; want 70 and 20", r.Start("gang"), r.Start("late"))
	}
	jobs[1].Job.Submit, jobs[2].Job.Submit = 0, secs(20)
	jobs[0], jobs[1] = jobs[1], jobs[0]
	jobs[0].Job.ID, jobs[1].Job.ID = 0, 1
	r = world(t, 2, false, jobs, func(*rmixer.Config) {})
	if r.Start("gang") != 0 || r.Start("small") != 50 || r.Start("late") != 50 {
		t.Errorf("gang starts at %v, small at %v, late at %v; want 0, 50, 50\n%s", r.Start("gang"), r.Start("small"), r.Start("late"), strings.Join(r.Log, "\n"))
	}
}

// A node that counts its GPUs takes as many jobs as their workers together.
func TestCounted(t *testing.T) {
	c := cluster.New()
	gpu, err := c.AddType(cluster.GPUType{Name: "gpu"})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := c.AddNode(cluster.NodeSpec{Pooled: true, GPUs: []cluster.GPUs{{Type: gpu, Count: 3}}}); err != nil {
		t.Fatal(err)
	}
	var jobs []simtest.Job
	for i := range 13 {
		jobs = append(jobs, simtest.Job{Key: fmt.Sprint(i), GPUs: 1, Run: 10})
	}
	r := simtest.Go(t, simtest.Config{Cluster: c, Shared: true, Make: config(func(*rmixer.Config) {})}, jobs...)
	if r.Start("11") != 0 || r.Start("12") != 10 {
		t.Errorf("the twelfth job starts at %v, the thirteenth at %v", r.Start("11"), r.Start("12"))
	}
}

// A job that no GPU is good enough for runs on processors, whatever its place in the
// list; one that cannot do without waits for ever.
func TestOnlyProcessors(t *testing.T) {
	jobs := entries([]one{
		{key: "large", run: 50, cpu: 80, memory: 20000, use: 0.9}, {key: "never", run: 50, memory: 20000, use: 0.9},
	})
	r := world(t, 1, true, jobs, func(c *rmixer.Config) { c.Beta = 100 })
	if r.Start("large") != 0 || r.End("large") != 80 || !r.Record("never").Reason.Never() {
		t.Errorf("large runs from %v to %v, never: %v\n%s", r.Start("large"), r.End("large"), r.Record("never").Reason, strings.Join(r.Log, "\n"))
	}
}
