package ymir_test

import (
	"context"
	"testing"

	"github.com/norn-scheduler/norn/engine"
	"github.com/norn-scheduler/norn/eventlog"
	"github.com/norn-scheduler/norn/experiment"
	"github.com/norn-scheduler/norn/job"
	"github.com/norn-scheduler/norn/perf"
	"github.com/norn-scheduler/norn/sim"
	"github.com/norn-scheduler/norn/state"
	"github.com/norn-scheduler/norn/trace/clusterspec"
	"github.com/norn-scheduler/norn/trace/gen"
)

// stages looks at what pipelines are given.
type stages struct {
	t     *testing.T
	given int
}

func (s *stages) Event(ev *eventlog.Event, st *state.State) {
	if ev.Alloc == nil || ev.Job < 0 || !st.Record(ev.Job).Job.Pipelined() {
		return
	}
	s.given++
	for _, p := range ev.Alloc.Pieces {
		if p.Tasks != 4 {
			s.t.Errorf("%v: job %s has %d GPUs of node %d, want all four", ev.Time, st.Record(ev.Job).Job.Key, p.Tasks, p.Node)
		}
	}
}

// TestPipelines: of jobs a third of which are pipelines, each of these has whole nodes
// whenever it runs, and is measured on one. None is merged with another job, others are.
func TestPipelines(t *testing.T) {
	w, err := gen.NewFineTuning(gen.FineTuning{Families: []string{"vit", "roberta"}, Jobs: 80, GPUs: 32, Load: 1.5, Seed: 2, Pipelines: 0.33})
	if err != nil {
		t.Fatal(err)
	}
	spec, err := clusterspec.Parse("8x4")
	if err != nil {
		t.Fatal(err)
	}
	choice, err := experiment.ParseChoice("ymir")
	if err != nil {
		t.Fatal(err)
	}
	look := &stages{t: t}
	x := experiment.Experiment{
		Spec: spec, Estimate: experiment.Estimate{From: experiment.User}, Seed: 1, Model: w.Speeds, Costs: &perf.Costs{Switch: w.Switch},
		World: func(c *sim.Config) { c.Transfer = w.Truth }, Transfer: w.Belief, Watch: func(string) engine.Sink { return look },
	}
	out, err := x.Run(context.Background(), choice, w.Source())
	if err != nil {
		t.Fatal(err)
	}
	pipelines, merged := 0, 0
	for id := range job.ID(out.State.Jobs()) {
		r := out.State.Record(id)
		switch {
		case r.Phase != job.Done:
			t.Errorf("job %s is %s", r.Job.Key, r.Phase)
		case r.Job.Pipelined():
			pipelines++
			if r.Merged != job.Apart {
				t.Errorf("pipeline %s %s", r.Job.Key, r.Merged.Sentence(""))
			}
		case r.Merged != job.Apart:
			merged++
		}
	}
	if pipelines < 20 || merged < 10 || look.given < pipelines {
		t.Errorf("%d pipelines were given GPUs %d times, %d other jobs were merged", pipelines, look.given, merged)
	}
}
