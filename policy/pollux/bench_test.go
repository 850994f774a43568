package pollux

import (
	"fmt"
	"testing"
	"time"

	"github.com/norn-scheduler/norn/engine"
	"github.com/norn-scheduler/norn/sim"
	"github.com/norn-scheduler/norn/sim/simtest"
	"github.com/norn-scheduler/norn/trace"
)

// BenchmarkRound is the first round with 500 elastic jobs on 60 nodes of 4 GPUs: all
// GPUs are divided among jobs that have not run.
func BenchmarkRound(b *testing.B) {
	var jobs []simtest.Job
	for i := range 500 {
		jobs = append(jobs, elastic(fmt.Sprint([]string{"n", "q"}[i%2], i), 1+float64(i/10), 1, 2, 16, 5000))
	}
	for b.Loop() {
		b.StopTimer()
		cfg := config(60, 4, nil)
		c := NewConfig()
		p, err := c.Policy()
		if err != nil {
			b.Fatal(err)
		}
		var source trace.Source = simtest.Source(jobs)
		world := sim.New(sim.Config{Source: source, Model: speeds})
		e := engine.New(engine.Config{Cluster: cfg.Cluster, Policy: p, PolicyName: "pollux", Speeds: speeds, Estimator: world.Oracle(), Seed: 1}, world)
		if err := world.Attach(e.State()); err != nil {
			b.Fatal(err)
		}
		for e.State().Now < 50*time.Second {
			if err := e.Step(); err != nil {
				b.Fatal(err)
			}
		}
		b.StartTimer()
		if err := e.Step(); err != nil {
			b.Fatal(err)
		}
	}
}
