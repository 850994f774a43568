package gen

import (
	"errors"
	"io"
	"testing"

	"github.com/norn-scheduler/norn/cluster"
	"github.com/norn-scheduler/norn/job"
	"github.com/norn-scheduler/norn/perf"
	"github.com/norn-scheduler/norn/trace"
)

// TestHybrid lets jobs run on other numbers and types of GPUs, where the memory suffices.
func TestHybrid(t *testing.T) {
	c := cluster.New()
	for _, name := range []string{"A40", "A10"} {
		typ, err := c.AddType(cluster.GPUType{Name: name})
		if err == nil {
			_, err = c.AddNode(cluster.NodeSpec{GPUs: []cluster.GPUs{{Type: typ, Count: 8}}})
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	of := func(model, types string, gpus int) trace.Entry {
		d := job.GPUs(gpus)
		d.Types = types
		return trace.Entry{Job: job.Job{Model: model, Demand: &d, Key: model}}
	}
	src := &AssumedHybrid{Cluster: c, Seed: 1, Source: trace.FromMemory([]trace.Entry{
		of("bert__2.6B", "a40", 4), of("moe_690M", "", 2), of("moe_10B", "A10", 16), of("resnet", "A40", 2), of("", "A10", 2), of("bert_760M", "", 32),
	})}
	var jobs []job.Job
	for {
		var e trace.Entry
		if err := src.Next(&e); errors.Is(err, io.EOF) {
			break
		} else if err != nil {
			t.Fatal(err)
		}
		jobs = append(jobs, e.Job)
	}
	for i, want := range []struct {
		least, most int32
		types       string
	}{{4, 16, "a40|A10"}, {1, 16, "A40|A10"}, {4, 16, "A10|A40"}, {0, 0, "A40"}, {1, 16, "A10|A40"}, {0, 0, ""}} {
		if r := jobs[i].Demand.Roles[0]; r.Min != want.least || r.Max != want.most || jobs[i].Demand.Types != want.types {
			t.Errorf("job %d: %d to %d of %q", i, r.Min, r.Max, jobs[i].Demand.Types)
		}
	}
	if m, ok := perf.LargeModel(jobs[4].Model); !ok || m.Memory > 48<<30 || src.Jobs != 4 {
		t.Errorf("%d jobs, one that fits into 48 GiB trains %q", src.Jobs, jobs[4].Model)
	}
}
