package gen

import (
	"math"
	"slices"
	"testing"
	"time"

	"github.com/norn-scheduler/norn/cluster/unit"
	"github.com/norn-scheduler/norn/job"
	"github.com/norn-scheduler/norn/perf"
	"github.com/norn-scheduler/norn/trace"
)

// Submissions, run times, sizes and models are as Synergy's evaluation has them.
func TestRations(t *testing.T) {
	const n = 20_000
	jobs, err := NewRations(Rations{Jobs: n, PerHour: 9, Gangs: true, Seed: 3})
	if err != nil {
		t.Fatal(err)
	}
	grids := perf.MeasuredGrids()
	sizes, long, mean := map[int]int{}, 0, 0.0
	models := map[string]int{}
	for i := range jobs {
		e := &jobs[i]
		sizes[e.Job.Demand.GPUs()]++
		models[e.Job.Model]++
		s := e.Truth.Work.Seconds()
		if mean += s / n; s >= 60_000 {
			long++
		}
		if s < 60*math.Pow(10, 1.5)-1 || s > 600_000 || i > 0 && e.Job.Submit < jobs[i-1].Job.Submit || grids[e.Job.Model] == nil {
			t.Fatalf("job %d: %+v, %v", i, e.Job, e.Truth.Work)
		}
	}
	near := func(what string, got, want, off float64) {
		t.Helper()
		if math.Abs(got/want-1) > off {
			t.Errorf("%s is %v, want about %v", what, got, want)
		}
	}
	near("jobs an hour", n/jobs[n-1].Job.Submit.Hours(), 9, 0.03)
	near("long jobs", float64(long)/n, 0.2, 0.05)
	near("mean run time", mean, 60*(0.8*280.4+0.2*3908.7), 0.05) // of 10^x over both ranges
	near("jobs of one GPU", float64(sizes[1])/n, 0.7, 0.03)
	near("jobs of 4 GPUs", float64(sizes[4])/n, 0.15, 0.05)
	// The tasks keep to the mix, the models of a task take turns.
	for _, c := range []struct {
		model string
		want  int
	}{{"alexnet", 800}, {"shufflenet", 800}, {"gnmt", 4667}, {"lstm", 4667}, {"m5", 1000}, {"deepspeech", 1000}} {
		if got := models[c.model]; got < c.want-2 || got > c.want+2 {
			t.Errorf("%d jobs train %s, want %d", got, c.model, c.want)
		}
	}
	only, _ := NewRations(Rations{Jobs: 100, PerHour: 1, Mix: Mix{Language: 100}})
	if slices.ContainsFunc(only, func(e trace.Entry) bool { return !slices.Contains(rationModels[1], e.Job.Model) }) {
		t.Error("others train what is not in the mix")
	}
	again, _ := NewRations(Rations{Jobs: n, PerHour: 9, Gangs: true, Seed: 3})
	if !slices.EqualFunc(jobs, again, func(a, b trace.Entry) bool {
		return a.Job.Submit == b.Job.Submit && a.Job.Model == b.Job.Model && a.Truth.Work == b.Truth.Work
	}) {
		t.Error("the same seed gives other jobs")
	}
	for _, bad := range []Rations{{Jobs: 1}, {Jobs: -1, PerHour: 1}, {Jobs: 1, PerHour: 1, Mix: Mix{50, 20, 20}}, {Jobs: 1, PerHour: 1, Mix: Mix{120, -20, 0}}} {
		if _, err := NewRations(bad); err == nil {
			t.Errorf("%+v is taken", bad)
		}
	}
}

// Jobs of whole GPUs without a measured model are given one; others stay as they are.
func TestAssumedRations(t *testing.T) {
	whole, half := job.GPUs(2), job.GPUs(1)
	half.Roles[0].GPU = unit.One / 2
	var jobs []trace.Entry
	for i := range 5000 {
		jobs = append(jobs, trace.Entry{Job: job.Job{ID: job.ID(i), Demand: &whole, Submit: time.Duration(i)}})
	}
	jobs[0].Job.Demand, jobs[1].Job.Model, jobs[2].Job.Model = &half, "ResNet18", "vgg16"
	a := &AssumedRations{Source: trace.FromMemory(jobs), Seed: 1, Grids: perf.MeasuredGrids()}
	tasks := [3]int{}
	for i := range jobs {
		var e trace.Entry
		if err := a.Next(&e); err != nil {
			t.Fatal(err)
		}
		switch {
		case i == 0 && e.Job.Model != "", i == 1 && e.Job.Model != "ResNet18", i == 2 && e.Job.Model == "vgg16":
			t.Errorf("job %d trains %q", i, e.Job.Model)
		}
		for k := range rationModels {
			if slices.Contains(rationModels[k], e.Job.Model) {
				tasks[k]++
			}
		}
	}
	if a.Jobs != len(jobs)-2 {
		t.Errorf("%d jobs were given a model", a.Jobs)
	}
	for k, want := range []float64{0.2, 0.7, 0.1} {
		if got := float64(tasks[k]) / float64(len(jobs)); math.Abs(got-want) > 0.02 {
			t.Errorf("task %d: %v of the jobs, want %v", k, got, want)
		}
	}
}
