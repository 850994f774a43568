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

// on is a configuration on nodes with so many GPUs each, the first one with so many cores, where nobody disturbs
// anybody.
func on(t *testing.T, oneBox bool, cores int, gpus ...int) simtest.Config {
	t.Helper()
	c := cluster.New()
	typ, err := c.AddType(cluster.GPUType{Name: "T"})
	if err != nil {
		t.Fatal(err)
	}
	for i, n := range gpus {
		spec := cluster.NodeSpec{GPUs: []cluster.GPUs{{Type: typ, Count: n}}}
		if i == 0 && cores > 0 {
			spec.CPU = unit.Milli(cores) * unit.One
		}
		if _, err := c.AddNode(spec); err != nil {
			t.Fatal(err)
		}
	}
	cfg := NewConfig()
	cfg.OneBox = oneBox
	return simtest.Config{
		Cluster: c, Make: func() (sched.Policy, error) { return cfg.Policy() }, Shared: true, Sharing: even(1), World: func(c *sim.Config) { c.Sharing = even(1) },
	}
}

// starts tells whether the log has a job start somewhere.
func starts(r *simtest.Run, job, where string) bool {
	for _, line := range r.Log {
		if strings.Contains(line, " start "+job+" on "+where) {
			return true
		}
	}
	return false
}

// Section 3: of nodes on which a job would share, the one with the most free GPUs is looked
// at first; over several nodes, those on which the fewest jobs run.
func TestNodesInOrder(t *testing.T) {
	// Node 0 has one free GPU of 3, node 1 two of 4.
	jobs := []simtest.Job{
		{Key: "a", GPUs: 1, Run: 900, At: 1}, {Key: "b", GPUs: 1, Run: 900, At: 2}, {Key: "c", GPUs: 1, Run: 900, At: 3}, {Key: "d", GPUs: 1, Run: 900, At: 4},
		{Key: "x", GPUs: 3, Run: 10, At: 100},
	}
	jobs[2].GPUs = 2 // a and b on node 0, c on node 1, d on node 0: then d ends
	jobs[3].Run = 50
	run := simtest.Go(t, on(t, true, 0, 3, 4), jobs...)
	if !starts(run, "x", "n1[0") {
		t.Errorf("with two GPUs free on node 1 and one on node 0:\n%s", strings.Join(run.Log, "\n"))
	}
	// One GPU of 3 is free on each node; two jobs run on node 0, one on each of the others.
	run = simtest.Go(t, on(t, false, 0, 3, 3, 3),
		simtest.Job{Key: "a", GPUs: 1, Run: 900, At: 1}, simtest.Job{Key: "b", GPUs: 1, Run: 900, At: 2}, simtest.Job{Key: "c", GPUs: 2, Run: 900, At: 3}, simtest.Job{Key: "d", GPUs: 2, Run: 900, At: 4},
		simtest.Job{Key: "x", GPUs: 2, Run: 10, At: 100})
	if !starts(run, "x", "n1[2]+n2[2]") {
		t.Errorf("over nodes:\n%s", strings.Join(run.Log, "\n"))
	}
}

// A node that has cores for some of the tasks takes those, and others the rest.
func TestCoresBeside(t *testing.T) {
	var half, pair job.Demand
	half.Roles[0] = job.Role{Tasks: 1, GPU: unit.One / 2, CPU: 2 * unit.One}
	pair.Roles[0] = job.Role{Tasks: 2, GPU: unit.One, CPU: unit.One}
	run := simtest.Go(t, on(t, true, 1, 2, 2), simtest.Job{Key: "half", Demand: &half, Run: 900}, simtest.Job{Key: "x", Demand: &pair, Run: 10, At: 1})
	if run.Start("x") != 1 || !starts(run, "x", "n0[0]+n1[1]") {
		t.Errorf("it starts at %v\n%s", run.Start("x"), strings.Join(run.Log, "\n"))
	}
}

// A job that must not be stopped is not stopped by sharing: it takes part, and has its GPU
// for itself again when it is alone.
func TestMustNotBeStopped(t *testing.T) {
	pinned := func(j *job.Job) { j.Stop = job.Pinned }
	cfg := on(t, true, 0, 1)
	run := simtest.Go(t, cfg, simtest.Job{Key: "a", GPUs: 1, Run: 1000, Spec: pinned}, simtest.Job{Key: "b", GPUs: 1, Run: 100, At: 1, Spec: pinned},
		simtest.Job{Key: "c", GPUs: 1, Run: 100, At: 200, Spec: pinned})
	if run.Start("b") != 1 || run.Start("c") != 200 || run.Preemptions() != 0 {
		t.Errorf("b starts at %v, c at %v\n%s", run.Start("b"), run.Start("c"), strings.Join(run.Log, "\n"))
	}
}

// Of jobs of which no pair was measured, each is slower by what their uses of a GPU exceed
// it, for the part of its time in which it uses it; who tells none uses all. Two of those
// are twice as slow, and share where one has less than half as much to do as the other.
func TestNothingTold(t *testing.T) {
	for _, c := range []struct{ a, b, slower float64 }{{0.7, 0.6, 1.21}, {0.3, 0.6, 1}, {1, 0.9, 1.9}, {0, 0, 2}} {
		use := func(u float64) *job.Job { return &job.Job{Demand: &job.Demand{}, Hints: &job.Hints{GPUUse: u}} }
		if got := 1 / (perf.Profiled{}).Beside(use(c.a), []*job.Job{use(c.b)}, cluster.GPUType{}); math.Abs(got-c.slower) > 1e-9 {
			t.Errorf("uses of %v and %v: %v times slower, want %v", c.a, c.b, got, c.slower)
		}
	}
	for length, start := range map[float64]float64{4000: 10, 6000: 10_000} {
		cfg := on(t, true, 0, 1)
		cfg.Sharing, cfg.World = perf.Profiled{}, func(c *sim.Config) { c.Sharing = perf.Demands{} }
		run := simtest.Go(t, cfg, simtest.Job{Key: "b", GPUs: 1, Run: 10_000}, simtest.Job{Key: "a", GPUs: 1, Run: length, At: 10})
		if run.Start("a") != start {
			t.Errorf("a job of %v s starts at %v, want %v", length, run.Start("a"), start)
		}
	}
}
