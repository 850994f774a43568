package bsbf

import (
	"fmt"
	"strings"
	"testing"

	"github.com/norn-scheduler/norn/cluster"
	"github.com/norn-scheduler/norn/cluster/unit"
	"github.com/norn-scheduler/norn/job"
	"github.com/norn-scheduler/norn/sched"
	"github.com/norn-scheduler/norn/sim"
	"github.com/norn-scheduler/norn/sim/simtest"
)

// tells is a job that takes so much of the memory of a GPU and says so in its hints alone.
func tells(key string, at, run float64, gpus int, gib unit.Bytes) simtest.Job {
	return simtest.Job{Key: key, At: at, GPUs: gpus, Run: run, GPUMemory: gib * unit.GiB, Spec: func(j *job.Job) {
		j.Hints = &job.Hints{GPUMemory: gib * unit.GiB}
	}}
}

// run16 runs jobs on GPUs of 16 GiB, where each of two on a GPU takes so many times as long.
func run16(t *testing.T, gpus int, slow float64, jobs ...simtest.Job) *simtest.Run {
	t.Helper()
	c := cluster.New()
	typ, err := c.AddType(cluster.GPUType{Name: "T", Memory: 16 * unit.GiB})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := c.AddNode(cluster.NodeSpec{GPUs: []cluster.GPUs{{Type: typ, Count: gpus}}}); err != nil {
		t.Fatal(err)
	}
	return simtest.Go(t, simtest.Config{
		Cluster: c, Make: func() (sched.Policy, error) { return NewConfig().Policy() }, Shared: true, Sharing: even(slow),
		World: func(c *sim.Config) { c.Sharing = even(slow) },
	}, jobs...)
}

// TestMemoryToldByHints: a job shares with one beside which its memory fits, by what both tell,
// and is thrown off nowhere.
func TestMemoryToldByHints(t *testing.T) {
	run := run16(t, 2, 1, tells("large", 0, 600, 1, 12), tells("small", 0, 610, 1, 5), tells("x", 30, 100, 1, 8))
	if !starts(run, "x", "n0[1x0.5]") || strings.Contains(strings.Join(run.Log, "\n"), " evict ") {
		t.Errorf("x, of 8 GiB, is not beside the small one\n%s", strings.Join(run.Log, "\n"))
	}
}

// TestSaysWhyItDoesNotShare: a job that waits though others could share is told why.
func TestSaysWhyItDoesNotShare(t *testing.T) {
	for _, k := range []struct {
		name string
		slow float64
		jobs []simtest.Job
		want string
	}{
		{"memory", 1, []simtest.Job{tells("a", 0, 600, 1, 12), tells("x", 30, 100, 1, 8)}, "the GPU memory does not hold both"},
		{"slower", 3, []simtest.Job{tells("a", 0, 600, 1, 1), tells("x", 30, 600, 1, 1)}, "the two would end later than one after the other"},
		{"pairs", 1, []simtest.Job{tells("a", 0, 600, 1, 1), tells("b", 30, 600, 1, 1), tells("x", 120, 100, 1, 1)}, "two jobs share the GPU already"},
		{"alone", 1, []simtest.Job{{Key: "a", Run: 600, Demand: elastic()}, tells("x", 30, 100, 1, 1)}, "the job there shares with nobody"},
		{"elastic", 1, []simtest.Job{tells("a", 0, 600, 1, 1), {Key: "x", At: 30, Run: 100, Demand: elastic()}}, "only gangs of a fixed number of whole GPUs share"},
	} {
		run := run16(t, 1, k.slow, k.jobs...)
		at := fmt.Sprint(k.jobs[len(k.jobs)-1].At)
		told := false
		for _, l := range run.Log {
			told = told || strings.HasPrefix(l, at+" wait x:") && strings.Contains(l, k.want)
		}
		if !told {
			t.Errorf("%s: x is not told %q\n%s", k.name, k.want, strings.Join(run.Log, "\n"))
		}
	}
}

// elastic is the demand of a job of one or two GPUs that asks for one.
func elastic() *job.Demand {
	d := job.GPUs(1)
	d.Roles[0].Min, d.Roles[0].Max = 1, 2
	return &d
}
