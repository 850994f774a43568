package experiment_test

import (
	"math"
	"testing"
	"time"

	"github.com/norn-scheduler/norn/cluster/fabric"
	"github.com/norn-scheduler/norn/experiment"
	"github.com/norn-scheduler/norn/job"
	"github.com/norn-scheduler/norn/trace"
)

// TestCommunication: a job that minds its bandwidth takes longer over slow links, under whatever policy,
// as much longer as is said.
func TestCommunication(t *testing.T) {
	d := job.GPUs(2)
	jobs := experiment.Jobs{{Job: job.Job{Key: "a", Demand: &d, Hints: &job.Hints{Sensitive: true}}, Truth: trace.Truth{Work: 100 * time.Second}}}
	for policy, want := range map[string]float64{
		"mapa":                100,
		"mapa(rule=baseline)": 100 * (0.7 + 0.3*fabric.Predicted(2, 0, 0)/fabric.Predicted(0, 2, 0)),
	} {
		x := &experiment.Experiment{Spec: spec(t, "1x8:V100/dgx1"), Seed: 1, Communication: 0.3}
		if ends, _ := lives(t, x, policy, jobs); math.Abs(ends[0].Seconds()-want) > 1e-6 {
			t.Errorf("%s: %v, want %v s", policy, ends[0], want)
		}
	}
}
