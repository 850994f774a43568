package gen

import (
	"math"
	"testing"
	"time"

	"github.com/norn-scheduler/norn/job"
	"github.com/norn-scheduler/norn/perf"
	"github.com/norn-scheduler/norn/sim"
	"github.com/norn-scheduler/norn/trace"
)

// TestQuality: losses fall from the first epoch to the end of the work, by all but 2 to 10 %
// of what can be lost, and a report has the epochs since the last one. A job of another seed
// or key loses otherwise.
func TestQuality(t *testing.T) {
	seen := map[float64]bool{}
	for _, seed := range []uint64{1, 2} {
		for _, key := range []string{"a", "b", "c"} {
			d := job.GPUs(2)
			m, j := QualityMeter{Seed: seed}, &job.Job{Key: key, Demand: &d}
			at := func(progress, ran float64, number int) *perf.Reading {
				r := &perf.Reading{When: perf.InRun}
				m.Measure(&sim.Look{
					Job: j, Truth: &trace.Truth{}, Number: number, Work: 1000 * time.Second, Progress: time.Duration(progress * 1e9), Speed: 1, Ran: time.Duration(ran * 1e9),
				}, r)
				if err := r.Check(); err != nil {
					t.Fatal(err)
				}
				return r
			}
			q := m.of(j)
			first, end := at(3, 3, 0), at(1000, 1000, 9)
			loss, samples := first.Series(perf.Loss), first.Series(perf.Samples)
			if len(loss) == 0 || samples[0] != 0 || math.Abs(loss[0]/q.form.Loss(0)-1) > qualityError {
				t.Errorf("%s: the first report has losses %v at %v", key, loss, samples)
			}
			if last, _ := end.Figure(perf.Samples); last != q.epochs*qualitySamples {
				t.Errorf("%s: it ends after %v samples, %v epochs", key, last, q.epochs)
			}
			never := q.form.Loss(1e12)
			if left := (q.form.Loss(q.epochs) - never) / (q.form.Loss(0) - never); left < 0.0199 || left > 0.1001 {
				t.Errorf("%s: %v of its loss are left", key, left)
			}
			step := at(500, 400, 5) // an eighth of its stay has passed: 50 s
			if s := step.Series(perf.Samples); len(s) > 0 && (s[0] < 0.449*q.epochs*qualitySamples-1 || s[len(s)-1] > 0.5*q.epochs*qualitySamples+1) {
				t.Errorf("%s: half way it reports %v of %v epochs", key, s, q.epochs)
			}
			if seen[loss[0]] {
				t.Errorf("%s: two jobs lose alike", key)
			}
			seen[loss[0]] = true
		}
	}
}

// TestAssumedQuality: jobs become elastic, unless they are already, have parts of GPUs or are
// services.
func TestAssumedQuality(t *testing.T) {
	some, part, own := job.GPUs(2), job.GPUs(1), job.GPUs(2)
	part.Roles[0].GPU /= 2
	own.Roles[0].Min, own.Roles[0].Max = 1, 3
	entries := []trace.Entry{
		{Job: job.Job{ID: 0, Key: "a", Demand: &some}}, {Job: job.Job{ID: 1, Key: "b", Demand: &part}},
		{Job: job.Job{ID: 2, Key: "c", Demand: &own}}, {Job: job.Job{ID: 3, Key: "d", Demand: &some, Kind: job.Inference}},
	}
	a := &AssumedQuality{Source: trace.FromMemory(entries)}
	for i, want := range [][2]int32{{1, 64}, {1, 1}, {1, 3}, {2, 2}} {
		var e trace.Entry
		if err := a.Next(&e); err != nil {
			t.Fatal(err)
		}
		if least, most := e.Job.Demand.Roles[0].Range(); least != want[0] || most != want[1] {
			t.Errorf("job %d has %d to %d tasks, want %v", i, least, most, want)
		}
	}
	if a.Jobs != 2 {
		t.Errorf("%d jobs report", a.Jobs)
	}
}
