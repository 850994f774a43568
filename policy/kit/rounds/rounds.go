// Package rounds is what policies share that decide in rounds: a job gets a lease
// on devices of one GPU type, and keeps them if it is served again in the next
// round; who is served is decided anew when a round begins.
//
// Nouns: a Grid is the clock, whose rounds begin at multiples of their length; a
// Round is one of them as a Rule sees it, which takes jobs in the order in which
// they are to be served; a Policy is the policy around a Rule: it says who may be
// served, deals out devices to those who were taken, and takes them from the
// others. A Claim is a share of a job's time that it shall run on one GPU type;
// Shares turns claims into rounds by priorities and deficits.
//
// A Policy keeps nothing between calls: what it needs is in the view, and what
// Shares must remember is noted on the jobs (NewNote). A policy may use it without
// Shares, and then may note on jobs what it likes.
//
// Two jobs may share devices, each a half of them, where Policy.Pairs and Shares.Pairs
// say so. A claim may then be that of a pair, is noted on one of the two, and is served
// like that of a job (Round.ServePair).
//
// Where Policy.Together and Shares.Together say so, a job may have two claims on a type: on
// time in which it runs together on one node, and on time in which it may be spread.
//
// # Who may be served
//
// Jobs are served at the size they ask for, on one GPU type. Left alone, and
// their devices not dealt out, are running jobs that must not be stopped or would
// lose their work (job.Pinned, job.Restart), that have not made any progress yet
// since they were started (where getting there takes longer than a round, jobs would
// otherwise change places without getting anywhere), or that sit on a cordoned node
// or a broken GPU. Jobs without
// GPUs are started where they fit and are not counted. A job that no single type
// can hold is told that it can never run.
//
// Inside a round nobody is stopped. Who waits may be given what is free; the
// Rule says who, too.
//
// Sources: Narayanan et al., "Heterogeneity-Aware Cluster Scheduling Policies for
// Deep Learning Workloads", OSDI 2020, section 5; leases: Mahajan et al., "Themis",
// NSDI 2020.
package rounds

import (
	"time"

	"github.com/norn-scheduler/norn/cluster"
	"github.com/norn-scheduler/norn/cluster/unit"
	"github.com/norn-scheduler/norn/job"
	"github.com/norn-scheduler/norn/place"
	"github.com/norn-scheduler/norn/sched"
)

// Grid is a clock of rounds of equal length, which is above zero. Round 0 begins
// with the run.
type Grid time.Duration

// Number is the number of the round that a moment lies in.
func (g Grid) Number(now time.Duration) int64 { return int64(now / time.Duration(g)) }

// Begins tells whether a round begins at a moment.
func (g Grid) Begins(now time.Duration) bool { return now%time.Duration(g) == 0 }

// Start is when a round begins.
func (g Grid) Start(number int64) time.Duration { return time.Duration(number) * time.Duration(g) }

// Next is when the next round begins.
func (g Grid) Next(now time.Duration) time.Duration { return g.Start(g.Number(now) + 1) }

// Rule is who is served.
type Rule interface {
	// Serve takes jobs (Round.Serve) in the order in which they are to be served.
	// It is called where a round begins, and inside one whenever anything happens
	// while jobs wait; Round.Begins tells which.
	Serve(r *Round)
}

// Policy is a policy that serves jobs in rounds. Its fields must not change once
// it is used.
type Policy struct {
	Grid  Grid
	Place place.Strategy // where a gang runs among the devices of one type
	Rule  Rule
	Pairs bool // two jobs may share devices (Round.ServePair)

	Together bool // gangs on one node are told from others (Round.ServeTogether)

	round Round
	deal  deal
}

// Decide implements sched.Policy.
func (r *Policy) Decide(v *sched.View, p *sched.Plan) {
	round := &r.round
	round.open(r, v, p)
	if round.Begins = r.Grid.Begins(v.Now); round.Begins {
		round.gather(true)
		r.Rule.Serve(round)
		r.deal.begin(round)
		return
	}
	if !round.room() {
		return
	}
	round.gather(false)
	if len(round.Jobs) > 0 {
		r.Rule.Serve(round)
		r.deal.fill(round)
	}
}

// NextWake implements sched.Waker: when the next round begins, as long as there
// is anybody to serve.
func (r *Policy) NextWake(v *sched.View) time.Duration {
	for range v.Running() {
		return r.Grid.Next(v.Now)
	}
	for j := range v.Waiting() {
		if !j.Reason().Never() {
			return r.Grid.Next(v.Now)
		}
	}
	return unit.Never
}

// Why implements sched.Explainer.
func (r *Policy) Why(v *sched.View, _ job.ID) job.Reason {
	return job.Reason{Code: job.NotYet, At: r.Grid.Next(v.Now), Job: job.None}
}

// On is a strategy restricted to one GPU type.
func On(where place.Strategy, t cluster.TypeID) place.Strategy { return onType{where, t} }

type onType struct {
	where place.Strategy
	t     cluster.TypeID
}

func (o onType) String() string { return o.where.String() }

func (o onType) Place(r *place.Request) (job.Reason, bool) {
	was := r.Mask
	if !was.Has(o.t) {
		return job.Reason{Code: job.NoSuchType, Job: job.None}, false
	}
	r.Mask = 1 << o.t
	why, ok := o.where.Place(r)
	r.Mask = was
	return why, ok
}

// OneType is a strategy that never mixes GPU types: it tries each type alone, in
// the order in which the job prefers them.
func OneType(where place.Strategy) place.Strategy { return oneType{where} }

type oneType struct{ where place.Strategy }

func (o oneType) String() string { return o.where.String() }

func (o oneType) Place(r *place.Request) (why job.Reason, ok bool) {
	if r.GPUs() == 0 {
		return o.where.Place(r)
	}
	why = job.Reason{Code: job.NoSuchType, Job: job.None}
	r.Demand.EachType(r.Cluster, func(t cluster.TypeID) bool {
		if r.Mask.Has(t) {
			why, ok = onType{o.where, t}.Place(r)
		}
		return !ok
	})
	return why, ok
}
