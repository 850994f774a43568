package muxflow

import (
	"strconv"
	"testing"
	"time"

	"github.com/norn-scheduler/norn/job"
	"github.com/norn-scheduler/norn/perf"
	"github.com/norn-scheduler/norn/sched"
	"github.com/norn-scheduler/norn/sim"
	"github.com/norn-scheduler/norn/sim/simtest"
)

// BenchmarkDecide is one decision with 1,000 services that run on 4,096 GPUs, the rest
// of which other services hold, and 1,000 jobs that wait: all are matched.
func BenchmarkDecide(b *testing.B) {
	var jobs []simtest.Job
	for i := range 1000 {
		jobs = append(jobs, simtest.Job{Key: "s" + strconv.Itoa(i), GPUs: 1, Run: 1000, Spec: func(j *job.Job) {
			j.Kind, j.Stop, j.Hints = job.Inference, job.Pinned, &job.Hints{GPUUse: float64(i*7%50+1) / 100, MemoryUse: float64(i*11%40) / 100}
		}})
	}
	jobs = append(jobs, simtest.Job{Key: "rest", GPUs: 3096, Run: 1000, Spec: func(j *job.Job) { j.Stop = job.Pinned }})
	for i := range 1000 {
		jobs = append(jobs, simtest.Job{Key: "w" + strconv.Itoa(i), At: 100, GPUs: 1, Run: 1000, Spec: func(j *job.Job) {
			j.Hints = &job.Hints{GPUUse: float64(i*13%90+10) / 100, MemoryUse: float64(i*17%60) / 100}
		}})
	}
	simtest.Go(b, simtest.Config{
		Cluster: simtest.Nodes(512, 8), Shared: true, Unchecked: true, Sharing: perf.Served{}, World: func(c *sim.Config) { c.Sharing, c.Measure = perf.Served{}, true },
		Make: func() (sched.Policy, error) {
			c := NewConfig()
			c.Match = matching
			p, err := c.Policy()
			return &simtest.Timed{Policy: p, B: b, At: 100 * time.Second}, err
		},
	}, jobs...)
}

const matching = Exact
