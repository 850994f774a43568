// Package helios is quasi-shortest-service-first (QSSF) of Hu et al.,
// "Characterization and Prediction of Deep Learning Workloads in Large-Scale
// GPU Datacenters", SC 2021, section 4.2. The cost of a job is predicted from
// the jobs that have ended, and the cheapest job goes first. Nobody is
// preempted, and the first job that does not fit makes everyone behind it wait.
//
// Nouns:
//   - The service of a job is GPUs x run time, in GPU-seconds.
//   - Its rank is the service that is predicted when it begins to wait.
//   - The rolling estimate looks at similar jobs of the same user
//     (predict.History).
//   - The learnt estimate comes from gradient-boosted trees over all jobs
//     (predict/boost).
//   - A refresh is a moment, a multiple of the refresh time, at which the trees
//     are grown anew and the waiting jobs are ranked again.
package helios

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"time"

	"github.com/norn-scheduler/norn/cluster/unit"
	"github.com/norn-scheduler/norn/job"
	"github.com/norn-scheduler/norn/perf/predict"
	"github.com/norn-scheduler/norn/perf/predict/boost"
	"github.com/norn-scheduler/norn/place"
	"github.com/norn-scheduler/norn/policy/kit/learner"
	"github.com/norn-scheduler/norn/policy/kit/queue"
	"github.com/norn-scheduler/norn/policy/need"
	"github.com/norn-scheduler/norn/policy/param"
	"github.com/norn-scheduler/norn/sched"
)

// Source is where predictions come from.
type Source uint8

// The sources of predictions.
const (
	Learnt Source = iota // the policy's own, from the jobs that have ended
	Given                // the estimates of the run
	Told                 // the trace, and the policy's own where it tells none
)

// Config is the settings of the policy.
type Config struct {
	Predict Source
	Lambda  float64         // weight of the rolling estimate, the trees have the rest
	Rolling predict.Rolling // the rolling estimate
	Trees   boost.Config    // the trees
	Smooth  float64         // jobs by which a category's mean is drawn to that of all
	Rows    int             // jobs from which trees are grown, the last to end
	Growth  float64         // trees are grown anew when so much of that is new
	Refresh time.Duration
	Prior   time.Duration // run time that is believed while no job has ended
	Age     time.Duration // wait after which a job is served first; unit.Never: off
	Block   bool
	Place   place.Strategy
}

// NewConfig returns the defaults.
func NewConfig() *Config {
	return &Config{
		Lambda: 0.1, Rolling: predict.DefaultRolling(), Trees: boost.Defaults(), Smooth: 20, Rows: 20_000, Growth: 0.25,
		Refresh: 24 * time.Hour, Prior: time.Hour, Age: unit.Never, Block: true, Place: place.Consolidated,
	}
}

// Params binds the settings.
func (c *Config) Params() param.Set {
	return param.Set{
		param.Choice("predict", &c.Predict, []param.Option[Source]{{Name: "learnt", Value: Learnt}, {Name: "given", Value: Given}, {Name: "told", Value: Told}},
			"where predictions come from: learnt from the jobs that have ended, given by the run (--estimates), or told by the trace"),
		param.Float("lambda", &c.Lambda, 0, 1, "share", "weight of the rolling estimate; the trees have the rest"),
		param.Float("name_cutoff", &c.Rolling.Cutoff, 0, 1, "similarity", "job names that are at least so similar count as similar"),
		param.Int("matches", &c.Rolling.Matches, 1, 1000, "names", "how many similar names count"),
		param.Float("decay", &c.Rolling.Decay, 0.01, 1, "ratio", "weight of a job in the rolling estimate relative to the next one after it"),
		param.Duration("window", &c.Rolling.Window, "jobs of a user submitted longer ago are forgotten"),
		param.Int("records", &c.Rolling.Records, 1, 1_000_000, "jobs", "how many jobs of a user are remembered"),
		param.Int("trees", &c.Trees.Trees, 0, boost.MaxTrees, "trees", "how many trees are grown"),
		param.Int("depth", &c.Trees.Depth, 1, boost.MaxDepth, "splits", "depth of a tree"),
		param.Int("leaf", &c.Trees.Leaf, 1, boost.MaxRows, "jobs", "in a leaf of a tree, at least"),
		param.Float("rate", &c.Trees.Rate, 1e-4, 1, "share", "how much of what is left a tree explains"),
		param.Float("smooth", &c.Smooth, 0, 1e9, "jobs", "by which the mean of a user, tenant or name is drawn to that of all"),
		param.Int("rows", &c.Rows, 1, boost.MaxRows, "jobs", "from which trees are grown, the last to end"),
		param.Float("growth", &c.Growth, 0, 1e9, "share", "trees are grown anew when so much of what they were grown from is new"),
		param.Duration("refresh", &c.Refresh, "how often trees may be grown anew and waiting jobs are ranked again"),
		param.Duration("prior", &c.Prior, "run time that is believed while no job has ended"),
		param.Duration("age", &c.Age, "wait after which a job is served first; its rank falls evenly until then, refresh by refresh"),
		param.Bool("block", &c.Block, "a job that does not fit blocks those behind it instead of being skipped"),
		place.Param(&c.Place),
	}
}

// Needs says what the policy lives on.
func (c *Config) Needs() need.List {
	return need.List(nil).
		If(c.Predict == Learnt, need.Of(need.History), "it does not learn which jobs are alike").
		If(c.Predict == Given, need.Of(need.RunTimes), fmt.Sprintf("every job is taken to run for %v", c.Prior)).
		If(c.Predict == Told, need.Of(need.Predictions), "it acts as qssf(predict=learnt)")
}

// Policy makes the policy.
func (c *Config) Policy() (sched.Policy, error) {
	if err := errors.Join(c.Rolling.Check(), c.Trees.Check()); err != nil {
		return nil, err
	}
	if c.Refresh <= 0 || c.Age <= 0 {
		return nil, fmt.Errorf("refresh and age must be above 0")
	}
	trees := c.Trees
	return &policy{cfg: *c, learner: learner.New(learner.Config{
		Lambda: c.Lambda, Rolling: c.Rolling, Smooth: c.Smooth, Rows: c.Rows, Least: 2 * trees.Leaf, Growth: c.Growth, Refresh: c.Refresh, Prior: c.Prior,
		Grow: func(x, y []float64) (learner.Regressor, error) { return boost.Train(trees, x, y) },
	})}, nil
}

type policy struct {
	cfg        Config
	learner    *learner.Learner // shared between pools
	queue      queue.Queue
	infeasible sched.Infeasible
	blocked    job.ID
	ranks      []int64       // of waiting jobs, in GPU-microseconds
	epoch      time.Duration // of the last decision
	fresh      []job.ID      // that begin to wait now
	ranked     []job.ID      // in this decision
}

// Divide implements sched.Divider: pools learn from all jobs.
func (q *policy) Divide() sched.Policy { return &policy{cfg: q.cfg, learner: q.learner} }

// Decide implements sched.Policy.
func (q *policy) Decide(v *sched.View, p *sched.Plan) {
	if q.cfg.Predict != Given {
		q.learner.Follow(v)
	}
	q.blocked = job.None
	q.ranked = q.ranked[:0]
	q.follow(v, p)
	if q.queue.Len() == 0 && len(q.fresh) == 1 && p.Start(q.fresh[0], q.cfg.Place) {
		return // nobody to be ranked against
	}
	for _, id := range q.fresh {
		q.add(v, p, v.Job(id))
	}
	q.queue.Walk(nil, func(id job.ID) queue.Step {
		switch {
		case p.Start(id, q.cfg.Place):
			return queue.Took
		case q.cfg.Block:
			q.blocked = id
			return queue.Stop
		}
		return queue.SkipClass
	})
	slices.Sort(q.ranked)
	for _, id := range slices.Compact(q.ranked) {
		if q.queue.Has(id) {
			p.Remember(id, &note{rank: q.ranks[id], at: v.Now})
		}
	}
}

// note is what is remembered of a waiting job that was ranked.
type note struct {
	rank int64         // its place in the order
	at   time.Duration // when it was ranked
}

// NewNote is a note of this policy, for the table of policies.
func NewNote() sched.Note { return &note{at: -1} }

// Kind implements sched.Note.
func (n *note) Kind() string { return "qssf" }

// Fields implements sched.Note.
func (n *note) Fields(f *sched.Fields) {
	sched.Int(f, "rank", &n.rank)
	f.Moment("at", &n.at)
}

// follow takes in what happened since the last decision.
func (q *policy) follow(v *sched.View, p *sched.Plan) {
	for len(q.ranks) < v.Jobs() {
		q.ranks = append(q.ranks, make([]int64, max(256, v.Jobs()-len(q.ranks), len(q.ranks)))...)
	}
	q.fresh = q.fresh[:0]
	for _, id := range q.infeasible.Reconsider(v) {
		q.wait(p, id)
	}
	for _, ch := range v.Changes() {
		switch ch.Kind {
		case sched.Arrived, sched.Stopped:
			q.wait(p, ch.Job)
		case sched.Altered:
			if q.cfg.Predict == Given && q.queue.Has(ch.Job) {
				q.add(v, p, v.Job(ch.Job))
			}
		case sched.Ended:
			q.queue.Remove(ch.Job)
			q.infeasible.Remove(ch.Job)
			q.fresh = slices.DeleteFunc(q.fresh, func(id job.ID) bool { return id == ch.Job }) // it came and left at once
		}
	}
	if epoch := v.Now / q.cfg.Refresh; epoch != q.epoch {
		q.epoch = epoch
		for j := range v.Waiting() {
			if q.queue.Has(j.ID) {
				q.add(v, p, j)
			}
		}
	}
}

// wait notes a job that begins to wait.
func (q *policy) wait(p *sched.Plan, id job.ID) {
	q.infeasible.Remove(id)
	if !q.infeasible.Rejects(p, id, q.cfg.Place) {
		q.fresh = append(q.fresh, id)
	}
}

// add puts a job into the queue by its rank, ties by size. Its rank is reduced
// by its wait up to the last refresh, so the order stays as it is in between.
func (q *policy) add(v *sched.View, p *sched.Plan, j sched.Job) {
	rank, err := q.rank(v, j)
	if err != nil {
		p.Invalidate(err)
	}
	q.ranks[j.ID] = rank
	if q.cfg.Age != unit.Never {
		waited := max(0, q.lastRefresh(v)-j.Submit())
		rank = bounded(float64(rank) * (1 - float64(waited)/float64(q.cfg.Age)))
	}
	q.queue.Add(j.ID, j.Class(), queue.Key{A: rank, B: int64(milli(j))})
}

// rank is what was written on the job since it began to wait and since the last
// refresh, or else the service predicted now.
func (q *policy) rank(v *sched.View, j sched.Job) (int64, error) {
	own := q.cfg.Predict == Learnt
	switch hints := j.Spec().Hints; q.cfg.Predict {
	case Given:
		d, ok := j.Estimate()
		if !ok {
			d = q.cfg.Prior
		}
		return service(d.Seconds(), j), nil
	case Told:
		if own = hints == nil || !hints.HasRank; !own {
			return service(hints.Rank, j), nil
		}
	}
	if n, noted := sched.Recall[note](j); noted && n.at >= j.Since() && n.at >= q.lastRefresh(v) {
		return n.rank, nil
	}
	seconds, err := q.learner.Predict(j.Spec())
	if err == nil && own {
		q.ranked = append(q.ranked, j.ID)
	}
	return service(seconds, j), err
}

// NextWake implements sched.Waker: jobs that wait are ranked again at a refresh.
func (q *policy) NextWake(v *sched.View) time.Duration {
	changes := q.cfg.Predict != Given || q.cfg.Age != unit.Never
	if q.queue.Len() == 0 || !changes || v.Now > unit.Never-q.cfg.Refresh {
		return unit.Never
	}
	return (v.Now/q.cfg.Refresh + 1) * q.cfg.Refresh
}

// Why implements sched.Explainer.
func (q *policy) Why(v *sched.View, id job.ID) job.Reason {
	if q.blocked != job.None && q.blocked != id {
		return job.Reason{Code: job.Behind, Job: q.blocked}
	}
	return job.Reason{Code: job.NeedGPUs, Need: int32(v.Job(id).GPUs()), Have: int32(v.Free()), Job: job.None}
}

// lastRefresh is the moment of the last refresh, or 0.
func (q *policy) lastRefresh(v *sched.View) time.Duration {
	return v.Now / q.cfg.Refresh * q.cfg.Refresh
}

func milli(j sched.Job) unit.Milli {
	d := j.Spec().Demand
	return d.Milli(d.Roles[0].Tasks)
}

// service is run time x GPUs, in GPU-microseconds.
func service(seconds float64, j sched.Job) int64 {
	return bounded(seconds * 1e6 * float64(milli(j)) / float64(unit.One))
}

// bounded keeps sums and products of ranks from overflowing.
func bounded(v float64) int64 {
	const most = math.MaxInt64 / 8
	return int64(math.Round(min(max(v, -most), most)))
}
