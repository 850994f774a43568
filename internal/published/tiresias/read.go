package tiresias

import (
	"github.com/norn-scheduler/norn/internal/published/harness"
	"github.com/norn-scheduler/norn/job"
	"github.com/norn-scheduler/norn/trace"
)

// maxGPUs bounds the size of a job.
const maxGPUs = 1_000_000

// ReadJobs reads a trace: CSV with the columns job_id, num_gpu, submit_time and
// duration in seconds, in any order. Submit times and sizes are whole numbers; a
// duration is cut to whole seconds.
func ReadJobs(path string) (harness.Jobs, error) {
	t, err := harness.OpenTable(path)
	if err != nil {
		return nil, err
	}
	return readJobs(t)
}

func readJobs(t *harness.Table) (harness.Jobs, error) {
	at, err := t.Need("job_id", "num_gpu", "submit_time", "duration")
	if err != nil {
		return nil, err
	}
	jobs := make(harness.Jobs, 0, t.Rows())
	var shapes job.Interner
	for {
		more, err := t.Next()
		if err != nil {
			return nil, err
		}
		if !more {
			jobs.Sort()
			return jobs, nil
		}
		e, err := readJob(t, at, &shapes)
		if err != nil {
			return nil, err
		}
		jobs = append(jobs, e)
	}
}

func readJob(t *harness.Table, at []int, shapes *job.Interner) (trace.Entry, error) {
	var e trace.Entry
	gpus, err := t.Int(at[1])
	if err != nil {
		return e, err
	}
	submit, err := t.Int(at[2])
	if err != nil {
		return e, err
	}
	duration, err := t.Float(at[3])
	switch {
	case err != nil:
		return e, err
	case gpus < 1 || gpus > maxGPUs:
		return e, t.Errorf("job %s asks for %d GPUs, from 1 to %d are possible", t.Field(at[0]), gpus, maxGPUs)
	case duration < 0 || duration > harness.MaxSeconds || submit > harness.MaxSeconds:
		return e, t.Errorf("job %s: a time is out of range", t.Field(at[0]))
	}
	e.Job = job.Job{Key: t.Field(at[0]), Submit: harness.Seconds(submit), Demand: shapes.Get(job.GPUs(int(gpus)))}
	e.Truth.Work = harness.Seconds(int64(duration))
	return e, nil
}
