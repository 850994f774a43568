package gavel_test

import (
	"context"
	"path/filepath"
	"testing"

	"github.com/norn-scheduler/norn/clusterspec"
	"github.com/norn-scheduler/norn/internal/shared"
	"github.com/norn-scheduler/norn/run"
	"github.com/norn-scheduler/norn/trace"
)

// online runs one of the traces of the published simulator on twelve GPUs of each
// type, with the measured speeds.
func online(t testing.TB, name string, settings ...run.Setting) *run.Outcome {
	t.Helper()
	speeds := shared.Path(t, "data/gavel/simulation_throughputs.json.gz")
	table, err := trace.ReadThroughputs(speeds, "v100")
	if err != nil {
		t.Fatal(err)
	}
	spec, err := clusterspec.Load("3x4:V100+3x4:P100+3x4:K80")
	if err != nil {
		t.Fatal(err)
	}
	r, err := trace.Open(filepath.Join(shared.Path(t, "golden/inputs"), name), trace.Options{Profile: speeds})
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	x := run.Experiment{Spec: spec, Seed: 1, Model: table}
	if x.Estimate, err = run.ParseEstimate("oracle"); err != nil {
		t.Fatal(err)
	}
	o, err := x.Run(context.Background(), run.Choice{Policy: "gavel", Settings: settings}, r)
	if err != nil {
		t.Fatal(err)
	}
	return o
}

// BenchmarkOnline is a run of 300 jobs that come one by one, with a program at each
// reset, which the published simulator needs 4.8 s of CPU for.
func BenchmarkOnline(b *testing.B) {
	for b.Loop() {
		online(b, "gavel_gen300s.trace.gz")
	}
}
