package gen

import (
	"errors"
	"io"
	"math"
	"testing"

	"github.com/norn-scheduler/norn/cluster"
	"github.com/norn-scheduler/norn/job"
	"github.com/norn-scheduler/norn/trace"
)

// TestScaling makes jobs elastic up to as many GPUs as were measured, and as fast as that.
func TestScaling(t *testing.T) {
	of := func(model string, batch, gpus int) trace.Entry {
		d := job.GPUs(gpus)
		return trace.Entry{Job: job.Job{Model: model, Batch: batch, Demand: &d, Key: model}}
	}
	src := &AssumedScaling{Source: trace.FromMemory([]trace.Entry{of("vgg16", 256, 2), of("deepspeech2", 32, 1), of("vgg16", 7, 2), of("", 0, 48), of("resnet50_cifar10", 64, 16)}), Seed: 1}
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
	for i, most := range []int32{64, 32, 0, 64, 0} {
		if r := jobs[i].Demand.Roles[0]; r.Max != most && !(i == 3 && r.Max >= 48) || (r.Min == 1) != (most > 0) {
			t.Errorf("job %d: %+v", i, r)
		}
	}
	if jobs[3].Model == "" || src.Jobs != 3 {
		t.Errorf("%d jobs scale, the last trains %q", src.Jobs, jobs[3].Model)
	}
	c := cluster.New()
	typ, err := c.AddType(cluster.GPUType{Name: "A100"})
	if err != nil {
		t.Fatal(err)
	}
	speeds := ScalingSpeeds()
	for tasks, want := range map[int]float64{1: 1.314 / 2.523, 2: 1, 3: (2.523 + 4.642) / 2 / 2.523, 64: 20.66 / 2.523, 128: 0} {
		if got := speeds.On(&jobs[0], c, typ, tasks, true); math.Abs(got-want) > 1e-9 {
			t.Errorf("%d GPUs: %v, want %v", tasks, got, want)
		}
	}
	if got := speeds.On(&jobs[2], c, typ, 2, false); got != 1 {
		t.Errorf("a model that was not measured runs at %v", got)
	}
}
