package experiment_test

import (
	"math"
	"testing"
	"time"

	"github.com/norn-scheduler/norn/cluster/fabric"
	"github.com/norn-scheduler/norn/experiment"
	"github.com/norn-scheduler/norn/job"
	"github.com/norn-scheduler/norn/trace"
	"github.com/norn-scheduler/norn/trace/clusterspec"
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

// TestCommunicationBetweenNodes: two jobs have two GPUs each on the middle one of three nodes, whose uplink has 10 GB/s.
// They communicate for half of their time where a node sends 20 GB/s, so that they run at 1 / (0.5 + 0.5 x 4) with 5 GB/s each, and at
// 1 / (0.5 + 0.5 x 2) alone. The short one ends at 50 / 0.4, and the long one has done as much by then.
func TestCommunicationBetweenNodes(t *testing.T) {
	s, err := clusterspec.ParseYAML("t", []byte("topology: [{level: rack, nodes: 1, uplink: 10}]\nnodes: [{count: 3, gpus: 4, nics: {count: 4, speed: 5}}]\n"))
	if err != nil {
		t.Fatal(err)
	}
	d := job.GPUs(6)
	one := func(key string, work time.Duration) trace.Entry {
		return trace.Entry{Job: job.Job{Key: key, Demand: &d, Hints: &job.Hints{Sensitive: true}}, Truth: trace.Truth{Work: work}}
	}
	jobs := experiment.Jobs{one("long", 100*time.Second), one("short", 50*time.Second)}
	x := &experiment.Experiment{Spec: s, Seed: 1, Communication: 0.5}
	ends, _ := lives(t, x, "fifo", jobs) // the end of each and its preemptions
	if math.Abs(ends[0].Seconds()-200) > 1e-6 || math.Abs(ends[2].Seconds()-125) > 1e-6 {
		t.Errorf("they end at %v", ends)
	}
}
