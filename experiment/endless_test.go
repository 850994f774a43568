package experiment_test

import (
	"context"
	"errors"
	"testing"

	"github.com/norn-scheduler/norn/eventlog"
	"github.com/norn-scheduler/norn/eventlog/replay"
	"github.com/norn-scheduler/norn/experiment"
	"github.com/norn-scheduler/norn/place"
	"github.com/norn-scheduler/norn/policy"
	"github.com/norn-scheduler/norn/policy/need"
	"github.com/norn-scheduler/norn/policy/param"
	"github.com/norn-scheduler/norn/sched"
)

// endless is a policy that starts what comes until a decision of it does not end, during
// which the context does. The decision goes on once the test is over.
type endless struct {
	decisions int
	cancel    func()
	over      chan struct{}
}

func (e *endless) Params() param.Set             { return nil }
func (e *endless) Needs() need.List              { return nil }
func (e *endless) Policy() (sched.Policy, error) { return e, nil }

func (e *endless) Decide(v *sched.View, p *sched.Plan) {
	for _, ch := range v.Changes() {
		if ch.Kind == sched.Arrived {
			p.Start(ch.Job, place.Pack)
		}
	}
	if e.decisions--; e.decisions == 0 {
		e.cancel()
		<-e.over
	}
}

// TestEndlessDecision: a run ends with its context although the policy does not come to
// the end of a decision. Its log is whole up to there, and stays as it is when the
// decision ends after all.
func TestEndlessDecision(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	e := &endless{decisions: 20, cancel: cancel, over: make(chan struct{})}
	defer close(e.over)
	var l logs
	x := &experiment.Experiment{Spec: spec(t, "8x8"), Log: l.open}
	own := policy.Entry{Name: "endless", New: func() policy.Config { return e }}
	o, err := x.Run(ctx, experiment.Own(own), sample(t, 100).Source())
	if !errors.Is(err, context.Canceled) || o != nil {
		t.Fatalf("%v, %v", o, err)
	}
	r, err := eventlog.NewReader(&l.of["endless"].Buffer, "test.log")
	if err != nil {
		t.Fatal(err)
	}
	if s, err := replay.Fold(r); err != nil || s.Jobs() < 10 {
		t.Errorf("the log has %d jobs: %v", s.Jobs(), err)
	}
}
