package lucid_test

import (
	"context"
	"testing"

	"github.com/norn-scheduler/norn/internal/published/harness"
	"github.com/norn-scheduler/norn/internal/published/lucid"
	"github.com/norn-scheduler/norn/internal/shared"
)

// TestGoldenLucid: Lucid's own policy on 6,000 jobs in the fifteen virtual clusters of
// Venus: every start and end is the published simulator's, and it comes before
// tiresias, sjf, qssf and fifo in mean JCT.
func TestGoldenLucid(t *testing.T) {
	log := shared.Path(t, "golden/inputs/lucid_synth6000_cluster_full_log.csv.gz")
	mean := map[string]float64{}
	for policy, priorities := range map[string]string{"lucid": "ebm_lucid", "qssf": "lgb_qssf", "tiresias": "lgb_qssf", "sjf": "lgb_qssf", "fifo": "lgb_qssf"} {
		got, err := lucid.Run(context.Background(), log, "venus-15vc", policy, lucid.Options{
			Priorities: shared.Path(t, "data/helios/venus_sept_"+priorities+"_priority.csv.gz"), Forecast: shared.Path(t, "data/helios/venus_throughput_pred_sept.csv"),
			Scores: shared.Path(t, "data/lucid/single_data.csv"), Pairs: shared.Path(t, "data/lucid/colocate_info.csv"),
		})
		if err != nil {
			t.Fatal(err)
		}
		mean[policy] = got.MeanJCT()
		if policy != "lucid" {
			continue
		}
		want, err := harness.ReadResult(shared.Path(t, "golden/lucid/synth6000-venus-lucid.csv.gz"))
		if err != nil {
			t.Fatal(err)
		}
		if c := harness.Compare(got, want); c.Equal != len(want.Rows) || len(want.Rows) != 6000 {
			t.Errorf("%+v", c)
		}
	}
	t.Logf("mean JCT in s: %v", mean)
	for _, other := range []string{"tiresias", "sjf", "qssf", "fifo"} {
		if mean["lucid"] >= mean[other] || mean[other] > mean["fifo"] {
			t.Errorf("mean JCT: lucid %.0f s, %s %.0f s, fifo %.0f s", mean["lucid"], other, mean[other], mean["fifo"])
		}
	}
}

func BenchmarkLucid(b *testing.B) {
	for b.Loop() {
		_, err := lucid.Run(context.Background(), shared.Path(b, "golden/inputs/lucid_synth6000_cluster_full_log.csv.gz"), "venus-15vc", "lucid", lucid.Options{
			Priorities: shared.Path(b, "data/helios/venus_sept_ebm_lucid_priority.csv.gz"), Forecast: shared.Path(b, "data/helios/venus_throughput_pred_sept.csv"),
			Scores: shared.Path(b, "data/lucid/single_data.csv"), Pairs: shared.Path(b, "data/lucid/colocate_info.csv"),
		})
		if err != nil {
			b.Fatal(err)
		}
	}
}
