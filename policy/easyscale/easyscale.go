// Package easyscale grows elastic jobs into whatever is idle. The workers of a job take turns on
// fewer GPUs, with the same result as on all that it asks for. So each job starts on as little as it
// can run on, and proposes at every round what further GPUs would give it; the cluster grants the
// best proposals.
//
// Nouns:
//   - A worker is a task of a job as its user asked. Of a job that resizes time-sliced there are
//     always as many, whatever it has (the logical workers, or EasyScaleThreads, of the paper).
//   - A round is a multiple of an interval, at which GPUs are granted.
//   - A proposal is more GPUs of one type for a running job. Its gain is the growth of its speed,
//     relative to what it is, for each GPU.
//   - A slowdown is a grant after which a job is not faster. It is given back.
//
// Speeds are relative to the reference configuration.
//
// Source: Li et al., "EasyScale: Elastic Training with Consistent Accuracy and Improved Utilization
// on GPUs", SC 2023, section 4.
package easyscale

import (
	"errors"
	"time"

	"github.com/norn-scheduler/norn/cluster/unit"
	"github.com/norn-scheduler/norn/place"
	"github.com/norn-scheduler/norn/policy/kit/resize"
	"github.com/norn-scheduler/norn/policy/need"
	"github.com/norn-scheduler/norn/policy/param"
	"github.com/norn-scheduler/norn/sched"
)

// Config is the settings of the policy.
type Config struct {
	Interval time.Duration
	Mix      bool
	Waste    float64
	Place    place.Strategy
}

// NewConfig returns the defaults of the paper and its simulator.
func NewConfig() *Config {
	return &Config{Interval: time.Minute, Mix: true, Waste: 0.3, Place: place.Pack}
}

// Params binds the settings.
func (c *Config) Params() param.Set {
	return param.Set{
		param.Duration("interval", &c.Interval, "how often GPUs are granted; nothing is decided in between"),
		param.Bool("mix", &c.Mix, "workers that take turns may be on GPUs of several types at once; false: each job is on one type (EasyScale-homo)"),
		param.Float("waste", &c.Waste, 0, 1, "", "the largest part of GPUs of several types that a job may leave unused"),
		place.Param(&c.Place),
	}
}

// Needs says what the policy lives on.
func (c *Config) Needs() need.List {
	return need.List(nil).And(need.Of(need.Elastic), "jobs start by submission, as far as they fit")
}

// Policy makes the policy.
func (c *Config) Policy() (sched.Policy, error) {
	if c.Interval <= 0 || c.Interval == unit.Never {
		return nil, errors.New("interval must be above 0, and some time")
	}
	return &policy{*c}, nil
}

type policy struct{ cfg Config }

// Decide implements sched.Policy.
func (o *policy) Decide(v *sched.View, p *sched.Plan) {
	if !o.rounds().Begin(v, p) {
		return
	}
	for pool := range v.EachPool() {
		r := newRound(o, v, p, pool)
		r.settle()
		r.start()
		r.grow()
	}
}

// NextWake implements sched.Waker.
func (o *policy) NextWake(v *sched.View) time.Duration { return o.rounds().Wake(v) }

func (o *policy) rounds() resize.Rounds {
	return resize.Rounds{Interval: o.cfg.Interval, Place: o.cfg.Place}
}

// note is what is remembered of a running job: its latest grant, and how far it grows.
type note struct {
	on     string  // GPU type of the latest grant that was not judged yet; empty: none
	added  int     // tasks that it brought
	before float64 // speed before it
	most   int     // tasks beyond which it was not faster; 0: not known
}

// NewNote is a note of this policy, for the table of policies.
func NewNote() sched.Note { return new(note) }

// Kind implements sched.Note.
func (m *note) Kind() string { return "easyscale" }

// Fields implements sched.Note.
func (m *note) Fields(f *sched.Fields) {
	f.Text("on", &m.on)
	sched.Int(f, "added", &m.added)
	f.Float("before", &m.before)
	sched.Int(f, "most", &m.most)
}
