// Package sia chooses in each round one configuration for every job: a GPU type, and
// on so many of its nodes so many GPUs. The choice is the best of all under the GPUs
// that there are of each type.
//
// Nouns:
//   - A Kind is the nodes of one GPU type with equally many GPUs.
//   - An Option is a configuration that a job may get, with its goodput there.
//   - A Row is the options of a job, the one that it has, and what a change leaves of
//     its goodput.
//   - An Objective weighs goodputs by a power, and has a price for a job without GPUs.
//   - A replica is a task of a job, on one GPU or more.
//
// The goodput of a job on a type where it was not seen on several GPUs is carried over
// from one where it was (bootstrapping).
//
// Source: Jayaram Subramanya et al., "Sia: Heterogeneity-aware, goodput-optimized
// ML-cluster scheduling", SOSP 2023, and the code published with it
// (siasosp23/artifacts).
package sia

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
	"github.com/norn-scheduler/norn/solve/choose"
)

// Profiles says what is known of a job on GPU types on which it has not run.
type Profiles uint8

// The values of Profiles.
const (
	Bootstrap Profiles = iota // the times of one replica on each type; the rest is carried over from types on which it has run
	Nothing                   // not even those
	Oracle                    // everything
)

// Config is the settings of the policy.
type Config struct {
	Interval time.Duration
	Power    float64
	Price    float64
	Delay    time.Duration
	Explore  float64
	Largest  int
	Profiles Profiles
	Gap      float64
	Place    place.Strategy
}

// NewConfig returns the defaults, those of the published code.
func NewConfig() *Config {
	return &Config{
		Interval: time.Minute, Power: -0.5, Price: 1.1, Delay: 30 * time.Second, Explore: 2, Largest: 64,
		Profiles: Bootstrap, Place: place.Pack,
	}
}

// Params binds the settings.
func (c *Config) Params() param.Set {
	return param.Set{
		param.Duration("interval", &c.Interval, "how often configurations are chosen anew; nothing is decided in between"),
		param.Float("p", &c.Power, -10, 10, "", "power of goodputs: 1 is their sum, less is fairer; not 0"),
		param.Float("lambda", &c.Price, 0, 1e6, "", "price of a job without GPUs; above 1, so that the least that it can run with is better"),
		param.Duration("delay", &c.Delay, "what a restart is taken to cost"),
		param.Float("explore", &c.Explore, 0, 1000, "", "a job gets at most so many times the most tasks it has run with; 0: as many as it can use"),
		param.Int("largest", &c.Largest, 1, 1<<20, "tasks", "the most that an elastic job gets"),
		param.Choice("profiles", &c.Profiles, []param.Option[Profiles]{{Name: "bootstrap", Value: Bootstrap}, {Name: "none", Value: Nothing}, {Name: "oracle", Value: Oracle}},
			"what is known of a job on GPU types on which it has not run: the times of one replica, nothing, or everything"),
		param.Float("gap", &c.Gap, 0, 1, "", "how far from the best choice one may be, relative to its value"),
		place.Param(&c.Place),
	}
}

// Needs says what the policy lives on.
func (c *Config) Needs() need.List {
	return need.List(nil).
		And(need.Of(need.Elastic), "jobs have the numbers of GPUs that they ask for").
		And(need.Of(need.Reports), "it goes by speed, and batches stay as they are").
		And(need.Of(need.Types), "it chooses numbers of GPUs alone")
}

// Policy makes the policy.
func (c *Config) Policy() (sched.Policy, error) {
	switch {
	case c.Interval <= 0 || c.Interval == unit.Never:
		return nil, errors.New("interval must be above 0, and some time")
	case c.Delay < 0 || c.Delay == unit.Never:
		return nil, errors.New("delay must be 0 or more, and some time")
	case c.Power == 0:
		return nil, errors.New("p must not be 0")
	}
	return &policy{cfg: *c, models: map[job.ID]*model{}}, nil
}

type policy struct {
	cfg    Config
	models map[job.ID]*model // what is believed of jobs that report, made anew from their notes
}

// objective is what is to be made best.
func (o *policy) objective() Objective {
	return Objective{Power: o.cfg.Power, Price: o.cfg.Price, Limits: choose.Limits{Gap: o.cfg.Gap, Steps: steps}}
}

// steps bounds the search for the best choice. The choice at the bound is within the gap
// that the search has shown.
const steps = 2_000_000

// Decide implements sched.Policy.
func (o *policy) Decide(v *sched.View, p *sched.Plan) {
	for _, ch := range v.Changes() {
		if ch.Kind == sched.Ended {
			delete(o.models, ch.Job)
		}
	}
	if !o.rounds().Begin(v, p) {
		return
	}
	for pool := range v.EachPool() {
		r := round{o: o, v: v, p: p, pool: pool}
		r.gather()
		if err := r.choose(); err != nil {
			p.Invalidate(err)
			return
		}
		r.carryOut()
	}
}

// rounds are the moments at which configurations are chosen.
func (o *policy) rounds() resize.Rounds {
	return resize.Rounds{Interval: o.cfg.Interval, Place: o.cfg.Place}
}

// NextWake implements sched.Waker.
func (o *policy) NextWake(v *sched.View) time.Duration { return o.rounds().Wake(v) }
