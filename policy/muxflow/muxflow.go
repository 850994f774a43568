// Package muxflow puts offline training jobs beside online services on GPUs
// that the services use little. Each job gets a part of the multiprocessors and
// of the memory that leaves the service what it needs. Jobs and GPUs are
// matched so that the sum of the jobs' speeds is largest. A job makes room as
// soon as its GPU is used too much.
//
// Nouns:
//   - A service is a job of kind job.Inference, which owns its GPUs; every
//     other job is offline.
//   - A slot is a GPU of a service that takes an offline job.
//   - A share is the part of the multiprocessors that an offline job may use
//     (Share.Milli), by tenths.
//   - The quota is what it may use of the memory (Share.Memory).
//   - Use is the part of the multiprocessors that is busy, 0 to 1.
//   - A worth is the predicted speed of a job on a slot, relative to alone.
//   - A round is the moment at which all are matched anew.
//
// Source: "MuxFlow: Efficient and Safe GPU Sharing in Large-Scale Production Deep
// Learning Clusters", arXiv 2303.13803, 2023. Its abstract alone was at hand: the
// thresholds and formulas are ours.
package muxflow

import (
	"errors"
	"fmt"
	"time"

	"github.com/norn-scheduler/norn/cluster"
	"github.com/norn-scheduler/norn/cluster/unit"
	"github.com/norn-scheduler/norn/job"
	"github.com/norn-scheduler/norn/place"
	"github.com/norn-scheduler/norn/policy/kit/beside"
	"github.com/norn-scheduler/norn/policy/need"
	"github.com/norn-scheduler/norn/policy/param"
	"github.com/norn-scheduler/norn/sched"
)

// Matching is how offline jobs and slots are paired.
type Matching uint8

// The ways.
const (
	Exact  Matching = iota // for the largest sum of worths (Kuhn-Munkres)
	Greedy                 // job by job, first come first served, the best slot that is left
)

// Source is where worths come from.
type Source uint8

// The sources.
const (
	Learnt  Source = iota // from speeds that are measured, once there are enough; Worth where none can be
	Formula               // Worth
)

// Config is the settings of the policy.
type Config struct {
	Match  Matching
	Worths Source
	Round  time.Duration
	Least  float64 // worth of a pair, at least
	Gain   float64 // in worth of a move, at least
	Batch  int     // jobs that are matched in a decision, at most
	Group  int     // jobs and slots that are matched with each other, at most: more are dealt to groups that are alike
	Idle   bool    // offline jobs may have GPUs without a service
	Shares Shares
	Quota  float64 // of a GPU's memory, for an offline job
	Guard  Guard
	Rows   int // measurements from which predicted speeds are learnt first
	Place  place.Strategy
}

// NewConfig returns the defaults.
func NewConfig() *Config {
	return &Config{
		Round: 15 * time.Minute, Least: 0.2, Gain: 0.15, Batch: 1000, Group: 64, Idle: true, Quota: 0.4,
		Shares: Shares{HeadRoom: 0.25, Min: 100, Max: 900, Step: 100, Change: 200},
		Guard:  Guard{Init: time.Minute, Use: 0.8, Memory: 0.95, Latency: 1.2, Slow: 10 * time.Second, Calm: 0.8, Cool: 5 * time.Minute, Most: time.Hour},
		Rows:   200,
		Place:  place.Consolidated,
	}
}

// Params binds the settings.
func (c *Config) Params() param.Set {
	return param.Set{
		param.Choice("match", &c.Match, []param.Option[Matching]{{Name: "exact", Value: Exact}, {Name: "greedy", Value: Greedy}},
			"how jobs and GPUs of services are paired: for the largest sum of predicted speeds, or job by job"),
		param.Choice("predict", &c.Worths, []param.Option[Source]{{Name: "learnt", Value: Learnt}, {Name: "formula", Value: Formula}},
			"where predicted speeds come from: speeds that are measured beside services (--beliefs true: the formula), or a formula"),
		param.Duration("round", &c.Round, "how often all jobs beside services are matched anew, and their shares checked"),
		param.Float("least", &c.Least, 0, 1, "speed", "predicted beside a service, relative to alone, below which a job waits"),
		param.Float("gain", &c.Gain, 0, 1, "speed", "predicted that a move must add"),
		param.Int("batch", &c.Batch, 1, 1_000_000, "jobs", "that are matched in a decision, at most"),
		param.Int("group", &c.Group, 1, 8000, "jobs", "and GPUs that are matched with each other, at most; more are dealt to groups that are alike"),
		param.Bool("idle", &c.Idle, "offline jobs may also run on GPUs without a service, until one needs them"),
		param.Float("fixed", &c.Shares.Fixed, 0, 1, "share", "of the multiprocessors that every offline job has; 0: by the use of the service"),
		param.Float("headroom", &c.Shares.HeadRoom, 0, 10, "share", "by which a service may use more than at its peak before the share of others is reached"),
		param.Int("share-min", &c.Shares.Min, 0, 1000, "thousandths", "of the multiprocessors for an offline job, at least"),
		param.Int("share-max", &c.Shares.Max, 0, 1000, "thousandths", "of the multiprocessors for an offline job, at most"),
		param.Int("change", &c.Shares.Change, 0, 1000, "thousandths", "by which a share changes at least, when it does at a round"),
		param.Float("quota", &c.Quota, 0, 1, "share", "of a GPU's memory that an offline job may take"),
		param.Float("use", &c.Guard.Use, 0, 1, "share", "of the multiprocessors in use above which an offline job makes room"),
		param.Float("memory", &c.Guard.Memory, 0, 1, "share", "of the memory in use above which it does"),
		param.Float("latency", &c.Guard.Latency, 1, 1e3, "ratio", "of a service's latency to that alone above which it does, after some time"),
		param.Duration("slow", &c.Guard.Slow, "for which latency may be above that"),
		param.Duration("init", &c.Guard.Init, "for which a service is only measured"),
		param.Duration("cool", &c.Guard.Cool, "for which a GPU must be calm before it takes offline jobs again, doubled each time"),
		param.Duration("cool-most", &c.Guard.Most, "for which it must be calm at most"),
		param.Float("calm", &c.Guard.Calm, 0, 1, "ratio", "to the limits below which a GPU is calm"),
		param.Int("rows", &c.Rows, 10, 1_000_000, "measurements", "on GPUs of a type from which speeds are learnt first, and anew whenever they have grown by half"),
		place.Param(&c.Place),
	}
}

// Needs says what the policy lives on.
func (c *Config) Needs() need.List {
	alone := fmt.Sprintf("it acts as fifo(mode=skip,place=%s)", c.Place)
	if !c.Idle {
		alone = "no job can run"
	}
	told := need.Need{Any: need.Of(need.Use), Without: "it cannot tell which job suits which service", Given: need.Of(need.Services)}
	return append(need.List(nil).And(need.Of(need.Services), alone), told)
}

// Policy makes the policy.
func (c *Config) Policy() (sched.Policy, error) {
	switch {
	case c.Round <= 0:
		return nil, errors.New("round must be above 0s")
	case c.Guard.Cool <= 0 || c.Guard.Most < c.Guard.Cool:
		return nil, errors.New("cool must be above 0s, and cool-most not below it")
	case c.Shares.Min > c.Shares.Max || c.Shares.Max == 0:
		return nil, errors.New("share-max must be above 0 and not below share-min")
	}
	return &policy{cfg: *c}, nil
}

type policy struct {
	cfg     Config
	on      func(cluster.DeviceID) []job.ID // who is on a device, as this decision stands
	slots   []slot
	beliefs *believer // of speeds beside services, learnt from measurements; nil: Worth
	alloc   cluster.Alloc
	pairing pairing
}

// seat is who is on a device.
type seat struct {
	service job.ID // that has it whole, but for what an offline job was given; None: none
	offline job.ID // that has a part of it, or all; None: none
	others  int    // that are neither
}

// Decide implements sched.Policy.
func (f *policy) Decide(v *sched.View, p *sched.Plan) {
	f.beliefs, _ = v.Sharing.(*believer)
	f.on = p.On
	defer func() { f.on = nil }()
	f.watch(v, p)
	f.restore(v, p)
	f.begin(v, p)
	round := v.Now%f.cfg.Round == 0
	if round {
		f.rematch(v, p)
	}
	if round || f.news(v) {
		f.match(v, p)
	}
	f.explain(v, p)
}

// offline tells whether a job may be beside services: a gang of a fixed number of tasks
// of one whole GPU each, which can be stopped.
func offline(j sched.Job) bool {
	return !service(j) && beside.Plain(j) && j.Spec().Stop != job.Pinned
}

func service(j sched.Job) bool { return j.Spec().Kind == job.Inference }

// seat is who is on a device.
func (f *policy) seat(v *sched.View, d cluster.DeviceID) seat {
	s := seat{job.None, job.None, 0}
	for _, id := range f.on(d) {
		switch j := v.Job(id); {
		case s.service == job.None && service(j) && j.Spec().Demand.Roles[0].GPU%unit.One == 0:
			s.service = id
		case s.offline == job.None && offline(j):
			s.offline = id
		default:
			s.others++
		}
	}
	return s
}

// news tells whether an offline job has just come or waits again, or whether somebody
// has just left, so that those who wait are matched before the next round.
func (f *policy) news(v *sched.View) bool {
	if ended := v.Ended(); len(ended) > 0 && v.Job(ended[len(ended)-1]).Since() == v.Now {
		return true
	}
	for j := range v.Waiting() {
		if j.Since() == v.Now && offline(j) {
			return true
		}
	}
	return f.freed(v)
}

// NextWake implements sched.Waker.
func (f *policy) NextWake(v *sched.View) time.Duration {
	at := unit.Never
	wants := false
	for j := range v.Waiting() {
		wants = wants || !j.Reason().Never() && !service(j)
	}
	f.on = v.On
	defer func() { f.on = nil }()
	for d := range v.Devices() {
		if s := f.seat(v, d); s.service != job.None {
			at = min(at, f.turns(v, s, wants))
			wants = wants || s.offline != job.None && f.cfg.Round < unit.Never
		}
	}
	if wants {
		at = min(at, beside.Next(v.Now, f.cfg.Round))
	}
	return at
}
