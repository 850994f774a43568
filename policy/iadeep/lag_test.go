package iadeep

import (
	"testing"
	"time"

	"github.com/norn-scheduler/norn/engine"
	"github.com/norn-scheduler/norn/eventlog"
	"github.com/norn-scheduler/norn/perf"
	"github.com/norn-scheduler/norn/sched"
	"github.com/norn-scheduler/norn/sim/simtest"
	"github.com/norn-scheduler/norn/state"
)

// slow is a policy in a world that must watch jobs for a minute.
type slow struct{ *policy }

func (s slow) Decide(v *sched.View, p *sched.Plan) { v.Lag = time.Minute; s.policy.Decide(v, p) }
func (s slow) NextWake(v *sched.View) time.Duration {
	v.Lag = time.Minute
	return s.policy.NextWake(v)
}

// changes notes when anybody was given another batch.
type changes struct{ at []time.Duration }

func (c *changes) Event(ev *eventlog.Event, _ *state.State) {
	if n := len(c.at); ev.Kind == eventlog.Move && ev.Alloc.Shares[0].Batch > 0 && (n == 0 || c.at[n-1] != ev.Time) {
		c.at = append(c.at, ev.Time)
	}
}

// A trial lasts at least until the world can have seen what comes of it, whatever the
// steps of a job take.
func TestLag(t *testing.T) {
	seen := &changes{}
	cfg := node(1, map[perf.Crowd]float64{"m+m": 0.8}, nil)
	inner := cfg.Make
	cfg.Make = func() (sched.Policy, error) {
		p, err := inner()
		if err != nil {
			return nil, err
		}
		return slow{p.(*policy)}, nil
	}
	cfg.Sinks = []engine.Sink{seen}
	simtest.Go(t, cfg, batch(task("a", "m", 0, 10_000), 512), batch(task("b", "m", 10, 10_000), 512))
	if len(seen.at) < 5 {
		t.Fatalf("batches were changed at %v only", seen.at)
	}
	for i, at := range seen.at {
		if i > 0 && at-seen.at[i-1] < time.Minute || at < 70*time.Second {
			t.Errorf("batches were changed at %v", seen.at)
			break
		}
	}
}
