package gen_test

import (
	"math"
	"testing"

	"github.com/norn-scheduler/norn/trace/gen"
)

// TestLoaned: jobs of lyra's workload are as what is known of the trace says. Half of them run for
// less than 736 s, a fifth may run on the lender's GPUs. One in twenty is elastic, with 36 % of
// the GPU time.
func TestLoaned(t *testing.T) {
	jobs, err := gen.NewLoaned(gen.Loaned{Seed: 2})
	if err != nil || len(jobs) != 50390 {
		t.Fatal(len(jobs), err)
	}
	var short, fungible, elastic, service, all, mean float64
	for i := range jobs {
		e := &jobs[i]
		seconds := e.Truth.Work.Seconds()
		mean += seconds / 50390
		if seconds < 736 {
			short++
		}
		if e.Job.Demand.Where == "" {
			fungible++
		}
		all += seconds * float64(e.Job.Demand.GPUs())
		if e.Job.Demand.Elastic() {
			elastic++
			service += seconds * float64(e.Job.Demand.GPUs())
		}
		if i > 0 && e.Job.Submit < jobs[i-1].Job.Submit {
			t.Fatal("jobs are not in order")
		}
	}
	for _, v := range []struct {
		what           string
		got, want, off float64
	}{
		{"run times below 736 s", short / 50390, 0.5, 0.03}, {"fungible jobs", fungible / 50390, 0.21, 0.01},
		{"elastic jobs", elastic / 50390, 0.05, 0.005}, {"their GPU time", service / all, 0.36, 0.05}, {"mean run time", mean, 13538, 2500},
	} {
		if math.Abs(v.got-v.want) > v.off {
			t.Errorf("%s: %.3f, not %.3f", v.what, v.got, v.want)
		}
	}
	ideal, err := gen.NewLoaned(gen.Loaned{GPUs: 440, Seed: 2, Ideal: true})
	if err != nil || len(ideal) != 6256 || !ideal[5].Job.Demand.Elastic() || ideal[5].Job.Demand.Where != "" {
		t.Errorf("%d jobs, %v", len(ideal), err)
	}
	if _, err := gen.NewLoaned(gen.Loaned{GPUs: -1}); err == nil {
		t.Error("a cluster of -1 GPUs")
	}
}
