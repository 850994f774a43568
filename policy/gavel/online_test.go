package gavel_test

import (
	"context"
	"path/filepath"
	"testing"

	"github.com/norn-scheduler/norn/cluster"
	"github.com/norn-scheduler/norn/experiment"
	"github.com/norn-scheduler/norn/internal/longtest"
	"github.com/norn-scheduler/norn/internal/shared"
	"github.com/norn-scheduler/norn/job"
	"github.com/norn-scheduler/norn/perf"
	"github.com/norn-scheduler/norn/sim"
	"github.com/norn-scheduler/norn/trace"
	"github.com/norn-scheduler/norn/trace/clusterspec"
)

// online runs one of the traces of the published simulator on twelve GPUs of each
// type, with the measured speeds.
func online(t testing.TB, name string, settings ...experiment.Setting) *experiment.Outcome {
	t.Helper()
	return play(t, name, "3x4:V100+3x4:P100+3x4:K80", func(*experiment.Experiment) {}, settings...)
}

// play runs one on a cluster, in an experiment with a change.
func play(t testing.TB, name, where string, change func(*experiment.Experiment), settings ...experiment.Setting) *experiment.Outcome {
	t.Helper()
	speeds := shared.Path(t, "data/gavel/simulation_throughputs.json.gz")
	table, err := trace.ReadThroughputs(speeds, "v100")
	if err != nil {
		t.Fatal(err)
	}
	spec, err := clusterspec.Load(where)
	if err != nil {
		t.Fatal(err)
	}
	r, err := trace.Open(filepath.Join(shared.Path(t, "golden/inputs"), name), trace.Options{Profile: speeds})
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	x := experiment.Experiment{Spec: spec, Seed: 1, Model: table}
	if x.Estimate, err = experiment.ParseEstimate("oracle"); err != nil {
		t.Fatal(err)
	}
	change(&x)
	o, err := x.Run(context.Background(), experiment.Choice{Policy: "gavel", Settings: settings}, r)
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

// sharing makes a world in which jobs share as was measured, and the scheduler believe
// what is given; nil: the same.
func sharing(truth, belief perf.Sharing) func(x *experiment.Experiment) {
	return func(x *experiment.Experiment) {
		x.World = func(c *sim.Config) { c.Sharing = truth }
		x.Sharing = belief
	}
}

// TestPacked: sharing takes mean JCT down on the trace of single-GPU jobs that
// come one by one, on a third of the GPUs for which it was made. Most of the
// gain stays if a tenth of the measurements is known and the rest estimated.
func TestPacked(t *testing.T) {
	longtest.Skip(t)
	measured, err := trace.ReadPairs(shared.Path(t, "data/gavel/simulation_throughputs.json.gz"))
	if err != nil {
		t.Fatal(err)
	}
	// Half of the sorts were measured beside each other; the others beside a fifth of those.
	table := measured.Table
	table.Speed = map[perf.Pair]float64{}
	place := map[string]int{}
	for i, m := range measured.Models {
		place[m.Name()] = i
	}
	for pair, s := range measured.Table.Speed {
		a, b := place[pair.Job], place[pair.Beside]
		if a%2 == 0 && b%2 == 0 || a%2 != b%2 && (a+b)%5 == 1 {
			table.Speed[pair] = s
		}
	}
	table.Else = apart{}
	mean := func(belief perf.Sharing, settings ...experiment.Setting) float64 {
		o := play(t, "gavel_gen300s.trace.gz", "1x6:V100+1x6:P100+1x6:K80", sharing(measured.Table, belief), settings...)
		if left := o.Result.Jobs.Waiting + o.Result.Jobs.Running; left > 0 {
			t.Errorf("%d jobs are left", left)
		}
		return o.Result.JCT.Mean.Seconds()
	}
	packed, estimate := experiment.Setting{Name: "packed", Value: "true"}, experiment.Setting{Name: "estimate", Value: "true"}
	learnt := &perf.Learner{First: table, Rate: 1, Sort: table.Sort}
	alone, all, known, guessed := mean(nil), mean(nil, packed), mean(learnt, packed), mean(learnt, packed, estimate)
	t.Logf("mean JCT: nobody shares %.0f s; all pairs known %.0f s; %d of %d known %.0f s; the rest estimated %.0f s", alone, all, len(table.Speed), len(measured.Table.Speed), known, guessed)
	if all > 0.9*alone || guessed > 0.9*alone {
		t.Errorf("sharing gains too little")
	}
}

// apart is the belief that no two jobs gain by sharing.
type apart struct{}

func (apart) Beside(*job.Job, []*job.Job, cluster.GPUType) float64 { return 0.5 }
