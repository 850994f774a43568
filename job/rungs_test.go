package job_test

import (
	"testing"

	"pgregory.net/rapid"

	"github.com/norn-scheduler/norn/job"
)

// TestRungs: what was written is read again, and what makes no sense is refused.
func TestRungs(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var r job.Rungs
		jobs := rapid.Int32Range(1, job.MaxTasks).Draw(t, "jobs")
		for i := range rapid.IntRange(0, job.MaxRungs).Draw(t, "rungs") {
			r[i] = job.Rung{Jobs: jobs, Units: rapid.Float64Range(1e-9, 1e15).Draw(t, "units")}
			jobs = rapid.Int32Range(1, jobs).Draw(t, "jobs")
		}
		if got, err := job.ParseRungs(r.String()); err != nil || got != r {
			t.Fatalf("%q is read as %v (%v), not as %v", r.String(), got, err, r)
		}
	})
	for _, bad := range []string{"4", "x8", "4x", "0x8", "-1x8", "4x0", "4x-1", "4xNaN", "4xInf", "1x8+2x8", "4x8+", "+", "4x1e16", "2000000x1", "4x8 2x8", "1x1+1x1+1x1+1x1+1x1+1x1+1x1+1x1+1x1+1x1+1x1+1x1+1x1"} {
		if r, err := job.ParseRungs(bad); err == nil {
			t.Errorf("%q is read as %v", bad, r)
		}
	}
	if r, err := job.ParseRungs("4x8+2x16+1x36"); err != nil || len(r.All()) != 3 || r[2] != (job.Rung{Jobs: 1, Units: 36}) {
		t.Errorf("%v, %v", r, err)
	}
}
