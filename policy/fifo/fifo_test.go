package fifo_test

import (
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/norn-scheduler/norn/engine"
	"github.com/norn-scheduler/norn/eventlog"
	"github.com/norn-scheduler/norn/job"
	"github.com/norn-scheduler/norn/policy/fifo"
	"github.com/norn-scheduler/norn/sched"
	"github.com/norn-scheduler/norn/sim/simtest"
	"github.com/norn-scheduler/norn/state"
)

func make(mode fifo.Mode, change ...func(*fifo.Config)) func() (sched.Policy, error) {
	return func() (sched.Policy, error) {
		c := fifo.NewConfig()
		c.Mode = mode
		for _, f := range change {
			f(c)
		}
		return c.Policy()
	}
}

// A wide job does not fit, and a long and a short one are behind it. Under the
// strict order both wait. If jobs may be skipped, both go ahead and the wide
// one starves. With EASY backfill (Lifka, JSSPP 1995) only the short one goes
// ahead, because it ends before the wide one can start. "spare" fits beside the
// wide one and delays nobody.
func TestModes(t *testing.T) {
	jobs := []simtest.Job{
		{Key: "first", GPUs: 4, Run: 100},
		{Key: "wide", At: 1, GPUs: 6, Run: 10},
		{Key: "long", At: 2, GPUs: 3, Run: 200},
		{Key: "short", At: 3, GPUs: 4, Run: 50},
		{Key: "spare", At: 4, GPUs: 2, Run: 300},
	}
	for _, c := range []struct {
		mode fifo.Mode
		want map[string]float64 // first starts
	}{
		{fifo.Strict, map[string]float64{"first": 0, "wide": 100, "long": 110, "short": 110, "spare": 160}},
		{fifo.Skip, map[string]float64{"first": 0, "long": 2, "short": 100, "spare": 150, "wide": 202}},
		{fifo.EASY, map[string]float64{"first": 0, "short": 3, "wide": 100, "long": 110, "spare": 53}},
	} {
		run := simtest.Go(t, simtest.Config{Cluster: simtest.Nodes(1, 8), Make: make(c.mode)}, jobs...)
		for key, want := range c.want {
			if got := run.Start(key); got != want {
				t.Errorf("mode %v: %s starts at %v, want %v\n%v", c.mode, key, got, want, run.Log)
			}
		}
	}
}

// Priority classes come before the order of submission, and only then.
func TestPriority(t *testing.T) {
	high := func(j *job.Job) { j.Priority = 1 }
	jobs := []simtest.Job{
		{Key: "a", GPUs: 1, Run: 10}, {Key: "b", At: 1, GPUs: 1, Run: 10}, {Key: "c", At: 2, GPUs: 1, Run: 10, Spec: high},
	}
	for on, want := range map[bool]float64{false: 20, true: 10} {
		run := simtest.Go(t, simtest.Config{Cluster: simtest.Nodes(1, 1), Make: make(fifo.Strict, func(c *fifo.Config) { c.Priority = on })}, jobs...)
		if got := run.Start("c"); got != want {
			t.Errorf("priority=%v: c starts at %v, want %v", on, got, want)
		}
	}
}

// promises watches the reservations that a run tells of.
type promises struct {
	first map[job.ID]time.Duration
	late  []string
}

// Event implements engine.Sink.
func (p *promises) Event(ev *eventlog.Event, s *state.State) {
	switch ev.Kind {
	case eventlog.Wait:
		if _, known := p.first[ev.Job]; !known && ev.Reason.At > 0 && ev.Reason.Code != job.Reserved {
			p.first[ev.Job] = ev.Reason.At
		}
	case eventlog.Start, eventlog.Assign:
		if at, known := p.first[ev.Job]; known && ev.Time > at {
			p.late = append(p.late, simtest.Line(ev, s)+" was promised "+at.String())
		}
	}
}

// A reservation is kept: with true estimates no backfilled job delays the one
// that was promised a start, and jobs behind it go ahead of it at times.
func TestReservationsAreKept(t *testing.T) {
	promised, ahead := 0, 0
	rapid.Check(t, func(t *rapid.T) {
		var jobs []simtest.Job
		at := 0.0
		for i := range rapid.IntRange(2, 15).Draw(t, "jobs") {
			at += float64(rapid.IntRange(0, 4).Draw(t, "gap"))
			jobs = append(jobs, simtest.Job{
				Key: string(rune('a' + i)), At: at, GPUs: rapid.IntRange(1, 8).Draw(t, "gpus"), Run: float64(rapid.IntRange(1, 30).Draw(t, "run")),
			})
		}
		watch := &promises{first: map[job.ID]time.Duration{}}
		run, err := simtest.Try(simtest.Config{Cluster: simtest.Nodes(2, 4), Make: make(fifo.EASY), Sinks: []engine.Sink{watch}}, jobs...)
		if err != nil {
			t.Fatal(err)
		}
		if len(watch.late) > 0 {
			t.Fatalf("%v\n%v", watch.late, run.Log)
		}
		promised += len(watch.first)
		for i := 1; i < len(jobs); i++ {
			if run.Start(jobs[i].Key) < run.Start(jobs[i-1].Key) {
				ahead++
			}
		}
	})
	if promised == 0 || ahead == 0 {
		t.Errorf("%d jobs were promised a start, %d went ahead: the test shows nothing", promised, ahead)
	}
}
