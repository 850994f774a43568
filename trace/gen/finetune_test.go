package gen

import (
	"fmt"
	"math"
	"reflect"
	"slices"
	"testing"
	"time"

	"github.com/norn-scheduler/norn/job"
	"github.com/norn-scheduler/norn/perf"
	"github.com/norn-scheduler/norn/trace"
)

func workload(t *testing.T, o FineTuning) *Workload {
	t.Helper()
	w, err := NewFineTuning(o)
	if err != nil {
		t.Fatal(err)
	}
	return w
}

// TestFineTuning: the load is met, jobs are sound, equal options make equal jobs.
func TestFineTuning(t *testing.T) {
	o := FineTuning{Jobs: 2000, GPUs: 240, Load: 1.5, Seed: 3}
	w := workload(t, o)
	work, last := 0.0, time.Duration(0)
	backbones := map[string]int{}
	sizes := map[int]int{}
	for i := range w.Entries {
		e := &w.Entries[i]
		j := &e.Job
		if err := j.Demand.Check(); err != nil || j.Submit < last || int(j.ID) != i || e.Truth.Work < time.Second {
			t.Fatalf("%v, %+v", err, e)
		}
		last = j.Submit
		backbones[j.Backbone]++
		sizes[j.Demand.GPUs()]++
		work += e.Truth.Work.Seconds() / w.Speeds.On(j, nil, 0, 1, false)
	}
	load := work / (w.Span.Seconds() * 240 * BaseLoad)
	if math.Abs(load-1.5) > 0.1 {
		t.Errorf("the load is %v", load)
	}
	if len(backbones) != 3 || backbones["vit"] < 550 || sizes[1] < 780 || sizes[8] < 800 || sizes[16] < 10 {
		t.Errorf("jobs by family: %v, by size: %v", backbones, sizes)
	}
	if !reflect.DeepEqual(w.Entries, workload(t, o).Entries) {
		t.Error("the same options made other jobs")
	}
	o.Seed++
	if reflect.DeepEqual(w.Entries, workload(t, o).Entries) {
		t.Error("another seed made the same jobs")
	}
}

// TestFineTuningGains: over many seeds the true speedups have the published
// quartiles, and estimates are as wrong as published.
func TestFineTuningGains(t *testing.T) {
	for _, f := range Families() {
		var after, wrong, alone []float64
		for seed := range uint64(40) {
			w := workload(t, FineTuning{Families: []string{f.Name}, Jobs: 50, GPUs: 32, Load: 1, Seed: seed})
			for _, a := range f.Sets {
				for _, b := range f.Sets {
					i, j := w.Truth.TaskOf(perf.Task{Backbone: f.Name, Dataset: a.Name}), w.Truth.TaskOf(perf.Task{Backbone: f.Name, Dataset: b.Name})
					x := w.Truth.AfterTask(i, j)
					after = append(after, x)
					wrong = append(wrong, math.Abs(w.Belief.AfterTask(i, j)/x-1))
				}
			}
			for i := range w.Entries {
				alone = append(alone, math.Abs(w.Entries[i].Job.Estimate.Seconds()/w.Entries[i].Truth.Work.Seconds()-1))
			}
		}
		slices.Sort(after)
		q := func(p float64) float64 { return after[int(p*float64(len(after)))] }
		if math.Abs(q(0.25)/f.Low-1) > 0.1 || math.Abs(q(0.75)/f.High-1) > 0.1 || after[0] < 0.5 || after[len(after)-1] > 10 {
			t.Errorf("%s: quartiles %.2f and %.2f, between %.2f and %.2f", f.Name, q(0.25), q(0.75), after[0], after[len(after)-1])
		}
		// Cutting the largest errors off makes the mean a little smaller.
		for _, k := range []struct {
			got  []float64
			want Wrong
		}{{wrong, f.Merged}, {alone, f.Alone}} {
			mean, most := mean(k.got), slices.Max(k.got)
			if mean > k.want.Mean*1.05 || mean < k.want.Mean*0.6 || most > k.want.Most+1e-3 {
				t.Errorf("%s: estimates are wrong by %.3f on average, %.3f at most; want %+v", f.Name, mean, most, k.want)
			}
		}
	}
}

func mean(x []float64) float64 {
	sum := 0.0
	for _, v := range x {
		sum += v
	}
	return sum / float64(len(x))
}

// TestFineTuningForetold: regressed gains go with the true ones; without any
// prediction all are 1.
func TestFineTuningForetold(t *testing.T) {
	o := FineTuning{Families: []string{"roberta"}, Jobs: 10, GPUs: 32, Load: 1, Foretold: Regressed}
	agree, pairs := 0, 0
	for o.Seed = range 20 {
		w := workload(t, o)
		for a := range 9 {
			for b := range 9 {
				pairs++
				if (w.Truth.AfterTask(a, b) > 1.8) == (w.Belief.AfterTask(a, b) > 1.8) {
					agree++
				}
			}
		}
	}
	if float64(agree) < 0.6*float64(pairs) {
		t.Errorf("the regression agrees with the truth on %d of %d pairs", agree, pairs)
	}
	o.Foretold = Unforetold
	w := workload(t, o)
	for i := range w.Entries {
		for k := range w.Entries {
			if f := w.Belief.After(&w.Entries[i].Job, &w.Entries[k].Job); f != 1 {
				t.Fatalf("a gain of %v is believed", f)
			}
		}
	}
}

// TestAssumeTuning: jobs that tell nothing become elastic fine-tuning jobs, those of
// one name alike; what tells something is left as it is.
func TestAssumeTuning(t *testing.T) {
	one, part := job.GPUs(2), job.GPUs(1)
	part.Roles[0].GPU = 500
	var jobs []trace.Entry
	for i := range 300 {
		jobs = append(jobs, trace.Entry{Job: job.Job{ID: job.ID(i), Key: fmt.Sprint(i), Name: fmt.Sprint("n", i%60), Demand: &one}, Truth: trace.Truth{Work: time.Hour}})
	}
	jobs[0].Job.Backbone, jobs[1].Job.Demand = "llama", &part
	a, err := AssumeTuning(trace.FromMemory(jobs), FineTuning{Seed: 5})
	if err != nil {
		t.Fatal(err)
	}
	byName, backbones := map[string]string{}, map[string]int{}
	for i := range jobs {
		var e trace.Entry
		if err := a.Next(&e); err != nil {
			t.Fatal(err)
		}
		j := &e.Job
		switch {
		case i == 0 && (j.Backbone != "llama" || j.Demand.Elastic()), i == 1 && j.Backbone != "":
			t.Errorf("job %d was changed: %+v", i, j)
		case i > 1:
			least, most := j.Demand.Roles[0].Range()
			if least != 1 || most != 16 || j.Demand.GPUs() != 2 || j.Batch == 0 || e.Truth.Work != time.Hour || a.Truth.Task(j) < 0 || a.Speeds.On(j, nil, 0, 2, false) != 1 {
				t.Errorf("job %d became %+v", i, j)
			}
			if was := byName[j.Name]; was != "" && was != j.Dataset {
				t.Errorf("jobs of one name tune on %s and %s", was, j.Dataset)
			}
			byName[j.Name] = j.Dataset
			backbones[j.Backbone]++
		}
	}
	if len(backbones) != 3 || a.Jobs != 298 {
		t.Errorf("%d jobs were given something: %v", a.Jobs, backbones)
	}
}

// TestAssumeTuningServed: requests to base models become jobs that tune, those of one
// base model in one family, those of one user of it on one data set.
func TestAssumeTuningServed(t *testing.T) {
	one := job.GPUs(1)
	var jobs []trace.Entry
	for i := range 400 {
		jobs = append(jobs, trace.Entry{Job: job.Job{
			ID: job.ID(i), Key: fmt.Sprint(i), Name: "TXT_2_IMG", User: fmt.Sprint("u", i%20), Backbone: fmt.Sprint("M", i%8), Kind: job.Inference, Demand: &one,
		}, Truth: trace.Truth{Work: time.Minute}})
	}
	a, err := AssumeTuning(trace.FromMemory(jobs), FineTuning{Seed: 5})
	if err != nil {
		t.Fatal(err)
	}
	family, set, sets := map[string]string{}, map[string]string{}, map[string]bool{}
	for i := range jobs {
		var e trace.Entry
		if err := a.Next(&e); err != nil {
			t.Fatal(err)
		}
		base, user := jobs[i].Job.Backbone, jobs[i].Job.Backbone+jobs[i].Job.User
		if was := family[base]; was != "" && was != e.Job.Backbone || e.Job.Kind != job.FineTuning || a.Truth.Task(&e.Job) < 0 {
			t.Fatalf("job %d, of a base model in the family %q, became %+v", i, was, e.Job)
		}
		if was := set[user]; was != "" && was != e.Job.Dataset {
			t.Errorf("one user of a base model tunes on %s and %s", was, e.Job.Dataset)
		}
		family[base], set[user], sets[e.Job.Dataset] = e.Job.Backbone, e.Job.Dataset, true
	}
	if a.Jobs != len(jobs) || len(sets) < 6 {
		t.Errorf("%d of %d jobs tune, on %d data sets", a.Jobs, len(jobs), len(sets))
	}
}

// TestFineTuningRefuses: wrong options are errors.
func TestFineTuningRefuses(t *testing.T) {
	for _, o := range []FineTuning{
		{}, {Jobs: 10, GPUs: 4}, {Jobs: 10, Load: 1}, {Jobs: 10, GPUs: 4, Load: 1, DataSets: 10}, {Jobs: 10, GPUs: 4, Load: 1, Families: []string{"gpt"}},
		{Jobs: 10, GPUs: 4, Load: math.NaN()},
	} {
		if _, err := NewFineTuning(o); err == nil {
			t.Errorf("%+v was accepted", o)
		}
	}
}

// TestPipelines: about as many jobs are pipelines as were wanted. They demand whole nodes, up to
// 16 GPUs, and the other jobs are the same as without.
func TestPipelines(t *testing.T) {
	o := FineTuning{Families: []string{"vit"}, Jobs: 1000, GPUs: 240, Load: 1, Seed: 5}
	without, err := NewFineTuning(o)
	if err != nil {
		t.Fatal(err)
	}
	o.Pipelines = 0.3
	with, err := NewFineTuning(o)
	if err != nil {
		t.Fatal(err)
	}
	n := 0
	for i := range with.Entries {
		j := &with.Entries[i].Job
		if !j.Pipelined() {
			if *j.Demand != *without.Entries[i].Job.Demand || j.Hints != nil {
				t.Fatalf("job %s is another one: %+v", j.Key, j)
			}
			continue
		}
		n++
		r := j.Demand.Roles[0]
		if least, most := r.Range(); least != 4 || most != 16 || r.Tasks%4 != 0 || r.Tasks < without.Entries[i].Job.Demand.Roles[0].Tasks {
			t.Fatalf("pipeline %s demands %+v", j.Key, r)
		}
	}
	if n < 250 || n > 350 {
		t.Errorf("%d of 1000 jobs are pipelines", n)
	}
	for _, bad := range []float64{-0.1, 1.1, math.NaN()} {
		o.Pipelines = bad
		if _, err := NewFineTuning(o); err == nil {
			t.Errorf("a share of %v is made", bad)
		}
	}
}
