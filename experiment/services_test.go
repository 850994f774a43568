package experiment

import (
	"errors"
	"io"
	"testing"
	"time"

	"github.com/norn-scheduler/norn/job"
	"github.com/norn-scheduler/norn/trace"
	"github.com/norn-scheduler/norn/trace/clusterspec"
)

// TestServicesLast: with --assume services there is a service on each GPU as long as jobs are
// submitted, and for seven days at least; the jobs are all there.
func TestServicesLast(t *testing.T) {
	const day = 24 * time.Hour
	spec, err := clusterspec.Load("2x2:V100")
	if err != nil {
		t.Fatal(err)
	}
	for _, k := range []struct{ last, want time.Duration }{{0, 7 * day}, {5 * day, 7 * day}, {6*day + 1, 8 * day}, {94*day + 12*time.Hour, 96 * day}} {
		d := job.GPUs(1)
		src := trace.FromMemory([]trace.Entry{
			{Job: job.Job{ID: 0, Key: "first", Demand: &d}, Truth: trace.Truth{Work: time.Hour}},
			{Job: job.Job{ID: 1, Key: "last", Submit: k.last, Demand: &d}, Truth: trace.Truth{Work: time.Hour}},
		})
		p, err := Prepare(src, Preparation{Spec: spec, Assume: AssumeServices, Seed: 1})
		if err != nil {
			t.Fatal(err)
		}
		services, others := 0, 0
		for {
			var e trace.Entry
			if err := p.Next(&e); errors.Is(err, io.EOF) {
				break
			} else if err != nil {
				t.Fatal(err)
			}
			if e.Job.Kind != job.Inference {
				others++
				continue
			}
			if services++; e.Truth.Work != k.want || e.Job.Submit != 0 {
				t.Errorf("last job at %v: a service runs for %v from %v on, want %v", k.last, e.Truth.Work, e.Job.Submit, k.want)
			}
		}
		if services != 4 || others != 2 {
			t.Errorf("%d services and %d jobs, want 4 and 2", services, others)
		}
	}
}
