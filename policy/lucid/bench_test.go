package lucid

import (
	"strconv"
	"testing"
	"time"

	"github.com/norn-scheduler/norn/sched"
	"github.com/norn-scheduler/norn/sim/simtest"
)

// BenchmarkDecide is one decision with 1,000 jobs of 4 GPUs that run on 4,096 and
// 1,000 that wait, half of which find partners.
func BenchmarkDecide(b *testing.B) {
	var jobs []simtest.Job
	for i := range 1000 {
		jobs = append(jobs, simtest.Job{Key: "r" + strconv.Itoa(i), GPUs: 4, Run: 10_000, Spec: uses(0.5, 3)})
	}
	for i := range 1000 {
		use := 0.5
		if i%2 == 0 {
			use = 0.9
		}
		jobs = append(jobs, simtest.Job{Key: "w" + strconv.Itoa(i), At: 10, GPUs: 4, Run: 20_000, Spec: uses(use, 3)})
	}
	simtest.Go(b, simtest.Config{Cluster: simtest.Nodes(512, 8), Shared: true, Unchecked: true, Make: func() (sched.Policy, error) {
		c := NewConfig()
		c.Predict, c.Packing, c.Profile = Given, Always, 0
		p, err := c.Policy()
		return &simtest.Timed{Policy: p, B: b, At: 10 * time.Second}, err
	}}, jobs...)
}
