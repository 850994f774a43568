package engine_test

import (
	"fmt"
	"io"
	"math"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/norn-scheduler/norn/cluster"
	"github.com/norn-scheduler/norn/engine"
	"github.com/norn-scheduler/norn/eventlog"
	"github.com/norn-scheduler/norn/job"
	"github.com/norn-scheduler/norn/perf"
	"github.com/norn-scheduler/norn/policy"
	"github.com/norn-scheduler/norn/sched"
	"github.com/norn-scheduler/norn/sim"
	"github.com/norn-scheduler/norn/sim/simtest"
	"github.com/norn-scheduler/norn/state"
	"github.com/norn-scheduler/norn/trace"
)

// wheel is a world with a fixed set of jobs in a cycle. Every second one of
// them ends its attempt and waits again with another estimate, so short jobs
// come and long ones make room. Leaving takes three seconds.
type wheel struct {
	specs []job.Job
	state *state.State
	tick  int
	gone  []leave
}

type leave struct {
	id job.ID
	at time.Duration
}

func newWheel(n int) *wheel {
	w := &wheel{}
	var in job.Interner
	for i := range n {
		w.specs = append(w.specs, job.Job{ID: job.ID(i), Key: fmt.Sprint("j", i), Demand: in.Get(job.GPUs(1 + i%4)), Tenant: []string{"a", "b"}[i%2], User: "u", Retries: -1})
	}
	return w
}

func (w *wheel) Next(wake time.Duration, out []eventlog.Event) (time.Duration, []eventlog.Event, error) {
	now := time.Duration(w.tick) * time.Second
	if now > wake { // a policy's own moment comes first
		return wake, out, nil
	}
	if w.tick == 0 {
		for i := range w.specs {
			out = append(out, eventlog.Event{Kind: eventlog.Submit, Job: job.ID(i), Spec: &w.specs[i]})
		}
	}
	w.tick++
	left := w.gone[:0]
	for _, g := range w.gone {
		if g.at <= now {
			out = append(out, eventlog.Event{Time: now, Kind: eventlog.Gone, Job: g.id})
		} else {
			left = append(left, g)
		}
	}
	w.gone = left
	if id := job.ID(w.tick * 7 % len(w.specs)); w.tick > 1 && w.state.Record(id).Phase == job.Running {
		out = append(out, eventlog.Event{Time: now, Kind: eventlog.Fail, Job: id, Reason: job.Reason{Code: job.Failed, Job: job.None}})
	}
	// A waiting job turns out to be shorter or longer than estimated.
	if id := job.ID(w.tick * 11 % len(w.specs)); w.tick > 1 && w.state.Record(id).Phase == job.Waiting {
		d, _ := w.Estimate(&w.specs[id])
		out = append(out, eventlog.Event{Time: now, Kind: eventlog.Estimate, Job: id, Estimate: d})
	}
	return now, out, nil
}

func (w *wheel) Start(job.ID, *cluster.Alloc) (time.Duration, float64) { return time.Second, 1 }

func (w *wheel) Stop(id job.ID) (time.Duration, bool) {
	w.gone = append(w.gone, leave{id, w.state.Now + 3*time.Second})
	return w.state.Record(id).ProgressAt(w.state.Now), false
}

func (w *wheel) Reshape(job.ID, *cluster.Alloc, bool) (time.Duration, float64) { return 0, 1 }

// Estimate is another one at each attempt, in a cycle.
func (w *wheel) Estimate(j *job.Job) (time.Duration, bool) {
	return time.Duration(50+(int(j.ID)*131+w.tick*29)%997) * time.Second, true
}

func (w *wheel) Observe(*job.Job, time.Duration) {}

// counter counts events by kind.
type counter struct{ kinds [64]int }

func (c *counter) Event(ev *eventlog.Event, _ *state.State) { c.kinds[ev.Kind]++ }

// TestNoAllocationInTheSteadyState: once warm, the engine allocates no memory
// for starts, ends of attempts, preemptions, drains and reasons. This holds
// under each of the most used policies.
func TestNoAllocationInTheSteadyState(t *testing.T) {
	for _, name := range []string{"fifo", "sjf", "srtf", "srsf", "las", "tiresias"} {
		entry, err := policy.ByName(name)
		if err != nil {
			t.Fatal(err)
		}
		p, err := entry.New().Policy()
		if err != nil {
			t.Fatal(err)
		}
		w, count := newWheel(24), &counter{}
		e := engine.New(engine.Config{
			Cluster: simtest.Nodes(4, 4), Policy: p, PolicyName: name, Estimator: w, Sinks: []engine.Sink{count},
			Costs: &perf.Costs{Base: perf.Cost{Checkpoint: 3 * time.Second}},
		}, w)
		w.state = e.State()
		step := func() {
			if err := e.Step(); err != nil {
				t.Fatal(err)
			}
		}
		for range 5000 {
			step()
		}
		warm := *count
		// The number is that of all 100 steps of a run, not of one.
		n := testing.AllocsPerRun(20, func() {
			for range 100 {
				step()
			}
		})
		// Only notes of policies are allocated: a note, its fields, and the
		// struct that is read.
		notes := float64(count.kinds[eventlog.Memo]-warm.kinds[eventlog.Memo]) / 21
		if n > 3*math.Ceil(notes) {
			t.Errorf("%s: %v allocations and %v notes in 100 instants", name, n, notes)
		}
		preempts := name == "srtf" || name == "srsf"
		if count.kinds[eventlog.Start]-warm.kinds[eventlog.Start] < 200 || preempts && count.kinds[eventlog.Preempt]-warm.kinds[eventlog.Preempt] < 200 {
			t.Errorf("%s: %d starts and %d preemptions while counting", name, count.kinds[eventlog.Start]-warm.kinds[eventlog.Start], count.kinds[eventlog.Preempt]-warm.kinds[eventlog.Preempt])
		}
	}
}

// endless is a source of equal jobs that come every other second.
type endless struct {
	n      int
	demand []*job.Demand
}

func (s *endless) Next(e *trace.Entry) error {
	if s.n == 60_000 {
		return io.EOF
	}
	*e = trace.Entry{
		Job:   job.Job{ID: job.ID(s.n), Key: "job", Submit: time.Duration(s.n) * 2 * time.Second, Demand: s.demand[s.n%len(s.demand)]},
		Truth: trace.Truth{Work: time.Duration(1+s.n*37%19) * time.Second},
	}
	s.n++
	return nil
}

// TestSimulationAllocatesForArrivalsOnly: once warm, a simulation allocates
// memory only for descriptions and records of jobs, in large chunks.
func TestSimulationAllocatesForArrivalsOnly(t *testing.T) {
	var in job.Interner
	src := &endless{demand: []*job.Demand{in.Get(job.GPUs(1)), in.Get(job.GPUs(2)), in.Get(job.GPUs(4))}}
	world := sim.New(sim.Config{Source: src})
	p, err := newSRTF()
	if err != nil {
		t.Fatal(err)
	}
	e := engine.New(engine.Config{Cluster: simtest.Nodes(2, 4), Policy: p, PolicyName: "srtf", Estimator: world.Oracle()}, world)
	if err := world.Attach(e.State()); err != nil {
		t.Fatal(err)
	}
	steps := func(until int) {
		for e.State().Jobs() < until {
			if err := e.Step(); err != nil {
				t.Fatal(err)
			}
		}
	}
	steps(20_000)
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	steps(50_000)
	runtime.ReadMemStats(&after)
	// 30,000 jobs need 59 chunks of 512 descriptions and 8 of 4,096 records. Slices
	// indexed by jobs double now and then, and so do the queues' blocks.
	if n := after.Mallocs - before.Mallocs; n > 300 {
		t.Errorf("%d allocations for 30,000 jobs", n)
	}
	if !strings.HasPrefix(e.State().Record(0).Phase.String(), "done") {
		t.Error("nothing has ended")
	}
}

var _ sched.Policy = (*scripted)(nil)
