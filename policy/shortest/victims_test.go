package shortest_test

import (
	"testing"
	"time"

	"github.com/norn-scheduler/norn/cluster"
	"github.com/norn-scheduler/norn/cluster/unit"
	"github.com/norn-scheduler/norn/job"
	"github.com/norn-scheduler/norn/policy/kit/preempt"
	"github.com/norn-scheduler/norn/policy/las"
	"github.com/norn-scheduler/norn/policy/shortest"
	"github.com/norn-scheduler/norn/sched"
	"github.com/norn-scheduler/norn/sim"
	"github.com/norn-scheduler/norn/sim/simtest"
)

// A job that finds GPUs, but not the cores beside them, takes those of a job that comes
// after it in the order, as it would take its GPUs. The job that has neither is left alone.
func TestRoomForCores(t *testing.T) {
	for name, make := range map[string]func() (sched.Policy, error){"srtf": shortest.NewSRTF().Policy, "srsf": shortest.NewSRSF().Policy} {
		c := cluster.New()
		typ, err := c.AddType(cluster.GPUType{Name: "gpu"})
		for range 2 {
			if _, e := c.AddNode(cluster.NodeSpec{GPUs: []cluster.GPUs{{Type: typ, Count: 8}}, CPU: 8000}); err != nil || e != nil {
				t.Fatal(err, e)
			}
		}
		run := simtest.Go(t, simtest.Config{Cluster: c, Make: make},
			simtest.Job{Key: "longest", Run: 2000, Demand: cores(8)},
			simtest.Job{Key: "long", Run: 1000, Demand: cores(8)},
			simtest.Job{Key: "short", At: 10, Run: 50, Demand: cores(8)},
			simtest.Job{Key: "none", At: 20, Run: 3000, Demand: cores(8)})
		starts(t, run, map[string]float64{"longest": 0, "long": 0, "short": 10})
		if run.End("short") != 60 || run.End("longest") != 2050 || run.End("long") != 1000 || run.Preemptions() != 1 {
			t.Errorf("%s: short ends at %v, long at %v, longest at %v, %d preemptions; want 60, 1000, 2050 and 1\n%v",
				name, run.End("short"), run.End("long"), run.End("longest"), run.Preemptions(), run.Log)
		}
	}
}

// cores is the demand of a job for a GPU and so many cores.
func cores(n int) *job.Demand {
	d := job.Demand{}
	d.Roles[0] = job.Role{Tasks: 1, GPU: unit.One, CPU: unit.Milli(1000 * n)}
	return &d
}

// A job is chosen at 20 s since another was stopped, whose cores a third needs. It goes by its
// place of the next decision: at 30 s, k has less to do than h.
func TestHeirGoesByItsPresentPlace(t *testing.T) {
	c := cluster.New()
	typ, err := c.AddType(cluster.GPUType{Name: "gpu"})
	if _, e := c.AddNode(cluster.NodeSpec{GPUs: []cluster.GPUs{{Type: typ, Count: 3}}, CPU: 8000}); err != nil || e != nil {
		t.Fatal(err, e)
	}
	run := simtest.Go(t, simtest.Config{Cluster: c, Make: shortest.NewSRTF().Policy},
		simtest.Job{Key: "cores", Run: 100, Demand: cores(8)},
		simtest.Job{Key: "x", GPUs: 1, Run: 60},
		simtest.Job{Key: "y", GPUs: 1, Run: 20},
		simtest.Job{Key: "h", At: 10, GPUs: 1, Run: 195},
		simtest.Job{Key: "s", At: 20, Run: 10, Demand: cores(8)},
		simtest.Job{Key: "k", At: 30, GPUs: 1, Run: 190})
	starts(t, run, map[string]float64{"s": 20, "k": 30, "h": 60})
}

// A job that falls back to its last save is stopped when that costs least: at once when it
// has just saved its state, after its next save when that is near. Before it has saved
// anything where it runs, it is left alone. Snapshots are made every 100 s.
func TestVictims(t *testing.T) {
	srtf := func(v preempt.Victims) func() (sched.Policy, error) {
		c := shortest.NewSRTF()
		c.Victims = v
		return c.Policy
	}
	eager := func(v preempt.Victims) func() (sched.Policy, error) { // a job that comes later has less service
		c := las.NewConfig()
		c.Victims, c.Round = v, 0
		return c.Policy
	}
	for _, x := range []struct {
		name  string
		make  func() (sched.Policy, error)
		at    float64
		start float64
		lost  float64 // GPU-seconds
	}{
		{"order, saved 30 s ago", srtf(preempt.AtOnce), 130, 130, 30},
		{"order, saved 60 s ago", srtf(preempt.AtOnce), 160, 160, 60},
		{"order, nothing saved", srtf(preempt.AtOnce), 50, 100, 0},
		{"checkpoint, saved 30 s ago", srtf(preempt.AtCheckpoint), 130, 130, 30},
		{"checkpoint, saved 60 s ago", srtf(preempt.AtCheckpoint), 160, 200, 0},
		{"checkpoint, nothing saved", srtf(preempt.AtCheckpoint), 50, 100, 0},
		{"las, saved 60 s ago", eager(preempt.AtOnce), 160, 160, 60},
		{"las at checkpoints, saved 60 s ago", eager(preempt.AtCheckpoint), 160, 200, 0},
	} {
		run := simtest.Go(t, simtest.Config{Cluster: simtest.Nodes(1, 1), Make: x.make, World: func(c *sim.Config) { c.Snapshot = 100 * time.Second }},
			simtest.Job{Key: "long", GPUs: 1, Run: 1000, Spec: func(j *job.Job) { j.Stop = job.LastSave }},
			simtest.Job{Key: "short", At: x.at, GPUs: 1, Run: 50})
		if got, lost := run.Start("short"), run.Record("long").Lost; got != x.start || lost != x.lost {
			t.Errorf("%s: starts at %v and costs %v GPU-seconds, want %v and %v\n%v", x.name, got, lost, x.start, x.lost, run.Log)
		}
	}
}
