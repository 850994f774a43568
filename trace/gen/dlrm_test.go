package gen

import (
	"strings"
	"testing"
	"time"

	"github.com/norn-scheduler/norn/cluster/unit"
	"github.com/norn-scheduler/norn/job"
	"github.com/norn-scheduler/norn/policy/rmixer/memory"
	"github.com/norn-scheduler/norn/trace"
)

// Each list has 24 jobs of known models, in the proportions that its name says.
func TestTaskLists(t *testing.T) {
	models := memory.Models()
	for list, want := range map[TaskList][3]int{MemoryList: {9, 7, 8}, BalanceList: {8, 8, 8}, BandwidthList: {6, 12, 6}, ComputingList: {6, 6, 12}} {
		var got [3]int
		for _, name := range strings.Fields(taskList[list]) {
			m, ok := memory.Find(models, name)
			if _, known := networks[name]; !ok || !known {
				t.Fatalf("list %v: %s is not known", list, name)
			}
			got[m.Class+1]++
		}
		if got != want {
			t.Errorf("list %v: jobs of classes -1, 0, 1: %v, want %v", list, got, want)
		}
		if l, err := ParseTaskList(strings.ToUpper(list.String())); err != nil || l != list {
			t.Errorf("%v is read as %v: %v", list, l, err)
		}
	}
}

// The properties of a job by the calibration: within 2 % of the recorded time
// without its neighbours, CPU times by class, the truth of memory within the
// factor of admission but for outliers.
func TestDLRM(t *testing.T) {
	const jobs = 720
	all, err := NewDLRM(DLRM{List: BalanceList, Jobs: jobs, Seed: 7, Outliers: 5, Gap: 10 * time.Second})
	if err != nil {
		t.Fatal(err)
	}
	outliers := 0
	for i := range all {
		e := &all[i]
		j, h := &e.Job, e.Job.Hints
		network, _, _ := strings.Cut(j.Key, "-")
		n := networks[network]
		if alone := n.seconds / crowd; e.Truth.Work.Seconds() < 0.98*alone-0.001 || e.Truth.Work.Seconds() > 1.02*alone+0.001 {
			t.Errorf("%s takes %v alone, recorded %v s", j.Key, e.Truth.Work, n.seconds)
		}
		ratio := float64(h.CPUTime) / float64(e.Truth.Work)
		if ratio < 2.39 || ratio > 8.01 || h.CPUEstimate != h.CPUTime || j.Estimate != e.Truth.Work {
			t.Errorf("%s: %v without a GPU, %v with one", j.Key, h.CPUTime, e.Truth.Work)
		}
		for _, d := range []float64{h.GPUUse, h.MemoryUse, h.HostUse, h.CPUUse} {
			if !(d > 0 && d <= 0.55) {
				t.Errorf("%s keeps busy %v", j.Key, d)
			}
		}
		est, truth := j.Demand.Roles[0].GPUMemory, e.Truth.GPUMemory
		switch part := float64(truth) / float64(est); {
		case part > 1.39 && part < 1.41:
			outliers++
		case part < 0.799 || part > 1.191:
			t.Errorf("%s takes %.3f of its estimate", j.Key, part)
		}
		if est < 735*unit.MiB || 1.2*float64(est) > float64(16160*unit.MiB) {
			t.Errorf("%s is estimated to take %v", j.Key, est)
		}
		if int(j.ID) != i || i > 0 && j.Submit < all[i-1].Job.Submit {
			t.Errorf("%s comes as number %d at %v", j.Key, j.ID, j.Submit)
		}
	}
	mean := all[jobs-1].Job.Submit.Seconds() / (jobs - 1)
	if outliers != 5 || mean < 9 || mean > 11 {
		t.Errorf("%d outliers, a job every %.2f s; want 5 and 10", outliers, mean)
	}
	again, err := NewDLRM(DLRM{List: BalanceList, Jobs: jobs, Seed: 7, Outliers: 5, Gap: 10 * time.Second})
	if err != nil || again[jobs-1].Truth.GPUMemory != all[jobs-1].Truth.GPUMemory || again[400].Job.Submit != all[400].Job.Submit {
		t.Error("equal options make other jobs")
	}
	for _, o := range []DLRM{{List: taskLists}, {Jobs: -1}, {Jobs: 3, Outliers: 4}, {Gap: -1}, {CPUs: -1}} {
		if _, err := NewDLRM(o); err == nil {
			t.Errorf("%+v was let through", o)
		}
	}
	if _, err := ParseTaskList("memry"); err == nil {
		t.Error("a task list that is not known was let through")
	}
}

// Jobs of one GPU that tell nothing become recommendation models, all networks about
// equally often, and equal seeds the same; the others stay as they are.
func TestAssumed(t *testing.T) {
	one, two := job.GPUs(1), job.GPUs(2)
	var jobs []trace.Entry
	for i := range 1200 {
		jobs = append(jobs, trace.Entry{Job: job.Job{ID: job.ID(i), Demand: &one}, Truth: trace.Truth{Work: time.Hour}})
	}
	jobs[1].Job.Demand = &two
	jobs[2].Job.Hints = &job.Hints{GPUUse: 0.9}
	jobs[3].Job.Hints, jobs[3].Job.Model = &job.Hints{GPUMemory: 5, CPUTime: 7}, "resnet50"
	jobs[4].Job.Model = "avazu_flen"
	play := func(seed uint64) (out []trace.Entry, given int) {
		a := Assumed{Source: trace.FromMemory(jobs), Seed: seed}
		var e trace.Entry
		for a.Next(&e) == nil {
			out = append(out, e)
		}
		return out, a.Jobs
	}
	got, given := play(1)
	if given != len(jobs)-2 || got[1].Job.Hints != nil || *got[2].Job.Hints != *jobs[2].Job.Hints {
		t.Errorf("%d jobs were given something", given)
	}
	if h := got[3].Job.Hints; h.GPUMemory != 5 || h.CPUTime != 7 || h.GPUUse == 0 || got[3].Job.Model != "resnet50" || jobs[3].Job.Hints.GPUUse != 0 {
		t.Errorf("a job that tells its memory became %+v", got[3].Job.Hints)
	}
	if h := got[4].Job.Hints; h.GPUUse != 0.05 {
		t.Errorf("flen uses %v of a GPU", h.GPUUse)
	}
	models := map[string]int{}
	for i := range got[5:] {
		e := &got[5+i]
		h := e.Job.Hints
		models[e.Job.Model]++
		if part := float64(e.Truth.GPUMemory) / float64(h.GPUMemory); part < 0.799 || part > 1.191 || h.CPUTime < 2*time.Hour || h.CPUUse == 0 || h.MemoryUse == 0 {
			t.Fatalf("%s became %+v, memory %v", e.Job.Model, h, e.Truth.GPUMemory)
		}
	}
	for name := range networks {
		m, _ := memory.Find(memory.Models(), name)
		if n := models[m.Name]; n < 60 || n > 145 {
			t.Errorf("%s was drawn %d times of 1195", m.Name, n)
		}
	}
	again, _ := play(1)
	other, _ := play(2)
	same := 0
	for i := range got[5:] {
		if again[5+i].Job.Model != got[5+i].Job.Model || again[5+i].Truth.GPUMemory != got[5+i].Truth.GPUMemory {
			t.Fatal("equal seeds assume other things")
		}
		if other[5+i].Job.Model == got[5+i].Job.Model {
			same++
		}
	}
	if same > 200 {
		t.Errorf("another seed assumes the same of %d jobs", same)
	}
}
