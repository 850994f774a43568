package gen_test

import (
	"math"
	"testing"

	"github.com/norn-scheduler/norn/trace/gen"
)

// Gavel, section 7.1: 26 sorts of jobs, equally likely; 10^1.5 to 10^3 minutes for 80 % of
// them, 10^3 to 10^4 for the others; 70, 10, 15 and 5 % ask for 1, 2, 4 and 8 GPUs.
func TestSorts(t *testing.T) {
	const n = 20000
	all, err := gen.NewSorts(gen.Sorts{Jobs: n, PerHour: 4, Gangs: true, Seed: 1})
	if err != nil {
		t.Fatal(err)
	}
	sorts, gpus, long := map[string]int{}, map[int]int{}, 0
	for _, e := range all {
		sorts[e.Job.Name]++
		gpus[e.Job.Demand.GPUs()]++
		minutes := e.Truth.Work.Minutes()
		if minutes < 31.6 || minutes > 10000 {
			t.Fatalf("job %s runs for %v", e.Job.Key, e.Truth.Work)
		}
		if minutes >= 1000 {
			long++
		}
	}
	near := func(what string, have, want float64) {
		if math.Abs(have-want) > 0.15*want {
			t.Errorf("%s: %v, want about %v", what, have, want)
		}
	}
	if len(sorts) != 26 || len(gpus) != 4 {
		t.Errorf("%d sorts, want 26; sizes %v", len(sorts), gpus)
	}
	for name, k := range sorts {
		near(name, float64(k), n/26.0)
	}
	for size, share := range map[int]float64{1: 0.7, 2: 0.1, 4: 0.15, 8: 0.05} {
		near("jobs of a size", float64(gpus[size]), share*n)
	}
	near("long jobs", float64(long), 0.2*n)
	near("hours", all[n-1].Job.Submit.Hours(), n/4.0)

	again, err := gen.NewSorts(gen.Sorts{Jobs: n, PerHour: 4, Gangs: true, Seed: 1})
	if err != nil || again[n-1].Truth.Work != all[n-1].Truth.Work {
		t.Errorf("equal seeds give other traces, or %v", err)
	}
	if once, err := gen.NewSorts(gen.Sorts{Jobs: 10}); err != nil || once[9].Job.Submit != 0 || once[9].Job.Demand.GPUs() != 1 {
		t.Errorf("all at once: %v, %v", once, err)
	}
	for _, o := range []gen.Sorts{{Jobs: -1}, {Jobs: 1, PerHour: -1}, {Jobs: 1, PerHour: math.Inf(1)}, {Jobs: 1, PerHour: math.NaN()}} {
		if _, err := gen.NewSorts(o); err == nil {
			t.Errorf("%+v is taken", o)
		}
	}
}
