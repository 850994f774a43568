package themis_test

import (
	"fmt"
	"testing"

	"pgregory.net/rapid"

	"github.com/norn-scheduler/norn/cluster"
	"github.com/norn-scheduler/norn/perf"
	"github.com/norn-scheduler/norn/policy/themis"
	"github.com/norn-scheduler/norn/sim/simtest"
)

// TestGangAmongSingles: a short gang that needs the whole node is among the worst off soon, and
// is not kept waiting until jobs of one GPU, of which there are many more than GPUs, are done.
func TestGangAmongSingles(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		gpus := rapid.IntRange(2, 8).Draw(t, "gpus")
		singles := rapid.IntRange(5, 15).Draw(t, "singles for each GPU") * gpus
		term := 60.0
		long := term * float64(rapid.IntRange(4, 10).Draw(t, "terms"))
		var jobs []simtest.Job
		for i := range singles {
			jobs = append(jobs, simtest.Job{Key: fmt.Sprint(i), GPUs: 1, Run: long})
		}
		jobs = append(jobs, simtest.Job{Key: "gang", GPUs: gpus, Run: term})
		for name, variant := range map[string]themis.Variant{"auction": themis.ByAuction, "greedy": themis.ByRho} {
			run, err := simtest.Try(simtest.Config{Cluster: simtest.Nodes(1, gpus), Make: with(func(c *themis.Config) { c.Variant = variant }), Unchecked: true}, jobs...)
			if err != nil {
				t.Fatal(err)
			}
			if all := long * float64(singles) / float64(gpus); run.Start("gang") > 0.3*all {
				t.Fatalf("%s: the gang starts at %v of %v s", name, run.Start("gang"), all)
			}
		}
	})
}

// TestTakesWhatItBids: a gang that bids for GPUs of the type on which it is fast gets those, and
// not GPUs of another type that come first.
func TestTakesWhatItBids(t *testing.T) {
	for name, variant := range map[string]themis.Variant{"auction": themis.ByAuction, "greedy": themis.ByRho} {
		c := cluster.New()
		for _, name := range []string{"slow", "fast"} {
			typ, err := c.AddType(cluster.GPUType{Name: name, Speed: map[string]float64{"slow": 0.25, "fast": 1}[name]})
			if err != nil {
				t.Fatal(err)
			}
			if _, err := c.AddNode(cluster.NodeSpec{GPUs: []cluster.GPUs{{Type: typ, Count: 2}}}); err != nil {
				t.Fatal(err)
			}
		}
		run := simtest.Go(t, simtest.Config{Cluster: c, Make: with(func(c *themis.Config) { c.Variant = variant }), Model: perf.Analytic{Scaling: 1, Spread: 1}},
			simtest.Job{Key: "a", GPUs: 2, Run: 100}, simtest.Job{Key: "b", At: 10, GPUs: 2, Run: 100}, simtest.Job{Key: "c", At: 110, GPUs: 2, Run: 10})
		if run.End("a") != 100 || run.End("b") != 410 || run.End("c") != 120 {
			t.Errorf("%s: jobs end at %v, %v and %v, want 100, 410 and 120\n%v", name, run.End("a"), run.End("b"), run.End("c"), run.Log)
		}
	}
}
