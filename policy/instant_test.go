package policy_test

import (
	"testing"
	"time"

	"github.com/norn-scheduler/norn/eventlog"
	"github.com/norn-scheduler/norn/job"
	"github.com/norn-scheduler/norn/policy"
	"github.com/norn-scheduler/norn/sim"
	"github.com/norn-scheduler/norn/sim/simtest"
)

// TestStoppedAndGoneAtOnce: a policy is told in one call that a job waits again and
// that its user held it, or cancelled it. Nobody starts such a job.
func TestStoppedAndGoneAtOnce(t *testing.T) {
	at := func(s time.Duration, kind eventlog.Kind) eventlog.Event {
		return eventlog.Event{Time: s * time.Second, Kind: kind, Job: 0}
	}
	for _, e := range policy.Table() {
		for kind, phase := range map[eventlog.Kind]job.Phase{eventlog.Hold: job.Done, eventlog.Cancel: job.Cancelled} {
			for _, run := range []float64{5, 50} { // of b: alone, and with others waiting
				got, err := simtest.Try(simtest.Config{
					Cluster: simtest.Nodes(1, 2), Make: e.New().Policy, Shared: e.Acts.Has(policy.Shares),
					World: func(c *sim.Config) { c.Script = []eventlog.Event{at(5, kind), at(90, eventlog.Free)} },
				},
					simtest.Job{Key: "a", GPUs: 1, Run: 10, Fails: []float64{5}},
					simtest.Job{Key: "b", GPUs: 1, Run: run}, simtest.Job{Key: "c", At: 5, GPUs: 2, Run: 10},
				)
				if err != nil {
					t.Errorf("%s, %v: %v", e.Name, kind, err)
					continue
				}
				if r := got.Record("a"); r.Phase != phase || got.Record("c").Phase != job.Done {
					t.Errorf("%s, %v: a is %v, c is %v\n%v", e.Name, kind, r.Phase, got.Record("c").Phase, got.Log)
				}
			}
		}
	}
}
