// Package lyra lets training borrow servers of an inference cluster and jobs grow into what is
// idle. Base workers go by shortest job first and are not preempted; further workers of elastic
// jobs are divided for the least sum of run times. When servers are wanted back, those are
// vacated that cost the fewest preemptions.
//
// Nouns:
//   - A side is our own nodes, or the nodes of lenders (cluster.NodeSpec.Lender). The workers
//     of a job are on one side.
//   - The base workers of a job are as many as it needs at least, its first ones. The others
//     are flexible: they leave at any time, in place.
//   - A job that may not use borrowed nodes says so (where: !lender).
//
// Source: Li et al., "Lyra: Elastic Scheduling for Deep Learning Clusters", EuroSys 2023;
// "Aryl", arXiv 2202.07896.
package lyra

import (
	"errors"
	"time"

	"github.com/norn-scheduler/norn/cluster"
	"github.com/norn-scheduler/norn/cluster/unit"
	"github.com/norn-scheduler/norn/policy/need"
	"github.com/norn-scheduler/norn/policy/param"
	"github.com/norn-scheduler/norn/sched"
)

// Config is the settings of the policy.
type Config struct {
	Interval time.Duration // between two divisions of flexible workers
	Loaning  bool          // jobs run on borrowed nodes
	Scaling  bool          // elastic jobs change their sizes
	Separate bool          // elastic jobs prefer borrowed nodes, flexible workers nodes without base workers
	Reclaim  Rule
}

// NewConfig returns the defaults.
func NewConfig() *Config {
	return &Config{Interval: time.Minute, Loaning: true, Scaling: true, Separate: true}
}

// Params binds the settings.
func (c *Config) Params() param.Set {
	return param.Set{
		param.Duration("interval", &c.Interval, "how often flexible workers are divided anew; base workers start at any time, in their place where need be"),
		param.Bool("loaning", &c.Loaning, "jobs run on borrowed nodes; false: as if nobody lent any"),
		param.Bool("scaling", &c.Scaling, "elastic jobs change their sizes; false: they have the sizes that they ask for"),
		param.Bool("separate", &c.Separate, "elastic jobs prefer borrowed nodes, and flexible workers nodes without base workers"),
		param.Choice("reclaim", &c.Reclaim, []param.Option[Rule]{{Name: "cost", Value: Cost}, {Name: "fewest", Value: Fewest}, {Name: "random", Value: Random}},
			"nodes that are given back first: least preempted shares of jobs and least damage elsewhere, fewest jobs, or any"),
	}
}

// Needs says what the policy lives on.
func (c *Config) Needs() need.List {
	var l need.List
	if c.Scaling {
		l = l.And(need.Of(need.Elastic), "no job grows or shrinks")
	}
	return l.And(need.Of(need.RunTimes), "every job is taken to have an hour left")
}

// Policy makes the policy.
func (c *Config) Policy() (sched.Policy, error) {
	if c.Interval <= 0 || c.Interval == unit.Never {
		return nil, errors.New("interval must be above 0, and some time")
	}
	return &policy{cfg: *c}, nil
}

type policy struct{ cfg Config }

// Decide implements sched.Policy.
func (o *policy) Decide(v *sched.View, p *sched.Plan) {
	divides := o.cfg.Scaling && v.Now%o.cfg.Interval == 0
	for pool := range v.EachPool() {
		if !divides && len(v.Recalls()) == 0 && !waits(v, pool) {
			continue
		}
		r := o.gather(v, p, pool)
		r.giveBack()
		r.admit()
		if divides {
			r.scale()
		}
	}
}

// waits tells whether a job of a pool waits.
func waits(v *sched.View, pool cluster.PoolID) bool {
	for j := range v.Waiting() {
		if j.Pool() == pool {
			return true
		}
	}
	return false
}

// NextWake implements sched.Waker. Flexible workers are divided as long as an elastic job runs.
func (o *policy) NextWake(v *sched.View) time.Duration {
	if o.cfg.Scaling {
		for j := range v.Running() {
			if j.Spec().Demand.Elastic() {
				return (v.Now/o.cfg.Interval + 1) * o.cfg.Interval
			}
		}
	}
	return unit.Never
}
