// Package synergy divides the cores and the memory of nodes by what they do for
// each job, and not in proportion to GPUs. Jobs that are held up while they
// prepare or read their data get more, at the expense of jobs that need little.
// Any order may decide which jobs run.
//
// Nouns:
//   - A ration is the cores and the memory that a job has of a node for each
//     GPU there (perf.Ration).
//   - Its proportional share is what the node has for each of its GPUs.
//   - The wanted ration is the smallest one with which the job is fastest, as
//     the scheduler believes (perf.Sensitive), or for a job without a grid what
//     it asks for itself.
//   - A peer is a job that was placed before in the same round.
//
// At the beginning of each round all jobs are ordered, those for which there are GPUs
// are chosen, and each is given a place and a ration anew. A job that keeps its GPUs runs
// on, whatever becomes of its ration. No job runs slower than with its proportional
// share (TUNE of the paper); Greedy and the division in proportion are there to compare
// with, and opt divides for the greatest sum of speeds. Between rounds, jobs start on what
// is free. The policy keeps nothing between calls.
//
// Source: Mohan, Phanishayee, Kulkarni, Chidambaram, "Looking Beyond GPUs for DNN
// Scheduling on Multi-Tenant Clusters", OSDI 2022; and the published simulator, where
// the paper leaves a choice.
package synergy

import (
	"errors"
	"time"

	"github.com/norn-scheduler/norn/cluster"
	"github.com/norn-scheduler/norn/cluster/unit"
	"github.com/norn-scheduler/norn/job"
	"github.com/norn-scheduler/norn/policy/need"
	"github.com/norn-scheduler/norn/policy/param"
	"github.com/norn-scheduler/norn/sched"
)

// Order is who goes first.
type Order uint8

// The orders.
const (
	SRTF     Order = iota // remaining time with what it wants
	FIFO                  // submission
	LAS                   // least attained service: GPU time
	FTF                   // finish-time fairness, the latest first
	LeastFTF              // the same, the least late first, as in the published simulator
	DRF                   // smallest dominant share of what it wants
	Tetris                // smallest remaining time x what it wants of the cluster
)

// Share is how cores and memory are divided.
type Share uint8

// The divisions.
const (
	Tune         Share = iota // what each wants, taken back where another would not have its share
	Proportional              // in proportion to GPUs
	Greedy                    // what each wants, or it does not run
	Opt                       // for the greatest sum of speeds
)

// Config is the settings of the policy.
type Config struct {
	Order   Order
	Share   Share
	Round   time.Duration
	Starves time.Duration // who has waited for so long goes first
	Fill    bool          // start jobs between rounds
	Surplus bool          // under tune, what is left goes to those who want more
	Profile time.Duration // for how long jobs of models of which nothing is known are measured; 0: they are not
}

// NewConfig returns the defaults.
func NewConfig() *Config {
	return &Config{Round: 5 * time.Minute, Starves: 1000 * time.Hour, Fill: true, Profile: 5 * time.Minute}
}

// Params binds the settings.
func (c *Config) Params() param.Set {
	return param.Set{
		param.Choice("order", &c.Order, []param.Option[Order]{
			{Name: "srtf", Value: SRTF}, {Name: "fifo", Value: FIFO}, {Name: "las", Value: LAS}, {Name: "ftf", Value: FTF}, {Name: "ftf-least", Value: LeastFTF},
			{Name: "drf", Value: DRF}, {Name: "tetris", Value: Tetris},
		}, "who goes first: remaining time, submission, least attained service, finish-time fairness (the latest first, or the least late), dominant share, remaining time x demand"),
		param.Choice("share", &c.Share, []param.Option[Share]{
			{Name: "tune", Value: Tune}, {Name: "proportional", Value: Proportional}, {Name: "greedy", Value: Greedy}, {Name: "opt", Value: Opt},
		}, "how cores and memory are divided: as jobs want them and none below its share, in proportion to GPUs, as wanted or not at all, or for the greatest sum of speeds"),
		param.Duration("round", &c.Round, "divide anew so often"),
		param.Duration("starves", &c.Starves, "a job that has waited for so long goes first"),
		param.Bool("surplus", &c.Surplus, "under tune, give what is left of a node to jobs there that want more"),
		param.Duration("profile", &c.Profile, "measure a job for so long, before it starts, of whose model nothing is known; 0s: never"),
		param.Bool("fill", &c.Fill, "start jobs between rounds on what is free"),
	}
}

// Needs says what the policy lives on.
func (c *Config) Needs() need.List {
	timed := c.Order == SRTF || c.Order == FTF || c.Order == LeastFTF || c.Order == Tetris
	return need.List(nil).
		If(c.Share != Proportional, need.Of(need.Rations), "no job gains by more cores or memory").
		If(timed, need.Of(need.RunTimes), "it acts as synergy(order=fifo)")
}

// Policy makes the policy.
func (c *Config) Policy() (sched.Policy, error) {
	if c.Round <= 0 || c.Round == unit.Never {
		return nil, errors.New("round must be above 0s, and not never")
	}
	return &policy{cfg: *c, measuring: map[string]bool{}}, nil
}

type policy struct {
	cfg    Config
	floor  floor
	claims []*claim // of the pool at hand, in order
	spare  []*claim // to be used again
	alloc  cluster.Alloc

	measuring map[string]bool // models of which a job is measured, at this decision
}

// note is what is remembered of a job.
type note struct {
	starved  bool // it has once waited for too long
	measured bool // it was once measured, or is
}

// NewNote is a note of this policy, for the table of policies.
func NewNote() sched.Note { return new(note) }

// Kind implements sched.Note.
func (n *note) Kind() string { return "synergy" }

// Fields implements sched.Note.
func (n *note) Fields(f *sched.Fields) {
	f.Bool("starved", &n.starved)
	f.Bool("measured", &n.measured)
}

// starved tells whether a job has once waited for too long.
func starved(j sched.Job) bool {
	n, _ := sched.Recall[note](j)
	return n.starved
}

// outranked is why jobs are stopped, and why they wait then; short is why one waits for
// which there are GPUs.
var (
	outranked = job.Reason{Code: job.Outranked, Job: job.None}
	short     = job.Reason{Code: job.NeedCPU, Job: job.None}
)

// Decide implements sched.Policy.
func (s *policy) Decide(v *sched.View, p *sched.Plan) {
	begins := s.begins(v)
	s.release(v, p)
	if !begins && !s.cfg.Fill {
		return
	}
	for pool := range v.EachPool() {
		switch {
		case begins:
			s.begin(v, p, pool)
		case v.Cluster().FreeGPUs(pool, 0) > 0 || anyInParts(v):
			s.fill(v, p, pool)
		}
	}
}

// anyInParts tells whether there are jobs that need no whole GPU.
func anyInParts(v *sched.View) bool {
	for i := range v.Classes() {
		if inParts(v.Class(int32(i)).Demand) {
			return true
		}
	}
	return false
}

// begins tells whether a round begins.
func (s *policy) begins(v *sched.View) bool { return v.Now%s.cfg.Round == 0 }

// next is when the next round begins.
func (s *policy) next(v *sched.View) time.Duration { return (v.Now/s.cfg.Round + 1) * s.cfg.Round }

// NextWake implements sched.Waker.
func (s *policy) NextWake(v *sched.View) time.Duration { return min(s.over(v), s.nextRound(v)) }

// nextRound is when the next round begins that may change anything. Where nobody waits
// at the beginning of one, the next one would change nothing unless something happens
// before.
func (s *policy) nextRound(v *sched.View) time.Duration {
	for j := range v.Waiting() {
		if !j.Reason().Never() {
			return s.next(v)
		}
	}
	if !s.begins(v) {
		for range v.Running() {
			return s.next(v)
		}
	}
	return unit.Never
}

// Why implements sched.Explainer.
func (s *policy) Why(v *sched.View, _ job.ID) job.Reason {
	if s.begins(v) {
		return outranked
	}
	return job.Reason{Code: job.NotYet, At: s.next(v), Job: job.None}
}

// begin is the beginning of a round in a pool.
func (s *policy) begin(v *sched.View, p *sched.Plan, pool cluster.PoolID) {
	s.floor.read(v, pool)
	s.gather(v, p, pool)
	for _, c := range s.claims {
		if c.urgent && !starved(v.Job(c.id)) {
			n, _ := sched.Noted[note](p, v.Job(c.id))
			n.starved = true
			p.Remember(c.id, &n)
		}
	}
	s.choose()
	s.placeOthers(p)
	s.deal()
	s.carryOut(v, p)
}

// fill starts waiting jobs of a pool on what is free.
func (s *policy) fill(v *sched.View, p *sched.Plan, pool cluster.PoolID) {
	s.floor.read(v, pool)
	s.queue(v, p, pool, v.Cluster().FreeGPUs(pool, 0))
	for _, c := range s.claims {
		switch {
		case c.fixed:
			if p.Start(c.id, where) {
				s.floor.change(p.Alloc(c.id), -1)
			}
		case s.floor.free >= c.gpus:
			s.settle(c, false)
			if len(c.parts) > 0 {
				s.start(v, p, c)
			}
		}
	}
}

// carryOut turns what the claims have been dealt into a plan: who leaves, or changes,
// comes off its devices first. Those that are placed as they ask and were not chosen keep
// what they hold, or come last, if there is room.
func (s *policy) carryOut(v *sched.View, p *sched.Plan) {
	for _, c := range s.claims {
		switch {
		case c.was == nil || c.same:
		case c.fixed:
			if c.same = !c.chosen && s.floor.book(c.was) || c.placed && c.spot.Equal(c.was); !c.same {
				p.Stop(c.id, outranked)
			}
		case len(c.parts) > 0 && s.write(c).Equal(c.was):
			c.same = true
		case c.pinned:
			now := s.write(c)
			p.Adjust(c.id, func(a *cluster.Alloc) { a.CopyFrom(now) })
			c.same = true
		default:
			p.Stop(c.id, outranked)
		}
	}
	for _, c := range s.claims {
		switch {
		case c.same:
		case c.placed:
			p.StartOn(c.id, &c.spot)
		case len(c.parts) > 0:
			s.start(v, p, c)
		case !c.fixed:
			p.Wait(c.id, s.why(c))
		}
	}
	for _, c := range s.claims {
		if c.fixed && !c.same && !c.placed {
			p.Start(c.id, where)
		}
	}
}

// why is why a job waits that was dealt nothing.
func (s *policy) why(c *claim) job.Reason {
	if c.lacks || c.chosen && s.floor.room(c.mask) >= c.gpus {
		return short
	}
	return outranked
}
