// Package topoaware places a job by what its place is worth to it and to all. That goes by how near its GPUs are
// to each other, by how it and its neighbours slow each other down, and by how whole the sockets stay. A job may
// wait for a place that is worth as much as it asks for.
//
// Nouns:
//   - A place is a set of GPUs of one node. A layout is how far these are from each other, and at which CPU
//     sockets they stand.
//   - Costs of a place are of communication, interference and fragmentation.
//   - The system utility of a place is what it is worth to all, the job utility what it is worth to the job,
//     both from 0 to 1. Costs of 0.01 are the least there are, so that the best place is worth 1 to a job.
//   - A job is postponed when its best place is worth less to it than it asks for (job.Hints.LeastUtility).
//
// Jobs are served in order of submission; those behind one that waits may start. Nobody is preempted. The policy
// keeps nothing between calls but what follows from links and measurements.
//
// Source: Amaral, Polo, Carrera, Seelam and Steinder, "Topology-Aware GPU Scheduling for Learning Workloads in
// Cloud Environments", SC 2017, and its code, HiEST/gpu-topo-aware.
package topoaware

import (
	"errors"
	"fmt"
	"time"

	"github.com/norn-scheduler/norn/cluster/unit"
	"github.com/norn-scheduler/norn/job"
	"github.com/norn-scheduler/norn/place"
	"github.com/norn-scheduler/norn/policy/kit/queue"
	"github.com/norn-scheduler/norn/policy/need"
	"github.com/norn-scheduler/norn/policy/param"
	"github.com/norn-scheduler/norn/sched"
)

// Config is the settings of the policy.
type Config struct {
	Rule     Rule
	Postpone bool
	Least    float64 // of jobs that ask for none
	Patience time.Duration
	Weights  Preset
	Reading  Reading
	Skip     bool
	Place    place.Strategy
}

// NewConfig returns the defaults: those of the paper's code, with a bound on postponing.
func NewConfig() *Config {
	return &Config{Postpone: true, Patience: 24 * time.Hour, Skip: true, Place: place.Consolidated}
}

// Params binds the settings.
func (c *Config) Params() param.Set {
	return param.Set{
		param.Choice("rule", &c.Rule, []param.Option[Rule]{{Name: "utility", Value: Utility}, {Name: "best-fit", Value: BestFit}, {Name: "first", Value: First}},
			"by what GPUs are chosen: utility, or as the paper's baselines sockets with few free GPUs first, or the lowest numbers"),
		param.Bool("postpone", &c.Postpone, "a job waits where its best place is worth less to it than it asks for"),
		param.Float("least", &c.Least, 0, 1, "utility", "that jobs ask for which tell none"),
		param.Duration("patience", &c.Patience, "how long after its submission a job is postponed at most; 0: without end, as in the paper"),
		param.Choice("weights", &c.Weights, []param.Option[Preset]{{Name: "neutral", Value: Neutral}, {Name: "locality", Value: Locality}, {Name: "interference", Value: Isolation}, {Name: "spread", Value: Spread}},
			"which costs count most: all alike, communication, interference or fragmentation"),
		param.Choice("cost", &c.Reading, []param.Option[Reading]{{Name: "ratio", Value: Ratio}, {Name: "loss", Value: Loss}},
			"of interference: as the paper's code has it the part of the speed that is left, which is much for any slowdown; or the part that is lost"),
		param.Bool("skip", &c.Skip, "jobs behind one that waits may start, as in the paper"),
		place.Param(&c.Place),
	}
}

// Needs says what the policy lives on.
func (c *Config) Needs() need.List {
	return need.List(nil).
		And(need.Of(need.Links), "all GPUs of a node are equally near").
		If(c.Rule == Utility, need.Of(need.Sockets), "jobs are taken not to slow each other down")
}

// Policy makes the policy.
func (c *Config) Policy() (sched.Policy, error) {
	if c.Patience < 0 {
		return nil, errors.New("patience: write a time from 0 on")
	}
	return &policy{cfg: *c, where: aware{chooser: chooser{judge: judge{weights: c.Weights.Weights(), reading: c.Reading}, rule: c.Rule}, rest: c.Place}}, nil
}

type policy struct {
	cfg     Config
	queue   queue.Line
	blocked job.ID // the first job that did not start
	where   aware
	wake    time.Duration // when the patience of a job ends
}

// Decide implements sched.Policy.
func (t *policy) Decide(v *sched.View, p *sched.Plan) {
	t.queue.Follow(v, p, t.cfg.Place)
	t.blocked, t.wake = job.None, unit.Never
	t.where.begin(v, p)
	t.queue.Walk(nil, func(id job.ID) queue.Step {
		switch {
		case t.start(v, p, id):
			return queue.Took
		case t.blocked == job.None:
			t.blocked = id
		}
		switch {
		case !t.cfg.Skip:
			return queue.Stop
		case t.where.postponed:
			return queue.SkipJob
		}
		return queue.SkipClass
	})
}

// start starts a job if it has a place that it takes.
func (t *policy) start(v *sched.View, p *sched.Plan, id job.ID) bool {
	j := v.Job(id)
	t.where.ask(j.Spec(), t.least(j))
	if p.Start(id, &t.where) {
		t.where.changed()
		return true
	}
	if t.where.postponed && t.cfg.Patience > 0 {
		t.wake = min(t.wake, j.Submit()+t.cfg.Patience)
	}
	return false
}

// least is the utility that a job asks for now.
func (t *policy) least(j sched.Job) float64 {
	if !t.cfg.Postpone || t.cfg.Patience > 0 && j.Submit()+t.cfg.Patience <= t.where.now {
		return 0
	}
	if h := j.Spec().Hints; h != nil && h.LeastUtility > 0 {
		return h.LeastUtility
	}
	return t.cfg.Least
}

// NextWake implements sched.Waker: the end of the patience of a job.
func (t *policy) NextWake(*sched.View) time.Duration { return t.wake }

// Why implements sched.Explainer.
func (t *policy) Why(v *sched.View, id job.ID) job.Reason {
	if t.blocked != job.None && t.blocked != id && !t.cfg.Skip {
		return job.Reason{Code: job.Behind, Job: t.blocked}
	}
	return job.Reason{Code: job.NeedGPUs, Need: int32(v.Job(id).GPUs()), Have: int32(v.Free()), Job: job.None}
}

// postponedWhy tells why a job is postponed.
func postponedWhy(has, asks float64) job.Reason {
	return job.Reason{Code: job.Because, Job: job.None, Text: fmt.Sprintf("the best free place is worth %.2f to it, it asks for %.2f", has, asks)}
}
