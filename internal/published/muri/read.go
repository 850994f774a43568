package muri

import (
	"math"
	"time"

	"github.com/norn-scheduler/norn/cluster/unit"
	"github.com/norn-scheduler/norn/internal/published/harness"
	"github.com/norn-scheduler/norn/job"
	"github.com/norn-scheduler/norn/perf"
	"github.com/norn-scheduler/norn/trace"
)

// workload is a trace: the jobs, and what the published code computes with.
type workload struct {
	jobs   harness.Jobs
	facts  []facts
	guests bool // it says which jobs are guests
}

// facts is what is known of a job, by number.
type facts struct {
	submit    float64
	arrives   float64 // the event with which it arrives
	duration  float64 // as the file says; nothing depends on it
	iteration float64 // seconds for one iteration
	left      float64 // iterations to go, when it arrives
	overhead  float64
	gpus      int
	stages    perf.Stages // seconds of an iteration at each resource
	guest     bool        // of priority 1; antman alone cares
}

// slower is by how much an iteration takes longer in that simulator than the
// trace says: what Muri's own mechanism costs a job that runs alone.
const slower = 1.015

// overheads are what an event costs a running job, in seconds, for 1, 2, 4, 8,
// 16 and 32 GPUs. The figures are profiles of starting a job.
var overheads = map[string][6]float64{
	"vgg16":              {7, 7, 8, 9, 9, 10},
	"vgg19":              {7, 7, 8, 9, 10, 10},
	"resnet18":           {4, 5, 5, 7, 7, 7},
	"shufflenet_v2_x1_0": {4, 4, 5, 5, 7, 8},
	"bert":               {10, 10, 10, 10, 10, 10},
	"gpt2":               {10, 10, 10, 10, 10, 10},
	"a2c":                {38, 39, 39, 46, 46, 46},
	"dqn":                {5, 5, 6, 6, 8, 8},
}

// otherOverhead is the overhead of a model without a profile.
const otherOverhead = 10

// largest is the GPUs of the largest job.
const largest = 32

// overheadOf is the overhead of a job; ok is false for sizes of which the
// published code knows none, and fails.
func overheadOf(model string, gpus int64) (seconds float64, ok bool) {
	at := 0
	for ; 1<<at < largest && 1<<at != gpus; at++ {
	}
	if 1<<at != gpus {
		return 0, false
	}
	if known, ok := overheads[model]; ok {
		return known[at], true
	}
	return otherOverhead, true
}

// readTrace reads a trace: CSV with the columns job_id, num_gpu, submit_time and
// duration in milliseconds, iterations, iteration_time in milliseconds, and
// model_name.
func readTrace(path string) (*workload, error) {
	t, err := harness.OpenTable(path)
	if err != nil {
		return nil, err
	}
	return readTable(t)
}

func readTable(t *harness.Table) (*workload, error) {
	at, err := t.Need("job_id", "num_gpu", "submit_time", "iterations", "model_name", "duration", "iteration_time")
	if err != nil {
		return nil, err
	}
	w := &workload{}
	guest := t.Column("priority")
	w.guests = guest >= 0
	for _, name := range stageColumns {
		at = append(at, t.Column(name)) // only those policies need them that make groups
	}
	var byLine []facts
	var shapes job.Interner
	for {
		more, err := t.Next()
		if err != nil {
			return nil, err
		}
		if !more {
			break
		}
		e, f, err := readJob(t, at, &shapes)
		if err != nil {
			return nil, err
		}
		f.guest = guest >= 0 && t.Field(guest) == "1"
		w.jobs, byLine = append(w.jobs, e), append(byLine, f)
	}
	lines := w.jobs.Sort()
	w.facts = make([]facts, len(byLine))
	for i, line := range lines {
		w.facts[i] = byLine[line]
	}
	w.join()
	return w, nil
}

// stretch gives jobs so much work in the simulated world that none ends there before
// the clock ends it, however much a group slows it down.
func (w *workload) stretch() {
	for i := range w.jobs {
		w.jobs[i].Truth.Work = min(1000*w.jobs[i].Truth.Work, time.Duration(unit.MaxScaled)/2)
	}
}

// stageColumns are the milliseconds of an iteration at storage and CPU, at the GPU,
// and at the network.
var stageColumns = []string{"resource_time_0", "resource_time_1", "resource_time_2"}

// near is how near two moments must be for the published code to take them for
// one, relative to the later. Late in a trace that is milliseconds.
const near = 1e-9

// join lets jobs arrive together with an earlier one that is near: there is one
// event for both, at the time of the first.
func (w *workload) join() {
	first := 0 // the earliest event that may be near
	for i := range w.jobs {
		f := &w.facts[i]
		f.arrives = f.submit
		for first < i && !isNear(w.facts[first].arrives, f.submit) {
			first++
		}
		if first < i {
			f.arrives = w.facts[first].arrives
			w.jobs[i].Job.Submit = w.jobs[first].Job.Submit
		}
	}
}

// isNear tells whether the published code takes two moments for one.
func isNear(a, b float64) bool { return math.Abs(a-b) <= near*max(math.Abs(a), math.Abs(b)) }

func readJob(t *harness.Table, at []int, shapes *job.Interner) (trace.Entry, facts, error) {
	var e trace.Entry
	var whole [3]int64 // GPUs, submission, iteration time
	for i, column := range []int{at[1], at[2], at[6]} {
		v, err := t.Int(column)
		if err != nil {
			return e, facts{}, err
		}
		whole[i] = v
	}
	iterations, err := t.Float(at[3])
	if err != nil {
		return e, facts{}, err
	}
	duration, err := t.Float(at[5])
	if err != nil {
		return e, facts{}, err
	}
	f := facts{
		submit: float64(whole[1]) / 1000, duration: math.Trunc(duration) / 1000,
		iteration: float64(whole[2]) * slower / 1000, left: iterations, gpus: int(whole[0]),
	}
	for i, column := range at[7:] {
		ms, err := t.Float(column)
		if column >= 0 && err != nil {
			return e, f, err
		}
		if column >= 0 {
			f.stages[i] = ms / 1000
		}
	}
	var ok bool
	if f.overhead, ok = overheadOf(t.Field(at[4]), whole[0]); !ok {
		return e, f, t.Errorf("job %s asks for %d GPUs; the simulator knows the overheads of 1, 2, 4, 8, 16 and 32", t.Field(at[0]), whole[0])
	}
	work := iterations * f.iteration
	if !(work >= 0 && work <= harness.MaxSeconds) || f.iteration == 0 || f.submit > harness.MaxSeconds {
		return e, f, t.Errorf("job %s: a time is out of range", t.Field(at[0]))
	}
	e.Job = job.Job{
		Key: t.Field(at[0]), Submit: time.Duration(whole[1]) * time.Millisecond, Model: t.Field(at[4]),
		Demand: shapes.Get(job.GPUs(f.gpus)), Units: iterations, Unit: "iterations",
	}
	e.Truth.Work = nanos(work) + grace
	return e, f, nil
}

// nanos is a number of seconds as a duration, to the nearest nanosecond.
func nanos(seconds float64) time.Duration { return time.Duration(math.Round(seconds * 1e9)) }
