package shockwave_test

import (
	"testing"

	"github.com/norn-scheduler/norn/internal/shared"
	"github.com/norn-scheduler/norn/published/replay"
	"github.com/norn-scheduler/norn/published/shockwave"
)

// TestBaselines holds Gavel's policies on the trace of 120 jobs against the published
// results, job by job but where a program has many optima (docs/validate.md).
func TestBaselines(t *testing.T) {
	least := map[string]int{"gandiva_fair": 120, "max_min_fairness": 120, "min_total_duration": 120, "max_sum_throughput_perf": 110, "finish_time_fairness": 0}
	for _, b := range shockwave.Baselines() {
		o, err := shockwave.RunBaseline(t.Context(), shared.Path(t, "golden/inputs/shockwave_tacc120.trace.gz"), shared.Path(t, "data/shockwave/tacc_throughputs.json.gz"), 32, b)
		if err != nil {
			t.Fatal(err)
		}
		want, err := replay.ReadResult(shared.Path(t, "golden/shockwave/tacc120-"+b.Name+"-local.csv"))
		if err != nil {
			t.Fatal(err)
		}
		c := replay.Compare(o.Result, want)
		t.Logf("%s: %d of %d equal, mean JCT %+.3f %%, makespan %+.3f %%, %d rounds", b.Name, c.Equal, c.Jobs, 100*c.MeanJCT, 100*c.Makespan, o.Rounds)
		if c.Equal < least[b.Name] || !c.Within(2) {
			t.Errorf("%s: %d jobs equal, want %d: %s", b.Name, c.Equal, least[b.Name], c.First)
		}
	}
}
