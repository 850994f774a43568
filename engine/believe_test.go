package engine_test

import (
	"fmt"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

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

// leftover is a meter that tells the work which a job has left, too large by a tenth.
type leftover struct{}

// Measure implements sim.Meter.
func (leftover) Measure(l *sim.Look, to *perf.Reading) {
	to.Add("left", 1.1*(l.Work-l.Progress).Seconds())
	to.Add(perf.Relative, l.Speed)
}

// follows is a believer that takes the last measurement of a job for the truth.
type follows struct {
	left map[job.ID]float64
	all  []string
}

func newFollows(perf.Prior) perf.Believer { return &follows{left: map[job.ID]float64{}} }

// Observe implements perf.Believer.
func (f *follows) Observe(j *job.Job, m *perf.Reading) {
	f.left[j.ID], _ = m.Figure("left")
	f.all = append(f.all, fmt.Sprint(j.Key, *m))
}

// RunTime implements perf.RunTimes.
func (f *follows) RunTime(j *job.Job) (left time.Duration, why string, ok bool) {
	x, known := f.left[j.ID]
	if !known {
		return -1, "", true
	}
	return time.Duration(x * 1e9), "seen to have that left", true
}

// TestMeasureBelieveDecide: a job is looked at after a minute on its devices, then after
// two, and when it ends. Each time before the end it is estimated anew, and nothing is known of
// it before.
func TestMeasureBelieveDecide(t *testing.T) {
	e, err := policy.ByName("fifo")
	if err != nil {
		t.Fatal(err)
	}
	run := simtest.Go(t, simtest.Config{
		Cluster: simtest.Nodes(1, 1), Make: func() (sched.Policy, error) { return e.New().Policy() }, Believe: newFollows,
		World: func(c *sim.Config) { c.Meter = leftover{} },
	}, simtest.Job{Key: "a", GPUs: 1, Run: 200})
	var lines []string
	for _, l := range run.Log {
		if strings.Contains(l, "measured") || strings.Contains(l, "estimate") || strings.Contains(l, "end") {
			lines = append(lines, l)
		}
	}
	if want := []string{
		"60 measured a run left=[154] speed=[1]", "60 estimate a 214", "120 measured a run left=[88] speed=[1]", "120 estimate a 208",
		"200 measured a end left=[0] speed=[1]", "200 end a done",
	}; !slices.Equal(lines, want) {
		t.Errorf("%s", strings.Join(lines, "\n"))
	}
}

// TestMeasurementsSurvive: what was measured is in the log, and in a log that goes on from
// it as far as the jobs are carried. A scheduler that starts again believes the same.
func TestMeasurementsSurvive(t *testing.T) {
	measured := 0
	rapid.Check(t, func(t *rapid.T) {
		w := simtest.DrawLong(t, simtest.Shape{Packed: true, Shared: true})
		e, err := policy.ByName(rapid.SampledFrom([]string{"srtf", "gandiva", "lucid"}).Draw(t, "policy"))
		if err != nil {
			t.Fatal(err)
		}
		before := w.World
		w.World = func(c *sim.Config) {
			if before != nil {
				before(c)
			}
			c.Meter = leftover{}
		}
		last, folded := cutOff(t, &w, e, 80)
		measured += len(last.Readings.All())
		if !reflect.DeepEqual(folded.Readings.All(), last.Readings.All()) {
			t.Fatalf("the log tells %v, measured was %v", folded.Readings.All(), last.Readings.All())
		}
		want := seen(last)
		again, err := simtest.ReopenAs(last, simtest.Numbering{Past: last.Jobs(), Strangers: rapid.IntRange(0, 2).Draw(t, "strangers")})
		if err != nil {
			t.Fatal(err)
		}
		if got := seen(again); !slices.Equal(got, want) {
			t.Fatalf("after a restart %v was measured, before it was %v", got, want)
		}
		var of *follows
		world := sim.New(sim.Config{Source: trace.FromMemory(nil)})
		engine.New(engine.Config{Cluster: again.Cluster, Tenants: again.Tenants, Policy: idle{}, PolicyName: "test", Believe: func(p perf.Prior) perf.Believer {
			of = newFollows(p).(*follows)
			return of
		}}, world).Resume(again)
		if !slices.Equal(of.all, want) {
			t.Fatalf("a scheduler that starts again was told %v, measured was %v", of.all, want)
		}
	})
	if measured == 0 && !testing.Short() {
		t.Error("nothing was ever measured")
	}
}

// seen is what was measured, by the keys of jobs.
func seen(s *state.State) (out []string) {
	for _, m := range s.Readings.All() {
		out = append(out, fmt.Sprint(s.Record(m.Job).Job.Key, *m.Reading))
	}
	return out
}

// TestOddReadings: a log with a measurement that cannot be is refused, with what is wrong.
func TestOddReadings(t *testing.T) {
	many := &perf.Reading{}
	many.Add("loss", make([]float64, perf.MaxSeries+1)...)
	empty := &perf.Reading{Values: []perf.Value{{Name: "loss"}}}
	order := &perf.Reading{Values: []perf.Value{{Name: "b", Series: []float64{1}}, {Name: "a", Series: []float64{1}}}}
	for name, m := range map[string]*perf.Reading{"257 numbers": many, "0 numbers": empty, "order": order} {
		s := simtest.Go(t, simtest.Config{Cluster: simtest.Nodes(1, 1), Make: func() (sched.Policy, error) { return idle{}, nil }}, simtest.Job{Key: "a", GPUs: 1, Run: 1}).State
		err := engine.Apply(s, &eventlog.Event{Time: s.Now, Kind: eventlog.Measured, Job: 0, Measured: m})
		if err == nil || !strings.Contains(err.Error(), name) || !strings.Contains(err.Error(), "job a") {
			t.Errorf("%s: %v", name, err)
		}
	}
}
