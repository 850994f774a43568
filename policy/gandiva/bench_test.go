package gandiva

import (
	"strconv"
	"testing"
	"time"

	"github.com/norn-scheduler/norn/cluster/unit"
	"github.com/norn-scheduler/norn/job"
	"github.com/norn-scheduler/norn/sched"
	"github.com/norn-scheduler/norn/sim/simtest"
)

// BenchmarkDecide is one decision with 1,000 jobs of 4 GPUs that run on 4,096 and
// 1,000 that wait: everybody comes; all turns end; half of those that wait are tried
// beside others.
func BenchmarkDecide(b *testing.B) {
	for name, at := range map[string]time.Duration{"come": 10 * time.Second, "turn": 60 * time.Second, "pack": 120 * time.Second} {
		b.Run(name, func(b *testing.B) {
			var jobs []simtest.Job
			for i := range 2000 {
				use := 0.5
				if i%2 == 0 {
					use = 0
				}
				jobs = append(jobs, simtest.Job{Key: "j" + strconv.Itoa(i), At: float64(i / 1000 * 10), GPUs: 4, Run: 150, Spec: func(j *job.Job) {
					j.Hints = &job.Hints{GPUUse: use, GPUMemory: unit.GiB}
				}})
			}
			simtest.Go(b, simtest.Config{Cluster: simtest.Nodes(512, 8), Shared: true, Unchecked: true, Make: func() (sched.Policy, error) {
				p, err := NewConfig().Policy()
				return &simtest.Timed{Policy: p, B: b, At: at}, err
			}}, jobs...)
		})
	}
}
