package gen_test

import (
	"testing"

	"github.com/norn-scheduler/norn/job"
	"github.com/norn-scheduler/norn/trace"
	"github.com/norn-scheduler/norn/trace/gen"
)

// TestSlices: jobs of several GPUs have workers that take turns; those of one GPU, services and those
// that come to another size in a way of their own stay as they are.
func TestSlices(t *testing.T) {
	entry := func(gpus int, change func(*job.Job)) trace.Entry {
		d := job.GPUs(gpus)
		e := trace.Entry{Job: job.Job{Demand: &d}}
		if change != nil {
			change(&e.Job)
		}
		return e
	}
	a := &gen.AssumedSlices{Source: trace.FromMemory([]trace.Entry{
		entry(8, nil), entry(1, nil), entry(4, func(j *job.Job) { j.Kind = job.Inference }), entry(4, func(j *job.Job) { j.Resize = job.InPlace }),
	})}
	for i, want := range []int32{1, 0, 0, 0} {
		var e trace.Entry
		if err := a.Next(&e); err != nil {
			t.Fatal(err)
		}
		if got := e.Job.Demand.Roles[0].Min; got != want || (e.Job.Resize == job.TimeSliced) != (want > 0) {
			t.Errorf("job %d: at least %d tasks, %v", i, got, e.Job.Resize)
		}
	}
	if a.Jobs != 1 {
		t.Errorf("%d jobs were changed", a.Jobs)
	}
}
