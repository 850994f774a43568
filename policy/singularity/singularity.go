// Package singularity keeps promises to tiers of jobs. A job of a tier is promised a part of what it
// would do on all GPUs that it asks for. Who is ahead of his promise makes room for who is behind: first
// the workers of lower tiers are spliced onto fewer GPUs, where they take turns, and then they are
// preempted. What is left over goes to the same jobs again, up to all that they ask for.
//
// Nouns:
//   - A tier is premium, standard or basic (job.Tier), with its promise.
//   - The fraction of a job is its work done, as time on all that it asks for, over the time since it
//     was submitted.
//   - A size is a number of GPUs, in tasks, among which the workers can be divided evenly.
//   - The need of a job is its smallest size with which it keeps its promise until the window ahead ends.
//
// Source: Shukla et al., "Singularity: Planet-Scale, Preemptive and Elastic Scheduling of AI
// Workloads", arXiv 2202.07848, 2022. It has the mechanism and the tiers; the steps of a decision are
// those of our specification, which were made to go with them.
package singularity

import (
	"errors"
	"time"

	"github.com/norn-scheduler/norn/cluster"
	"github.com/norn-scheduler/norn/cluster/unit"
	"github.com/norn-scheduler/norn/job"
	"github.com/norn-scheduler/norn/place"
	"github.com/norn-scheduler/norn/policy/kit/resize"
	"github.com/norn-scheduler/norn/policy/need"
	"github.com/norn-scheduler/norn/policy/param"
	"github.com/norn-scheduler/norn/sched"
)

// Config is the settings of the policy.
type Config struct {
	Interval time.Duration
	Window   time.Duration
	Hold     time.Duration
	Splice   bool
	Place    place.Strategy
}

// NewConfig returns the defaults.
func NewConfig() *Config {
	return &Config{Interval: time.Minute, Window: time.Hour, Hold: 5 * time.Minute, Splice: true, Place: place.Pack}
}

// Params binds the settings.
func (c *Config) Params() param.Set {
	return param.Set{
		param.Duration("interval", &c.Interval, "how often promises are looked at, beside whenever a job comes or ends"),
		param.Duration("window", &c.Window, "for how long a size must keep the promise of a job"),
		param.Duration("hold", &c.Hold, "for how long a job that has changed does not grow, and goes before those of its tier"),
		param.Bool("splice", &c.Splice, "workers that take turns have fewer GPUs where others need them; false: jobs have what they ask for, or nothing"),
		place.Param(&c.Place),
	}
}

// Needs says what the policy lives on.
func (c *Config) Needs() need.List {
	return need.List(nil).
		And(need.Of(need.Tiers), "all jobs are alike, and those that came first go first").
		If(c.Splice, need.Of(need.Elastic), "jobs have what they ask for, or nothing")
}

// Policy makes the policy.
func (c *Config) Policy() (sched.Policy, error) {
	switch {
	case c.Interval <= 0 || c.Interval == unit.Never:
		return nil, errors.New("interval must be above 0, and some time")
	case c.Window <= 0 || c.Window == unit.Never:
		return nil, errors.New("window must be above 0, and some time")
	case c.Hold < 0 || c.Hold == unit.Never:
		return nil, errors.New("hold must be 0 or more, and some time")
	}
	return &policy{*c}, nil
}

type policy struct{ cfg Config }

// Decide implements sched.Policy.
func (o *policy) Decide(v *sched.View, p *sched.Plan) {
	for pool := range v.EachPool() {
		claims, gpus := resize.Claims(v, pool, func(j sched.Job) bool { return stays(v, j) })
		all := make([]*holder, len(claims))
		largest := map[cluster.PoolID]int{}
		for i, c := range claims {
			scope := v.Scope(c.Job)
			if largest[scope] == 0 {
				largest[scope] = resize.LargestNode(v, c.Job)
			}
			all[i] = o.holder(v, c, largest[scope])
		}
		Divide(view(all), gpus)
		carryOut(v, p, all, o.cfg.Place)
	}
}

// carryOut plans the division. Those who are to have nothing leave first, and are tried last, in
// what the others have no use for.
func carryOut(v *sched.View, p *sched.Plan, all []*holder, where place.Strategy) {
	var some, none []*resize.Claim
	for _, h := range all {
		if h.claim.Tasks = h.Size; h.Size > 0 {
			some = append(some, h.claim)
			continue
		}
		none = append(none, h.claim)
		if h.claim.Job.Running() {
			p.Stop(h.claim.Job.ID, job.Reason{Code: job.MakesRoom, Job: job.None})
		}
	}
	resize.CarryOutInPlace(v, p, some, where)
	for _, c := range none {
		p.StartSize(c.Job.ID, c.Least, where)
	}
}

// NextWake implements sched.Waker.
func (o *policy) NextWake(v *sched.View) time.Duration {
	return resize.Rounds{Interval: o.cfg.Interval, Place: o.cfg.Place}.Wake(v)
}
