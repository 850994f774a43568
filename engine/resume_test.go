package engine_test

import (
	"errors"
	"io"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/norn-scheduler/norn/cluster"
	"github.com/norn-scheduler/norn/cluster/unit"
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

// TestResume cuts random histories at a random instant, under every policy, and
// goes on from the first records of a new log. In the end every job that could
// run has ended, with the work that it had left.
func TestResume(t *testing.T) {
	table := policy.Table()
	met := map[job.Phase]int{}
	for _, e := range table {
		t.Run(e.Name, func(t *testing.T) {
			rapid.Check(t, func(t *rapid.T) { resumes(t, e, rapid.SampledFrom(table).Draw(t, "before"), met) })
		})
	}
	for _, p := range []job.Phase{job.Held, job.Waiting, job.Assigned, job.Running, job.Stopping} {
		if met[p] == 0 && !testing.Short() {
			t.Errorf("no job was %s", p)
		}
	}
}

func resumes(t *rapid.T, e, before policy.Entry, met map[job.Phase]int) {
	shape := rapid.SampledFrom([]simtest.Shape{{}, {Types: true}, {Parts: true, Costs: true}, {Costs: true}, {Tenants: true, Costs: true}, {Pools: true, Costs: true}}).Draw(t, "shape")
	w := simtest.DrawLong(t, shape)
	cutAnywhere(t, e, before, shape, w, met)
}

// TestInherited is TestResume with a first policy that lets jobs share GPUs, and a
// next one that perhaps does not. Then only jobs that shared a GPU before may
// share it afterwards.
func TestInherited(t *testing.T) {
	var sharing []policy.Entry
	for _, e := range policy.Table() {
		if e.Acts.Has(policy.Shares) {
			sharing = append(sharing, e)
		}
	}
	met := map[job.Phase]int{}
	shape := simtest.Shape{Packed: true, Shared: true, Costs: true}
	rapid.Check(t, func(t *rapid.T) {
		for range 10 { // jobs share devices in few of them
			w := simtest.DrawLong(t, shape)
			w.Sharing = perf.Demands{}
			cutAnywhere(t, rapid.SampledFrom(policy.Table()).Draw(t, "policy"), rapid.SampledFrom(sharing).Draw(t, "before"), shape, w, met)
		}
	})
	if met[shared] == 0 && !testing.Short() {
		t.Error("no jobs shared a GPU")
	}
}

// shared stands for two jobs that share a GPU among the phases that were met.
const shared = job.Phase(255)

// cutAnywhere cuts a history at a random instant and goes on under another policy.
func cutAnywhere(t *rapid.T, e, before policy.Entry, shape simtest.Shape, w simtest.World, met map[job.Phase]int) {
	cut, n := rapid.IntRange(1, 40).Draw(t, "instants"), 0
	leaves, share := rapid.Bool().Draw(t, "while one leaves"), shape.Shared && rapid.Bool().Draw(t, "while two share")
	err := w.Steps(made(t, before, shape), func(s *state.State, world *sim.Sim) bool {
		if n++; n < cut && !leaves && !share || leaves && !leaving(s) || share && len(together(s)) == 0 {
			return true
		}
		goOn(t, &w, e, made(t, e, shape), s, world, met)
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
func goOn(t *rapid.T, w *simtest.World, of policy.Entry, p sched.Policy, s *state.State, was *sim.Sim, met map[job.Phase]int) {
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
	e := engine.New(engine.Config{Cluster: again.Cluster, Tenants: again.Tenants, Policy: p, PolicyName: "test", Costs: &w.Costs, Exclusive: !of.Acts.Has(policy.Shares), Seed: 1}, world)
	e.Resume(again)
	e.RestoreDemand()
	before := together(again)
	met[shared] += len(before)
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
		if !of.Acts.Has(policy.Shares) {
			apart(t, again, before)
		}
	}
	t.Fatal("the run does not end")
}

// together lists the pairs of jobs that share a GPU of which they ask for more
// than there is.
func together(s *state.State) map[[2]job.ID]bool {
	on := map[cluster.DeviceID][]job.ID{}
	out := map[[2]job.ID]bool{}
	for id := range job.ID(s.Jobs()) {
		if a := s.Alloc(id); a != nil {
			for _, share := range a.Shares {
				on[share.Device] = append(on[share.Device], id)
			}
		}
	}
	ask := func(id job.ID) unit.Milli { return min(unit.One, s.Record(id).Job.Demand.Roles[0].GPU) }
	for _, ids := range on {
		for i, a := range ids {
			for _, b := range ids[:i] {
				if a != b && ask(a)+ask(b) > unit.One {
					out[[2]job.ID{b, a}] = true
				}
			}
		}
	}
	return out
}

// apart checks that only jobs that shared a GPU before still share it. A job
// that shares with no other must have all that it asks for.
func apart(t *rapid.T, s *state.State, before map[[2]job.ID]bool) {
	for two := range together(s) {
		if !before[two] {
			t.Fatalf("at %v jobs %s and %s share a GPU", s.Now, s.Record(two[0]).Job.Key, s.Record(two[1]).Job.Key)
		}
	}
	for id := range job.ID(s.Jobs()) {
		r, a := s.Record(id), s.Alloc(id)
		if a == nil || r.Phase != job.Running || r.Merged != job.Apart {
			continue
		}
		for _, share := range a.Shares {
			if ask := min(unit.One, r.Job.Demand.Roles[0].GPU); s.Cluster.Sharers(share.Device) == 1 && share.Milli < int32(ask) {
				t.Fatalf("at %v job %s holds %d of the %v that it asks for", s.Now, r.Job.Key, share.Milli, ask)
			}
		}
	}
}

// mend lists the events that release all held jobs and repair all nodes.
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

// ended checks that all jobs have done their work, except those that can never
// run.
func ended(t *rapid.T, s *state.State, work map[string]time.Duration) {
	for id := range job.ID(s.Jobs()) {
		switch r := s.Record(id); {
		case r.Phase == job.Done && (r.Progress-work[r.Job.Key]).Abs() <= time.Microsecond: // work at half speed is rounded
		case r.Phase.Over():
			t.Fatalf("job %s is %s with %v of its %v of work", r.Job.Key, r.Phase, r.Progress, work[r.Job.Key])
		case !r.Reason.Never():
			t.Fatalf("job %s was left %s: %v", r.Job.Key, r.Phase, r.Reason)
		}
	}
}
