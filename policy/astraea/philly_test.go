package astraea_test

import (
	"context"
	"testing"

	"github.com/norn-scheduler/norn/experiment"
	"github.com/norn-scheduler/norn/internal/longtest"
	"github.com/norn-scheduler/norn/internal/shared"
	"github.com/norn-scheduler/norn/policy/astraea"
	"github.com/norn-scheduler/norn/trace"
	"github.com/norn-scheduler/norn/trace/clusterspec"
)

// philly runs jobs of Philly's virtual clusters.
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
	out, err := x.Run(context.Background(), c, src)
	if err != nil {
		t.Fatal(err)
	}
	return out
}

// Section 5.3 on the first jobs of Philly's virtual clusters, on a cluster that
// is too small for them. Few jobs have a sharing loss (less than 95 % of their
// fair time) under Astraea. More have one if the job that is worst off by
// finish time goes first, and most under FIFO, which also has the longer JCT.
func TestPhilly(t *testing.T) {
	longtest.Skip(t)
	loss, jct := map[string]float64{}, map[string]float64{}
	for _, policy := range []string{"astraea", "themis(variant=greedy,term=15m)", "fifo"} {
		o := philly(t, policy, "12x8", 1500)
		loss[o.Choice.Policy], jct[o.Choice.Policy] = astraea.Losers(o.State), o.Result.JCT.Mean.Hours()
	}
	t.Logf("with a loss %v, mean JCT %v h", loss, jct)
	if loss["themis"] < 2*loss["astraea"] || loss["fifo"] < 2*loss["themis"] || jct["astraea"] > jct["fifo"] {
		t.Errorf("with a loss %v, mean JCT %v h", loss, jct)
	}
}
