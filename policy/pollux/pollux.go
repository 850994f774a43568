// Package pollux divides GPUs among jobs that choose their own batch sizes, for
// the best goodput of all. Goodput is throughput times what an example is worth
// to the training. It counts relative to that with a fair share, and less for
// jobs that are restarted again and again.
//
// Nouns:
//   - A replica is a task of an elastic job.
//   - The goodput of a job is fitted to what it has reported of its iterations
//     (perf.Fit), at the batch size that is best for its allocation.
//   - A Matrix says how many replicas each job has on each node.
//   - A Search is a genetic algorithm over such matrices.
//
// Source: Qiao et al., "Pollux: Co-adaptive Cluster Scheduling for Goodput-Optimized
// Deep Learning", OSDI 2021; operators and constants of the search are those of its
// code (petuum/adaptdl), which the paper leaves open.
package pollux

import (
	"errors"
	"math/rand/v2"
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
	Power    float64
	Delay    time.Duration
	Avoid    bool
	Explore  float64
	Largest  int
	Nodes    int
	Seed     int
	Search   Search
	Place    place.Strategy
}

// NewConfig returns the defaults, those of the published code but for Stall.
func NewConfig() *Config {
	return &Config{
		Interval: time.Minute, Power: -1, Delay: 30 * time.Second, Avoid: true, Explore: 2, Largest: 64, Nodes: 16,
		Search: Search{Population: 100, Generations: 100, Stall: 30}, Place: place.Pack,
	}
}

// Params binds the settings.
func (c *Config) Params() param.Set {
	return param.Set{
		param.Duration("interval", &c.Interval, "how often GPUs are divided anew; nothing is decided in between"),
		param.Float("p", &c.Power, -100, 1, "", "power of the mean of speedups: 1 is their plain mean, less is fairer"),
		param.Duration("delay", &c.Delay, "what a restart is taken to cost"),
		param.Bool("avoid", &c.Avoid, "no two jobs that are spread over nodes meet on one"),
		param.Float("explore", &c.Explore, 0, 1000, "", "a job gets at most so many times the most GPUs it has run with; 0: as many as it can use"),
		param.Int("largest", &c.Largest, 1, 1<<20, "tasks", "the most that an elastic job gets"),
		param.Int("nodes", &c.Nodes, 0, 1<<20, "nodes", "the most that a job is spread over; 0: any number"),
		param.Int("population", &c.Search.Population, 2, 1<<16, "", "divisions that the search keeps"),
		param.Int("generations", &c.Search.Generations, 1, 1<<20, "", "times that it makes new ones of them"),
		param.Int("stall", &c.Search.Stall, 0, 1<<20, "", "it ends after so many times without a better one; 0: never"),
		param.Int("seed", &c.Seed, 0, 1<<30, "", "of the search, which is the same again at the same moment with the same jobs"),
		place.Param(&c.Place),
	}
}

// Needs says what the policy lives on.
func (c *Config) Needs() need.List {
	return need.List(nil).
		And(need.Of(need.Elastic), "jobs have the numbers of GPUs that they ask for").
		And(need.Of(need.Reports), "it goes by speed, and batches stay as they are")
}

// Policy makes the policy.
func (c *Config) Policy() (sched.Policy, error) {
	switch {
	case c.Interval <= 0 || c.Interval == unit.Never:
		return nil, errors.New("interval must be above 0, and some time")
	case c.Delay < 0 || c.Delay == unit.Never:
		return nil, errors.New("delay must be 0 or more, and some time")
	}
	return &policy{cfg: *c, models: map[job.ID]*model{}}, nil
}

type policy struct {
	cfg    Config
	models map[job.ID]*model // what is believed of jobs that report, made anew from their memos
}

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
	done := o.divided(v)
	for pool := range v.EachPool() {
		if done[pool] {
			o.rounds().Wait(v, p)
			continue
		}
		r := round{o: o, v: v, p: p, pool: pool}
		r.gather()
		if len(r.claims) > 0 {
			r.carryOut(r.divide())
		}
	}
}

// divided are the pools that have been divided at this very moment, as is seen by those
// who began or made room then. One that was and remained as it is may be divided again:
// the search finds the same.
func (o *policy) divided(v *sched.View) map[cluster.PoolID]bool {
	var done map[cluster.PoolID]bool
	note := func(j sched.Job) {
		if done == nil {
			done = map[cluster.PoolID]bool{}
		}
		done[j.Pool()] = true
	}
	for j := range v.Running() {
		if j.Since() == v.Now {
			note(j)
		}
	}
	for j := range v.Waiting() {
		if c := j.Reason().Code; j.Since() == v.Now && (c == job.MakesRoom || c == job.Resized) {
			note(j)
		}
	}
	return done
}

// rounds are the moments at which GPUs are divided.
func (o *policy) rounds() resize.Rounds {
	return resize.Rounds{Interval: o.cfg.Interval, Place: o.cfg.Place}
}

// NextWake implements sched.Waker.
func (o *policy) NextWake(v *sched.View) time.Duration { return o.rounds().Wake(v) }

// divide searches for who shall have what.
func (r *round) divide() Matrix {
	problem := Problem{Power: r.o.cfg.Power, Floor: 1e-3, Avoid: r.o.cfg.Avoid, MaxNode: r.o.cfg.Nodes, Nodes: r.rooms, Now: r.now}
	for i := range r.claims {
		problem.Jobs = append(problem.Jobs, r.claim(&r.claims[i]))
	}
	rng := rand.New(rand.NewPCG(uint64(r.o.cfg.Seed)^uint64(r.v.Now), uint64(r.pool)))
	return r.o.cfg.Search.Run(&problem, rng, append(r.fills(&problem), problem.Now)...)[0]
}
