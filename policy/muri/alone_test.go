package muri

import (
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/norn-scheduler/norn/cluster"
	"github.com/norn-scheduler/norn/cluster/unit"
	"github.com/norn-scheduler/norn/engine"
	"github.com/norn-scheduler/norn/eventlog"
	"github.com/norn-scheduler/norn/job"
	"github.com/norn-scheduler/norn/perf"
	"github.com/norn-scheduler/norn/sched"
	"github.com/norn-scheduler/norn/sim"
	"github.com/norn-scheduler/norn/sim/simtest"
	"github.com/norn-scheduler/norn/state"
)

// stages gives a job an iteration of a second, of which it loads for so long and
// computes for the rest.
func stages(load time.Duration) func(*job.Job) {
	return func(j *job.Job) {
		j.Hints = &job.Hints{Iteration: time.Second, Stages: [3]time.Duration{load, time.Second - load}}
	}
}

// loads and computes are stages that go well together.
var loads, computes = stages(900 * time.Millisecond), stages(100 * time.Millisecond)

func both(fs ...func(*job.Job)) func(*job.Job) {
	return func(j *job.Job) {
		for _, f := range fs {
			f(j)
		}
	}
}

func stops(m job.StopMode) func(*job.Job) { return func(j *job.Job) { j.Stop = m } }

// interleaved is a world in which jobs take turns as the policy believes.
func interleaved(c *sim.Config) { c.Sharing = perf.Interleave{Overhead: perf.PublishedOverhead()} }

// sink is told of every event.
type sink func(ev *eventlog.Event, s *state.State)

// Event implements engine.Sink.
func (f sink) Event(ev *eventlog.Event, s *state.State) { f(ev, s) }

// A job that cannot make room again, loses its work, or can go on in one place
// only shares with no other job. Otherwise the jobs that shared with it would
// be out of place as soon as groups are made anew. The rest of the GPU would be
// of no use.
func TestOnlyCheckpointsShare(t *testing.T) {
	for _, stop := range []job.StopMode{job.Pinned, job.Restart, job.Freeze} {
		run := simtest.Go(t, simtest.Config{Cluster: simtest.Nodes(1, 1), Make: eventful, Shared: true, World: interleaved},
			simtest.Job{Key: "a", GPUs: 1, Run: 1000, Spec: loads},
			simtest.Job{Key: "p", GPUs: 1, Run: 6000, Spec: both(computes, stops(stop))},
			simtest.Job{Key: "c", At: 10, GPUs: 1, Run: 1000, Spec: loads})
		// a and c, of the same sort, still take 1.44 times as long as alone, where that pays.
		if run.Preemptions() > 0 || run.End("a") > 1500 || run.End("c") > 1500 || run.End("p") > 7500 {
			t.Errorf("%v: %d preemptions, ends %v, %v, %v", stop, run.Preemptions(), run.End("a"), run.End("p"), run.End("c"))
		}
	}
}

// Those that ask for a part of a GPU, elastic jobs and gangs of several roles are
// not put together where GPUs are short because of others.
func TestOthersRunAlone(t *testing.T) {
	part := job.GPUs(1)
	part.Roles[0].GPU = 250
	elastic := job.GPUs(1)
	elastic.Roles[0].Max = 2
	roles := job.GPUs(1)
	roles.Roles[1] = job.Role{Name: "server", Tasks: 1, CPU: 1000}
	for name, d := range map[string]job.Demand{"part": part, "elastic": elastic, "roles": roles} {
		held := map[job.ID]unit.Milli{}
		run := simtest.Go(t, simtest.Config{Cluster: simtest.Nodes(1, 3), Make: eventful, Shared: true, World: interleaved, Sinks: []engine.Sink{sink(func(ev *eventlog.Event, s *state.State) {
			if ev.Alloc != nil {
				held[ev.Job] = ev.Alloc.Milli()
			}
		})}},
			simtest.Job{Key: "a", Demand: &d, Run: 100, Spec: loads}, simtest.Job{Key: "b", Demand: &d, Run: 101, Spec: computes},
			simtest.Job{Key: "c", GPUs: 1, Run: 102, Spec: loads}, simtest.Job{Key: "d", GPUs: 1, Run: 103, Spec: computes},
			simtest.Job{Key: "e", GPUs: 1, Run: 104, Spec: loads}, simtest.Job{Key: "f", GPUs: 1, Run: 105, Spec: computes})
		for _, key := range []string{"a", "b"} {
			if got := held[run.Record(key).Job.ID]; got != d.Roles[0].GPU {
				t.Errorf("%s: job %s holds %v GPUs", name, key, got)
			}
		}
	}
}

// A job that shares with one that has been assigned its part of a GPU and has
// not begun there is left alone with it. Job b takes the place of x beside a,
// when x has saved its work. Jobs that come meanwhile take nothing from a.
func TestBesideOneThatHasNotBegun(t *testing.T) {
	run := simtest.Go(t, simtest.Config{
		Cluster: simtest.Nodes(1, 1), Shared: true, World: interleaved, Costs: perf.Costs{Base: perf.Cost{Checkpoint: 30 * time.Second}},
		Make: func() (sched.Policy, error) {
			cfg := NewShort()
			cfg.Round, cfg.Most = 0, 2
			return cfg.Policy()
		},
	},
		simtest.Job{Key: "a", GPUs: 1, Run: 100, Spec: loads}, simtest.Job{Key: "x", GPUs: 1, Run: 5000, Spec: computes},
		simtest.Job{Key: "b", At: 10, GPUs: 1, Run: 200, Spec: computes}, simtest.Job{Key: "z", At: 20, GPUs: 1, Run: 9000, Spec: computes})
	if n := run.Record("a").Preemptions; n != 0 || run.Start("b") != 40 {
		t.Errorf("a is preempted %d times, b starts at %v\n%v", n, run.Start("b"), run.Log)
	}
}

// typed is a cluster of one node of so many GPUs of each of some types.
func typed(t *testing.T, counts ...int) *cluster.Cluster {
	c := cluster.New()
	for i, n := range counts {
		typ, err := c.AddType(cluster.GPUType{Name: string(rune('A' + i))})
		if err != nil {
			t.Fatal(err)
		}
		if _, err := c.AddNode(cluster.NodeSpec{GPUs: []cluster.GPUs{{Type: typ, Count: n}}}); err != nil {
			t.Fatal(err)
		}
	}
	return c
}

// GPUs of a type that nobody asks for are no reason for others to wait, and those who
// have enough of theirs are not put together because others have not.
func TestTypes(t *testing.T) {
	job := func(key, types string, run float64, spec func(*job.Job)) simtest.Job {
		d := job.GPUs(1)
		d.Types = types
		return simtest.Job{Key: key, Demand: &d, Run: run, Spec: spec}
	}
	run := simtest.Go(t, simtest.Config{Cluster: typed(t, 2, 3), Make: eventful, Shared: true, World: interleaved},
		job("a1", "A", 1000, loads), job("a2", "A", 1100, computes), job("a3", "A", 1200, loads), job("a4", "A", 1300, computes),
		job("b1", "B", 1000, loads), job("b2", "B", 1000, computes))
	for _, key := range []string{"a1", "a2", "a3", "a4"} {
		if run.Start(key) != 0 {
			t.Errorf("%s starts at %v", key, run.Start(key))
		}
	}
	if run.End("b1") != 1000 || run.End("b2") != 1000 {
		t.Errorf("b1 ends at %v, b2 at %v", run.End("b1"), run.End("b2"))
	}
}

// A job that would not run even if it were the first of all is told what is
// missing; else others are served before it.
func TestReasons(t *testing.T) {
	run := simtest.Go(t, simtest.Config{Cluster: simtest.Nodes(2, 4), Make: eventful, Shared: true},
		simtest.Job{Key: "p", GPUs: 1, Run: 600, Spec: both(computes, stops(job.Pinned))},
		simtest.Job{Key: "big", At: 10, GPUs: 8, Run: 100, Spec: loads},
		simtest.Job{Key: "six", At: 20, GPUs: 6, Run: 900, Spec: loads},
		simtest.Job{Key: "later", At: 30, GPUs: 6, Run: 1000, Spec: both(loads, stops(job.Restart))})
	for _, want := range []string{"10 wait big: needs 8 GPUs; 7 free", "30 wait later: jobs of higher priority take the GPUs"} {
		if !slices.Contains(run.Log, want) {
			t.Errorf("no %q in %v", want, run.Log)
		}
	}
}

// Where there are not the cores for a group its first job runs alone, and stays where
// it is; where no GPU has the memory for two, there are no groups.
func TestShort(t *testing.T) {
	cores, memory := job.GPUs(1), job.GPUs(1)
	cores.Roles[0].CPU = 2 * unit.One
	memory.Roles[0].GPUMemory = 12 * unit.GiB
	for name, d := range map[string]*job.Demand{"cores": &cores, "memory": &memory} {
		c := cluster.New()
		typ, _ := c.AddType(cluster.GPUType{Name: "A", Memory: 16 * unit.GiB})
		for range 2 {
			if _, err := c.AddNode(cluster.NodeSpec{GPUs: []cluster.GPUs{{Type: typ, Count: 1}}, CPU: 3 * unit.One}); err != nil {
				t.Fatal(err)
			}
		}
		run := simtest.Go(t, simtest.Config{Cluster: c, Shared: true, World: interleaved, Make: eventful},
			simtest.Job{Key: "a", Demand: d, Run: 1000, Spec: loads}, simtest.Job{Key: "b", Demand: d, Run: 2000, Spec: computes},
			simtest.Job{Key: "c", Demand: d, Run: 900, Spec: loads}, simtest.Job{Key: "d", Demand: d, Run: 2000, Spec: computes},
			simtest.Job{Key: "e", At: 100, Demand: d, Run: 10, Spec: computes})
		moved := slices.ContainsFunc(run.Log, func(line string) bool { return strings.Contains(line, " move ") })
		if moved || run.Preemptions() != 1 || run.End("e") != 110 {
			t.Errorf("%s: %d preemptions, e ends at %v: %v", name, run.Preemptions(), run.End("e"), run.Log)
		}
	}
}

// A job that freezes goes on only where it ran, and so is left alone there.
func TestFreeze(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var jobs []simtest.Job
		for i := range rapid.IntRange(2, 12).Draw(t, "jobs") {
			stop := rapid.SampledFrom([]job.StopMode{job.Checkpoint, job.Freeze, job.Freeze}).Draw(t, "stop")
			jobs = append(jobs, simtest.Job{
				Key: fmt.Sprint(i), At: float64(7 * i), GPUs: rapid.SampledFrom([]int{1, 1, 2, 4}).Draw(t, "GPUs"),
				Run: float64(rapid.IntRange(5, 200).Draw(t, "run")), Spec: both(rapid.SampledFrom([]func(*job.Job){loads, computes}).Draw(t, "stages"), stops(stop)),
			})
		}
		run, err := simtest.Try(simtest.Config{Cluster: simtest.Nodes(2, 2), Make: eventful, Shared: true, World: interleaved}, jobs...)
		for _, j := range jobs {
			if r := run.Record(j.Key); err != nil || r.Job.Stop == job.Freeze && (r.Preemptions > 0 || math.Abs(run.End(j.Key)-run.Start(j.Key)-j.Run) > 1e-6) {
				t.Fatalf("job %s: %d preemptions, runs for %v: %v", j.Key, r.Preemptions, run.End(j.Key)-run.Start(j.Key), err)
			}
		}
	})
}
