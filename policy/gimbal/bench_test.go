package gimbal

import (
	"strconv"
	"testing"
	"time"

	"github.com/norn-scheduler/norn/job"
	"github.com/norn-scheduler/norn/perf"
	"github.com/norn-scheduler/norn/sched"
	"github.com/norn-scheduler/norn/sim/simtest"
)

// BenchmarkDecide is one decision with 1,000 gangs of 4 that run on 4,096 GPUs and 1,000
// that wait, those at the head of which find partners.
func BenchmarkDecide(b *testing.B) {
	spec := func(i int) func(*job.Job) {
		return func(j *job.Job) { j.Hints = &job.Hints{GPUUse: 0.3 + float64(i%7)/10, MemoryUse: float64(i%5) / 10} }
	}
	var jobs []simtest.Job
	for i := range 1000 {
		jobs = append(jobs, simtest.Job{Key: "r" + strconv.Itoa(i), GPUs: 4, Run: 10_000, Spec: spec(i)})
	}
	for i := range 1000 {
		jobs = append(jobs, simtest.Job{Key: "w" + strconv.Itoa(i), At: 10, GPUs: 4 + i%3, Run: 20_000, Spec: spec(i)})
	}
	simtest.Go(b, simtest.Config{Cluster: simtest.Nodes(512, 8), Shared: true, Unchecked: true, Sharing: perf.Calibrated{}, Make: func() (sched.Policy, error) {
		p, err := NewConfig().Policy()
		return &simtest.Timed{Policy: p, B: b, At: 10 * time.Second}, err
	}}, jobs...)
}
