package sim_test

import (
	"strings"
	"testing"
	"time"

	"github.com/norn-scheduler/norn/cluster"
	"github.com/norn-scheduler/norn/engine"
	"github.com/norn-scheduler/norn/eventlog"
	"github.com/norn-scheduler/norn/job"
	"github.com/norn-scheduler/norn/perf"
	"github.com/norn-scheduler/norn/sim"
	"github.com/norn-scheduler/norn/sim/simtest"
	"github.com/norn-scheduler/norn/state"
)

// TestOneInstant: what a script tells of one moment need not know of each
// other. A job that is evicted by the first of its nodes to go down is not
// evicted again by the next. It can be cancelled, but its speed does not
// change.
func TestOneInstant(t *testing.T) {
	at := func(ev eventlog.Event) eventlog.Event { ev.Time = 10 * time.Second; return ev }
	down := func(n cluster.NodeID) eventlog.Event {
		return at(eventlog.Event{Kind: eventlog.NodeSet, Node: n, Health: cluster.Down})
	}
	for name, c := range map[string]struct {
		script []eventlog.Event
		phase  job.Phase
	}{
		"rack":            {[]eventlog.Event{down(0), down(1)}, job.Waiting},
		"rack and cancel": {[]eventlog.Event{down(0), down(1), at(eventlog.Event{Kind: eventlog.Cancel})}, job.Cancelled},
		"speed":           {[]eventlog.Event{down(0), at(eventlog.Event{Kind: eventlog.Speed, Speed: 2})}, job.Waiting},
		"cancel and rack": {[]eventlog.Event{at(eventlog.Event{Kind: eventlog.Cancel}), down(0), down(1)}, job.Cancelled},
		"cancel twice":    {[]eventlog.Event{at(eventlog.Event{Kind: eventlog.Cancel}), at(eventlog.Event{Kind: eventlog.Cancel})}, job.Cancelled},
	} {
		run, err := simtest.Try(simtest.Config{
			Cluster: simtest.Nodes(2, 4), Make: newFIFO, World: func(sc *sim.Config) { sc.Script = c.script },
		}, simtest.Job{Key: "a", GPUs: 8, Run: 100})
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		if r := run.Record("a"); r.Phase != c.phase {
			t.Errorf("%s: it is %v, want %v\n%v", name, r.Phase, c.phase, run.Log)
		}
	}
}

// TestCancelOfFailedAttempt: a job whose attempt fails at the moment at which it
// is cancelled does not begin another one.
func TestCancelOfFailedAttempt(t *testing.T) {
	run := simtest.Go(t, simtest.Config{
		Cluster: simtest.Nodes(1, 1), Make: newFIFO,
		World: func(c *sim.Config) {
			c.Script = []eventlog.Event{{Time: 10 * time.Second, Kind: eventlog.Cancel, Job: 0}}
		},
	}, simtest.Job{Key: "a", GPUs: 1, Run: 50, Fails: []float64{10}})
	if r := run.Record("a"); r.Phase != job.Cancelled || r.Failures != 1 {
		t.Errorf("it is %v after %d failures", r.Phase, r.Failures)
	}
}

// TestRepair: a node that failed stays down until it is repaired, whatever its
// operator says, and is then what he left it as, or said meanwhile.
func TestRepair(t *testing.T) {
	set := func(at time.Duration, h cluster.Health) eventlog.Event {
		return eventlog.Event{Time: at * time.Second, Kind: eventlog.NodeSet, Health: h}
	}
	want := cluster.Up // by its operator
	watch := func(ev *eventlog.Event, s *state.State) {
		if ev.Kind == eventlog.NodeSet && ev.Health != cluster.Down {
			if ev.Time%(1000*time.Second) != 0 && ev.Health != want {
				t.Errorf("at %v it comes back %v, its operator wants it %v", ev.Time, ev.Health, want)
			}
		}
		if ev.Kind == eventlog.NodeSet && ev.Time%(1000*time.Second) == 0 {
			want = cluster.Cordoned - want // Up and Cordoned in turn
		}
	}
	run := simtest.Go(t, simtest.Config{
		Cluster: simtest.Nodes(1, 1), Make: newFIFO, Seed: 2, Sinks: []engine.Sink{sinkFunc(watch)},
		World: func(c *sim.Config) {
			c.NodeMTBF, c.NodeRepair, c.Snapshot = 700*time.Second, 700*time.Second, 50*time.Second
			for i := range time.Duration(40) {
				c.Script = append(c.Script, set(1000*(i+1), cluster.Cordoned*cluster.Health((i+1)%2)))
			}
		},
	}, simtest.Job{Key: "a", GPUs: 1, Run: 12_000})
	both := strings.Join(run.Log, " ")
	if !strings.Contains(both, "n0 cordoned") || !strings.Contains(both, "evict") || strings.Count(both, "n0 down") < 20 {
		t.Errorf("too little happened: %s", both)
	}
}

// sinkFunc is a function as a Sink.
type sinkFunc func(ev *eventlog.Event, s *state.State)

func (f sinkFunc) Event(ev *eventlog.Event, s *state.State) { f(ev, s) }

// Two jobs are cancelled at one instant, of which the second was to begin when the
// first had left: it does not come back.
func TestCancelledAsItBegins(t *testing.T) {
	script := []eventlog.Event{{Time: 11 * time.Second, Kind: eventlog.Cancel, Job: 0}, {Time: 11 * time.Second, Kind: eventlog.Cancel, Job: 1}}
	run := simtest.Go(t, simtest.Config{
		Cluster: simtest.Nodes(1, 1), Make: newSRTF, Costs: perf.Costs{Base: perf.Cost{Checkpoint: 5 * time.Second}},
		World: func(c *sim.Config) { c.Script = script },
	}, simtest.Job{Key: "leaves", GPUs: 1, Run: 100}, simtest.Job{Key: "begins", At: 10, GPUs: 1, Run: 5}, simtest.Job{Key: "last", At: 12, GPUs: 1, Run: 3})
	if run.Record("begins").Phase != job.Cancelled || run.End("last") != 15 {
		t.Errorf("%v, the last one ends at %v\n%s", run.Record("begins").Phase, run.End("last"), strings.Join(run.Log, "\n"))
	}
}
