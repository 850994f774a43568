package rmixer_test

import (
	"testing"
	"time"

	"github.com/norn-scheduler/norn/perf"
	"github.com/norn-scheduler/norn/policy/rmixer"
	"github.com/norn-scheduler/norn/sched"
	"github.com/norn-scheduler/norn/sim"
	"github.com/norn-scheduler/norn/sim/simtest"
	"github.com/norn-scheduler/norn/state"
	"github.com/norn-scheduler/norn/trace"
	"github.com/norn-scheduler/norn/trace/gen"
)

// stopwatch times the decisions of a policy.
type stopwatch struct {
	sched.Policy
	n          int
	sum, worst time.Duration
}

// Decide implements sched.Policy.
func (s *stopwatch) Decide(v *sched.View, p *sched.Plan) {
	began := time.Now()
	s.Policy.Decide(v, p)
	took := time.Since(began)
	s.n++
	s.sum += took
	s.worst = max(s.worst, took)
}

// NextWake implements sched.Waker.
func (s *stopwatch) NextWake(v *sched.View) time.Duration { return s.Policy.(sched.Waker).NextWake(v) }

// BenchmarkDispatch is decisions with 10,000 jobs that wait for 64 GPUs and 8 host
// devices (the target is under 5 ms each): like those of the task lists, and with no two
// that need the same memory. The first decision, which puts all of them in order, is
// reported apart, in the mean and, as the machine may be busy, at best.
func BenchmarkDispatch(b *testing.B) {
	for _, unlike := range []bool{false, true} {
		name := "like"
		if unlike {
			name = "unlike"
		}
		b.Run(name, func(b *testing.B) {
			jobs, err := gen.NewDLRM(gen.DLRM{List: gen.BalanceList, Jobs: 10_000, Seed: 1})
			if err != nil {
				b.Fatal(err)
			}
			for i := range jobs {
				if unlike {
					d := *jobs[i].Job.Demand
					d.Roles[0].GPUMemory += mib(int64(i%9973)) / 10
					jobs[i].Job.Demand = &d
				}
			}
			n, firsts, least := 0, time.Duration(0), time.Hour
			for b.Loop() {
				p, err := config(func(*rmixer.Config) {})()
				if err != nil {
					b.Fatal(err)
				}
				watch := &stopwatch{Policy: p}
				w := simtest.World{Config: simtest.Config{
					Cluster: node(b, 8, 8, 16160, true),
					World: func(c *sim.Config) {
						c.Source, c.Sharing, c.Measure = trace.FromMemory(jobs), perf.Demands{Switch: 0.03}, true
					},
				}}
				if err := w.Steps(watch, func(*state.State, *sim.Sim) bool {
					if watch.n == 1 {
						n, firsts, least = n+1, firsts+watch.sum, min(least, watch.sum)
						watch.worst, watch.sum = 0, 0
					}
					return watch.n < 1000
				}); err != nil {
					b.Fatal(err)
				}
				b.ReportMetric(float64(firsts)/float64(n)/1e6, "ms/first")
				b.ReportMetric(float64(least)/1e6, "ms/best-first")
				b.ReportMetric(float64(watch.sum)/float64(watch.n-1)/1e6, "ms/decision")
				b.ReportMetric(float64(watch.worst)/1e6, "ms/worst")
			}
		})
	}
}
