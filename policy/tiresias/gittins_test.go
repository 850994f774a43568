package tiresias

import (
	"math"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/norn-scheduler/norn/eventlog"
	"github.com/norn-scheduler/norn/sched"
	"github.com/norn-scheduler/norn/sim"
	"github.com/norn-scheduler/norn/sim/simtest"
)

// of makes a history of given samples.
func of(samples ...float64) *history {
	h := &history{}
	for _, s := range samples {
		h.add(s)
	}
	return h
}

// Section 3.3.2, the index worked out by hand.
func TestIndex(t *testing.T) {
	three, tail := of(4, 8, 12), of(100, 100, 100, 1000)
	for _, c := range []struct {
		h          *history
		a, quantum float64
		want       float64
	}{
		{three, 0, 4, 1. / 12}, {three, 0, 8, 0.1}, {three, 0, 12, 0.125},
		{three, 4, 4, 0.125}, {three, 4, 8, 1. / 6}, {three, 8, 4, 0.25},
		{tail, 0, 100, 0.0075}, {tail, 50, 100, 0.012}, {tail, 100, 100, 0},
	} {
		if got := c.h.index(c.a, c.quantum); math.Abs(got-c.want) > 1e-12 {
			t.Errorf("G(%v, %v) of %v is %v, want %v", c.a, c.quantum, c.h.samples, got, c.want)
		}
	}
}

// The index agrees with its definition, taken literally.
func TestIndexIsItsDefinition(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		samples := rapid.SliceOfN(rapid.Float64Range(1, 1e6), 1, 60).Draw(t, "samples")
		a, quantum := rapid.Float64Range(0, 1e6).Draw(t, "a"), rapid.Float64Range(1, 1e6).Draw(t, "quantum")
		h := of(samples...)
		ends, spent := 0.0, 0.0
		for _, s := range h.samples {
			if s > a {
				spent += min(s-a, quantum)
				if s-a <= quantum {
					ends++
				}
			}
		}
		want := 0.0
		if spent > 0 {
			want = ends / spent
		}
		if got := h.index(a, quantum); math.Abs(got-want) > 1e-9*(1+want) {
			t.Fatalf("G(%v, %v) is %v, want %v", a, quantum, got, want)
		}
	})
}

// TestHeldJobsAreNoSamples: the index is learnt from jobs that have left, of which
// one that its user holds is none.
func TestHeldJobsAreNoSamples(t *testing.T) {
	var made *policy
	simtest.Go(t, simtest.Config{
		Cluster: simtest.Nodes(1, 1),
		Make: func() (sched.Policy, error) {
			c := NewConfig()
			c.Rank = Gittins
			p, err := c.Policy()
			made = p.(*policy)
			return p, err
		},
		World: func(c *sim.Config) {
			c.Script = []eventlog.Event{
				{Time: 5 * time.Second, Kind: eventlog.Hold, Job: 1}, {Time: 6 * time.Second, Kind: eventlog.Free, Job: 1},
			}
		},
	}, simtest.Job{Key: "a", GPUs: 1, Run: 10}, simtest.Job{Key: "b", GPUs: 1, Run: 10})
	if got := len(made.past.samples) + len(made.past.fresh); got != 2 {
		t.Errorf("%d samples of 2 jobs: %v %v", got, made.past.samples, made.past.fresh)
	}
}
