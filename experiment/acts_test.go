package experiment_test

import (
	"strings"
	"testing"

	"github.com/norn-scheduler/norn/engine"
	"github.com/norn-scheduler/norn/eventlog"
	"github.com/norn-scheduler/norn/experiment"
	"github.com/norn-scheduler/norn/job"
	"github.com/norn-scheduler/norn/policy"
	"github.com/norn-scheduler/norn/state"
)

// acted is a sink that finds out what a policy does besides starting jobs.
type acted struct{ seen policy.Acts }

func (w *acted) Event(ev *eventlog.Event, s *state.State) {
	switch ev.Kind {
	case eventlog.Preempt:
		if ev.Reason.Code != job.Profiled {
			w.seen |= policy.Preempts
		}
	case eventlog.Resize:
		w.seen |= policy.Resizes
	case eventlog.Merge:
		w.seen |= policy.Merges | policy.Shares // two that are trained as one have the same devices
	case eventlog.Start:
		for _, share := range s.Alloc(ev.Job).Shares {
			if len(s.On(share.Device)) > 1 {
				w.seen |= policy.Shares
			}
		}
	}
}

// TestActs: what each policy is said to do besides starting jobs is what it does on the
// sample, where jobs are elastic, or such as it lives on.
func TestActs(t *testing.T) {
	t.Parallel()
	for _, e := range policy.Table() {
		t.Run(e.Name, func(t *testing.T) {
			t.Parallel()
			seen, text := policy.Acts(0), e.Name
			if e.Name == "pollux" {
				text = "pollux(population=10,generations=5)" // which take a tenth of the time
			}
			for _, assume := range append(experiment.Assumptions(), "") {
				named := assume == "" || assume == string(experiment.AssumeGoodput)
				for _, n := range e.Needs() {
					named = named || strings.Contains(n.Any.Get(), assume)
				}
				if !named {
					continue
				}
				for _, cluster := range []string{"4x8", "1x4:V100+1x4:K80"} { // one that is idle at times, one that is not
					var watch acted
					x := &experiment.Experiment{Spec: spec(t, cluster), Seed: 1, Assume: experiment.Assumption(assume), Watch: func(experiment.Choice) engine.Sink { return &watch }}
					lives(t, x, text, sample(t, 80))
					seen |= watch.seen
				}
			}
			if seen != e.Acts {
				t.Errorf("seen %v, said %v", seen.Names(), e.Acts.Names())
			}
		})
	}
}
