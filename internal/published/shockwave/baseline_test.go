package shockwave_test

import (
	"testing"

	"github.com/norn-scheduler/norn/internal/published/harness"
	"github.com/norn-scheduler/norn/internal/published/shockwave"
	"github.com/norn-scheduler/norn/internal/shared"
)

// TestBaselines holds Gavel's policies on the trace of 120 jobs against the published
// results, job by job. Those of AlloX are of a newer SciPy, and of an older one, with which
// the authors' own result was made.
func TestBaselines(t *testing.T) {
	for _, b := range shockwave.Baselines() {
		o, err := shockwave.RunBaseline(t.Context(), shared.Path(t, "golden/inputs/shockwave_tacc120.trace.gz"), shared.Path(t, "data/shockwave/tacc_throughputs.json.gz"), 32, b)
		if err != nil {
			t.Fatal(err)
		}
		result := b.Name + "-local"
		if b.Name == "allox-scipy1.8" {
			result = "allox-authors_shipped"
		}
		want, err := harness.ReadResult(shared.Path(t, "golden/shockwave/tacc120-"+result+".csv"))
		if err != nil {
			t.Fatal(err)
		}
		c := harness.Compare(o.Result, want)
		t.Logf("%s: %d of %d equal, mean JCT %+.3f %%, makespan %+.3f %%, %d rounds", b.Name, c.Equal, c.Jobs, 100*c.MeanJCT, 100*c.Makespan, o.Rounds)
		if !c.Exact() {
			t.Errorf("%s: %d of %d jobs equal: %s", b.Name, c.Equal, c.Jobs, c.First)
		}
	}
}
