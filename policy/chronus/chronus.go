// Package chronus keeps deadlines of gangs by leases. Time is cut into leases of equal length. A job
// with a deadline is admitted when it finds enough leases before it, beside all that were
// admitted. At the beginning of a lease GPUs go to those whose lease it is; all others have what
// is left until its end.
//
// Nouns:
//   - A lease is an interval of time, and the GPUs that a job has in it.
//   - A Want is how many leases a job needs, of which GPUs, before its deadline.
//   - A promise is the leases of a job that was admitted.
//
// Source: Gao et al., "Chronus: A Novel Deadline-aware Scheduler for Deep Learning Training Jobs",
// SoCC 2021, and the code published with it (S-Lab-System-Group/ChronusArtifact).
package chronus

import (
	"errors"
	"time"

	"github.com/norn-scheduler/norn/cluster/unit"
	"github.com/norn-scheduler/norn/job"
	"github.com/norn-scheduler/norn/place"
	"github.com/norn-scheduler/norn/policy/kit/resize"
	"github.com/norn-scheduler/norn/policy/need"
	"github.com/norn-scheduler/norn/policy/param"
	"github.com/norn-scheduler/norn/sched"
)

// Refused says what becomes of a job with a strict deadline that is not admitted.
type Refused uint8

// The values of Refused.
const (
	Run  Refused = iota // it runs as one without a deadline
	Drop                // it never runs
)

// Objective says whether jobs run before the leases that they need.
type Objective uint8

// The objectives.
const (
	Adaptive Objective = iota // as Maximise, unless a job waits that was not admitted
	Maximise                  // as many GPUs as may be go to jobs with promises
	Minimise                  // as few
)

// Config is the settings of the policy.
type Config struct {
	Lease     time.Duration
	Objective Objective
	Refused   Refused
	Steps     int
	Place     place.Strategy
}

// NewConfig returns the defaults, those of the published experiments.
func NewConfig() *Config {
	return &Config{Lease: 20 * time.Minute, Steps: 20_000, Place: place.Pack}
}

// Params binds the settings.
func (c *Config) Params() param.Set {
	return param.Set{
		param.Duration("lease", &c.Lease, "length of a lease"),
		param.Choice("objective", &c.Objective, []param.Option[Objective]{{Name: "adaptive", Value: Adaptive}, {Name: "maximise", Value: Maximise}, {Name: "minimise", Value: Minimise}},
			"whether jobs with promises run before the leases that they need: adaptive: unless a job waits that was not admitted"),
		param.Choice("refused", &c.Refused, []param.Option[Refused]{{Name: "run", Value: Run}, {Name: "drop", Value: Drop}},
			"what becomes of a job whose strict deadline cannot be met: it runs as one without a deadline, or it never runs; one with a soft deadline always runs"),
		param.Int("steps", &c.Steps, 0, 1<<30, "", "how long leases are searched for in one decision where packing them finds none"),
		place.Param(&c.Place),
	}
}

// Needs says what the policy lives on.
func (c *Config) Needs() need.List {
	return need.List(nil).
		And(need.Of(need.Deadlines), "all jobs are best effort, the shortest remaining service first").
		And(need.Of(need.RunTimes), "it can promise nothing, and jobs go by submission")
}

// Policy makes the policy.
func (c *Config) Policy() (sched.Policy, error) {
	if c.Lease <= 0 || c.Lease == unit.Never {
		return nil, errors.New("lease must be above 0, and some time")
	}
	return &policy{cfg: *c}, nil
}

type policy struct{ cfg Config }

// Decide implements sched.Policy.
func (o *policy) Decide(v *sched.View, p *sched.Plan) {
	for pool := range v.EachPool() {
		r := round{o: o, v: v, p: p, pool: pool}
		r.gather()
		r.keepPromises()
		r.admit()
		r.choose()
	}
}

// NextWake implements sched.Waker: it is the beginning of the next lease.
func (o *policy) NextWake(v *sched.View) time.Duration {
	return resize.Rounds{Interval: o.cfg.Lease, Place: o.cfg.Place}.Wake(v)
}

// state is what a job was told of its deadline.
type state uint8

const (
	unheard  state = iota // nothing yet, or it has none
	promised              // it ends in time if it has its leases
	late                  // it runs, and its deadline is missed or was never promised
	refused               // it never runs
)

// span is leases in a row, by number since the start of the run.
type span struct{ from, to int }

// note is what is remembered of a job.
type note struct {
	state  state
	by     time.Duration // the deadline that it was promised
	leases []span
}

// NewNote is a note of this policy, for the table of policies.
func NewNote() sched.Note { return new(note) }

// Kind implements sched.Note.
func (m *note) Kind() string { return "chronus" }

// Fields implements sched.Note.
func (m *note) Fields(f *sched.Fields) {
	sched.Int(f, "state", &m.state)
	f.Duration("by", &m.by)
	sched.List(f, "leases", &m.leases, func(s *span, f *sched.Fields) {
		sched.Int(f, "from", &s.from)
		sched.Int(f, "to", &s.to)
	})
}

func recall(j sched.Job) note {
	n, _ := sched.Recall[note](j)
	return n
}

// spans writes leases, by number and in order, as those in a row.
func spans(leases []int, base int) (all []span) {
	for _, t := range leases {
		t += base
		if n := len(all); n > 0 && all[n-1].to == t {
			all[n-1].to++
		} else {
			all = append(all, span{t, t + 1})
		}
	}
	return all
}

// after lists the leases of a note from a number on, counted from there.
func (m *note) after(base int) (leases []int) {
	for _, s := range m.leases {
		for t := max(s.from, base); t < s.to; t++ {
			leases = append(leases, t-base)
		}
	}
	return leases
}

// apart tells whether a job is not stopped once it runs.
func (r *round) apart(j sched.Job) bool { return j.Spec().Stop != job.Checkpoint }
