package sia

import (
	"encoding/json"
	"math"
	"os"
	"testing"

	"github.com/norn-scheduler/norn/internal/longtest"
	"github.com/norn-scheduler/norn/internal/published/harness"
	"github.com/norn-scheduler/norn/internal/shared"
)

// The published run of Pollux on Sia's cluster was seeded by chance, and so is ours:
// its mean JCT is met within what seeds differ by, and most jobs end about when they do
// there. Long jobs of imagenet, which end last, decide the makespan.
func TestGolden(t *testing.T) {
	longtest.Skip(t)
	want, err := harness.ReadResult(shared.Path(t, "golden/sia/philly-workload-6-pollux-p-1-i300.csv"))
	if err != nil {
		t.Fatal(err)
	}
	o := Options{Profiles: shared.Path(t, "data/pollux_sia/profiles")}
	got, err := Run(t.Context(), shared.Path(t, "golden/inputs/sia_philly-workload-6.csv.gz"), "aws=6x4;dgx-ext=2x8;rtx=3x8", "pollux-p-1-i300", o)
	if err != nil {
		t.Fatal(err)
	}
	c := harness.Compare(got, want)
	if c.Jobs != 160 || c.Extra+c.Missing > 0 || math.Abs(c.MeanJCT) > 0.15 || math.Abs(c.Makespan) > 0.4 {
		t.Errorf("mean JCT %+.3f, makespan %+.3f: %+v", c.MeanJCT, c.Makespan, c)
	}
	t.Logf("mean JCT %.1f (%+.2f %%), makespan %.0f (%+.2f %%)", got.MeanJCT(), 100*c.MeanJCT, got.Makespan(), 100*c.Makespan)
}

// Sia is met within 5 % of mean JCT and makespan. Which of many optima is found is another
// matter there, and so are the models that jobs fit to what they measure.
func TestSia(t *testing.T) {
	golden(t, "sia-p-0.5-i60")
}

// Gavel is met within 5 % as well.
func TestGavel(t *testing.T) { golden(t, "gavel-maxsum-i360") }

func golden(t *testing.T, policy string) {
	t.Helper()
	want, err := harness.ReadResult(shared.Path(t, "golden/sia/philly-workload-6-"+policy+".csv"))
	if err != nil {
		t.Fatal(err)
	}
	o := Options{Profiles: shared.Path(t, "data/pollux_sia/profiles")}
	got, err := Run(t.Context(), shared.Path(t, "golden/inputs/sia_philly-workload-6.csv.gz"), "aws=6x4;dgx-ext=2x8;rtx=3x8", policy, o)
	if err != nil {
		t.Fatal(err)
	}
	c := harness.Compare(got, want)
	if c.Jobs != 160 || c.Extra+c.Missing > 0 || math.Abs(c.MeanJCT) > 0.05 || math.Abs(c.Makespan) > 0.05 {
		t.Errorf("mean JCT %+.3f, makespan %+.3f: %+v", c.MeanJCT, c.Makespan, c)
	}
	t.Logf("mean JCT %.1f (%+.2f %%), makespan %.0f (%+.2f %%)", got.MeanJCT(), 100*c.MeanJCT, got.Makespan(), 100*c.Makespan)
}

// published are the mean JCTs in a summary of Pollux's own simulator, by workload.
func published(t *testing.T, path string) map[string]float64 {
	t.Helper()
	b, err := os.ReadFile(shared.Path(t, "data/pollux_sia/reference_results_pollux/"+path+"/summary.json"))
	if err != nil {
		t.Fatal(err)
	}
	var s struct{ Avgs map[string]float64 }
	if err := json.Unmarshal(b, &s); err != nil {
		t.Fatal(err)
	}
	return s.Avgs
}

// The results published with Pollux are met within 5 %, here with rounds of 2 minutes;
// and so Pollux comes at least 25 % before Tiresias with tuned jobs, whose result is
// published as well (acceptance 5).
func TestPollux(t *testing.T) {
	longtest.Skip(t)
	o := Options{Profiles: shared.Path(t, "data/pollux_sia/profiles")}
	got, err := Run(t.Context(), shared.Path(t, "data/pollux_sia/workloads_pollux/workloads/workload-6.csv"), "aws=16x4", "osdi-pollux-i120", o)
	if err != nil {
		t.Fatal(err)
	}
	want, tiresias := published(t, "results-period/pollux-2m")["workload-6"], published(t, "results-jobload/tiresias-1.0")["workload-6"]
	if math.Abs(got.MeanJCT()/want-1) > 0.05 || got.MeanJCT() > 0.75*tiresias {
		t.Errorf("mean JCT %.1f, published %.1f; of Tiresias %.1f", got.MeanJCT(), want, tiresias)
	}
}
