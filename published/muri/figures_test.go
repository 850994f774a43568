package muri

import (
	"context"
	"encoding/json"
	"math"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/norn-scheduler/norn/internal/shared"
)

// drawn are the policies of the paper's figures 9 and 10 that are held against them, by
// their names there, each with the one of Muri's that it is compared with. Themis is left
// out: see the page.
var drawn = []struct{ name, policy, beside string }{
	{"SRTF", "shortest", "Muri_S"},
	{"SRSF", "shortest-gpu", "Muri_S"},
	{"Muri_S", "multi-resource-blossom-same-gpu", ""},
	{"Tiresias_L", "dlas-gpu", "Muri_L"},
	{"antman", "antman", "Muri_L"},
	{"Muri_L", "multi-resource-blossom-same-gpu-unaware", ""},
}

// figures holds the mean JCTs of traces against those from which the authors drew their
// figures: where nothing is matched they are met, and the ratios to Muri's are within 15 %.
func figures(t testing.TB, traces ...string) {
	t.Helper()
	folder := shared.Path(t, "data/muri")
	text, err := os.ReadFile(filepath.Join(folder, "reference_fig9-13.json"))
	if err != nil {
		t.Fatal(err)
	}
	var published struct {
		Order  []string `json:"order_fig9_10"`
		Values map[string][]float64
	}
	if err := json.Unmarshal(text, &published); err != nil {
		t.Fatal(err)
	}
	for _, trace := range traces {
		at := slices.Index(published.Order, trace)
		path := filepath.Join(folder, "trace-data", trace+".csv")
		if _, err := os.Stat(path); err != nil {
			path += ".gz"
		}
		got, want := map[string]float64{}, map[string]float64{}
		for _, d := range drawn {
			r, err := Run(context.Background(), path, "n8g8", d.policy)
			if err != nil {
				t.Fatal(err)
			}
			got[d.name], want[d.name] = r.MeanJCT(), published.Values[d.name+"_JCT_raw"][at]
		}
		for _, d := range drawn {
			if off := got[d.name]/want[d.name] - 1; d.beside == "" {
				t.Logf("%s: %s: mean JCT %.0f s, published %.0f s: %+.2f %%", trace, d.name, got[d.name], want[d.name], 100*off)
				continue
			} else if math.Abs(off) > 1e-5 {
				t.Errorf("%s: %s: mean JCT %v s, published %v s", trace, d.name, got[d.name], want[d.name])
			}
			ours, theirs := got[d.name]/got[d.beside], want[d.name]/want[d.beside]
			t.Logf("%s: %s/%s %.2f, published %.2f: %+.1f %%", trace, d.name, d.beside, ours, theirs, 100*(ours/theirs-1))
			if math.Abs(ours/theirs-1) > 0.15 {
				t.Errorf("%s: %s/%s is %v, published %v", trace, d.name, d.beside, ours, theirs)
			}
		}
	}
}

// TestFigures are the traces of which runs are short.
func TestFigures(t *testing.T) { figures(t, "trace1_pr", "trace3", "trace3_pr") }

// BenchmarkFigures is all of them, which takes minutes.
func BenchmarkFigures(b *testing.B) {
	for b.Loop() {
		figures(b, "trace1", "trace1_pr", "trace2", "trace2_pr", "trace3", "trace3_pr", "trace4", "trace4_pr")
	}
}
