package engine_test

import (
	"bytes"
	"fmt"
	"maps"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/norn-scheduler/norn/cluster"
	"github.com/norn-scheduler/norn/engine"
	"github.com/norn-scheduler/norn/eventlog"
	"github.com/norn-scheduler/norn/eventlog/replay"
	"github.com/norn-scheduler/norn/job"
	"github.com/norn-scheduler/norn/perf"
	"github.com/norn-scheduler/norn/policy"
	"github.com/norn-scheduler/norn/sched"
	"github.com/norn-scheduler/norn/sim"
	"github.com/norn-scheduler/norn/sim/simtest"
	"github.com/norn-scheduler/norn/state"
	"github.com/norn-scheduler/norn/trace"
)

// crowd starts every job on the devices that it names, on a tenth of each.
type crowd struct {
	on       map[string][]cluster.DeviceID // by key; nil: device 0
	throttle map[string]int32
}

// Decide implements sched.Policy.
func (c crowd) Decide(v *sched.View, p *sched.Plan) {
	for j := range v.Waiting() {
		on := c.on[j.Spec().Key]
		if on == nil {
			on = []cluster.DeviceID{0}
		}
		a := cluster.Alloc{Pieces: []cluster.Piece{{Tasks: int32(len(on)), Shares: int32(len(on))}}}
		for _, d := range on {
			a.Shares = append(a.Shares, cluster.Share{Device: d, Milli: 100, Throttle: c.throttle[j.Spec().Key]})
		}
		p.StartOn(j.ID, &a)
	}
}

// beside is a table of pairs: "a b" is how fast a runs beside b, in hundredths.
func beside(speeds map[string]int) perf.Pairs {
	m := perf.Pairs{Speed: map[perf.Pair]float64{}}
	for names, speed := range speeds {
		var a, b string
		fmt.Sscan(names, &a, &b)
		m.Speed[perf.Pair{Job: a, Beside: b}] = float64(speed) / 100
	}
	return m
}

// learns runs jobs in a crowd and returns what was learnt, as "a b" and hundredths.
func learns(t *testing.T, truth, first perf.Sharing, c crowd, world func(engine.World) engine.World, jobs ...simtest.Job) map[string]int {
	t.Helper()
	w := sim.New(sim.Config{Source: simtest.Source(jobs), Sharing: truth})
	var in engine.World = w
	if world != nil {
		in = world(w)
	}
	e := engine.New(engine.Config{Cluster: simtest.Nodes(1, 4), Policy: c, PolicyName: "test", Estimator: w.Oracle(), Sharing: &perf.Learner{First: first, Rate: 1}}, in)
	if err := w.Attach(e.State()); err != nil {
		t.Fatal(err)
	}
	if err := e.Run(t.Context()); err != nil {
		t.Fatal(err)
	}
	out := map[string]int{}
	for p, f := range e.State().Learnt() {
		out[p.Job+" "+p.Beside] = int(100*f + 0.5)
	}
	return out
}

// one is a job of one GPU, of the model of its key without the number behind it.
func one(key string, at, run float64) simtest.Job {
	return simtest.Job{Key: key, At: at, GPUs: 1, Run: run, Model: key[:1]}
}

// TestLearnsWhatIsSeen: observations are learnt, in each direction. This
// includes jobs that start beside each other at the same moment, and jobs that
// are not slowed down and so never have a Speed event. For a gang it is the GPU
// on which the gang is slowed down most.
func TestLearnsWhatIsSeen(t *testing.T) {
	gang := one("g", 0, 100)
	gang.GPUs = 2
	for _, x := range []struct {
		name         string
		truth, first map[string]int
		crowd        crowd
		jobs         []simtest.Job
		want         map[string]int
	}{
		{"at once", map[string]int{"a b": 50, "b a": 80}, nil, crowd{}, []simtest.Job{one("a", 0, 100), one("b", 0, 100)}, map[string]int{"a b": 50, "b a": 80}},
		{"later", map[string]int{"a b": 50, "b a": 80}, nil, crowd{}, []simtest.Job{one("a", 0, 100), one("b", 10, 100)}, map[string]int{"a b": 50, "b a": 80}},
		{"nobody is disturbed", nil, map[string]int{"a b": 50, "b a": 40}, crowd{}, []simtest.Job{one("a", 0, 100), one("b", 10, 100)}, map[string]int{"a b": 100, "b a": 100}},
		{"alone", map[string]int{"a b": 50}, nil, crowd{}, []simtest.Job{one("a", 0, 100), one("b", 200, 100)}, map[string]int{}},
		{"three", map[string]int{"a b": 50, "a c": 50}, nil, crowd{}, []simtest.Job{one("a", 0, 100), one("b", 0, 100), one("c", 0, 100)},
			map[string]int{"a b": 50, "a c": 50, "b a": 100, "b c": 100, "c a": 100, "c b": 100}},
		{"a gang", map[string]int{"g a": 90, "g b": 60}, map[string]int{"g b": 70}, crowd{on: map[string][]cluster.DeviceID{"g": {0, 1}, "b": {1}}},
			[]simtest.Job{gang, one("a", 0, 100), one("b", 0, 100)}, map[string]int{"g b": 60, "a g": 100, "b g": 100}},
		{"throttled", map[string]int{"a b": 50}, nil, crowd{throttle: map[string]int32{"b": 500}}, []simtest.Job{one("a", 0, 100), one("b", 0, 100)}, map[string]int{}},
	} {
		if got := learns(t, beside(x.truth), beside(x.first), x.crowd, nil, x.jobs...); !maps.Equal(got, x.want) {
			t.Errorf("%s: learnt %v, want %v", x.name, got, x.want)
		}
	}
}

// rationed is a Sharing in which a job runs at the part of the device that it holds, times
// what a table of pairs says.
type rationed struct{ perf.Pairs }

// Among implements perf.Portioned.
func (r rationed) Among(s perf.Sharer, others []perf.Sharer, t cluster.GPUType) float64 {
	factor := float64(s.Share.Milli) / 1000
	for _, o := range others {
		factor *= r.Beside(s.Job, []*job.Job{o.Job}, t)
	}
	return factor
}

// TestLearnsBesidePortions: a belief that knows how parts of devices slow a job
// down does not attribute that loss to the neighbours.
func TestLearnsBesidePortions(t *testing.T) {
	truth := rationed{beside(map[string]int{"a b": 50, "b a": 80})}
	if got, want := learns(t, truth, rationed{}, crowd{}, nil, one("a", 0, 100), one("b", 10, 100)), map[string]int{"a b": 50, "b a": 80}; !maps.Equal(got, want) {
		t.Errorf("learnt %v, want %v", got, want)
	}
}

// measures is a world that reports only speeds that it has measured.
type measures struct{ engine.World }

// TestLearnsWhatIsMeasured: where speeds are measured, only measured speeds
// teach anything. Here that is the speed of b after c has come, not the speeds
// at which the jobs were expected to start.
func TestLearnsWhatIsMeasured(t *testing.T) {
	truth := beside(map[string]int{"a b": 50, "b a": 80})
	hide := func(w engine.World) engine.World { return measures{w} }
	if got, want := learns(t, truth, nil, crowd{}, hide, one("a", 0, 100), one("b", 10, 30)), map[string]int{"a b": 50}; !maps.Equal(got, want) {
		t.Errorf("learnt %v, want %v", got, want)
	}
}

// TestLearntSurvives: the lessons of a random run are in its log and in a log
// that goes on from it. A scheduler that starts again believes the same.
func TestLearntSurvives(t *testing.T) {
	lessons := 0
	rapid.Check(t, func(t *rapid.T) {
		w := simtest.DrawLong(t, simtest.Shape{Packed: true, Shared: true})
		e, err := policy.ByName(rapid.SampledFrom([]string{"rmixer", "bsbf", "lucid"}).Draw(t, "policy"))
		if err != nil {
			t.Fatal(err)
		}
		w.Sharing = &perf.Learner{First: perf.Demands{}}
		last, folded := cutOff(t, &w, e, 60)
		want := last.Learnt()
		lessons += len(want)
		if !maps.Equal(folded.Learnt(), want) {
			t.Fatalf("the log tells %v, learnt was %v", folded.Learnt(), want)
		}
		again, err := simtest.Reopen(last)
		if err != nil {
			t.Fatal(err)
		}
		believes(t, again, want)
	})
	if lessons == 0 && !testing.Short() {
		t.Error("nothing was ever learnt")
	}
}

// cutOff runs a world under a policy for a random number of instants, so many at most. It
// returns the state at the end, and that to which the log of the run folds.
func cutOff(t *rapid.T, w *simtest.World, e policy.Entry, most int) (last, folded *state.State) {
	var log bytes.Buffer
	var err error
	sink := &writer{t: t}
	w.Sinks = []engine.Sink{sink}
	h := eventlog.Header{World: "sim", Policy: "test"}
	h.Describe(w.Cluster, w.Tenants)
	if sink.w, err = eventlog.NewWriter(&log, &h, eventlog.Plain); err != nil {
		t.Fatal(err)
	}
	cut, n := rapid.IntRange(1, most).Draw(t, "instants"), 0
	if err := w.Steps(made(t, e, simtest.Shape{}), func(s *state.State, _ *sim.Sim) bool {
		n++
		last = s
		return n < cut
	}); err != nil {
		t.Fatal(err)
	}
	if err := sink.w.Close(); err != nil {
		t.Fatal(err)
	}
	r, err := eventlog.NewReader(&log, "log")
	if err != nil {
		t.Fatal(err)
	}
	if folded, err = replay.Fold(r); err != nil {
		t.Fatal(err)
	}
	return last, folded
}

// believes checks that an engine which resumes a state believes what was learnt.
func believes(t *rapid.T, s *state.State, want map[perf.Pair]float64) {
	var belief perf.Sharing
	world := sim.New(sim.Config{Source: trace.FromMemory(nil), Script: mend(s)})
	e := engine.New(engine.Config{Cluster: s.Cluster, Tenants: s.Tenants, Policy: idle{}, PolicyName: "test", Sharing: &perf.Learner{First: perf.Demands{}}}, world)
	e.Resume(s)
	if err := world.Attach(s); err != nil {
		t.Fatal(err)
	}
	world.Resume(func(*job.Record) time.Duration { return time.Hour })
	e.Order(func(v *sched.View, _ *sched.Plan) { belief = v.Sharing })
	if err := e.Step(); err != nil {
		t.Fatal(err)
	}
	for p, f := range want {
		j, o := &job.Job{Model: p.Job}, []*job.Job{{Model: p.Beside}}
		if got := belief.Beside(j, o, cluster.GPUType{Name: p.Type}); got != f {
			t.Fatalf("%v is believed to run at %v, learnt was %v", p, got, f)
		}
	}
}

// idle does nothing.
type idle struct{}

// Decide implements sched.Policy.
func (idle) Decide(*sched.View, *sched.Plan) {}

// writer writes a log.
type writer struct {
	t *rapid.T
	w *eventlog.Writer
}

// Event implements engine.Sink.
func (l *writer) Event(ev *eventlog.Event, _ *state.State) {
	if err := l.w.Write(ev); err != nil {
		l.t.Fatal(err)
	}
}
