package easyscale

import (
	"strings"
	"testing"
	"time"

	"github.com/norn-scheduler/norn/cluster"
	"github.com/norn-scheduler/norn/cluster/label"
	"github.com/norn-scheduler/norn/job"
	"github.com/norn-scheduler/norn/perf"
	"github.com/norn-scheduler/norn/sim"
	"github.com/norn-scheduler/norn/sim/simtest"
	"github.com/norn-scheduler/norn/trace"
)

// sliced is a job of so many workers that take turns on one GPU or more.
func sliced(key string, at, run float64, workers int) simtest.Job {
	d := job.GPUs(workers)
	d.Roles[0].Min, d.Roles[0].Max = 1, int32(workers)
	return simtest.Job{Key: key, At: at, Run: run, Demand: &d, Spec: func(j *job.Job) { j.Resize = job.TimeSliced }}
}

// unlike is nodes of V100s, and of P100s of half the speed.
func unlike(t *testing.T, v100, p100 int) *cluster.Cluster {
	t.Helper()
	c := cluster.New()
	for _, of := range []struct {
		gpus int
		cluster.GPUType
	}{{v100, cluster.GPUType{Name: "V100", Speed: 1}}, {p100, cluster.GPUType{Name: "P100", Speed: 0.5}}} {
		typ, err := c.AddType(of.GPUType)
		if err == nil && of.gpus > 0 {
			_, err = c.AddNode(cluster.NodeSpec{GPUs: []cluster.GPUs{{Type: typ, Count: of.gpus}}})
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	return c
}

// run is a run of the policy with some settings.
func run(t *testing.T, c *cluster.Cluster, x simtest.Config, settings []string, jobs ...simtest.Job) *simtest.Run {
	t.Helper()
	cfg := NewConfig()
	for _, s := range settings {
		name, value, _ := strings.Cut(s, "=")
		if err := cfg.Params().Set(name, value); err != nil {
			t.Fatal(err)
		}
	}
	x.Cluster, x.Make = c, cfg.Policy
	if x.Model == nil {
		x.Model = perf.Analytic{Scaling: 1, Spread: 1}
	}
	return simtest.Go(t, x, jobs...)
}

// has fails unless the log has all lines that are given, and none of those with a ! before them.
func has(t *testing.T, run *simtest.Run, lines ...string) {
	t.Helper()
	log := strings.Join(run.Log, "\n") + "\n"
	for _, l := range lines {
		text, absent := strings.CutPrefix(l, "!")
		if strings.Contains(log, text) == absent {
			t.Errorf("%q in this log: %v\n%s", text, !absent, log)
		}
	}
}

// TestGrowth is the invariants of acceptance 6 of the specification: a job begins on one GPU, has at
// most twice as many after a round and one grant in it. 800 s on 8 GPUs take 60 s each on 1, 2 and 4,
// where the steps are 3 % longer than their parts.
func TestGrowth(t *testing.T) {
	r := run(t, simtest.Nodes(1, 8), simtest.Config{}, nil, sliced("a", 0, 800, 8))
	has(t, r, "0 start a on n0[0]\n", "60 resize a on n0[0-1]\n", "120 resize a on n0[0-3]\n", "180 resize a on n0[0-7]\n")
	want := 180 + 800 - 60*(1+2+4)/8.0/1.03
	if got := r.End("a"); got < want-0.01 || got > want+0.01 {
		t.Errorf("it ends at %v, want %v", got, want)
	}
}

// TestIncrements is acceptance 3 of the specification: from one GPU to two of the same type a job gains
// 1 for each GPU, and goes before one with two GPUs that gains 0.5 with two more. That one does not
// gain anything by the GPU that is left.
func TestIncrements(t *testing.T) {
	r := run(t, simtest.Nodes(1, 5), simtest.Config{}, nil, sliced("b", 0, 4000, 4), sliced("a", 50, 4000, 4))
	has(t, r, "60 start a on n0[", "60 resize b on n0[", "120 resize a on n0[", "!120 resize b", "!180 resize")
}

// TestNewJobsFirst: a job that has nothing goes before those that would grow.
func TestNewJobsFirst(t *testing.T) {
	r := run(t, simtest.Nodes(1, 2), simtest.Config{}, nil, sliced("a", 0, 400, 4), sliced("b", 55, 400, 4))
	has(t, r, "60 start b on n0[1]", "!60 resize")
}

// TestTypes is acceptance 1 of the specification: with a P100 beside its V100 a job of four workers
// does 4 mini-batches where it did 3. Without mixing it does not take the P100. One P100 beside four
// V100s leaves as much unused as it brings, and is not taken.
func TestTypes(t *testing.T) {
	r := run(t, unlike(t, 1, 1), simtest.Config{}, nil, sliced("a", 0, 100, 4))
	has(t, r, "0 start a on n0[0]", "60 resize a on n0[0]+n1[0]")
	want := 60 + (100-60*0.25/1.03)*3*1.03
	if got := r.End("a"); got < want-0.01 || got > want+0.01 {
		t.Errorf("it ends at %v, want %v", got, want)
	}
	r = run(t, unlike(t, 1, 1), simtest.Config{}, []string{"mix=false"}, sliced("a", 0, 100, 4))
	has(t, r, "!resize")
	r = run(t, unlike(t, 4, 1), simtest.Config{}, nil, sliced("a", 0, 1000, 4))
	has(t, r, "120 resize a on n0[0-3]", "!n1[0]")
}

// TestUnusedType: a job leaves GPUs on which no worker has a turn any more. It begins on the only
// GPU that is free, and has two faster ones later that are as fast without the slow one.
func TestUnusedType(t *testing.T) {
	r := run(t, unlike(t, 2, 1), simtest.Config{}, nil, sliced("b", 0, 70, 1), sliced("c", 0, 130, 1), sliced("a", 1, 4000, 4))
	has(t, r, "60 start a on n1[0]\n", "120 resize a on n1[0]+n0[0]\n", "180 resize a on n1[0]+n0[0-1]\n", "240 resize a on n0[0-1]\n", "!300 resize")
}

// TestSlowdown: a job that is not faster with what it was granted gives it back, and does not ask
// for as much again.
func TestSlowdown(t *testing.T) {
	r := run(t, simtest.Nodes(2, 2), simtest.Config{Model: perf.Analytic{Scaling: 1, Spread: 0.3}, Speeds: perf.Analytic{Scaling: 1, Spread: 1}}, nil, sliced("a", 0, 1000, 4))
	has(t, r, "60 resize a on n0[0-1]\n", "120 resize a on n0[0-1]+n1[0-1]", "180 resize a on n0[0-1]\n", "!240 resize", "!300 resize")
}

// TestCosts: another size costs time-sliced.
func TestCosts(t *testing.T) {
	x := simtest.Config{Costs: perf.Costs{Base: perf.Cost{Start: 20 * time.Second, Resize: 30 * time.Second, TimeSliced: 2 * time.Second}}}
	has(t, run(t, simtest.Nodes(1, 2), x, nil, sliced("a", 0, 100, 2)), "0 start a on n0[0] delay=20", "60 resize a on n0[0-1] delay=2")
}

// TestReclaim is of acceptance 6 of the specification: who loses GPUs to their owner loses no step. It
// goes on with what it has elsewhere at once if it was told in time, and else from its last state.
func TestReclaim(t *testing.T) {
	for _, notice := range []time.Duration{0, 30 * time.Second} {
		c := cluster.New()
		typ, err := c.AddType(cluster.GPUType{Name: "gpu"})
		for _, labels := range [][]label.Label{nil, {{Key: "lender", Value: "owner"}}} {
			if err == nil {
				_, err = c.AddNode(cluster.NodeSpec{GPUs: []cluster.GPUs{{Type: typ, Count: 1}}, Labels: labels})
			}
		}
		if err != nil {
			t.Fatal(err)
		}
		r := run(t, c, simtest.Config{World: func(s *sim.Config) {
			s.InPlace = true
			s.Loans = []trace.Loan{{Lender: "owner", Nodes: 1}, {At: 100 * time.Second, Lender: "owner", Notice: notice}}
		}}, nil, sliced("a", 0, 200, 2))
		if notice > 0 {
			has(t, r, "60 resize a on n0[0]+n1[0]", "130 resize a on n0[0]", "!evict")
			want := 130 + (200-70-60*0.5/1.03)*2*1.03
			if got := r.End("a"); got < want-0.01 || got > want+0.01 {
				t.Errorf("it ends at %v, want %v", got, want)
			}
		} else {
			has(t, r, "60 resize a on n0[0]+n1[0]", "100 evict a")
		}
	}
}
