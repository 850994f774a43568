package engine_test

import (
	"errors"
	"io"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/norn-scheduler/norn/cluster"
	"github.com/norn-scheduler/norn/engine"
	"github.com/norn-scheduler/norn/eventlog"
	"github.com/norn-scheduler/norn/internal/simtest"
	"github.com/norn-scheduler/norn/job"
	"github.com/norn-scheduler/norn/policy"
	"github.com/norn-scheduler/norn/sched"
	"github.com/norn-scheduler/norn/sim"
	"github.com/norn-scheduler/norn/state"
	"github.com/norn-scheduler/norn/trace"
)

// TestResume cuts random histories at a random instant, goes on from what a new
// log would begin with, and does so under every policy: every job that could run
// has ended in the end, with the work that it had left.
func TestResume(t *testing.T) {
	table := policy.Table()
	met := map[job.Phase]int{}
	for _, e := range table {
		t.Run(e.Name, func(t *testing.T) {
			rapid.Check(t, func(t *rapid.T) { resumes(t, e, rapid.SampledFrom(table).Draw(t, "before"), met) })
		})
	}
	for _, p := range []job.Phase{job.Held, job.Waiting, job.Assigned, job.Running, job.Stopping} {
		if met[p] == 0 {
			t.Errorf("no job was %s", p)
		}
	}
}

func resumes(t *rapid.T, e, before policy.Entry, met map[job.Phase]int) {
	shape := rapid.SampledFrom([]simtest.Shape{{}, {Types: true}, {Parts: true, Costs: true}, {Costs: true}, {Tenants: true, Costs: true}, {Pools: true, Costs: true}}).Draw(t, "shape")
	w := simtest.DrawLong(t, shape)
	cut, n := rapid.IntRange(1, 40).Draw(t, "instants"), 0
	leaves := rapid.Bool().Draw(t, "while one leaves")
	err := w.Steps(made(t, before, shape), func(s *state.State, world *sim.Sim) bool {
		if n++; n < cut && !leaves || leaves && !leaving(s) {
			return true
		}
		goOn(t, &w, made(t, e, shape), s, world, met)
		return false
	})
	if err != nil {
		t.Fatal(err)
	}
}

// leaving tells whether a job is leaving its devices.
func leaving(s *state.State) bool {
	for id := range job.ID(s.Jobs()) {
		if s.Record(id).Phase == job.Stopping {
			return true
		}
	}
	return false
}

func made(t *rapid.T, e policy.Entry, shape simtest.Shape) sched.Policy {
	if shape.Pools {
		return policy.Partitioned(func() (sched.Policy, error) { return e.New().Policy() })
	}
	p, err := e.New().Policy()
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// goOn plays a state on to its end, in a world that knows what is left to do.
func goOn(t *rapid.T, w *simtest.World, p sched.Policy, s *state.State, was *sim.Sim, met map[job.Phase]int) {
	again, err := simtest.Reopen(s)
	if err != nil {
		t.Fatal(err)
	}
	work := map[string]time.Duration{}
	for id := range job.ID(s.Jobs()) {
		if r := s.Record(id); !r.Phase.Over() {
			work[r.Job.Key] = max(r.ProgressAt(s.Now), was.Truth(id).Work)
			met[r.Phase]++
		}
	}
	world := sim.New(sim.Config{Source: trace.FromMemory(nil), Costs: w.Costs, Script: mend(again)})
	e := engine.New(engine.Config{Cluster: again.Cluster, Tenants: again.Tenants, Policy: p, PolicyName: "test", Costs: &w.Costs, Seed: 1}, world)
	e.Resume(again)
	if err := world.Attach(again); err != nil {
		t.Fatal(err)
	}
	world.Resume(func(r *job.Record) time.Duration { return work[r.Job.Key] - r.ProgressAt(again.Now) })
	for range 5000 {
		if err := e.Step(); errors.Is(err, io.EOF) {
			ended(t, again, work)
			return
		} else if err != nil {
			t.Fatal(err)
		}
		if err := again.Check(); err != nil {
			t.Fatal(err)
		}
	}
	t.Fatal("the run does not end")
}

// mend is that all jobs are freed and all nodes repaired.
func mend(s *state.State) []eventlog.Event {
	var script []eventlog.Event
	for n := range cluster.NodeID(s.Cluster.Nodes()) {
		script = append(script, eventlog.Event{Time: s.Now, Kind: eventlog.NodeSet, Node: n})
	}
	for d := range cluster.DeviceID(s.Cluster.Devices()) {
		script = append(script, eventlog.Event{Time: s.Now, Kind: eventlog.Device, Device: d})
	}
	for id := range job.ID(s.Jobs()) {
		script = append(script, eventlog.Event{Time: s.Now, Kind: eventlog.Free, Job: id})
	}
	return script
}

// ended checks that all jobs have done their work, but for those that can never
// run.
func ended(t *rapid.T, s *state.State, work map[string]time.Duration) {
	for id := range job.ID(s.Jobs()) {
		switch r := s.Record(id); {
		case r.Phase == job.Done && r.Progress == work[r.Job.Key]:
		case r.Phase.Over():
			t.Fatalf("job %s is %s with %v of its %v of work", r.Job.Key, r.Phase, r.Progress, work[r.Job.Key])
		case !r.Reason.Never():
			t.Fatalf("job %s was left %s: %v", r.Job.Key, r.Phase, r.Reason)
		}
	}
}
