package experiment_test

import (
	"strings"
	"testing"
	"time"

	"github.com/norn-scheduler/norn/experiment"
	"github.com/norn-scheduler/norn/job"
	"github.com/norn-scheduler/norn/perf"
	"github.com/norn-scheduler/norn/trace"
)

// slow is one GPU of node n0 on which jobs of class B take so many times as long.
func slow(gpu int, times float64) *perf.Variability {
	return &perf.Variability{Classes: []string{"B"}, Scores: map[perf.Seat][]float64{{Node: "n0", Index: gpu}: {times}}}
}

// TestVariability: the truth sets the speed, and the belief the choice. Nothing of the truth gets to the
// policy where it believes something else.
func TestVariability(t *testing.T) {
	d := job.GPUs(2)
	jobs := experiment.Jobs{{Job: job.Job{Key: "a", Demand: &d}, Truth: trace.Truth{Work: 100 * time.Second}}}
	for _, k := range []struct {
		policy          string
		truth, believed *perf.Variability
		end             time.Duration
	}{
		{"fifo", nil, nil, 100 * time.Second},
		{"fifo", slow(1, 1.5), nil, 150 * time.Second},
		{"pal", slow(1, 1.5), nil, 100 * time.Second},
		{"pal", slow(1, 1.5), &perf.Variability{}, 150 * time.Second},
		{"pal", slow(2, 1.5), slow(0, 2), 150 * time.Second},
		{"pal", nil, slow(0, 2), 100 * time.Second},
	} {
		x := &experiment.Experiment{Spec: spec(t, "1x4"), Seed: 1, Variability: k.truth, BelievedVariability: k.believed}
		ends, o := lives(t, x, k.policy, jobs)
		if ends[0] != k.end {
			t.Errorf("%s: the job ends after %v, not %v", k.policy, ends[0], k.end)
		}
		if k.policy == "pal" && (len(o.Result.Lacks) > 0 && strings.Contains(o.Result.Lacks[0], "all GPUs of a type are alike")) != (k.believed != nil && len(k.believed.Scores) == 0) {
			t.Errorf("believing %v it is told %q", k.believed, o.Result.Lacks)
		}
	}
}

// TestVariabilityOfNothing: GPUs that the cluster does not have, or does not tell apart, are refused by name.
func TestVariabilityOfNothing(t *testing.T) {
	c, err := experiment.ParseChoice("fifo")
	if err != nil {
		t.Fatal(err)
	}
	for nodes, want := range map[string]string{"1x4": "GPU 7 of node n0: the GPUs that the cluster tells apart there end at 3", "8": "end at 0"} {
		x := &experiment.Experiment{Spec: spec(t, nodes), Seed: 1, Variability: slow(7, 2)}
		if _, err := x.Run(t.Context(), c, bare(t, 3).Source()); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("on %s: %v", nodes, err)
		}
	}
	other := &perf.Variability{Classes: []string{"B"}, Scores: map[perf.Seat][]float64{{Node: "x"}: {1}}}
	x := &experiment.Experiment{Spec: spec(t, "1x4"), Seed: 1, BelievedVariability: other}
	if _, err := x.Run(t.Context(), c, bare(t, 3).Source()); err == nil || !strings.Contains(err.Error(), "node x: the cluster has no such node") {
		t.Error(err)
	}
}
