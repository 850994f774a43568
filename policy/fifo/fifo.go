// Package fifo serves jobs in the order in which they came: strictly, skipping
// what does not fit, or backfilling around reservations for the first that
// do not.
//
// Sources: first in, first out is what YARN and Slurm do by default; for EASY and
// conservative backfill see package backfill.
package fifo

import (
	"github.com/norn-scheduler/norn/job"
	"github.com/norn-scheduler/norn/place"
	"github.com/norn-scheduler/norn/policy/kit/backfill"
	"github.com/norn-scheduler/norn/policy/kit/queue"
	"github.com/norn-scheduler/norn/policy/need"
	"github.com/norn-scheduler/norn/policy/param"
	"github.com/norn-scheduler/norn/sched"
)

// Mode is what happens behind a job that does not fit.
type Mode uint8

// The modes.
const (
	Strict Mode = iota // everyone behind it waits
	Skip               // whoever fits goes ahead
	EASY               // whoever fits without delaying one with a reservation goes ahead
)

// Config is the settings of the policy.
type Config struct {
	Mode         Mode
	Reservations int  // of jobs that do not fit, where those behind go ahead
	Priority     bool // larger priority classes first
	Place        place.Strategy
}

// NewConfig returns the defaults.
func NewConfig() *Config { return &Config{Reservations: 1, Place: place.Pack} }

// Params binds the settings.
func (c *Config) Params() param.Set {
	return param.Set{
		param.Choice("mode", &c.Mode, []param.Option[Mode]{{Name: "strict", Value: Strict}, {Name: "skip", Value: Skip}, {Name: "easy", Value: EASY}},
			"what happens behind a job that does not fit"),
		backfill.Param(&c.Reservations),
		param.Bool("priority", &c.Priority, "serve larger priority classes first"),
		place.Param(&c.Place),
	}
}

// Needs says what the policy lives on.
func (c *Config) Needs() need.List {
	return need.List(nil).
		If(c.Mode == EASY, need.Of(need.RunTimes), "it acts as fifo(mode=strict)").
		If(c.Priority, need.Of(need.Priorities), "it acts as fifo(priority=false)")
}

// Policy makes the policy.
func (c *Config) Policy() (sched.Policy, error) {
	return &policy{cfg: *c, fill: backfill.Backfill{Most: c.Reservations}}, nil
}

type policy struct {
	cfg        Config
	queue      queue.Queue
	infeasible sched.Infeasible
	blocked    job.ID // the first job that did not fit
	fill       backfill.Backfill
}

// Decide implements sched.Policy.
func (f *policy) Decide(v *sched.View, p *sched.Plan) {
	for _, id := range f.infeasible.Reconsider(v) {
		f.add(v.Job(id), p)
	}
	for _, ch := range v.Changes() {
		switch ch.Kind {
		case sched.Arrived, sched.Stopped:
			f.add(v.Job(ch.Job), p)
		case sched.Altered:
			if f.cfg.Mode == EASY && f.queue.Has(ch.Job) {
				f.fill.Add(v.Job(ch.Job))
			}
		case sched.Ended:
			f.queue.Remove(ch.Job)
			f.fill.Remove(ch.Job)
			f.infeasible.Remove(ch.Job)
		}
	}
	f.start(v, p)
}

// start starts jobs from the top of the queue.
func (f *policy) start(v *sched.View, p *sched.Plan) {
	f.blocked = job.None
	f.fill.Clear()
	var why job.Reason
	f.queue.Walk(nil, func(id job.ID) queue.Step {
		if p.Start(id, f.cfg.Place) {
			f.fill.Remove(id)
			return queue.Took
		}
		if f.blocked == job.None {
			f.blocked, why = id, p.Why()
		}
		if f.cfg.Mode == Skip {
			return queue.SkipClass
		}
		return queue.Stop
	})
	if f.cfg.Mode == EASY && f.blocked != job.None && f.fill.Reserve(v, p, f.blocked, f.cfg.Place, why) {
		f.queue.Walk(nil, func(id job.ID) queue.Step { return f.fill.Visit(v, p, id) })
	}
}

func (f *policy) add(j sched.Job, p *sched.Plan) {
	if f.infeasible.Rejects(p, j.ID, f.cfg.Place) {
		return
	}
	key := queue.Key{}
	if f.cfg.Priority {
		key.A = -int64(j.Spec().Priority)
	}
	f.queue.Add(j.ID, j.Class(), key)
	if f.cfg.Mode == EASY {
		f.fill.Add(j)
	}
}

// Why implements sched.Explainer.
func (f *policy) Why(v *sched.View, id job.ID) job.Reason {
	need, have := v.Job(id).GPUs(), v.Free()
	at, reserved := f.fill.At()
	switch {
	case f.blocked == job.None || f.blocked == id:
	case reserved && need <= have:
		return job.Reason{Code: job.Reserved, Job: f.blocked, At: at}
	case f.cfg.Mode != EASY || need <= have:
		return job.Reason{Code: job.Behind, Job: f.blocked}
	}
	return job.Reason{Code: job.NeedGPUs, Need: int32(need), Have: int32(have), Job: job.None}
}
