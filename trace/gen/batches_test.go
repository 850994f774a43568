package gen

import (
	"math"
	"strconv"
	"testing"

	"github.com/norn-scheduler/norn/cluster"
	"github.com/norn-scheduler/norn/cluster/unit"
	"github.com/norn-scheduler/norn/internal/shared"
	"github.com/norn-scheduler/norn/job"
	"github.com/norn-scheduler/norn/perf"
	"github.com/norn-scheduler/norn/trace"
)

// The pressures of the tasks explain half of the variance of the sums that IADeep has
// measured, and no other pressure of one of them would leave an error less by more than
// rounding explains.
func TestPressuresAreFitted(t *testing.T) {
	rows := shared.Rows(t, "data/iadeep/online_interference.csv")
	var crowds [][]string
	var sums []float64
	for _, r := range rows[1:] {
		sum, _ := strconv.ParseFloat(r[16], 64)
		if sum < 0 {
			continue // faster than alone
		}
		var sorts []string
		for i, name := range rows[0][:8] {
			n, _ := strconv.ParseInt(r[8+i], 2, 8) // counts are in binary digits
			for range n {
				sorts = append(sorts, name)
			}
		}
		crowds, sums = append(crowds, sorts), append(sums, sum)
	}
	pressure := map[string]float64{}
	for _, m := range tasks {
		pressure[m.model] = m.pressure
	}
	off := func() (sum float64) {
		for i, c := range crowds {
			said, _ := perf.Crowds{Pressure: pressure}.Of(perf.NewCrowd(c))
			sum += (said - sums[i]) * (said - sums[i])
		}
		return sum
	}
	mean, all := 0.0, 0.0
	for _, s := range sums {
		mean += s / float64(len(sums))
	}
	for _, s := range sums {
		all += (s - mean) * (s - mean)
	}
	best := off()
	if len(sums) != 51 || best > 0.5*all {
		t.Errorf("%d crowds: %v of %v is not explained", len(sums), best, all)
	}
	for name := range pressure {
		for _, by := range []float64{-0.02, 0.02} {
			pressure[name] += by
			if other := off(); other < best {
				t.Errorf("with %v for %s the error is %v, less than %v", pressure[name], name, other, best)
			}
			pressure[name] -= by
		}
	}
}

// Jobs that tell nothing are given a model, its batch and its memory, all alike by the
// seed; what jobs tell stays, and so do gangs where tasks are single. Shares are those of
// the workload.
func TestAssumedTasks(t *testing.T) {
	var jobs []trace.Entry
	for i := range 4000 {
		d := job.GPUs(1 + i%2)
		e := trace.Entry{Job: job.Job{ID: job.ID(i), Demand: &d}}
		if i == 6 {
			e.Job.Hints = &job.Hints{GPUUse: 0.2}
		}
		if i == 8 {
			e.Job.Model = "BERT"
		}
		jobs = append(jobs, e)
	}
	a := AssumeTasks(trace.FromMemory(jobs), 1)
	count, demands := map[string]int{}, map[*job.Demand]bool{}
	for i := range jobs {
		var e trace.Entry
		if err := a.Next(&e); err != nil {
			t.Fatal(err)
		}
		switch {
		case i%2 == 1 || i == 6:
			if e.Job.Batch != 0 || e.Job.Model != "" {
				t.Fatalf("job %d became %+v", i, e.Job)
			}
			continue
		case i == 8 && e.Job.Model != "bert":
			t.Errorf("job 8 trains %s", e.Job.Model)
		}
		demands[e.Job.Demand] = true
		count[e.Job.Model]++
		h := e.Job.Hints
		st := a.Sharing(perf.Alone{}).Stepping(&e.Job)
		if st == nil || st.Own != e.Job.Batch || h.GPUUse == 0 || h.GPUMemory >= e.Job.Demand.Roles[0].GPUMemory || h.Iteration == 0 {
			t.Fatalf("job %d became %+v with %+v", i, e.Job, h)
		}
	}
	if a.Jobs != 1999 || len(demands) > 8 {
		t.Errorf("%d jobs were given something, of %d demands", a.Jobs, len(demands))
	}
	for _, m := range tasks {
		if got := float64(count[m.model]) / 1999; math.Abs(got-m.part) > 0.03 {
			t.Errorf("%s is %v of the jobs, want %v", m.model, got, m.part)
		}
	}
}

// A gang that adds gradients up takes less memory and more time with half its batch, and
// its own batch is that of all its GPUs together.
func TestAssumedAccumulation(t *testing.T) {
	d := job.GPUs(4)
	a := AssumeAccumulation(trace.FromMemory([]trace.Entry{{Job: job.Job{Demand: &d, Model: "resnet50"}}}), 1)
	var e trace.Entry
	if err := a.Next(&e); err != nil {
		t.Fatal(err)
	}
	m := a.Sharing(perf.Demands{})
	st := m.Stepping(&e.Job)
	if st == nil || e.Job.Batch != 4*st.Own || e.Job.Demand.Roles[0].GPUMemory != 9*unit.GiB {
		t.Fatalf("%+v %+v", e.Job, st)
	}
	if r := st.Rate(st.Own / 2); r >= 1 || r < 0.8 || st.Grows(st.Own/2) > -3*unit.GiB {
		t.Errorf("rate %v, %v less memory", r, st.Grows(st.Own/2))
	}
	if f := m.Among(perf.Sharer{Job: &e.Job}, nil, cluster.GPUType{}); f != 1 {
		t.Errorf("alone: %v", f)
	}
}
