package engine_test

import (
	"testing"
	"time"

	"github.com/norn-scheduler/norn/cluster/unit"
	"github.com/norn-scheduler/norn/job"
	"github.com/norn-scheduler/norn/perf"
	"github.com/norn-scheduler/norn/place"
	"github.com/norn-scheduler/norn/sched"
	"github.com/norn-scheduler/norn/sim/simtest"
)

// TestResizeBackToReferenceSpeed: a job that is resized to the size it asked
// for runs at speed 1 again, and its record says so. It does 20 s of work by
// second 10 at speed 2, and the other 40 s at speed 1.
func TestResizeBackToReferenceSpeed(t *testing.T) {
	elastic := job.GPUs(2)
	elastic.Roles[0].Min, elastic.Roles[0].Max = 1, 4
	p := &scripted{decide: func(v *sched.View, p *sched.Plan) {
		switch v.Now {
		case 0:
			p.StartSize(0, 4, place.Pack)
		case 10 * time.Second:
			p.Resize(0, 2, place.Pack)
		case 30 * time.Second:
			if j := v.Job(0); j.Speed() != 1 || j.Progress() != 40*time.Second {
				t.Errorf("at 30 s its speed is %v and its progress %v", j.Speed(), j.Progress())
			}
		}
	}, wake: func(v *sched.View) time.Duration {
		for _, at := range []time.Duration{10e9, 30e9} {
			if at > v.Now {
				return at
			}
		}
		return unit.Never
	}}
	run := simtest.Go(t, simtest.Config{
		Cluster: simtest.Nodes(1, 4), Make: p.make, Model: perf.Analytic{Scaling: 1, Spread: 1},
	}, simtest.Job{Key: "a", Demand: &elastic, Run: 60})
	if a := run.Record("a"); run.End("a") != 50 || a.Progress != 60*time.Second {
		t.Errorf("ends at %v with %v of 1m0s done", run.End("a"), a.Progress)
	}
}
