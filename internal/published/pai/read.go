package pai

import (
	"cmp"
	"fmt"
	"io"
	"math"
	"slices"
	"strings"

	"github.com/norn-scheduler/norn/internal/published/harness"
	"github.com/norn-scheduler/norn/job"
	"github.com/norn-scheduler/norn/trace"
)

// workload is a trace.
type workload struct {
	name  string
	facts []facts // in order of submission, then of job_id
}

// facts is what is known of a job.
type facts struct {
	name             string
	id               int64   // its place among all by job_id
	key              float64 // jobs go by it, least first
	submit, duration int64
	gpus, cpus       int32 // of an instance, per cent
	instances        int32
	v100             bool
}

// Bounds of what is read.
const (
	maxPercent   = 100 * maxGPUs
	maxInstances = 100_000
)

// columns are where a row has what.
type columns struct {
	id, duration, kind, gpus, cpus, submit, instances, key int
}

// readTrace reads a trace: CSV with the columns job_id and duration in seconds,
// and where it has them gpu_type, num_gpu, num_cpu, submit_time in seconds and
// num_inst. Jobs go by the given column.
func readTrace(path, by string) (*workload, error) {
	t, err := harness.OpenTable(path)
	if err != nil {
		return nil, err
	}
	return readTable(t, by)
}

func readTable(t *harness.Table, by string) (*workload, error) {
	must, err := t.Need("job_id", "duration")
	if err == nil && by != "submit_time" {
		_, err = t.Need(by)
	}
	if err != nil {
		return nil, err
	}
	at := columns{
		id: must[0], duration: must[1], kind: t.Column("gpu_type"), gpus: t.Column("num_gpu"), cpus: t.Column("num_cpu"),
		submit: t.Column("submit_time"), instances: t.Column("num_inst"), key: t.Column(by),
	}
	w := &workload{name: t.Name, facts: make([]facts, 0, t.Rows())}
	for {
		more, err := t.Next()
		if err != nil {
			return nil, err
		}
		if !more {
			break
		}
		f, err := readJob(t, &at)
		if err != nil {
			return nil, err
		}
		w.facts = append(w.facts, f)
	}
	if err := w.number(); err != nil {
		return nil, err
	}
	w.sort()
	return w, nil
}

// readJob reads a row with the defaults of the simulator: no GPUs, no CPUs, one
// instance, submitted at second 1. A duration is cut to whole seconds and is at
// least one; other numbers are rounded, halves to even.
func readJob(t *harness.Table, at *columns) (facts, error) {
	f := facts{name: t.Field(at.id), v100: t.Field(at.kind) == "V100"}
	gpus, err1 := amount(t, at.gpus, 100, 0, maxPercent)
	cpus, err2 := amount(t, at.cpus, 100, 0, maxPercent)
	instances, err3 := amount(t, at.instances, 1, 1, maxInstances)
	submit, err4 := amount(t, at.submit, 1, 1, harness.MaxSeconds)
	duration, err5 := t.Float(at.duration)
	if err := cmp.Or(err1, err2, err3, err4, err5); err != nil {
		return f, err
	}
	if duration > harness.MaxSeconds || instances < 1 {
		return f, t.Errorf("job %s: %v seconds in %d instances is out of range", f.name, duration, instances)
	}
	f.gpus, f.cpus, f.instances, f.submit = int32(gpus), int32(cpus), int32(instances), submit
	f.duration = max(1, int64(duration))
	var err error
	switch at.key {
	case at.submit:
		f.key = float64(f.submit)
	case at.duration:
		f.key = float64(f.duration)
	default:
		f.key, err = t.Float(at.key)
	}
	return f, err
}

// amount is a rounded number, or what it is where the row does not tell.
func amount(t *harness.Table, column int, factor float64, otherwise, most int64) (int64, error) {
	if t.Field(column) == "" {
		return otherwise, nil
	}
	v, err := t.Float(column)
	if err != nil {
		return 0, err
	}
	if v = math.RoundToEven(v * factor); v < 0 || v > float64(most) {
		return 0, t.Bad(column, fmt.Sprintf("a number from 0 to %v", float64(most)/factor))
	}
	return int64(v), nil
}

// number gives each job its place among all by job_id: by value where all are
// numbers, by spelling where none is.
func (w *workload) number() error {
	numbers := 0
	for i := range w.facts {
		if n, ok := harness.Digits(w.facts[i].name); ok {
			w.facts[i].id = n
			numbers++
		}
	}
	switch numbers {
	case len(w.facts):
		return nil
	case 0:
		byName := make([]int, len(w.facts))
		for i := range byName {
			byName[i] = i
		}
		slices.SortStableFunc(byName, func(a, b int) int { return strings.Compare(w.facts[a].name, w.facts[b].name) })
		for place, i := range byName {
			w.facts[i].id = int64(place)
		}
		return nil
	}
	return fmt.Errorf("%s: some job_ids are numbers and some are not, which the simulator cannot sort", w.name)
}

func (w *workload) sort() {
	slices.SortStableFunc(w.facts, func(a, b facts) int {
		return cmp.Or(cmp.Compare(a.submit, b.submit), cmp.Compare(a.id, b.id))
	})
}

// setRate lets that many jobs arrive each minute. bySubmit tells that jobs go by
// submission.
func (w *workload) setRate(rate int64, bySubmit bool) {
	for i := range w.facts {
		if rate <= 0 {
			return
		}
		f := &w.facts[i]
		if f.submit = int64(i) / rate * 60; bySubmit {
			f.key = float64(f.submit)
		}
	}
}

// clip takes from a job what one of its instances asks for beyond the cluster.
func (w *workload) clip(m *machine) {
	gpus, cpus := m.totals()
	for i := range w.facts {
		f := &w.facts[i]
		f.gpus, f.cpus = int32(min(int64(f.gpus), gpus)), int32(min(int64(f.cpus), cpus))
	}
}

// source hands out the jobs as the engine sees them.
type source struct {
	*workload
	matching bool
	demands  map[shape]*job.Demand
	next     int
}

// shape is what tells the demand of one job from that of another.
type shape struct {
	gpus, cpus, instances int32
	v100                  bool
}

// Next implements trace.Source.
func (s *source) Next(e *trace.Entry) error {
	if s.next == len(s.facts) {
		return io.EOF
	}
	f := &s.facts[s.next]
	e.Job = job.Job{ID: job.ID(s.next), Key: f.name, Submit: harness.Seconds(f.submit), Demand: s.demand(f)}
	e.Truth = trace.Truth{Work: harness.Seconds(f.duration)}
	s.next++
	return nil
}

// demand is the demand of a job, shared by all jobs of its shape.
func (s *source) demand(f *facts) *job.Demand {
	key := shape{f.gpus, f.cpus, f.instances, f.v100 && s.matching}
	if d := s.demands[key]; d != nil {
		return d
	}
	if s.demands == nil {
		s.demands = map[shape]*job.Demand{}
	}
	d := new(job.Demand)
	d.Roles[0] = job.Role{Tasks: f.instances, GPU: milli(int64(f.gpus)), CPU: milli(int64(f.cpus))}
	if key.v100 {
		d.Types = "V100"
	}
	s.demands[key] = d
	return d
}
