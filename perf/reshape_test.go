package perf_test

import (
	"testing"
	"time"

	"github.com/norn-scheduler/norn/job"
	"github.com/norn-scheduler/norn/perf"
)

// TestReshape: another size costs resize and another place migrate, but in-place where a job
// says so and one of its tasks stays.
func TestReshape(t *testing.T) {
	c := perf.Costs{
		Base:  perf.Cost{Migrate: 30 * time.Second, Resize: 20 * time.Second, InPlace: 2 * time.Second, TimeSliced: time.Second},
		Tiers: []perf.Tier{{GPUs: 8, Cost: perf.Cost{Migrate: 60 * time.Second, Resize: 40 * time.Second, InPlace: 4 * time.Second}}},
	}
	for _, k := range []struct {
		way          job.ResizeMode
		gpus         int
		moved, stays bool
		want         time.Duration
	}{
		{job.ByRestart, 2, false, true, 20 * time.Second}, {job.ByRestart, 2, true, false, 30 * time.Second}, {job.ByRestart, 8, false, true, 40 * time.Second},
		{job.InPlace, 2, false, true, 2 * time.Second}, {job.InPlace, 8, false, true, 4 * time.Second}, {job.InPlace, 2, true, true, 2 * time.Second},
		{job.InPlace, 2, false, false, 20 * time.Second}, {job.TimeSliced, 2, false, true, time.Second}, {job.TimeSliced, 2, true, false, 30 * time.Second}, {job.InPlace, 2, true, false, 30 * time.Second},
	} {
		if got := c.Reshape(&job.Job{Resize: k.way}, k.gpus, false, k.moved, k.stays); got != k.want {
			t.Errorf("%+v costs %v", k, got)
		}
	}
}
