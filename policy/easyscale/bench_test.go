package easyscale

import (
	"fmt"
	"testing"
	"time"

	"github.com/norn-scheduler/norn/engine"
	"github.com/norn-scheduler/norn/perf"
	"github.com/norn-scheduler/norn/sim"
	"github.com/norn-scheduler/norn/sim/simtest"
)

// BenchmarkDecide is a round of running jobs of 8 workers on as many GPUs as there are jobs and a
// sixteenth more, all of which would grow.
func BenchmarkDecide(b *testing.B) {
	for _, n := range []int{100, 500, 2000} {
		b.Run(fmt.Sprint(n), func(b *testing.B) {
			var jobs []simtest.Job
			for i := range n {
				jobs = append(jobs, sliced(fmt.Sprint("j", i), 0, 50000, 8))
			}
			model := perf.Analytic{Scaling: 1, Spread: 1}
			for b.Loop() {
				b.StopTimer()
				p, err := NewConfig().Policy()
				if err != nil {
					b.Fatal(err)
				}
				world := sim.New(sim.Config{Source: simtest.Source(jobs), Model: model})
				e := engine.New(engine.Config{Cluster: simtest.Nodes(n/8+n/128+1, 8), Policy: p, PolicyName: "easyscale", Speeds: model, Estimator: world.Oracle(), Seed: 1}, world)
				if err := world.Attach(e.State()); err != nil {
					b.Fatal(err)
				}
				for e.State().Jobs() < n {
					if err := e.Step(); err != nil {
						b.Fatal(err)
					}
				}
				b.StartTimer()
				if err := e.Step(); err != nil { // the round after a minute
					b.Fatal(err)
				}
				if b.StopTimer(); e.State().Now != time.Minute {
					b.Fatal(e.State().Now)
				}
				b.StartTimer()
			}
		})
	}
}
