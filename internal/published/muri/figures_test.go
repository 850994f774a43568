package muri

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/norn-scheduler/norn/internal/longtest"
	"github.com/norn-scheduler/norn/internal/shared"
)

// drawn are the policies of the paper's figures 9 and 10, by their names there, each with
// the one of Muri's that it is compared with, and by how much that ratio may be off.
//
// Themis was drawn from another state of the code than the published one. On
// trace 3 the last job was drawn as ending 1,798 s before it could at the pace
// of the published code. That code's own run is met job by job (TestManifest of
// package golden). So its bound is wider.
var drawn = []struct {
	name, policy, beside string
	bound                float64
}{
	{"SRTF", "shortest", "Muri_S", 0.15},
	{"SRSF", "shortest-gpu", "Muri_S", 0.15},
	{"Muri_S", "multi-resource-blossom-same-gpu", "", 0},
	{"Tiresias_L", "dlas-gpu", "Muri_L", 0.15},
	{"antman", "antman", "Muri_L", 0.15},
	{"themis", "themis", "Muri_L", 0.25},
	{"Muri_L", "multi-resource-blossom-same-gpu-unaware", "", 0},
}

// published are the values from which the authors drew their figures, by name and trace.
func published(t testing.TB, order string) func(name, trace string) float64 {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(shared.Path(t, "data/muri"), "reference_fig9-13.json"))
	if err != nil {
		t.Fatal(err)
	}
	var read map[string]json.RawMessage
	var traces []string
	var values map[string][]float64
	if err := errors.Join(json.Unmarshal(text, &read), json.Unmarshal(read[order], &traces), json.Unmarshal(read["values"], &values)); err != nil {
		t.Fatal(err)
	}
	return func(name, trace string) float64 { return values[name][slices.Index(traces, trace)] }
}

// meanJCT plays a policy on one of the authors' traces.
func meanJCT(t testing.TB, trace, policy string) float64 {
	t.Helper()
	path := filepath.Join(shared.Path(t, "data/muri"), "trace-data", trace+".csv")
	if _, err := os.Stat(path); err != nil {
		path += ".gz"
	}
	r, err := Run(context.Background(), path, "n8g8", policy)
	if err != nil {
		t.Fatal(err)
	}
	return r.MeanJCT()
}

// figures holds the mean JCTs of traces against those that were drawn: where nothing is
// matched they are met, and the ratios to Muri's are within their bounds.
func figures(t testing.TB, without string, traces ...string) {
	t.Helper()
	longtest.Skip(t)
	of := published(t, "order_fig9_10")
	for _, trace := range traces {
		got, want := map[string]float64{}, map[string]float64{}
		for _, d := range drawn {
			if d.name != without {
				got[d.name], want[d.name] = meanJCT(t, trace, d.policy), of(d.name+"_JCT_raw", trace)
			}
		}
		for _, d := range drawn {
			if d.name == without {
				continue
			}
			off := got[d.name]/want[d.name] - 1
			if d.beside == "" {
				t.Logf("%s: %s: mean JCT %.0f s, published %.0f s: %+.2f %%", trace, d.name, got[d.name], want[d.name], 100*off)
				continue
			}
			if math.Abs(off) > 1e-5 && d.bound <= 0.15 {
				t.Errorf("%s: %s: mean JCT %v s, published %v s", trace, d.name, got[d.name], want[d.name])
			}
			ours, theirs := got[d.name]/got[d.beside], want[d.name]/want[d.beside]
			t.Logf("%s: %s/%s %.2f, published %.2f: %+.1f %%", trace, d.name, d.beside, ours, theirs, 100*(ours/theirs-1))
			if math.Abs(ours/theirs-1) > d.bound {
				t.Errorf("%s: %s/%s is %v, published %v", trace, d.name, d.beside, ours, theirs)
			}
		}
	}
}

// TestFigures are the traces of which runs are short. Themis solves a program of all jobs
// at every event, which is not; on trace 3 it is held against the golden result.
func TestFigures(t *testing.T) { figures(t, "themis", "trace1_pr", "trace3", "trace3_pr") }

// BenchmarkFigures is all of them, which takes one to two hours, most of it for Themis on the
// traces 2; BenchmarkFiguresWithoutThemis takes minutes.
func BenchmarkFigures(b *testing.B) {
	for b.Loop() {
		figures(b, "", "trace1", "trace1_pr", "trace2", "trace2_pr", "trace3", "trace3_pr", "trace4", "trace4_pr")
	}
}

func BenchmarkFiguresWithoutThemis(b *testing.B) {
	for b.Loop() {
		figures(b, "themis", "trace1", "trace1_pr", "trace2", "trace2_pr", "trace3", "trace3_pr", "trace4", "trace4_pr")
	}
}

// muriL is the policy of figure 12, by the largest group.
func muriL(size int) string {
	const policy = "multi-resource-blossom-same-gpu-unaware"
	if size == 4 {
		return policy
	}
	return fmt.Sprintf("%s-packing-%d", policy, size)
}

// sizes compares the mean JCTs of Muri-L with groups of up to two and three
// jobs, divided by those with up to four, with figure 12. It leaves out trace
// 1, where the published code, run again, does not give what was drawn
// (TestRunAgain).
func sizes(t testing.TB, traces ...string) {
	t.Helper()
	of := published(t, "order_fig12")
	for _, trace := range traces {
		four := meanJCT(t, trace, muriL(4))
		for size := 2; size <= 3; size++ {
			ours := meanJCT(t, trace, muriL(size)) / four
			theirs := of(fmt.Sprintf("Fig12_Muri_L_%d_JCT_raw", size), trace) / of("Fig12_Muri_L_4_JCT_raw", trace)
			t.Logf("%s: groups of %d against groups of four %.2f, published %.2f: %+.1f %%", trace, size, ours, theirs, 100*(ours/theirs-1))
			if math.Abs(ours/theirs-1) > 0.15 && trace != "trace1_pr" {
				t.Errorf("%s: groups of %d against groups of four: %v, published %v", trace, size, ours, theirs)
			}
		}
	}
}

// TestFigure12 is the trace of which runs are short.
func TestFigure12(t *testing.T) { sizes(t, "trace3_pr") }

func BenchmarkFigure12(b *testing.B) {
	for b.Loop() {
		sizes(b, "trace1_pr", "trace2_pr", "trace3_pr", "trace4_pr")
	}
}

// The published code, run again, has these mean JCTs, digit by digit.
func TestRunAgain(t *testing.T) {
	longtest.Skip(t)
	for _, c := range []struct {
		trace string
		size  int
		want  float64
	}{
		{"trace1_pr", 2, 3201806.330744}, {"trace1_pr", 3, 3108900.618337},
		{"trace3_pr", 2, 1325122.437943}, {"trace3_pr", 4, 913979.658376},
	} {
		if got := meanJCT(t, c.trace, muriL(c.size)); math.Abs(got-c.want) > 1e-5 {
			t.Errorf("%s, groups of %d: mean JCT %.6f s, want %.6f s", c.trace, c.size, got, c.want)
		}
	}
}

// Figure 13, jobs of one to four types: what was drawn of Muri is what the code gives, but
// for two of eight. Run again, the published code gives there what Norn gives, too.
func TestFigure13(t *testing.T) {
	of := published(t, "order_fig13")
	others := map[string]float64{"job_type_1 Muri_L": 502170.02, "job_type_4 Muri_S": 83242.46}
	for _, trace := range []string{"job_type_1", "job_type_2", "job_type_3", "job_type_4"} {
		for name, policy := range map[string]string{"Muri_S": "multi-resource-blossom-same-gpu", "Muri_L": muriL(4)} {
			want, other := others[trace+" "+name]
			if !other {
				want = of("Fig13_"+name+"_raw", trace)
			}
			if got := meanJCT(t, trace, policy); math.Abs(got-want) > 0.1 {
				t.Errorf("%s, %s: mean JCT %.2f s, published %.2f s", trace, name, got, want)
			}
		}
	}
}
