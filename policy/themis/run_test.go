package themis_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/norn-scheduler/norn/job"
	"github.com/norn-scheduler/norn/policy/themis"
	"github.com/norn-scheduler/norn/sched"
	"github.com/norn-scheduler/norn/sim/simtest"
)

func with(change func(*themis.Config)) func() (sched.Policy, error) {
	return func() (sched.Policy, error) {
		c := themis.NewConfig()
		c.Term = time.Minute
		change(c)
		return c.Policy()
	}
}

// TestAlike: eight like apps that could use the whole cluster share it. Over
// the run no app is far from what it would have in a cluster of its own with an
// eighth of the GPUs (rho 1). All are treated alike (Jain's index).
func TestAlike(t *testing.T) {
	for name, change := range map[string]func(*themis.Config){"auction": func(*themis.Config) {}, "greedy": func(c *themis.Config) { c.Variant = themis.ByRho }} {
		d := job.GPUs(16)
		d.Roles[0].Min = 1
		var jobs []simtest.Job
		for i := range 8 {
			jobs = append(jobs, simtest.Job{Key: fmt.Sprint(i), Demand: &d, Run: 1000})
		}
		run := simtest.Go(t, simtest.Config{Cluster: simtest.Nodes(4, 4), Make: with(change)}, jobs...)
		worst, sum, squares := 0.0, 0.0, 0.0
		for _, j := range jobs {
			rho := run.JCT(j.Key) / 8000
			worst, sum, squares = max(worst, rho), sum+rho, squares+rho*rho
		}
		if jain := sum * sum / (8 * squares); worst > 1.02 || jain < 0.95 {
			t.Errorf("%s: worst rho %v, Jain's index %v", name, worst, jain)
		}
	}
}

// TestLease: at the end of its lease at 120 s app a is worse off than b, at rho
// (120+480)/(600 x 1.25) = 0.8 against (30+60)/(60 x 2) = 0.75: it wins its GPUs again
// and nothing happens to it. At 180 s it is at 0.67 and b at 1.25.
func TestLease(t *testing.T) {
	run := simtest.Go(t, simtest.Config{Cluster: simtest.Nodes(1, 2), Make: with(func(*themis.Config) {})},
		simtest.Job{Key: "a", GPUs: 2, Run: 600}, simtest.Job{Key: "b", At: 90, GPUs: 2, Run: 60})
	if b := run.Record("b"); run.Start("b") != 180 || b.Preemptions != 0 {
		t.Errorf("b starts at %v, want 180, the end of the third lease of a\n%v", run.Start("b"), run.Log)
	}
	if a := run.Record("a"); a.Preemptions != 1 || run.End("a") != 660 {
		t.Errorf("a ends at %v after %d preemptions\n%v", run.End("a"), a.Preemptions, run.Log)
	}
}

// TestRest: of 20 apps alike on eight GPUs four bid. The rest goes to those who are worst
// off, in order, and not by lot.
func TestRest(t *testing.T) {
	var jobs []simtest.Job
	for i := range 20 {
		jobs = append(jobs, simtest.Job{Key: string(rune('a' + i)), GPUs: 1, Run: 1000})
	}
	started := func(rest themis.Rest) (first string) {
		run := simtest.Go(t, simtest.Config{Cluster: simtest.Nodes(1, 8), Make: with(func(c *themis.Config) { c.Rest = rest })}, jobs...)
		for _, j := range jobs {
			if run.Start(j.Key) == 60 { // the first who come have all GPUs until then
				first += j.Key
			}
		}
		return first
	}
	if worst, lot := started(themis.ToWorst), started(themis.ByLot); worst != "ijklmnop" || lot == worst {
		t.Errorf("%s begin when the first leases are over, by lot %s", worst, lot)
	}
}
