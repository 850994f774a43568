package muri_test

import (
	"strings"
	"testing"
	"time"

	"github.com/norn-scheduler/norn/cluster"
	"github.com/norn-scheduler/norn/cluster/unit"
	"github.com/norn-scheduler/norn/job"
	"github.com/norn-scheduler/norn/perf"
	"github.com/norn-scheduler/norn/policy/muri"
	"github.com/norn-scheduler/norn/sim"
	"github.com/norn-scheduler/norn/sim/simtest"
)

// TestMemoryToldByHints: jobs that only tell in their hints how much memory they take are put
// into groups that a GPU holds, each with one that fits beside it, and none is thrown off.
func TestMemoryToldByHints(t *testing.T) {
	c := cluster.New()
	typ, err := c.AddType(cluster.GPUType{Name: "gpu", Memory: 16 * unit.GiB})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := c.AddNode(cluster.NodeSpec{GPUs: []cluster.GPUs{{Type: typ, Count: 2}}}); err != nil {
		t.Fatal(err)
	}
	one := func(key string, gib unit.Bytes, stage int) simtest.Job {
		return simtest.Job{Key: key, GPUs: 1, Run: 600, GPUMemory: gib * unit.GiB, Spec: func(j *job.Job) {
			h := job.Hints{GPUMemory: gib * unit.GiB, Iteration: 4 * time.Second, Stages: [3]time.Duration{time.Second, time.Second, time.Second}}
			h.Stages[stage] = 2 * time.Second
			j.Hints = &h
		}}
	}
	sharing := perf.Profiled{Turns: perf.Interleave{Overhead: perf.PublishedOverhead()}}
	run := simtest.Go(t, simtest.Config{
		Cluster: c, Make: muri.NewShort().Policy, Shared: true, Sharing: sharing, World: func(c *sim.Config) { c.Sharing = sharing },
	}, one("large", 12, 0), one("larger", 13, 1), one("small", 3, 2), one("smaller", 2, 0))
	log := strings.Join(run.Log, "\n")
	if strings.Contains(log, " evict ") {
		t.Errorf("a job was thrown off\n%s", log)
	}
	if shared := strings.Count(log, "x0.5"); shared < 4 {
		t.Errorf("large ones are not each beside a small one\n%s", log)
	}
}
