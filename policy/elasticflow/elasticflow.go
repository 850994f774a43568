// Package elasticflow keeps deadlines of elastic jobs. A job is admitted when a schedule exists by
// which it and all that were admitted before end in time, and refused otherwise. GPUs that nobody
// needs at a moment go where they save most of GPU time.
//
// Nouns:
//   - A Size is a number of tasks, powers of two, with the speed there.
//   - A Profile is how many GPUs are free over time, as planned.
//   - A Schedule is the sizes of a job over time. That of a job which was admitted is its
//     promise: to follow it is enough to end in time.
//   - A level is a number of GPUs to which schedules are filled; the least one that suffices is
//     the minimum satisfactory share.
//   - A lot is the GPUs of one type of a pool. A job runs on those of one lot.
//
// EDF, earliest deadline first with as many GPUs as a job can use, is the baseline of the paper.
//
// Source: Gu et al., "ElasticFlow: An Elastic Serverless Training Platform for Distributed Deep
// Learning", ASPLOS 2023, and the code published with it (pkusys/ElasticFlow).
package elasticflow

import (
	"time"

	"github.com/norn-scheduler/norn/cluster/unit"
	"github.com/norn-scheduler/norn/place"
	"github.com/norn-scheduler/norn/policy/need"
	"github.com/norn-scheduler/norn/policy/param"
	"github.com/norn-scheduler/norn/sched"
)

// Refused says what becomes of a job with a strict deadline that is not admitted.
type Refused uint8

// The values of Refused.
const (
	Drop Refused = iota // it never runs
	Run                 // it runs as one without a deadline
)

// Config is the settings of both policies.
type Config struct {
	Refused Refused
	Largest int
	Replans int
	Place   place.Strategy

	edf bool
}

// NewConfig returns the defaults of elasticflow.
func NewConfig() *Config { return &Config{Largest: 64, Replans: 16, Place: place.Pack} }

// NewEDF returns the defaults of earliest deadline first.
func NewEDF() *Config { return &Config{Largest: 64, Place: place.Pack, edf: true} }

// Params binds the settings.
func (c *Config) Params() param.Set {
	set := param.Set{param.Int("largest", &c.Largest, 1, 1<<20, "tasks", "the most that an elastic job gets"), place.Param(&c.Place)}
	if c.edf {
		return set
	}
	return append(set,
		param.Choice("refused", &c.Refused, []param.Option[Refused]{{Name: "drop", Value: Drop}, {Name: "run", Value: Run}},
			"what becomes of a job whose strict deadline cannot be met: it never runs, or it runs as one without a deadline; one with a soft deadline always runs"),
		param.Int("replans", &c.Replans, 0, 1<<20, "", "how often in one decision the schedules of all jobs are made anew to admit another one"))
}

// Needs says what the policy lives on.
func (c *Config) Needs() need.List {
	if c.edf {
		return need.List(nil).
			And(need.Of(need.Deadlines), "jobs go by submission").
			And(need.Of(need.Elastic), "jobs have the numbers of GPUs that they ask for")
	}
	return need.List(nil).
		And(need.Of(need.Deadlines), "all jobs are best effort").
		And(need.Of(need.RunTimes), "it can promise nothing, and all jobs are best effort").
		And(need.Of(need.Elastic), "jobs have the numbers of GPUs that they ask for")
}

// Policy makes the policy.
func (c *Config) Policy() (sched.Policy, error) { return &policy{cfg: *c}, nil }

type policy struct{ cfg Config }

// Decide implements sched.Policy.
func (o *policy) Decide(v *sched.View, p *sched.Plan) {
	for pool := range v.EachPool() {
		r := round{o: o, v: v, p: p, pool: pool}
		r.survey()
		r.gather()
		if o.cfg.edf {
			r.hurry()
		} else {
			r.keepPromises()
			r.admit()
			r.divide()
		}
		r.carryOut()
	}
}

// NextWake implements sched.Waker: it is when the schedule of a job changes next.
func (o *policy) NextWake(v *sched.View) time.Duration {
	next := unit.Never
	each := func(j sched.Job) {
		if n := recall(j); n.state == promised {
			next = min(next, n.plan.Next(v.Now))
		}
	}
	for j := range v.Running() {
		each(j)
	}
	for j := range v.Waiting() {
		each(j)
	}
	return next
}

// state is what a job was told of its deadline.
type state uint8

const (
	unheard  state = iota // nothing yet, or it has none
	promised              // it ends in time if it keeps to its schedule
	late                  // it runs, and its deadline is missed or was never promised
	refused               // it never runs
)

// note is what is remembered of a job.
type note struct {
	state state
	on    string // GPU type for which the schedule is
	plan  Schedule
}

// NewNote is a note of this policy, for the table of policies.
func NewNote() sched.Note { return new(note) }

// Kind implements sched.Note.
func (m *note) Kind() string { return "elasticflow" }

// Fields implements sched.Note.
func (m *note) Fields(f *sched.Fields) {
	sched.Int(f, "state", &m.state)
	f.Text("on", &m.on)
	sched.List(f, "plan", (*[]Segment)(&m.plan), func(s *Segment, f *sched.Fields) {
		f.Duration("from", &s.From)
		sched.Int(f, "tasks", &s.Tasks)
	})
}

func recall(j sched.Job) note {
	n, _ := sched.Recall[note](j)
	return n
}
