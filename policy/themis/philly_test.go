package themis_test

import (
	"context"
	"testing"
	"time"

	"github.com/norn-scheduler/norn/experiment"
	"github.com/norn-scheduler/norn/internal/longtest"
	"github.com/norn-scheduler/norn/internal/shared"
	"github.com/norn-scheduler/norn/job"
	"github.com/norn-scheduler/norn/trace"
	"github.com/norn-scheduler/norn/trace/clusterspec"
)

// long is a trace without jobs of less than an hour.
type long struct {
	trace.Source
	n int
}

func (l *long) Next(e *trace.Entry) error {
	for {
		if err := l.Source.Next(e); err != nil {
			return err
		}
		if e.Truth.Work >= time.Hour {
			e.Job.ID = job.ID(l.n)
			l.n++
			return nil
		}
	}
}

// philly runs the long ones among the first passed jobs of Philly, and returns the
// outcome.
func philly(t testing.TB, policy, nodes string, limit int) *experiment.Outcome {
	t.Helper()
	src, err := trace.Open(shared.Path(t, "data/philly/sia_philly_passed_jobs.csv.gz"), trace.Options{Limit: limit, Sort: true})
	if err != nil {
		t.Fatal(err)
	}
	defer src.Close()
	spec, err := clusterspec.Parse(nodes)
	if err != nil {
		t.Fatal(err)
	}
	c, err := experiment.ParseChoice(policy)
	if err != nil {
		t.Fatal(err)
	}
	x := experiment.Experiment{Spec: spec, Whole: true, Estimate: experiment.Estimate{From: experiment.Oracle}, Seed: 1}
	out, err := x.Run(context.Background(), c, &long{Source: src})
	if err != nil {
		t.Fatal(err)
	}
	return out
}

// Section 8.3: at a contention above one, of jobs of an hour and more, Themis has the
// lowest worst rho, with auctions or where the worst off go first, below LAS and SRTF and
// far below FIFO.
func TestPhilly(t *testing.T) {
	longtest.Skip(t)
	worst := map[string]float64{}
	for name, policy := range map[string]string{"auction": "themis", "greedy": "themis(variant=greedy)", "las": "las", "srtf": "srtf", "fifo": "fifo"} {
		worst[name] = philly(t, policy, "16x8", 2000).Result.Fairness.Worst
	}
	t.Logf("worst rho %v", worst)
	if worst["greedy"] >= worst["srtf"] || worst["greedy"] >= worst["las"] || worst["auction"] >= worst["srtf"] || worst["auction"] >= worst["las"] || worst["fifo"] < 20*worst["auction"] {
		t.Errorf("worst rho %v", worst)
	}
}
