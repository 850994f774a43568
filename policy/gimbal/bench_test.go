package gimbal

import (
	"strconv"
	"testing"
	"time"

	"github.com/norn-scheduler/norn/internal/simtest"
	"github.com/norn-scheduler/norn/job"
	"github.com/norn-scheduler/norn/perf"
	"github.com/norn-scheduler/norn/sched"
	"github.com/norn-scheduler/norn/unit"
)

// bench times one decision, which is not carried out, when everybody has come.
type bench struct {
	*policy
	b    *testing.B
	done bool
}

func (m *bench) Decide(v *sched.View, p *sched.Plan) {
	for !m.done && v.Now == 10*time.Second && m.b.Loop() {
		p.Try(func() bool {
			m.policy.Decide(v, p)
			return false
		})
	}
	if m.done = m.done || v.Now == 10*time.Second; !m.done { // what follows is not of interest
		m.policy.Decide(v, p)
	}
}

func (m *bench) NextWake(v *sched.View) time.Duration {
	if m.done {
		return unit.Never
	}
	return m.policy.NextWake(v)
}

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
		made, _ := p.(*policy)
		return &bench{policy: made, b: b}, err
	}}, jobs...)
}
