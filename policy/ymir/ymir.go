// Package ymir schedules fine-tuning jobs that share a foundation model. Jobs
// that learn from each other are merged. GPUs are divided for the least sum of
// slowdowns. The process on a GPU is handed the next task instead of being
// started anew.
//
// Nouns:
//   - The backbone of a job is the foundation model that it tunes.
//   - A job is measured (profiled) before anything is decided on it.
//   - Two jobs are merged after each other (temporal: the second goes on from
//     what the first has learnt) or together (spatial: one training over both
//     data sets).
//   - An Entity is a job alone or a pair.
//   - The fair share is GPUs divided by jobs, rounded up to a size.
//   - TranWt is how much better two jobs fare merged than alone.
//   - A solve divides the GPUs of a backbone's quota among its jobs. Times are
//     in seconds, sizes in GPUs.
//
// Source: "Ymir: A Scheduler for Foundation Model Fine-tuning Workloads in
// Datacenters", ICS 2024. docs/policies/ymir.md lists what is our own.
package ymir

import (
	"errors"
	"math"
	"time"

	"github.com/norn-scheduler/norn/cluster/unit"
	"github.com/norn-scheduler/norn/job"
	"github.com/norn-scheduler/norn/perf"
	"github.com/norn-scheduler/norn/policy/need"
	"github.com/norn-scheduler/norn/policy/param"
	"github.com/norn-scheduler/norn/policy/ymir/estimator"
	"github.com/norn-scheduler/norn/sched"
)

// Modes is which ways to merge are used.
type Modes uint8

// The choices of Modes.
const (
	Both Modes = iota
	Temporal
	Spatial
	Neither
)

// Objective is what a solve makes as good as it can.
type Objective uint8

// The objectives.
const (
	Slowdown   Objective = iota // the least sum of slowdowns
	LiteralMax                  // the largest sum of the ratios that the paper prints, which are speedups; for study
	Remaining                   // that of Titan
)

// Config is the settings of the policy.
type Config struct {
	Interval  time.Duration
	OnEvent   bool
	Gap       time.Duration
	Queued    float64 // W0
	ExactMax  int
	Filter    float64 // TranWt below which a pair is not considered
	Guard     float64 // epochs
	Stay      float64 // share of its cost that a resize must gain
	Modes     Modes
	Started   bool // temporal pairs may begin with a job that runs already
	Objective Objective

	ProfileTime time.Duration
	ProfileGPUs int
	Latency     time.Duration // from the end of a profile to the end of the estimation

	NoiseGain, NoiseIterations, NoiseSpeed float64
	NoiseSeed                              int
}

// NewConfig returns the defaults: those of the paper, and where it gives none, those
// of docs/policies/ymir.md.
func NewConfig() *Config {
	return &Config{
		Interval: 120 * time.Second, OnEvent: true, Gap: 30 * time.Second, Queued: 4, ExactMax: 12, Filter: 1.3, Guard: 2, Stay: 0.02, Started: true,
		ProfileTime: time.Minute, ProfileGPUs: 1, Latency: 10 * time.Second,
	}
}

// Params binds the settings.
func (c *Config) Params() param.Set {
	return param.Set{
		param.Duration("interval", &c.Interval, "how often GPUs are divided anew"),
		param.Bool("onevent", &c.OnEvent, "divide also after jobs came or ended, at the next multiple of gap"),
		param.Duration("gap", &c.Gap, "least time between two divisions; interval must be a multiple of it"),
		param.Float("queued", &c.Queued, 0, 1e6, "slowdown", "what it costs to leave a job without GPUs (W0)"),
		param.Int("exact", &c.ExactMax, 0, 16, "jobs", "up to so many jobs are solved exactly"),
		param.Float("filter", &c.Filter, 0, 100, "ratio", "pairs with a smaller TranWt are not considered"),
		param.Float("guard", &c.Guard, 0, math.Inf(1), "epochs", "a pair that has not gained by then is split; inf: never"),
		param.Float("stay", &c.Stay, 0, 1, "share", "a job is resized only when that gains this share of its cost"),
		param.Choice("merge", &c.Modes, []param.Option[Modes]{{Name: "both", Value: Both}, {Name: "temporal", Value: Temporal}, {Name: "spatial", Value: Spatial}, {Name: "none", Value: Neither}},
			"which ways to merge are used"),
		param.Bool("started", &c.Started, "a job may go on from one that runs already, and not only from one that waits as well"),
		param.Choice("objective", &c.Objective, []param.Option[Objective]{{Name: "slowdown", Value: Slowdown}, {Name: "literal-max", Value: LiteralMax}},
			"least sum of slowdowns, or for study the largest sum of the ratios that the paper prints"),
		param.Duration("profile", &c.ProfileTime, "how long a job is measured before it is scheduled, where it can be measured apart from running; 0: not at all"),
		param.Int("profile-gpus", &c.ProfileGPUs, 1, 1024, "GPUs", "that it is measured on; whole nodes for pipelines"),
		param.Duration("latency", &c.Latency, "from the end of the measurement to that of the estimation"),
		param.Float("noise-gain", &c.NoiseGain, 0, 1, "share", "gains are believed to be wrong by up to this share, for studies"),
		param.Float("noise-iterations", &c.NoiseIterations, 0, 1, "share", "the same for the work of jobs"),
		param.Float("noise-speed", &c.NoiseSpeed, 0, 1, "share", "the same for the time of an iteration by size"),
		param.Int("noise-seed", &c.NoiseSeed, 0, math.MaxInt32, "number", "which noise"),
	}
}

// longest is the longest that a job may be measured, its measurements evaluated, and an
// interval of Titan.
const longest = 24 * time.Hour

// Needs says what the policy lives on.
func (c *Config) Needs() need.List {
	return need.List(nil).
		If(c.Modes != Neither, need.Of(need.Backbones), "it acts as ymir(merge=none)").
		And(need.Of(need.Elastic), "jobs have the numbers of GPUs that they ask for").
		And(need.Of(need.RunTimes), "every job is taken to need an hour")
}

// Policy makes the policy.
func (c *Config) Policy() (sched.Policy, error) {
	switch {
	case c.Interval <= 0 || c.Gap <= 0 || c.Interval%c.Gap != 0:
		return nil, errors.New("interval must be a multiple of gap, and both above 0")
	case c.ProfileTime < 0 || c.Latency < 0 || c.ProfileTime > longest || c.Latency > longest:
		return nil, errors.New("profile and latency must be from 0 to a day each")
	}
	seed := uint64(c.NoiseSeed)
	return &policy{
		cfg:   *c,
		noise: noises{estimator.Noise{Share: c.NoiseGain, Seed: seed}, estimator.Noise{Share: c.NoiseIterations, Seed: seed + 1}, estimator.Noise{Share: c.NoiseSpeed, Seed: seed + 2}},
		seen:  map[speedKey]float64{},
	}, nil
}

// Believer makes what the policy believes of jobs from what is measured of them.
func (c *Config) Believer(prior perf.Prior) perf.Believer { return estimator.NewBeliever(prior) }

// noises are the factors by which estimates are made wrong.
type noises struct{ gain, work, speed estimator.Noise }

type policy struct {
	cfg      Config
	measures bool // jobs are measured before anything is decided on them
	noise    noises

	// Observed speeds divided by believed ones, by backbone and size. It follows
	// from the jobs that have ended, in their order.
	seen   map[speedKey]float64
	learnt int // jobs of View.Ended that it follows

	noted   []job.ID // jobs on which the last division was noted, or which may have that note
	largest []int    // by pool: GPUs of the largest node; 0: not asked for yet
	version uint64   // of the cluster for which that holds
}

type speedKey struct {
	backbone string
	gpus     int
}

// Decide implements sched.Policy.
func (y *policy) Decide(v *sched.View, p *sched.Plan) {
	y.measures = v.Profiles && y.cfg.ProfileTime > 0
	y.learn(v)
	y.measure(v, p)
	y.guard(v, p)
	y.hand(v, p)
	solved := y.due(v)
	if solved {
		y.solve(v, p)
	}
	y.admit(v, p)
	y.excuse(v, p, solved)
}

// due tells whether this is a moment to divide GPUs anew: every interval, and at a
// multiple of the gap when something has happened since the last one. It looks at
// nothing but the view.
func (y *policy) due(v *sched.View) bool {
	divided := y.divided(v)
	if v.Now%y.cfg.Gap != 0 || divided {
		return false
	}
	if v.Now%y.cfg.Interval == 0 {
		return true
	}
	if !y.cfg.OnEvent {
		return false
	}
	since := v.Now - y.cfg.Gap
	ended := v.Ended()
	for i := len(ended) - 1; i >= 0; i-- {
		if j := v.Job(ended[i]); v.Covers(j) {
			if end := j.Since(); end > since {
				return true
			}
			break
		}
	}
	for j := range v.Waiting() {
		if at, measured := y.readyAt(j); measured && at <= v.Now && max(at, j.Since()) > since {
			return true
		}
	}
	return false
}

// readyAt is when a job can be scheduled: when its estimation is done.
func (y *policy) readyAt(j sched.Job) (at time.Duration, ok bool) {
	if !y.measures || !tunes(j) {
		return j.Submit(), true
	}
	n, _ := sched.Recall[note](j)
	return n.ready, n.ready >= 0
}

// schedulable tells whether a job is measured and its estimation done.
func (y *policy) schedulable(v *sched.View, j sched.Job) bool {
	at, ok := y.readyAt(j)
	return ok && at <= v.Now && !j.Profiling()
}

// tunes tells whether a job tunes a backbone, so that it is measured and can be
// merged.
func tunes(j sched.Job) bool { return j.Spec().Backbone != "" }

// NextWake implements sched.Waker: the next multiple of the gap, and the ends of
// measurements.
func (y *policy) NextWake(v *sched.View) time.Duration {
	wake, any := unit.Never, false
	for j := range v.Waiting() {
		if !j.Reason().Never() { // it is reconsidered when nodes come or go
			any = true
			break
		}
	}
	for j := range v.Running() {
		any = true
		if j.Profiling() {
			wake = min(wake, max(v.Now+1, j.Ready()+y.cfg.ProfileTime))
		}
	}
	if !any {
		return unit.Never
	}
	step := y.cfg.Interval
	if y.cfg.OnEvent {
		step = y.cfg.Gap
	}
	return min(wake, (v.Now/step+1)*step)
}

// learn follows the speeds that jobs ended with: each counts three tenths against
// what was seen before of its backbone at its size.
func (y *policy) learn(v *sched.View) {
	if learnt(v) != nil {
		return // speeds follow measurements already
	}
	ended := v.Ended()
	for ; y.learnt < len(ended); y.learnt++ {
		j := v.Job(ended[y.learnt])
		if _, how := j.Merged(); how != job.Apart || j.Tasks() == 0 || j.Speed() <= 0 || !tunes(j) {
			continue
		}
		was := believed(v, j, j.Tasks(), y.nodeGPUs(v, j.Pool()))
		if was <= 0 {
			continue
		}
		k := speedKey{j.Spec().Backbone, j.Tasks()}
		before, known := y.seen[k]
		if !known {
			before = 1
		}
		y.seen[k] = estimator.Follow(before, j.Speed()/was)
	}
}
