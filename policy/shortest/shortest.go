// Package shortest serves short jobs first, by the estimates that the run
// gives. Shortest job first (SJF) never stops a job. Shortest remaining time
// first (SRTF) and shortest remaining service first (SRSF) are preemptive,
// where service is remaining time times GPUs.
//
// Sources: the classic orders; SRSF as used by Tiresias (Gu et al., NSDI 2019,
// section 2.2). Jobs without an estimate come after all others, by submission.
package shortest

import (
	"math"
	"time"

	"github.com/norn-scheduler/norn/job"
	"github.com/norn-scheduler/norn/place"
	"github.com/norn-scheduler/norn/policy/kit/preempt"
	"github.com/norn-scheduler/norn/policy/kit/queue"
	"github.com/norn-scheduler/norn/policy/need"
	"github.com/norn-scheduler/norn/policy/param"
	"github.com/norn-scheduler/norn/sched"
)

// By is what is short.
type By uint8

// The measures.
const (
	Time    By = iota // remaining run time
	Service           // remaining run time x GPUs
)

// Config is the settings of the preemptive policies.
type Config struct {
	By      By
	Victims preempt.Victims
	Place   place.Strategy
}

// NewSRTF returns the defaults of shortest remaining time first.
func NewSRTF() *Config { return &Config{By: Time, Place: place.Pack} }

// NewSRSF returns the defaults of shortest remaining service first.
func NewSRSF() *Config { return &Config{By: Service, Place: place.Pack} }

// Params binds the settings.
func (c *Config) Params() param.Set {
	return param.Set{preempt.VictimsParam(&c.Victims), place.Param(&c.Place)}
}

// Needs says what the policy lives on.
func (c *Config) Needs() need.List {
	without := "it acts as fifo(mode=skip)"
	if c.By == Service {
		without = "jobs go by submission, and earlier ones preempt later ones"
	}
	return need.List(nil).And(need.Of(need.RunTimes), without)
}

// Policy makes the policy.
func (c *Config) Policy() (sched.Policy, error) {
	p := &policy{place: c.Place}
	p.run.Order, p.run.Victims = order(c.By), c.Victims
	p.run.Literal = c.By == Service // remaining services shrink at different rates
	p.run.Place = func(sched.Job) place.Strategy { return p.place }
	return p, nil
}

type policy struct {
	run   preempt.Policy
	place place.Strategy
}

// Decide implements sched.Policy.
func (s *policy) Decide(v *sched.View, p *sched.Plan) {
	s.run.Follow(v, p)
	s.run.Decide(v, p)
}

// NextWake implements sched.Waker.
func (s *policy) NextWake(v *sched.View) time.Duration { return s.run.Wake(v) }

// Why implements sched.Explainer.
func (s *policy) Why(v *sched.View, id job.ID) job.Reason { return s.run.Why(v, id) }

// unknown is the key of a job without an estimate.
const unknown = math.MaxInt64 / 4

type order By

// Key is the remaining time or service of a job, with the time that it takes to
// start it: so a job that runs is not stopped for one that would end no sooner. A job that
// waits is taken to go on at the pace that it has reported, as it will. One that runs slower
// than that, on slow GPUs or beside others, counts as if it ran at that pace, too. Otherwise a
// start alone would put it behind one that it went before, and two would take each other's
// GPUs in turn.
// A chosen job is ordered by its expected end, which stays as its remaining time
// shrinks; by service, it is asked anew at each decision.
func (o order) Key(v *sched.View, j sched.Job, chosen bool) preempt.Key {
	left, ok := j.Remaining()
	if !ok {
		return preempt.Key{A: unknown}
	}
	pace := j.Config().Reported.Times()
	end, runs := j.ExpectedEnd()
	switch slow := runs && j.Speed() < pace; {
	case slow && o == order(Service):
		end = max(v.Now, j.Ready()) + atPace(left, pace)
	case slow:
		end = max(v.Now, j.Ready()+atPace(end-j.Ready(), pace/j.Speed()))
	case !runs:
		cost := v.Costs.Of(j.GPUs())
		pause := cost.Start
		if j.Preemptions()+j.Failures() > 0 {
			pause = cost.Restore
		}
		end = v.Now + atPace(left, pace) + pause
	}
	switch {
	case o == order(Service):
		return preempt.Key{A: times(end-v.Now, j.GPUs())}
	case chosen:
		return preempt.Key{A: int64(end)}
	}
	return preempt.Key{A: int64(end - v.Now)}
}

// atPace is the time that so much work takes.
func atPace(work time.Duration, pace float64) time.Duration {
	if pace == 1 {
		return work
	}
	return time.Duration(min(float64(work)/pace, unknown-1))
}

// Shift brings remaining times onto the scale of expected ends.
func (o order) Shift(v *sched.View) int64 {
	if o == order(Service) {
		return 0
	}
	return int64(v.Now)
}

// times is a duration times a count, saturated below the key of jobs without
// an estimate, in GPU-microseconds.
func times(d time.Duration, n int) int64 {
	us := int64(d / time.Microsecond)
	if n > 0 && us > (unknown-1)/int64(n) {
		return unknown - 1
	}
	return us * int64(n)
}

// SJF is the settings of shortest job first without preemption.
type SJF struct {
	By    By
	Block bool
	Place place.Strategy
}

// NewSJF returns the defaults.
func NewSJF() *SJF { return &SJF{Place: place.Pack} }

// Params binds the settings.
func (c *SJF) Params() param.Set {
	return param.Set{
		param.Choice("by", &c.By, []param.Option[By]{{Name: "time", Value: Time}, {Name: "service", Value: Service}},
			"what is short: the estimated run time, or that times GPUs"),
		param.Bool("block", &c.Block, "a job that does not fit blocks those behind it (Helios) instead of being skipped (PAI)"),
		place.Param(&c.Place),
	}
}

// Needs says what the policy lives on.
func (c *SJF) Needs() need.List {
	without := "it acts as fifo(mode=skip)"
	if c.Block {
		without = "it acts as fifo(mode=strict)"
	}
	return need.List(nil).And(need.Of(need.RunTimes), without)
}

// Policy makes the policy.
func (c *SJF) Policy() (sched.Policy, error) { return &sjf{cfg: *c}, nil }

type sjf struct {
	cfg        SJF
	queue      queue.Queue
	infeasible sched.Infeasible
	blocked    job.ID
}

// Decide implements sched.Policy.
func (s *sjf) Decide(v *sched.View, p *sched.Plan) {
	for _, id := range s.infeasible.Reconsider(v) {
		s.add(v.Job(id), p)
	}
	for _, ch := range v.Changes() {
		switch ch.Kind {
		case sched.Arrived, sched.Stopped:
			s.add(v.Job(ch.Job), p)
		case sched.Altered:
			if s.queue.Has(ch.Job) {
				s.add(v.Job(ch.Job), p)
			}
		case sched.Ended:
			s.queue.Remove(ch.Job)
			s.infeasible.Remove(ch.Job)
		}
	}
	s.blocked = job.None
	s.queue.Walk(nil, func(id job.ID) queue.Step {
		switch {
		case p.Start(id, s.cfg.Place):
			return queue.Took
		case s.cfg.Block:
			s.blocked = id
			return queue.Stop
		}
		return queue.SkipClass
	})
}

func (s *sjf) add(j sched.Job, p *sched.Plan) {
	if s.infeasible.Rejects(p, j.ID, s.cfg.Place) {
		return
	}
	key := queue.Key{A: unknown}
	if left, ok := j.Remaining(); ok {
		key.A = int64(left / time.Microsecond)
		if s.cfg.By == Service {
			key.A = times(left, j.GPUs())
		}
	}
	s.queue.Add(j.ID, j.Class(), key)
}

// Why implements sched.Explainer.
func (s *sjf) Why(v *sched.View, id job.ID) job.Reason {
	if s.blocked != job.None && s.blocked != id {
		return job.Reason{Code: job.Behind, Job: s.blocked}
	}
	return job.Reason{Code: job.NeedGPUs, Need: int32(v.Job(id).GPUs()), Have: int32(v.Free()), Job: job.None}
}
