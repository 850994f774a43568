// Package ones divides GPUs among elastic jobs by an evolutionary search over whole divisions. Jobs
// come to other sizes in place, and their batches grow with them.
//
// Nouns:
//   - A division says of each job how many tasks it has. The search keeps a population of them.
//   - The progress rho of a job is the part of its work that it is believed to have done. It is
//     drawn from a Beta distribution, which is learnt from jobs that have ended (Regression).
//   - The limit of a job is the most tasks that it may have. It begins with the least, doubles as
//     the job goes on, and is cut for large jobs that run long.
//   - The allowed size is what a job may have for now; padding gives it more, up to its limit,
//     where GPUs are left.
//   - A job is young before it has done two epochs, and settled when it has done one since it was
//     changed last. Only settled jobs are changed.
//
// Source: Bian, Li, Wang and You, "Online Evolutionary Batch Size Orchestration for Scheduling
// Deep Learning Workloads in GPU Clusters", SC 2021, and the code published with it
// (kurisusnowdeng/ones_sc21).
package ones

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

// First is the limit with which jobs begin.
type First uint8

// The values of First.
const (
	Asked First = iota // what they ask for, where GPUs are left
	Least              // the least that they can run with, as in the published code
)

// Config is the settings of the policy.
type Config struct {
	Interval time.Duration
	Search   Search
	Lambda   float64
	Times    int
	First    First
	Seed     int
	Place    place.Strategy
}

// NewConfig returns the defaults. Those of the search, lambda and times are of the published
// code, which searches all the time with a pause of a second.
func NewConfig() *Config {
	return &Config{Interval: 10 * time.Second, Search: Search{Population: 16, Iterations: 10, Mutation: 0.3}, Lambda: 1, Times: 4, Place: place.Pack}
}

// Params binds the settings.
func (c *Config) Params() param.Set {
	return param.Set{
		param.Duration("interval", &c.Interval, "how often GPUs are divided anew; nothing is decided in between"),
		param.Int("population", &c.Search.Population, 2, 1<<12, "", "divisions that the search keeps"),
		param.Int("iterations", &c.Search.Iterations, 1, 1<<16, "", "times that it makes new ones of them"),
		param.Float("mutation", &c.Search.Mutation, 0, 1, "", "probability with which a mutation leaves a job out"),
		param.Float("lambda", &c.Lambda, 0, 1000, "", "how much the sizes of large jobs that run long are cut"),
		param.Int("times", &c.Times, 1, 1<<16, "times", "a job is asked to grow to so many times what it asked for at most"),
		param.Choice("first", &c.First, []param.Option[First]{{Name: "asked", Value: Asked}, {Name: "least", Value: Least}},
			"the limit with which a job begins: what it asks for, where GPUs are left, or its least, as in the published code"),
		param.Int("seed", &c.Seed, 0, 1<<30, "", "of the search, which is the same again at the same moment with the same jobs"),
		place.Param(&c.Place),
	}
}

// Needs says what the policy lives on.
func (c *Config) Needs() need.List {
	return need.List(nil).
		And(need.Of(need.Elastic), "jobs have the numbers of GPUs that they ask for").
		And(need.Of(need.Losses), "a minute of work counts as an epoch, and jobs are taken to have as much ahead of them as behind")
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
		r := round{o: o, v: v, p: p, pool: pool}
		r.decide()
	}
}

// rounds are the moments at which GPUs are divided.
func (o *policy) rounds() resize.Rounds {
	return resize.Rounds{Interval: o.cfg.Interval, Place: o.cfg.Place}
}

// NextWake implements sched.Waker.
func (o *policy) NextWake(v *sched.View) time.Duration { return o.rounds().Wake(v) }

// note is what is remembered of a job.
type note struct {
	Limit   int     // tasks; 0: it was never given any
	Size    int     // tasks that it is to have when it comes back
	Scaled  float64 // epochs that it had done when its limit was looked at last
	Changed float64 // epochs that it had done when its size was changed last
}

// NewNote makes an empty note.
func NewNote() sched.Note { return new(note) }

// Kind implements sched.Note.
func (*note) Kind() string { return "ones" }

// Fields implements sched.Note.
func (n *note) Fields(f *sched.Fields) {
	sched.Int(f, "limit", &n.Limit)
	sched.Int(f, "size", &n.Size)
	f.Float("scaled", &n.Scaled)
	f.Float("changed", &n.Changed)
}
