package synergy

import (
	"slices"
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

// Optimistic profiling, from the stay to the ration. The first job of a model is measured
// for five minutes with all cores and all memory of its node, and makes no progress. It
// then has the 12 cores with which it is fastest. Of the second one all is known.
func TestMeasuredFirst(t *testing.T) {
	c := cluster.New()
	typ, _ := c.AddType(cluster.GPUType{Name: "V100"})
	if _, err := c.AddNode(cluster.NodeSpec{GPUs: []cluster.GPUs{{Type: typ, Count: 8}}, CPU: 24 * unit.One, Memory: 500 * unit.GiB}); err != nil {
		t.Fatal(err)
	}
	cfg := NewConfig()
	truth := &perf.Grids{Models: perf.MeasuredGrids()}
	run := simtest.Go(t, simtest.Config{
		Cluster: c, Make: func() (sched.Policy, error) { return cfg.Policy() }, Model: truth, Speeds: truth, Believe: cfg.Believer,
		World: func(c *sim.Config) { c.Meter = meter{truth} },
	}, simtest.Job{Key: "a", Model: "resnet18", GPUs: 1, Run: 2400}, simtest.Job{Key: "b", Model: "ResNet18", At: 400, GPUs: 1, Run: 600})
	log := strings.Join(run.Log, "\n")
	for _, want := range []string{"300 measured a profile", "cores=[24 12 6 5 4 3 2 1]"} {
		if !strings.Contains(log, want) {
			t.Errorf("no %q in\n%s", want, log)
		}
	}
	if end := run.End("a"); end != 300+2400/2.4 {
		t.Errorf("it ends at %v\n%s", end, log)
	}
	if n := strings.Count(log, " measured a profile") + strings.Count(log, " measured b "); n != 1 || run.Start("b") != 400 || run.End("b") != 650 {
		t.Errorf("measured %d times, the second starts at %v and ends at %v\n%s", n, run.Start("b"), run.End("b"), log)
	}
}

// reading is of a stay of a job on one GPU.
func reading(cores, seconds []float64) *perf.Reading {
	m := &perf.Reading{When: perf.InProfile, Setup: perf.Setup{Tasks: 1}}
	m.Add(Cores, cores...)
	m.Add(Iteration, seconds...)
	m.Add(Iterations, 100)
	m.Add(Dataset, 100*float64(unit.GiB))
	m.Add(Disk, 0.05*float64(unit.GiB))
	return m
}

// Beliefs: of an unknown model that its share is enough, of a known one what was measured
// of it, with the most cores if it was measured twice. A model that was still faster with
// the most cores is worth another measurement with more. Readings that make no sense
// teach nothing.
func TestBeliever(t *testing.T) {
	b := NewConfig().Believer(perf.Prior{Speeds: &perf.Grids{Models: perf.MeasuredGrids()}}).(*believer)
	j := &job.Job{Model: "resnet18"}
	if got := b.Grid(j).Best(); got != perf.FairShare() || !b.Unmeasured(j, unit.One) || b.Grounds(j) != nil {
		t.Errorf("of an unknown model %v is believed", got)
	}
	if anon := (&job.Job{}); b.Grid(anon) != nil || b.Unmeasured(anon, unit.One) {
		t.Error("of a job without a model something can be learnt")
	}
	b.Observe(j, reading([]float64{4, 2, 1}, []float64{10, 20, 40}))
	if got := b.Grid(j).Best(); got.CPU != 4*unit.One || b.Unmeasured(j, 4*unit.One) || !b.Unmeasured(j, 5*unit.One) {
		t.Errorf("it is believed to want %v", got)
	}
	b.Observe(j, reading([]float64{24, 12, 6, 5, 4}, []float64{5, 5, 5, 8, 10}))
	if got := b.Grid(j).Best(); got.CPU != 6*unit.One || got.Memory != 125*unit.GiB || b.Unmeasured(j, 48*unit.One) {
		t.Errorf("it is believed to want %v", got)
	}
	b.Observe(j, reading([]float64{2, 1}, []float64{20, 40})) // with fewer
	for _, bad := range []*perf.Reading{reading([]float64{30}, []float64{0}), reading([]float64{30, 20}, []float64{1}), {When: perf.InProfile}, {When: perf.InRun}} {
		b.Observe(j, bad)
	}
	if got := b.Grid(j).Best(); got.CPU != 6*unit.One {
		t.Errorf("it is then believed to want %v", got)
	}
	want := []string{"it is believed to be fastest with 6 cores and 125GiB of memory for each GPU, from a job of its model that was measured on 1 GPU with 4, 5, 6, 12, 24 cores"}
	if got := b.Grounds(j); !slices.Equal(got, want) {
		t.Errorf("%q", got)
	}
	b.Observe(j, func() *perf.Reading {
		m := reading([]float64{24}, []float64{5})
		m.Add(Dataset, 1000*float64(unit.GiB))
		return m
	}())
	if got := b.Grounds(j); !strings.HasSuffix(got[0], "; it then reads 51.20MiB a second from the disk") {
		t.Errorf("%q", got)
	}
}
