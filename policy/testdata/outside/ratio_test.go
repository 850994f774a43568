package ratio

import (
	"context"
	"strings"
	"testing"

	"github.com/norn-scheduler/norn/experiment"
	"github.com/norn-scheduler/norn/sched"
	"github.com/norn-scheduler/norn/sim/simtest"
	"github.com/norn-scheduler/norn/trace/clusterspec"
)

// TestProperties holds the policy to what every policy owes the engine.
func TestProperties(t *testing.T) {
	for name, shape := range map[string]simtest.Shape{
		"plain": {}, "tenants": {Tenants: true, Costs: true}, "types": {Types: true, Parts: true}, "operated": {Operated: true, Failures: true},
	} {
		t.Run(name, func(t *testing.T) {
			simtest.Properties(t, shape, func() (sched.Policy, error) { return NewConfig().Policy() })
		})
	}
}

// TestHistory: a short job overtakes a long one once it has waited for a multiple of its
// length.
func TestHistory(t *testing.T) {
	r := simtest.Go(t, simtest.Config{Cluster: simtest.Nodes(1, 4), Make: func() (sched.Policy, error) { return NewConfig().Policy() }},
		simtest.Job{Key: "first", At: 0, GPUs: 4, Run: 60},
		simtest.Job{Key: "long", At: 10, GPUs: 4, Run: 100},
		simtest.Job{Key: "short", At: 20, GPUs: 4, Run: 10},
	)
	if r.Start("short") != 60 || r.Start("long") != 70 {
		t.Errorf("short starts at %g s, long at %g s", r.Start("short"), r.Start("long"))
	}
}

// TestRun simulates the policy beside one of the table, with a setting.
func TestRun(t *testing.T) {
	spec, err := clusterspec.Parse("1x4")
	if err != nil {
		t.Fatal(err)
	}
	choices, err := experiment.ParseChoices("ratio(least=1h),ratio,fifo", Entry())
	if err != nil {
		t.Fatal(err)
	}
	jobs, err := experiment.ReadAll(simtest.Source([]simtest.Job{
		{Key: "first", At: 0, GPUs: 4, Run: 60}, {Key: "long", At: 10, GPUs: 4, Run: 100}, {Key: "short", At: 20, GPUs: 4, Run: 10},
	}))
	if err != nil {
		t.Fatal(err)
	}
	x := experiment.Experiment{Spec: spec, Seed: 1}
	outcomes, err := x.All(context.Background(), choices, jobs.Source(), nil)
	if err != nil {
		t.Fatal(err)
	}
	// With all jobs counted as an hour long, the policy is first in, first out.
	patient, eager, fifo := outcomes[0].Result.JCT.Mean, outcomes[1].Result.JCT.Mean, outcomes[2].Result.JCT.Mean
	if patient != fifo || eager >= fifo {
		t.Errorf("mean JCT: %v as fifo, %v as it is, %v under fifo", patient, eager, fifo)
	}
	if err := experiment.CheckChoices([]experiment.Choice{experiment.Own(Entry(), experiment.Setting{Name: "most", Value: "1"})}); err == nil || !strings.Contains(err.Error(), "policy ratio: ") {
		t.Errorf("a setting that there is not: %v", err)
	}
	if err := experiment.CheckChoices([]experiment.Choice{experiment.Own(Entry(), experiment.Setting{Name: "least", Value: "0"})}); err == nil || !strings.Contains(err.Error(), "write more than 0") {
		t.Errorf("a value that the policy refuses: %v", err)
	}
}
