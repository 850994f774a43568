package report

import (
	"slices"
	"testing"
	"time"

	"github.com/norn-scheduler/norn/job"
)

// TestTiers is acceptance 2 of the specification of Singularity: 60 minutes at rate 1, 30 at 0.5 and 10
// without GPUs are a fraction of 0.75, which keeps the promise of standard and not that of premium.
func TestTiers(t *testing.T) {
	var n tiered
	of := func(tier job.Tier, work, took time.Duration) {
		r := &job.Record{Job: &job.Job{Tier: tier}, Phase: job.Done, Progress: work, End: took}
		n.job(r, r.Fraction(took+time.Hour))
	}
	of(job.Premium, 75*time.Minute, 100*time.Minute)
	of(job.Standard, 75*time.Minute, 100*time.Minute)
	of(job.Standard, 50*time.Minute, 100*time.Minute)
	of(job.Basic, 10*time.Minute, 100*time.Minute)
	want := []Tiered{
		{"premium", 0.95, 1, 0, 0, 0.75, 0.75}, {"standard", 0.7, 2, 1, 0.5, 0.625, 0.5}, {"basic", 0, 1, 1, 1, 0.1, 0.1},
	}
	if got := n.result(); !slices.Equal(got, want) {
		t.Errorf("%+v", got)
	}
	n = tiered{}
	of(job.Basic, time.Minute, time.Minute)
	if got := n.result(); got != nil {
		t.Errorf("nothing is promised, and yet %+v", got)
	}
}

// TestFractionText: as norn why and norn explain tell it.
func TestFractionText(t *testing.T) {
	r := &job.Record{Job: &job.Job{Tier: job.Premium}, Phase: job.Done, Progress: 962 * time.Second, End: 1000 * time.Second}
	if got := r.FractionText(0); got != "96.2 % of 95 % promised" {
		t.Errorf("%q", got)
	}
	if r.Job = new(job.Job); r.FractionText(0) != "" {
		t.Error("nothing is promised")
	}
}
