package elasticflow

import (
	"fmt"
	"testing"
	"time"

	"github.com/norn-scheduler/norn/engine"
	"github.com/norn-scheduler/norn/sim"
	"github.com/norn-scheduler/norn/sim/simtest"
)

// BenchmarkDecide is a decision about elastic jobs on 64 nodes of 8 GPUs, of which most have
// promises, with a job that needs the schedules of all made anew.
func BenchmarkDecide(b *testing.B) {
	for _, n := range []int{100, 500} {
		b.Run(fmt.Sprint(n), func(b *testing.B) {
			var jobs []simtest.Job
			for i := range n {
				at, run := float64(i)/float64(n)*50, 5000+float64(i*7919%20000)
				jobs = append(jobs, due(fmt.Sprint("j", i), at, run, at+run*(0.6+float64(i*31%97)/20), 8, []string{"concave", "flat", "linear"}[i%3]))
			}
			jobs = append(jobs, due("last", 60, 5000, 60+4000, 8, "concave"))
			for b.Loop() {
				b.StopTimer()
				p, err := NewConfig().Policy()
				if err != nil {
					b.Fatal(err)
				}
				world := sim.New(sim.Config{Source: simtest.Source(jobs), Model: curves})
				e := engine.New(engine.Config{Cluster: simtest.Nodes(64, 8), Policy: p, PolicyName: "elasticflow", Speeds: curves, Estimator: world.Oracle(), Seed: 1}, world)
				if err := world.Attach(e.State()); err != nil {
					b.Fatal(err)
				}
				for e.State().Now < 55*time.Second && e.State().Jobs() < n {
					if err := e.Step(); err != nil {
						b.Fatal(err)
					}
				}
				b.StartTimer()
				if err := e.Step(); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
