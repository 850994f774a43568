package chronus

import (
	"fmt"
	"testing"
	"time"

	"github.com/norn-scheduler/norn/engine"
	"github.com/norn-scheduler/norn/sim"
	"github.com/norn-scheduler/norn/sim/simtest"
)

// BenchmarkDecide is the beginning of a lease with so many gangs on 64 nodes of 8 GPUs, most of
// which have promises.
func BenchmarkDecide(b *testing.B) {
	for _, n := range []int{100, 500} {
		b.Run(fmt.Sprint(n), func(b *testing.B) {
			var jobs []simtest.Job
			for i := range n {
				run := float64(3600 + i*7919%200_000)
				jobs = append(jobs, gang(fmt.Sprint("j", i), 10+float64(i)/float64(n)*1000, run, 4000+run*(1.2+float64(i*31%97)/30), 1<<(i*13%4)))
			}
			for b.Loop() {
				b.StopTimer()
				p, err := NewConfig().Policy()
				if err != nil {
					b.Fatal(err)
				}
				world := sim.New(sim.Config{Source: simtest.Source(jobs)})
				e := engine.New(engine.Config{Cluster: simtest.Nodes(64, 8), Policy: p, PolicyName: "chronus", Estimator: world.Oracle(), Seed: 1}, world)
				if err := world.Attach(e.State()); err != nil {
					b.Fatal(err)
				}
				for e.State().Jobs() < n {
					if err := e.Step(); err != nil {
						b.Fatal(err)
					}
				}
				b.StartTimer()
				for e.State().Now < 1200*time.Second {
					if err := e.Step(); err != nil {
						b.Fatal(err)
					}
				}
			}
		})
	}
}
