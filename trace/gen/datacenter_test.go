package gen

import (
	"math"
	"reflect"
	"testing"
	"time"

	"github.com/norn-scheduler/norn/job"
)

// A data centre has jobs of four kinds that demand together what was asked for, in the proportion
// of its parts, and services on as many GPUs as were asked for. Equal seeds make equal workloads.
func TestDatacenter(t *testing.T) {
	o := Datacenter{GPUs: 512, Span: 14 * day, Load: 0.8, Serving: 0.3, Seed: 3}
	out, err := NewDatacenter(o)
	if err != nil {
		t.Fatal(err)
	}
	var demanded [5]float64 // GPU-hours
	always, byDay := 0, 0
	last := time.Duration(0)
	for i := range out {
		j := &out[i].Job
		if j.ID != job.ID(i) || j.Submit < last {
			t.Fatalf("job %d is number %d, at %v after %v", i, j.ID, j.Submit, last)
		}
		last = j.Submit
		demanded[j.Kind] += out[i].Truth.Total().Hours() * float64(j.Demand.GPUs())
		switch {
		case j.Kind != job.Inference:
		case j.Submit == 0:
			always++
		case j.Submit < day:
			if byDay++; j.Submit != 8*time.Hour || out[i].Truth.Work != 12*time.Hour {
				t.Errorf("%s comes at %v for %v", j.Key, j.Submit, out[i].Truth.Work)
			}
		}
		if (j.Kind == job.Inference) != (j.Hints.Latency > 0) || (j.Kind == job.Graph) != (j.Hints.CPUPerGPU > 0) {
			t.Errorf("%s, %v: target %v, cores %v", j.Key, j.Kind, j.Hints.Latency, j.Hints.CPUPerGPU)
		}
	}
	if math.Abs(float64(always+byDay)-0.3*512) > 1 || math.Abs(float64(byDay)/float64(always+byDay)-0.4) > 0.1 {
		t.Errorf("%d services are always there, %d by day", always, byDay)
	}
	all := 0.8 * float64(512-always) * (14 * day).Hours()
	for kind, part := range map[job.Kind]float64{job.Training: 0.65, job.FineTuning: 0.2, job.Graph: 0.15} {
		if got := demanded[kind] / all; math.Abs(got-part) > 0.3*part {
			t.Errorf("%v demands %.2f of the load, want about %v", kind, got, part)
		}
	}
	if again, err := NewDatacenter(o); err != nil || !reflect.DeepEqual(again, out) {
		t.Errorf("the same seed makes another workload, %v", err)
	}
	for _, o := range []Datacenter{{GPUs: 4}, {Load: -1}, {Serving: 1}, {Span: -1}, {Target: 0.5}} {
		if _, err := NewDatacenter(o); err == nil {
			t.Errorf("%+v is let through", o)
		}
	}
}
