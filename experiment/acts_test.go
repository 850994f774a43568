package experiment_test

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/norn-scheduler/norn/engine"
	"github.com/norn-scheduler/norn/eventlog"
	"github.com/norn-scheduler/norn/experiment"
	"github.com/norn-scheduler/norn/internal/longtest"
	"github.com/norn-scheduler/norn/job"
	"github.com/norn-scheduler/norn/policy"
	"github.com/norn-scheduler/norn/sim"
	"github.com/norn-scheduler/norn/state"
	"github.com/norn-scheduler/norn/trace"
	"github.com/norn-scheduler/norn/trace/clusterspec"
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
	longtest.Skip(t)
	t.Parallel()
	for _, e := range policy.Table() {
		t.Run(e.Name, func(t *testing.T) {
			t.Parallel()
			seen, text := policy.Acts(0), e.Name
			switch e.Name { // a smaller search takes a tenth of the time
			case "pollux":
				text = "pollux(population=10,generations=5)"
			case "ones":
				text = "ones(population=4,interval=1m)"
			}
			few := 40
			switch e.Name {
			case "themis", "cassini": // whose host it is: an auction takes its time
				few = 24
			case "edf", "elasticflow", "crius", "optimus": // on fewer jobs they have no cause for some of what they do
				few = 80
			}
			for _, assume := range append(experiment.Assumptions(), "") {
				named := assume == "" || assume == string(experiment.AssumeGoodput) || e.Name == "singularity" && assume == string(experiment.AssumeSlices)
				for _, n := range e.Needs() {
					named = named || strings.Contains(n.Any.Get(), assume)
				}
				if !named {
					continue
				}
				for _, cluster := range []string{"4x8", "1x4:V100+1x4:K80"} { // one that is idle at times, one that is not
					var watch acted
					x := &experiment.Experiment{Spec: spec(t, cluster), Seed: 1, Assume: experiment.Assumption(assume), Watch: func(string) engine.Sink { return &watch }}
					jobs := slices.Clone(sample(t, few))
					for i := range jobs {
						if e.Name == "mast" { // who is stopped goes by priority
							jobs[i].Job.Priority = int32(i % 2)
						}
					}
					lives(t, x, text, jobs)
					seen |= watch.seen
				}
			}
			if e.Name == "lyra" { // nobody is stopped but by an owner who wants nodes back
				var watch acted
				x := &experiment.Experiment{Spec: borrowed(t), Seed: 1, Watch: func(string) engine.Sink { return &watch }, World: func(c *sim.Config) {
					c.Loans = []trace.Loan{{Lender: "owner", Nodes: 4}, {At: 4 * time.Hour, Lender: "owner", Notice: time.Minute}}
				}}
				lives(t, x, text, sample(t, 200))
				seen |= watch.seen
			}
			if seen != e.Acts {
				t.Errorf("seen %v, said %v", seen.Names(), e.Acts.Names())
			}
		})
	}
}

// borrowed is a cluster of which an owner lends some nodes.
func borrowed(t *testing.T) *clusterspec.Spec {
	t.Helper()
	s, err := clusterspec.ReadFile("testdata/borrowed.yaml")
	if err != nil {
		t.Fatal(err)
	}
	return s
}
