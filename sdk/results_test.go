package sdk_test

import (
	"encoding/json"
	"math"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/norn-scheduler/norn/experiment"
	"github.com/norn-scheduler/norn/report"
	"github.com/norn-scheduler/norn/trace"
	"github.com/norn-scheduler/norn/trace/clusterspec"
	"github.com/norn-scheduler/norn/trace/gen"
)

// pandas skips a test that needs it where it is not there.
func pandas(t *testing.T) {
	t.Helper()
	if out, err := exec.CommandContext(t.Context(), python(t), "-c", "import pandas").CombinedOutput(); err != nil {
		if os.Getenv("CI") != "" {
			t.Fatalf("pandas is missing: continuous integration needs python3-pandas: %s", out)
		}
		t.Skip("pandas is missing (Debian: python3-pandas)")
	}
}

// TestResults: Python reads what a simulation has written, and finds its figures in it.
func TestResults(t *testing.T) {
	pandas(t)
	spec, err := clusterspec.Parse(gen.SampleCluster)
	if err != nil {
		t.Fatal(err)
	}
	f := &experiment.Folder{Path: filepath.Join(t.TempDir(), "results")}
	if err := f.Begin(); err != nil {
		t.Fatal(err)
	}
	src, err := experiment.OpenSample(trace.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer src.Close()
	x := experiment.Experiment{Spec: spec, Seed: 1, Report: report.Options{Series: true}}
	o, err := x.Run(t.Context(), experiment.Choice{Policy: "srtf"}, src)
	if err != nil {
		t.Fatal(err)
	}
	if err := f.Write(o.Name, o.State, o.Result, o.Sim.Truth); err != nil {
		t.Fatal(err)
	}
	if err := f.Commit(); err != nil {
		t.Fatal(err)
	}
	out := run(t, "-c", `
import json, sys, norn.results
r = norn.results.load(sys.argv[1])
j = r.jobs[r.jobs.jct_s.notna() & r.jobs.first_start_s.notna()]
s = r.series
print(json.dumps({
    "runs": r.runs, "jobs": len(r.jobs), "jct": j.jct_s.mean(), "p99": j.jct_s.quantile(0.99), "rho": j.rho.mean(), "lost": float(r.jobs.lost_gpu_s.sum()),
    "told": r.summary.loc["srtf", "jct_s.mean"], "held": ((s.to_s - s.from_s) * s.utilisation * s.gpus).sum().item(),
}))`, f.Path)
	var got struct {
		Runs                            []string
		Jobs                            int
		JCT, P99, Rho, Lost, Told, Held float64
	}
	if err := json.Unmarshal([]byte(out), &got); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	r := o.Result
	if len(got.Runs) != 1 || got.Runs[0] != "srtf" || got.Jobs != r.Jobs.Submitted || got.Jobs < 100 {
		t.Errorf("%d jobs of %q, want %d", got.Jobs, got.Runs, r.Jobs.Submitted)
	}
	for name, pair := range map[string][2]float64{
		"mean JCT": {got.JCT, r.JCT.Mean.Seconds()}, "JCT in the summary": {got.Told, r.JCT.Mean.Seconds()}, "p99 JCT": {got.P99, r.JCT.P99.Seconds()},
		"rho": {got.Rho, r.Fairness.Mean}, "GPU time lost": {got.Lost / 3600, r.GPU.Lost}, "GPU time held": {got.Held / 3600, r.GPU.Held},
	} {
		if math.Abs(pair[0]-pair[1]) > 1e-4*math.Abs(pair[1]) {
			t.Errorf("%s is %v, want %v", name, pair[0], pair[1])
		}
	}
}
