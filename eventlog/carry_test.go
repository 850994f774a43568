package eventlog_test

import (
	"fmt"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/norn-scheduler/norn/cluster"
	"github.com/norn-scheduler/norn/job"
	"github.com/norn-scheduler/norn/policy"
	"github.com/norn-scheduler/norn/sched"
	"github.com/norn-scheduler/norn/sim"
	"github.com/norn-scheduler/norn/sim/simtest"
	"github.com/norn-scheduler/norn/state"
	"github.com/norn-scheduler/norn/tenant"
)

// TestCarry begins a new log at every moment of random histories and reads it
// again. The unended jobs, their allocations and pinned places, the machine and
// the usage of the tenants are what they were.
func TestCarry(t *testing.T) {
	met := map[string]int{}
	table := policy.Table()
	carry := func(t *rapid.T) {
		e := rapid.SampledFrom(table).Draw(t, "policy")
		shape := rapid.SampledFrom([]simtest.Shape{
			{Types: true, Costs: true}, {Parts: true}, {Costs: true}, {Costs: true, Failures: true}, {Tenants: true, Costs: true}, {Pools: true, Costs: true}, {Adapts: true, Costs: true},
		}).Draw(t, "shape")
		w := simtest.DrawLong(t, shape)
		p, err := e.New().Policy()
		if err != nil {
			t.Fatal(err)
		}
		if shape.Pools {
			p = policy.Partitioned(func() (sched.Policy, error) { return e.New().Policy() })
		}
		err = w.Steps(p, func(s *state.State, _ *sim.Sim) bool {
			carried(t, s, met)
			return true
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	rapid.Check(t, carry)
	if testing.Short() {
		return
	}
	missed := func() (out []string) {
		for _, what := range []string{"held", "waiting", "assigned", "running", "stopping", "frozen", "cordoned", "broken", "used", "past", "adapting"} {
			if met[what] == 0 {
				out = append(out, what)
			}
		}
		return out
	}
	for tries := 0; len(missed()) > 0; tries++ { // a hundred histories may lack what is rare
		if tries == 5 {
			t.Fatalf("nothing was %s", strings.Join(missed(), ", "))
		}
		rapid.Check(t, carry)
	}
}

// carried reopens a state and compares.
func carried(t *rapid.T, s *state.State, met map[string]int) {
	again, err := simtest.ReopenAs(s, simtest.Numbering{})
	if err != nil {
		t.Fatal(err)
	}
	if err := again.Check(); err != nil {
		t.Fatal(err)
	}
	carriedPast(t, s, met)
	next := map[job.ID]job.ID{}
	for id := range job.ID(s.Jobs()) {
		if !s.Record(id).Phase.Over() {
			next[id] = job.ID(len(next))
		}
	}
	if again.Jobs() != len(next) || again.Now != s.Now {
		t.Fatalf("%d jobs of %d at %v, %v", again.Jobs(), len(next), again.Now, s.Now)
	}
	for was, is := range next {
		met[s.Record(was).Phase.String()]++
		if s.PinnedPlace(was) != nil {
			met["frozen"]++
		}
		if s.Record(was).Config.Spent != ([job.MaxModes]int32{}) {
			met["adapting"]++
		}
		a, b := standing(s, was, next), standing(again, is, nil)
		if a != b {
			t.Fatalf("job\n%s\ncarried\n%s", a, b)
		}
	}
	sameMachine(t, s, again, met)
	for id := range tenant.ID(s.Tenants.Len()) {
		a, b := s.Tenants.At(id), again.Tenants.At(id)
		used := s.Tenants.Usage(id, s.Now)
		if used > 0 {
			met["used"]++
		}
		if a.Name != b.Name || a.Guarantee != b.Guarantee || a.Limit != b.Limit || a.Weight != b.Weight || a.Used != b.Used || used != again.Tenants.Usage(id, s.Now) {
			t.Fatalf("tenant\n%+v\ncarried\n%+v", a, b)
		}
	}
}

// noted is a note with the numbers of the next log.
func noted(n *job.Note, next map[job.ID]job.ID) string {
	if next == nil {
		return n.Fields()
	}
	return n.Renumbered(func(id job.ID) job.ID {
		now, known := next[id]
		if !known {
			return job.None
		}
		return now
	}).Fields()
}

// carriedPast reopens a state with the last jobs that have ended, and compares these.
func carriedPast(t *rapid.T, s *state.State, met map[string]int) {
	most := rapid.IntRange(1, 5).Draw(t, "past")
	again, err := simtest.ReopenAs(s, simtest.Numbering{Past: most})
	if err != nil {
		t.Fatal(err)
	}
	if err := again.Check(); err != nil {
		t.Fatal(err)
	}
	was := s.Ended()
	was = was[max(0, len(was)-most):]
	is := again.Ended()
	if len(is) != len(was) || again.Past() != len(was) {
		t.Fatalf("%d of %d jobs that have ended", len(is), len(was))
	}
	next := map[job.ID]job.ID{}
	for i := range job.ID(again.Jobs()) {
		for k := range job.ID(s.Jobs()) {
			if s.Record(k).Job.Key == again.Record(i).Job.Key {
				next[k] = i
			}
		}
	}
	for i := range was {
		met["past"]++
		a, b := *s.Record(was[i]), *again.Record(is[i])
		if a.Job.Key != b.Job.Key || a.Serial() != b.Serial() || noted(a.Note, next) != noted(b.Note, nil) || !b.Past {
			t.Fatalf("job %s is carried over as %s", a.Job.Key, b.Job.Key)
		}
		for _, r := range []*job.Record{&a, &b} {
			r.Job, r.Note, r.Reason, r.Tenant, r.Pool, r.Class, r.Slot, r.With, r.Past = nil, nil, job.Reason{}, 0, 0, 0, 0, 0, false
		}
		if a != b {
			t.Fatalf("job\n%+v\ncarried\n%+v", a, b)
		}
	}
}

// standing is how a job stands, as text; next are its numbers and those of others
// in the next log.
func standing(s *state.State, id job.ID, next map[job.ID]job.ID) string {
	r := *s.Record(id)
	spec, why := *r.Job, r.Reason
	if now, known := next[why.Job]; known {
		why.Job = now
	} else if next != nil && s.Known(why.Job) {
		why.Job = job.None
	}
	demand := *spec.Demand
	spec.ID, spec.Serial, spec.Demand = 0, r.Serial(), nil
	hints := job.Hints{}
	if spec.Hints != nil {
		hints, spec.Hints = *spec.Hints, nil
	}
	text := fmt.Sprintf("%+v %+v %+v\n%+v\nfor %s in pool %q\n", spec, demand, hints, why, s.Tenants.At(r.Tenant).Name, s.Cluster.PoolName(r.Pool))
	text += noted(r.Note, next) + "\n"
	r.Job, r.Reason, r.Tenant, r.Pool, r.Class, r.Slot, r.Note = nil, job.Reason{}, 0, 0, 0, 0, nil
	text += fmt.Sprintf("%+v lost %v of that %v service %v\n", r, r.Lost, r.Failed, r.Service)
	for _, a := range []*cluster.Alloc{s.Alloc(id), s.PinnedPlace(id)} {
		if a != nil {
			text += fmt.Sprintf("on %+v\n", *a)
		}
	}
	if waits := s.Waiting(s.Record(id).Pool).Has(int(id)); waits != (r.Phase == job.Waiting) {
		text += "is not where jobs wait\n"
	}
	return text
}

func sameMachine(t *rapid.T, s, again *state.State, met map[string]int) {
	a, b := s.Cluster, again.Cluster
	if a.Nodes() != b.Nodes() || a.Devices() != b.Devices() || a.Pools() != b.Pools() || a.Domains() != b.Domains() {
		t.Fatalf("%d nodes, %d devices; carried %d, %d", a.Nodes(), a.Devices(), b.Nodes(), b.Devices())
	}
	for n := range cluster.NodeID(a.Nodes()) {
		met[a.Health(n).String()]++
		cpu, _ := a.CPUFree(n)
		cpuAgain, _ := b.CPUFree(n)
		if a.Health(n) != b.Health(n) || a.Power(n) != b.Power(n) || cpu != cpuAgain || a.Node(n).Name != b.Node(n).Name {
			t.Fatalf("node %d is %v with %v cores free; carried %v, %v", n, a.Health(n), cpu, b.Health(n), cpuAgain)
		}
	}
	for d := range cluster.DeviceID(a.Devices()) {
		if a.Broken(d) {
			met["broken"]++
		}
		if a.DeviceFree(d) != b.DeviceFree(d) || a.Broken(d) != b.Broken(d) || a.Sharers(d) != b.Sharers(d) {
			t.Fatalf("device %d: %v free; carried %v", d, a.DeviceFree(d), b.DeviceFree(d))
		}
	}
}
