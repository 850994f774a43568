package gen_test

import (
	"math"
	"testing"
	"time"

	"github.com/norn-scheduler/norn/job"
	"github.com/norn-scheduler/norn/trace/gen"
)

// TestSearch: apps are whole. On each rung of one so many jobs do their work as it says, the
// load is met, and equal seeds give equal traces.
func TestSearch(t *testing.T) {
	o := gen.Search{Jobs: 2000, GPUs: 100, Load: 0.8, Most: 4, Seed: 3}
	jobs, err := gen.NewSearch(o)
	if err != nil {
		t.Fatal(err)
	}
	apps, work := map[string][]float64{}, 0.0
	rungs := map[string]job.Rungs{}
	for i, e := range jobs {
		if int(e.Job.ID) != i || i > 0 && e.Job.Submit < jobs[i-1].Job.Submit {
			t.Fatalf("job %d is not in order: %+v", i, e.Job)
		}
		apps[e.Job.App] = append(apps[e.Job.App], float64(e.Truth.Work)/float64(e.Job.Hints.Iteration))
		rungs[e.Job.App] = e.Job.Hints.Rungs
		work += e.Truth.Work.Seconds() * 4
	}
	for app, done := range apps {
		from, r := 0.0, rungs[app]
		if int(r[0].Jobs) != len(done) {
			t.Fatalf("%s of %v has %d jobs", app, r, len(done))
		}
		for _, x := range r.All() {
			on, from2 := 0, from+x.Units
			for _, u := range done {
				if u > from+1e-6 {
					if on++; u < from2-1e-6 {
						t.Fatalf("%s: a job of %v ends after %v units, within a rung", app, r, u)
					}
				}
			}
			if on != int(x.Jobs) {
				t.Fatalf("%s: %d jobs are on the rung %v of %v", app, on, x, r)
			}
			from = from2
		}
	}
	span := jobs[len(jobs)-1].Job.Submit.Seconds()
	if load := work / span / 100; math.Abs(load-0.8) > 0.3 {
		t.Errorf("the load is %v over %v", load, time.Duration(span)*time.Second)
	}
	again, _ := gen.NewSearch(o)
	for i := range again {
		if again[i].Job.Key != jobs[i].Job.Key || again[i].Truth.Work != jobs[i].Truth.Work || again[i].Job.Submit != jobs[i].Job.Submit {
			t.Fatalf("job %d is another one", i)
		}
	}
	for _, bad := range []gen.Search{{}, {Jobs: 1}, {Jobs: 1, GPUs: 2, Most: 3}, {Jobs: 1, GPUs: 1, Load: -1}, {Jobs: -1, GPUs: 1}, {Jobs: 1, GPUs: 1, Load: math.NaN()}} {
		if _, err := gen.NewSearch(bad); err == nil {
			t.Errorf("%+v is made", bad)
		}
	}
}
