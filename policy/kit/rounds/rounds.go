// Package rounds is for policies that decide in rounds. A job gets a lease on
// devices of one GPU type, and keeps them if it is served again in the next
// round. When a round begins, the policy decides anew which jobs are served.
//
// Nouns:
//   - A Grid is the clock. Its rounds begin at multiples of their length.
//   - A Round is one round as a Rule sees it. The Rule serves jobs in the order
//     that it chooses.
//   - A Policy is the policy around a Rule. It says which jobs may be served,
//     gives devices to those that were served, and takes them from the others.
//   - A Claim is the share of a job's time for which it shall run on one GPU
//     type.
//   - Shares turns claims into rounds by priorities and deficits.
//
// A Policy keeps nothing between calls. It reads what it needs from the view,
// and Shares notes on the jobs what it must remember (NewNote). A policy that
// uses Policy without Shares may note on jobs what it likes.
//
// Two jobs may share devices, each with a half of them, if Policy.Pairs and
// Shares.Pairs are set. A claim may then belong to a pair. It is noted on one
// of the two jobs, and is served like that of a single job (Round.ServePair).
//
// If Policy.Together and Shares.Together are set, a job may have two claims on
// a type: one on time on a single node, and one on time in which it may be
// spread.
//
// # Which jobs may be served
//
// Jobs are served at the size they ask for, on one GPU type. Some running jobs
// are left alone, and their devices are not given out:
//   - jobs that must not be stopped or would lose their work (job.Pinned,
//     job.Restart, job.LastSave);
//   - jobs that have not made any progress yet since they were started, since
//     otherwise jobs that start slowly would change places for ever;
//   - jobs on a cordoned node or a broken GPU;
//   - jobs that have their devices only to be measured.
//
// Jobs without GPUs are started where they fit and are not counted. A job that
// no single type can hold is told that it can never run.
//
// Inside a round no job is stopped. A waiting job may be given free GPUs; the
// Rule decides which one.
//
// Sources: Narayanan et al., "Heterogeneity-Aware Cluster Scheduling Policies
// for Deep Learning Workloads", OSDI 2020, section 5; leases: Mahajan et al.,
// "Themis", NSDI 2020.
package rounds

import (
	"cmp"
	"slices"
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

// Number is the number of the round in which a moment lies.
func (g Grid) Number(now time.Duration) int64 { return int64(now / time.Duration(g)) }

// Begins tells whether a round begins at a moment.
func (g Grid) Begins(now time.Duration) bool { return now%time.Duration(g) == 0 }

// Start is the moment at which a round begins.
func (g Grid) Start(number int64) time.Duration { return time.Duration(number) * time.Duration(g) }

// Next is the moment at which the next round begins.
func (g Grid) Next(now time.Duration) time.Duration { return g.Start(g.Number(now) + 1) }

// Rule decides which jobs are served.
type Rule interface {
	// Serve serves jobs with Round.Serve, in the order of the rule. It is called
	// when a round begins, and inside a round whenever anything happens while jobs
	// wait. Round.Begins tells the two apart.
	Serve(r *Round)
}

// Policy is a policy that serves jobs in rounds. Its fields must not change once
// it is used.
type Policy struct {
	Grid  Grid
	Place place.Strategy // chooses the devices of a gang among those of one type
	Rule  Rule
	Pairs bool // two jobs may share devices (Round.ServePair)

	Together bool // gangs on one node are told from others (Round.ServeTogether)

	// Site, when set, is the nodes on which a job that was served shall run, in order;
	// none: anywhere. A job that runs elsewhere is moved there.
	Site func(id job.ID) []cluster.NodeID

	round Round
	deal  deal
}

// Decide implements sched.Policy.
func (r *Policy) Decide(v *sched.View, p *sched.Plan) {
	round := &r.round
	round.open(r, v, p)
	if v.NodesChanged() {
		round.reconsider()
	}
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

// NextWake implements sched.Waker. It is the beginning of the next round, as
// long as there are jobs to serve.
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

// FastestFirst lists the GPU types on which a job of so many tasks can run, the one on which
// it is believed to be fastest first, and else in the order in which the job prefers them.
func FastestFirst(v *sched.View, j sched.Job, tasks int) (types []cluster.TypeID) {
	speed := map[cluster.TypeID]float64{}
	v.Class(j.Class()).EachType(v.Cluster(), func(t cluster.TypeID) bool {
		types = append(types, t)
		speed[t] = v.TypeSpeed(j, t, tasks, false)
		return true
	})
	slices.SortStableFunc(types, func(a, b cluster.TypeID) int { return cmp.Compare(speed[b], speed[a]) })
	return types
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

// OneType is a strategy that never mixes GPU types. It tries each type alone,
// in the job's order of preference.
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
