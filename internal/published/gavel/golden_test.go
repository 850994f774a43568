package gavel_test

import (
	"path/filepath"
	"strings"
	"testing"

	"github.com/norn-scheduler/norn/internal/published/gavel"
	"github.com/norn-scheduler/norn/internal/published/harness"
	"github.com/norn-scheduler/norn/internal/shared"
)

// TestGolden holds every policy against every published result that there is, job by
// job.
func TestGolden(t *testing.T) {
	speeds := shared.Path(t, "data/gavel/simulation_throughputs.json.gz")
	clusters := map[string]string{"max_min_fairness-12_12_12-": "V100:P100:K80=12:12:12", "small_test-2_2_2-": "V100:P100:K80=2:2:2"}
	held := 0
	for begins, cluster := range clusters {
		trace, _, _ := strings.Cut(begins, "-")
		paths, err := filepath.Glob(filepath.Join(shared.Path(t, "golden/gavel"), begins+"*.csv"))
		if err != nil {
			t.Fatal(err)
		}
		for _, path := range paths {
			policy := strings.TrimSuffix(strings.TrimPrefix(filepath.Base(path), begins), ".csv")
			got, err := gavel.Run(t.Context(), shared.Path(t, "golden/inputs/gavel_"+trace+".trace.gz"), cluster, policy, gavel.Options{Speeds: speeds})
			if err != nil {
				t.Fatal(err)
			}
			want, err := harness.ReadResult(path)
			if err != nil {
				t.Fatal(err)
			}
			held++
			if c := harness.Compare(got, want); !c.Exact() {
				t.Errorf("%s of %s: %d of %d jobs equal: %s", policy, trace, c.Equal, c.Jobs, c.First)
			}
		}
	}
	if held < 21 {
		t.Errorf("%d results were held against", held)
	}
}
