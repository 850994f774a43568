package gimbal_test

import (
	"context"
	"io"
	"testing"

	"github.com/norn-scheduler/norn/experiment"
	"github.com/norn-scheduler/norn/internal/longtest"
	"github.com/norn-scheduler/norn/perf"
	"github.com/norn-scheduler/norn/report"
	"github.com/norn-scheduler/norn/sim"
	"github.com/norn-scheduler/norn/trace"
	"github.com/norn-scheduler/norn/trace/clusterspec"
	"github.com/norn-scheduler/norn/trace/gen"
)

// first is the first jobs of a trace.
type first struct {
	trace.Source
	left int
}

func (f *first) Next(e *trace.Entry) error {
	if f.left--; f.left < 0 {
		return io.EOF
	}
	return f.Source.Next(e)
}

// Acceptance 5 on 64 GPUs. Gangs of any size and calibration are compared with
// the same order with pairs of equal size that have half of each GPU (Lucid's
// rule). If jobs are served in order and calibration aims at completion times,
// these are at least 1.1 times better. No objective is more than 2 % worse. The
// jobs are the first 600 of the built-in trace, which is like Philly, with
// demands drawn for them.
func TestRelative(t *testing.T) {
	longtest.Skip(t)
	spec, err := clusterspec.Parse(gen.SampleCluster)
	if err != nil {
		t.Fatal(err)
	}
	sample, err := gen.Sample()
	if err != nil {
		t.Fatal(err)
	}
	jobs, err := experiment.ReadAll(gen.AssumeAccumulation(&first{sample, 600}, 1))
	if err != nil {
		t.Fatal(err)
	}
	x := experiment.Experiment{Spec: spec, Seed: 1, World: func(c *sim.Config) { c.Sharing, c.Measure = perf.Calibrated{}, true }}
	if x.Estimate, err = experiment.ParseEstimate("oracle"); err != nil {
		t.Fatal(err)
	}
	figures := func(settings ...experiment.Setting) report.Summary {
		o, err := x.Run(context.Background(), experiment.Choice{Policy: "gimbal", Settings: settings}, jobs.Source())
		if err != nil {
			t.Fatal(err)
		}
		return o.Result.Summary
	}
	for _, order := range []string{"fifo", "sjf"} {
		by := experiment.Setting{Name: "order", Value: order}
		pairs := figures(by, experiment.Setting{Name: "pack", Value: "equal"}, experiment.Setting{Name: "calibrate", Value: "false"})
		for objective, of := range map[string]func(*report.Summary) float64{
			"jct": func(s *report.Summary) float64 { return s.JCT.Mean.Seconds() }, "makespan": func(s *report.Summary) float64 { return s.Makespan.Seconds() },
			"fairness": func(s *report.Summary) float64 { return s.Fairness.Mean },
		} {
			aimed := figures(by, experiment.Setting{Name: "objective", Value: objective})
			gain := of(&pairs) / of(&aimed)
			t.Logf("%s, %s: %.4g with pairs, %.4g: %.2f times better", order, objective, of(&pairs), of(&aimed), gain)
			if gain < 0.98 || order == "fifo" && objective == "jct" && gain < 1.1 {
				t.Errorf("%s: %s is %v, with pairs %v", order, objective, of(&aimed), of(&pairs))
			}
		}
	}
}
