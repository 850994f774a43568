package synergy_test

import (
	"context"
	"testing"

	"github.com/norn-scheduler/norn/experiment"
	"github.com/norn-scheduler/norn/perf"
	"github.com/norn-scheduler/norn/trace/clusterspec"
	"github.com/norn-scheduler/norn/trace/gen"
)

// Acceptance F on 128 GPUs: 9 jobs an hour of one GPU, 20 % image, 70 %
// language and 10 % speech models. Jobs end far sooner in the mean than with
// proportional shares, under every order. If all are language models, the mean
// is exactly the same. The published trace cannot be had;
// docs/policies/synergy.md has the figures on ours.
func TestRelativeResult(t *testing.T) {
	spec, err := clusterspec.Load("synergy")
	if err != nil {
		t.Fatal(err)
	}
	x := experiment.Experiment{Spec: spec, Seed: 1, Model: &perf.Grids{Models: perf.MeasuredGrids()}}
	for _, c := range []struct {
		mix   gen.Mix
		order string
		most  float64 // of the mean JCT in proportion
	}{{gen.DefaultMix(), "fifo", 0.9}, {gen.DefaultMix(), "srtf", 0.9}, {gen.Mix{Language: 100}, "fifo", 1}} {
		jobs, err := gen.NewRations(gen.Rations{Jobs: 1000, PerHour: 9, Mix: c.mix, Seed: 1})
		if err != nil {
			t.Fatal(err)
		}
		var mean [2]float64
		for i, share := range []string{"proportional", "tune"} {
			choice := experiment.Choice{Policy: "synergy", Settings: []experiment.Setting{{Name: "order", Value: c.order}, {Name: "share", Value: share}}}
			o, err := x.Run(context.Background(), choice, experiment.Jobs(jobs).Source())
			if err != nil {
				t.Fatal(err)
			}
			mean[i] = o.Result.JCT.Mean.Seconds()
		}
		if got := mean[1] / mean[0]; got > c.most || c.most == 1 && got != 1 {
			t.Errorf("%+v, %s: %.9f of the mean JCT in proportion, want at most %v", c.mix, c.order, got, c.most)
		} else {
			t.Logf("%+v, %s: %.3f of the mean JCT in proportion", c.mix, c.order, got)
		}
	}
}
