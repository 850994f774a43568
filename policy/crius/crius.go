// Package crius schedules large models that can be laid out in parallel in many ways: it moves jobs
// among numbers and types of GPUs so that all of them together do most.
//
// Nouns:
//   - A cell is a number of tasks on GPUs of one type. What a job does in a cell is what it does with
//     its best parallel plan there; the paper's cells fix the number of pipeline stages, too, of
//     which the estimate of a cell is the best.
//   - A hold is where a job has its cell: equally many tasks on each of some nodes, where that is
//     possible. It is together if it is on as few nodes as possible, and else relaxed.
//   - The throughput of a job is its speed in samples in a second; where not all jobs tell that, it is
//     its speed in terms of the GPUs that it asks for. A gain is a change of the throughput of all
//     jobs.
//   - A job that runs is opportunistic while one waits that was submitted before it.
//
// In each round, the jobs that wait are fitted in one after the other, in order of submission. A job has
// the cell that it asks for, or others shrink or change their type to make room, whichever gains most.
// Then jobs that run are upgraded, one step after the other, to a cell of another type or of twice as
// many GPUs.
//
// Source: Xue et al., "A Codesign of Scheduling and Parallelization for Large Model Training in
// Heterogeneous Clusters", arXiv 2403.16125, and its successor Arena, EuroSys 2026.
package crius

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

// Config holds the settings of the policy.
type Config struct {
	Period    time.Duration // between two rounds
	Depth     int           // steps of others in search of room for a job
	Largest   int           // tasks of an elastic job, at most
	Scale     bool          // jobs change their number of GPUs
	Types     bool          // jobs change their type of GPUs
	Overtake  bool          // jobs run while one waits that came before them
	Moves     int           // rounds of moves in search of room on one node
	Deadlines bool          // jobs get no cell in which they would miss their deadline
	Place     place.Strategy
}

// NewConfig is the policy as it is published.
func NewConfig() *Config {
	return &Config{Period: 5 * time.Minute, Depth: 3, Largest: 16, Scale: true, Types: true, Overtake: true, Moves: 256, Place: place.Pack}
}

// Params binds the settings.
func (c *Config) Params() param.Set {
	return param.Set{
		param.Duration("period", &c.Period, "how often jobs are fitted in and upgraded; nothing is decided in between"),
		param.Int("depth", &c.Depth, 0, 5, "steps", "how many jobs shrink or change their type in search of room for another; at most 2 while more than 150 run"),
		param.Int("largest", &c.Largest, 1, 1<<20, "tasks", "the most that an elastic job gets"),
		param.Bool("scale", &c.Scale, "jobs change their number of GPUs"),
		param.Bool("types", &c.Types, "jobs change their type of GPUs"),
		param.Bool("overtake", &c.Overtake, "jobs run while one that came before them waits, until it has room without them"),
		param.Int("moves", &c.Moves, 0, 1<<12, "rounds", "how often nodes are paired whose jobs move together in search of room for another job"),
		param.Bool("deadlines", &c.Deadlines, "jobs get no GPUs with which they would miss their deadline, as long as they can meet it"),
		place.Param(&c.Place),
	}
}

// Needs says what the policy lives on.
func (c *Config) Needs() need.List {
	return need.List(nil).
		If(c.Scale, need.Of(need.Elastic), "jobs have the numbers of GPUs that they ask for").
		If(c.Types, need.Of(need.Types), "it chooses numbers of GPUs alone").
		If(c.Deadlines, need.Of(need.Deadlines), "no job has one to miss").
		If(c.Deadlines, need.Of(need.RunTimes), "nobody knows which GPUs suffice for a deadline")
}

// Policy makes the policy.
func (c *Config) Policy() (sched.Policy, error) {
	if c.Period <= 0 || c.Period == unit.Never {
		return nil, errors.New("period must be above 0, and some time")
	}
	return &policy{cfg: *c}, nil
}

type policy struct {
	cfg     Config
	settled bool // the last round has changed nothing, and nothing has happened since
	free    int  // GPUs, then
}

// Decide implements sched.Policy.
func (o *policy) Decide(v *sched.View, p *sched.Plan) {
	if len(v.Changes()) > 0 || v.NodesChanged() || v.Free() != o.free {
		o.settled = false
	}
	if !o.cfg.rounds().Begin(v, p) || o.settled {
		return
	}
	o.settled, o.free = !o.cfg.Deadlines, v.Free()
	for pool := range v.EachPool() {
		r := newRound(&o.cfg, v, p, pool)
		r.serve()
		r.upgrade()
		o.settled = r.carryOut() && o.settled
	}
}

func (c *Config) rounds() resize.Rounds { return resize.Rounds{Interval: c.Period, Place: c.Place} }

// NextWake implements sched.Waker.
func (o *policy) NextWake(v *sched.View) time.Duration { return o.cfg.rounds().Wake(v) }
