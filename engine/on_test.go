package engine_test

import (
	"cmp"
	"errors"
	"io"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/norn-scheduler/norn/cluster"
	"github.com/norn-scheduler/norn/engine"
	"github.com/norn-scheduler/norn/eventlog"
	"github.com/norn-scheduler/norn/job"
	"github.com/norn-scheduler/norn/perf"
	"github.com/norn-scheduler/norn/policy"
	"github.com/norn-scheduler/norn/sim"
	"github.com/norn-scheduler/norn/sim/simtest"
	"github.com/norn-scheduler/norn/state"
	"github.com/norn-scheduler/norn/trace"
)

// arrivals notes by key when jobs arrived on their devices, according to the
// events. It compares the jobs on each device with a scan over all allocations.
type arrivals struct {
	t    *rapid.T
	at   map[string]time.Duration
	held map[string]*cluster.Alloc
	met  map[string]int
}

// Event implements engine.Sink.
func (w *arrivals) Event(ev *eventlog.Event, s *state.State) {
	switch ev.Kind {
	case eventlog.Assign, eventlog.Start, eventlog.Move, eventlog.Resize:
		key := s.Record(ev.Job).Job.Key
		was, now := w.held[key], new(cluster.Alloc)
		now.CopyFrom(s.Alloc(ev.Job))
		w.held[key] = now
		if ev.Kind == eventlog.Assign || ev.Kind == eventlog.Start || !was.SamePlaces(now) {
			w.at[key] = ev.Time
		} else {
			w.met["kept its place"]++
		}
		w.met[ev.Kind.String()]++
	}
	w.compare(s)
}

func (w *arrivals) compare(s *state.State) {
	on := make([][]job.ID, s.Cluster.Devices())
	for id := range job.ID(s.Jobs()) {
		if a := s.Alloc(id); a != nil {
			for _, share := range a.Shares {
				if !slices.Contains(on[share.Device], id) {
					on[share.Device] = append(on[share.Device], id)
				}
			}
		}
	}
	for d, want := range on {
		slices.SortFunc(want, func(a, b job.ID) int {
			return cmp.Or(cmp.Compare(w.at[s.Record(a).Job.Key], w.at[s.Record(b).Job.Key]), cmp.Compare(a, b))
		})
		if got := s.On(cluster.DeviceID(d)); !slices.Equal(got, want) {
			w.t.Fatalf("at %v jobs %v are on device %d, want %v", s.Now, got, d, want)
		}
		if len(want) > 1 {
			w.met["shared"]++
			if !slices.IsSorted(want) {
				w.met["not in order of number"]++
			}
		}
	}
}

// TestOn compares the jobs on each device with a scan over all allocations,
// after every event of random histories. The histories go on from their own log
// again and again, under random policies.
func TestOn(t *testing.T) {
	met := map[string]int{}
	table := policy.Table()
	var sharing []policy.Entry
	for _, e := range table {
		if e.Acts.Has(policy.Shares) {
			sharing = append(sharing, e)
		}
	}
	rapid.Check(t, func(t *rapid.T) {
		for range 20 { // jobs share devices in few of them
			onOf(t, sharing, table, met)
		}
	})
	for _, what := range []string{"assign", "start", "move", "kept its place", "shared", "not in order of number"} {
		if met[what] == 0 && !testing.Short() {
			t.Errorf("no job was met that is %s", what)
		}
	}
}

// onOf plays one random world, first under a policy that lets jobs share
// devices.
func onOf(t *rapid.T, sharing, table []policy.Entry, met map[string]int) {
	shape := simtest.Shape{Packed: true, Shared: true, Costs: true, Parts: rapid.Bool().Draw(t, "parts")}
	w := simtest.DrawLong(t, shape)
	w.Sharing = perf.Demands{}
	watch := &arrivals{t, map[string]time.Duration{}, map[string]*cluster.Alloc{}, met}
	w.Sinks = []engine.Sink{watch}
	cut, n := rapid.IntRange(1, 40).Draw(t, "instants"), 0
	err := w.Steps(made(t, rapid.SampledFrom(sharing).Draw(t, "policy"), shape), func(s *state.State, was *sim.Sim) bool {
		if n++; n < cut {
			return true
		}
		left := func(id job.ID) time.Duration { return was.Truth(id).Work }
		for range rapid.IntRange(1, 3).Draw(t, "epochs") {
			s, left = epoch(t, &w, rapid.SampledFrom(table).Draw(t, "next policy"), s, left, watch)
		}
		return false
	})
	if err != nil {
		t.Fatal(err)
	}
}

// epoch reopens a state and goes on for a while under another policy, in a world that
// knows how much work each job has.
func epoch(t *rapid.T, w *simtest.World, of policy.Entry, s *state.State, work func(job.ID) time.Duration, watch *arrivals) (*state.State, func(job.ID) time.Duration) {
	again, err := simtest.Reopen(s)
	if err != nil {
		t.Fatal(err)
	}
	watch.compare(again)
	left := map[string]time.Duration{}
	for id := range job.ID(s.Jobs()) {
		left[s.Record(id).Job.Key] = work(id)
	}
	world := sim.New(sim.Config{Source: trace.FromMemory(nil), Costs: w.Costs, Sharing: perf.Demands{Switch: 0.05}, Measure: true, Script: mend(again)})
	e := engine.New(engine.Config{
		Cluster: again.Cluster, Tenants: again.Tenants, Policy: made(t, of, simtest.Shape{}), PolicyName: "test", Costs: &w.Costs,
		Sharing: perf.Demands{}, Exclusive: !of.Acts.Has(policy.Shares), Seed: 1, Sinks: []engine.Sink{watch},
	}, world)
	e.Resume(again)
	e.RestoreDemand()
	if err := world.Attach(again); err != nil {
		t.Fatal(err)
	}
	world.Resume(func(r *job.Record) time.Duration { return max(0, left[r.Job.Key]-r.ProgressAt(again.Now)) })
	for range rapid.IntRange(1, 20).Draw(t, "instants of the epoch") {
		if err := e.Step(); errors.Is(err, io.EOF) {
			break
		} else if err != nil {
			t.Fatal(err)
		}
	}
	return again, func(id job.ID) time.Duration { return left[again.Record(id).Job.Key] }
}
