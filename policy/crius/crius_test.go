package crius_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/norn-scheduler/norn/cluster"
	"github.com/norn-scheduler/norn/engine"
	"github.com/norn-scheduler/norn/eventlog"
	"github.com/norn-scheduler/norn/job"
	"github.com/norn-scheduler/norn/perf"
	"github.com/norn-scheduler/norn/policy/crius"
	"github.com/norn-scheduler/norn/sched"
	"github.com/norn-scheduler/norn/sim/simtest"
	"github.com/norn-scheduler/norn/state"
)

// nodes is a cluster of nodes with so many GPUs of a type each.
func nodes(t *testing.T, of ...cluster.GPUs) *cluster.Cluster {
	t.Helper()
	return clusterOf(t, of)
}

func clusterOf(t interface{ Fatal(...any) }, of []cluster.GPUs) *cluster.Cluster {
	c := cluster.New()
	for _, name := range []string{"A40", "A10"} {
		if _, err := c.AddType(cluster.GPUType{Name: name}); err != nil {
			t.Fatal(err)
		}
	}
	for _, g := range of {
		if _, err := c.AddNode(cluster.NodeSpec{GPUs: []cluster.GPUs{g}}); err != nil {
			t.Fatal(err)
		}
	}
	return c
}

const a40, a10 = cluster.TypeID(0), cluster.TypeID(1)

// large is a job that runs on 1 to 16 GPUs of any type, for which it has to train so many iterations
// of one sample.
func large(key string, at float64, model string, gpus int, types string, iterations, rate float64) simtest.Job {
	d := job.GPUs(gpus)
	d.Types = types
	d.Roles[0].Min, d.Roles[0].Max = 1, 16
	return simtest.Job{Key: key, At: at, Run: iterations / rate, Demand: &d, Model: model, Spec: func(j *job.Job) { j.Batch = 1 }}
}

// plans are the throughputs of acceptance 1, on one node.
func plans() *perf.Plans {
	p := &perf.Plans{}
	for model, types := range map[string]map[string][]float64{
		"P": {"a40": {10, 18, 32}, "a10": {6, 11, 19}},
		"Q": {"a40": {8, 15, 25}, "a10": {5, 9, 15}},
	} {
		for typ, rates := range types {
			for i, rate := range rates {
				p.Add(perf.Trained{Model: model, Batch: 1}, perf.Cell{Type: typ, Nodes: 1, Each: 1 << i}, 1/rate)
			}
		}
	}
	return p
}

func world(c *cluster.Cluster, cfg *crius.Config) simtest.Config {
	return simtest.Config{Cluster: c, Model: plans(), Speeds: plans(), Seed: 1, Make: func() (sched.Policy, error) { return cfg.Policy() }}
}

// at are the lines of a log that begin with a moment and tell of starts, stops and changes of places.
func at(run *simtest.Run, moment string) (out []string) {
	for _, line := range run.Log {
		if strings.HasPrefix(line, moment+" ") && (strings.Contains(line, " on n") || strings.Contains(line, "preempt")) {
			out = append(out, strings.TrimPrefix(line, moment+" "))
		}
	}
	return out
}

// TestFit is acceptance 1 and 2: B, which wants two A40s, finds none. Of all ways to make room, that D
// shrinks to two A10s and B takes the other two gains most, 3 samples in a second. When A has ended, D
// moves to two A40s and has twice as many of them in the next step, and then B has all A10s.
func TestFit(t *testing.T) {
	c := nodes(t, cluster.GPUs{Type: a40, Count: 4}, cluster.GPUs{Type: a10, Count: 4})
	run := simtest.Go(t, world(c, crius.NewConfig()),
		large("A", 0, "P", 4, "A40|A10", 32*500, 32), large("D", 0, "Q", 4, "A10|A40", 15*3000, 15), large("B", 10, "Q", 2, "A40|A10", 15*3000, 15))
	for _, want := range []struct {
		moment string
		lines  []string
	}{
		{"0", []string{"start A on n0[0-3]", "start D on n1[0-3]"}},
		{"300", []string{"resize D on n1[0-1]", "start B on n1[2-3]"}},
		{"600", []string{"resize D on n0[0-3]", "resize B on n1[0-3]"}},
	} {
		if have := at(run, want.moment); !slices.Equal(have, want.lines) {
			t.Errorf("at %s: %q, not %q", want.moment, have, want.lines)
		}
	}
}

// TestAblations: without other sizes B waits for A, and without other types it shrinks with A.
func TestAblations(t *testing.T) {
	for _, test := range []struct {
		set  string
		want []string // at 300
	}{
		{"scale=false", nil},
		{"types=false", []string{"resize A on n0[0-1]", "start B on n0[2-3]"}},
		{"depth=0", nil},
		{"depth=1", nil},
	} {
		cfg := crius.NewConfig()
		key, value, _ := strings.Cut(test.set, "=")
		if err := cfg.Params().Set(key, value); err != nil {
			t.Fatal(err)
		}
		c := nodes(t, cluster.GPUs{Type: a40, Count: 4}, cluster.GPUs{Type: a10, Count: 4})
		run := simtest.Go(t, world(c, cfg),
			large("A", 0, "P", 4, "A40|A10", 32*500, 32), large("D", 0, "Q", 4, "A10|A40", 15*3000, 15), large("B", 10, "Q", 2, "A40|A10", 15*3000, 15))
		if have := at(run, "300"); !slices.Equal(have, test.want) {
			t.Errorf("%s: %q, not %q", test.set, have, test.want)
		}
	}
}

// TestRestartDebt is acceptance 3: who changes on two GPUs loses 20 s of a round of 300 s, on eight 40 s,
// and with 600 s for each change two rounds without progress.
func TestRestartDebt(t *testing.T) {
	for _, test := range []struct {
		gpus int
		cost time.Duration
		end  float64
	}{{2, 20 * time.Second, 920}, {4, 40 * time.Second, 940}, {4, 600 * time.Second, 1500}} {
		c := nodes(t, cluster.GPUs{Type: a40, Count: 4}, cluster.GPUs{Type: a10, Count: 4})
		cfg := world(c, crius.NewConfig())
		cfg.Costs.Tiers = []perf.Tier{{GPUs: 1, Cost: perf.Cost{Migrate: test.cost, Resize: test.cost}}}
		// X holds all A40s until 290. At 300 Y moves there from the A10s, where it is half as fast.
		p := &perf.Plans{}
		for i := range 3 {
			for typ, rate := range map[string]float64{"a40": 2, "a10": 1} {
				p.Add(perf.Trained{Model: "Y", Batch: 1}, perf.Cell{Type: typ, Nodes: 1, Each: 1 << i}, 1/rate)
			}
		}
		cfg.Model, cfg.Speeds = p, p
		y := large("Y", 0, "Y", test.gpus, "A10|A40", 1500, 1) // 300 in the first round
		x := large("X", 0, "Y", 4, "A40", 2*290, 2)
		x.Demand.Roles[0].Min = 4
		x.Demand.Roles[0].Max = 4
		run := simtest.Go(t, cfg, y, x)
		if end := run.End("Y"); end != test.end {
			t.Errorf("%d GPUs, %v: Y ends at %v, not at %v:\n%s", test.gpus, test.cost, end, test.end, strings.Join(run.Log, "\n"))
		}
	}
}

// rigid is a job of one size.
func rigid(key string, at float64, gpus int, run float64) simtest.Job {
	d := job.GPUs(gpus)
	d.Types = "A40"
	return simtest.Job{Key: key, At: at, Run: run, Demand: &d, Model: "none"}
}

// TestOvertakes is acceptance 5: X, which wants 16 GPUs, is overtaken by Y and Z. When W has ended, X has
// room with what Y has, which is suspended and keeps its progress; Z, behind Y, does not get it. Without
// overtaking, Y and Z wait until X has run.
func TestOvertakes(t *testing.T) {
	build := func() *cluster.Cluster {
		return nodes(t, cluster.GPUs{Type: a40, Count: 4}, cluster.GPUs{Type: a40, Count: 4}, cluster.GPUs{Type: a40, Count: 4}, cluster.GPUs{Type: a40, Count: 4})
	}
	jobs := []simtest.Job{rigid("W", 0, 12, 890), rigid("X", 10, 16, 300), rigid("Y", 20, 2, 1000), rigid("Z", 30, 4, 300)}
	run := simtest.Go(t, world(build(), crius.NewConfig()), jobs...)
	if have, want := at(run, "300"), []string{"start Y on n3[0-1]"}; !slices.Equal(have, want) {
		t.Errorf("at 300: %q, not %q", have, want)
	}
	if run.Start("X") != 900 || run.Start("Z") != 1200 || run.End("Y") != 1200+1000-600 {
		t.Errorf("X starts at %v, Z at %v, Y ends at %v", run.Start("X"), run.Start("Z"), run.End("Y"))
	}
	cfg := crius.NewConfig()
	cfg.Overtake = false
	run = simtest.Go(t, world(build(), cfg), jobs...)
	if run.Start("X") != 900 || run.Start("Y") != 1200 || run.Start("Z") != 1200 {
		t.Errorf("without overtaking: X starts at %v, Y at %v, Z at %v", run.Start("X"), run.Start("Y"), run.Start("Z"))
	}
}

// TestMoves: of three nodes two have two free GPUs each, so that a job of four finds room when one of the two
// jobs joins the other. Without moves it is spread.
func TestMoves(t *testing.T) {
	for moves, want := range map[int][]string{
		256: {"move a on n1[2-3]", "start d on n0[0-3]"},
		0:   {"start d on n0[2-3]+n1[2-3]"},
	} {
		cfg := crius.NewConfig()
		cfg.Moves = moves
		c := nodes(t, cluster.GPUs{Type: a40, Count: 4}, cluster.GPUs{Type: a40, Count: 4}, cluster.GPUs{Type: a40, Count: 4})
		run := simtest.Go(t, world(c, cfg), rigid("a", 0, 2, 2000), rigid("b", 0, 2, 2000), rigid("c", 0, 4, 2000), rigid("d", 10, 4, 500))
		if have := at(run, "300"); !slices.Equal(have, want) {
			t.Errorf("%d moves: %q, not %q", moves, have, want)
		}
	}
}

// TestDeadlines: B, which is due, does not shrink below what it needs, and A does, which is not.
func TestDeadlines(t *testing.T) {
	cfg := crius.NewConfig()
	for _, counts := range []bool{false, true} {
		cfg.Deadlines = counts
		c := nodes(t, cluster.GPUs{Type: a40, Count: 4}, cluster.GPUs{Type: a40, Count: 4})
		b := large("B", 0, "Q", 4, "A40", 25*1500, 25)
		b.Spec = func(j *job.Job) { j.Batch, j.Deadline = 1, 2000*time.Second }
		run := simtest.Go(t, world(c, cfg), large("A", 0, "P", 4, "A40", 32*1500, 32), b, large("C", 10, "P", 4, "A40", 32*2000, 32))
		if met := run.End("B") <= 2000; met != counts {
			t.Errorf("deadlines=%v: B ends at %v\n%s", counts, run.End("B"), strings.Join(run.Log, "\n"))
		}
	}
}

// TestCells is acceptance 6, on random worlds: whoever runs has a power of two of GPUs of one type, equally
// many on each node, and can run there.
func TestCells(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var of []cluster.GPUs
		for range rapid.IntRange(1, 4).Draw(t, "A40s") {
			of = append(of, cluster.GPUs{Type: a40, Count: 4})
		}
		for range rapid.IntRange(0, 4).Draw(t, "A10s") {
			of = append(of, cluster.GPUs{Type: a10, Count: 2})
		}
		var jobs []simtest.Job
		models := perf.LargeModels()
		now := 0
		for i := range rapid.IntRange(1, 12).Draw(t, "jobs") {
			now += rapid.IntRange(0, 400).Draw(t, "gap")
			model := models[rapid.IntRange(0, len(models)-1).Draw(t, "model")].Name
			j := large(fmt.Sprint("j", i), float64(now), model, 1<<rapid.IntRange(0, 4).Draw(t, "gpus"), rapid.SampledFrom([]string{"A40|A10", "A10|A40", "A40", ""}).Draw(t, "types"), float64(rapid.IntRange(1, 3000).Draw(t, "run")), 1)
			j.Spec = func(j *job.Job) { j.Batch = 256 }
			jobs = append(jobs, j)
		}
		p := &perf.Plans{}
		c := clusterOf(t, of)
		cfg := world(c, crius.NewConfig())
		cfg.Model, cfg.Speeds, cfg.Unchecked = p, p, true
		cfg.Sinks = []engine.Sink{cells{t, p}}
		if _, err := simtest.Try(cfg, jobs...); err != nil {
			t.Fatal(err)
		}
	})
}

// cells checks what jobs run on.
type cells struct {
	t     *rapid.T
	plans *perf.Plans
}

// Event implements engine.Sink.
func (s cells) Event(ev *eventlog.Event, st *state.State) {
	if ev.Alloc == nil || ev.Kind != eventlog.Start && ev.Kind != eventlog.Resize && ev.Kind != eventlog.Move {
		return
	}
	r := st.Record(ev.Job)
	a, first := ev.Alloc, ev.Alloc.Pieces[0].Tasks
	for _, p := range a.Pieces {
		if p.Tasks != first {
			s.t.Errorf("%s has %d and %d GPUs of two nodes", r.Job.Key, first, p.Tasks)
		}
	}
	if n := a.Tasks(0); n&(n-1) != 0 {
		s.t.Errorf("%s has %d GPUs", r.Job.Key, n)
	}
	typ := st.Cluster.TypeOf(a.Shares[0].Device)
	for i := range a.Shares {
		if st.Cluster.TypeOf(a.Shares[i].Device) != typ {
			s.t.Errorf("%s has GPUs of two types", r.Job.Key)
		}
	}
	if s.plans.Speed(r.Job, st.Cluster, a) <= 0 {
		s.t.Errorf("%s cannot run on %v", r.Job.Key, a)
	}
}
