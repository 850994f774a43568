package sim_test

import (
	"testing"

	"github.com/norn-scheduler/norn/sched"
	"github.com/norn-scheduler/norn/sim"
	"github.com/norn-scheduler/norn/sim/simtest"
)

// counter counts how often it is asked at each moment, in seconds.
type counter struct {
	sched.Policy
	asked map[float64]int
}

// Decide counts.
func (c *counter) Decide(v *sched.View, p *sched.Plan) {
	c.asked[v.Now.Seconds()]++
	c.Policy.Decide(v, p)
}

// TestNoConsequences: where jobs could disturb each other and do not, nobody is asked
// again at the moment at which one has started. (A policy that then changes its mind
// would never get past it.)
func TestNoConsequences(t *testing.T) {
	asked := map[float64]int{}
	make := func() (sched.Policy, error) {
		p, err := newFIFO()
		return &counter{p, asked}, err
	}
	simtest.Go(t, simtest.Config{Cluster: simtest.Nodes(2, 1), Make: make, World: func(c *sim.Config) { c.Transfer = teach{} }},
		simtest.Job{Key: "a", GPUs: 1, Run: 4, Spec: tuned}, simtest.Job{Key: "b", At: 2, GPUs: 1, Run: 6, Spec: tuned}, simtest.Job{Key: "c", At: 3, GPUs: 1, Run: 6})
	for at, n := range asked {
		if n != 1 {
			t.Errorf("at %v the policy is asked %d times", at, n)
		}
	}
	if len(asked) != 6 {
		t.Errorf("it is asked at %v", asked)
	}
}
