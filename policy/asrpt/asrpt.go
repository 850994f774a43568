// Package asrpt is A-SRPT, prediction-assisted online scheduling of Wang et al., "Prediction-Assisted Online
// Distributed Deep Learning Workload Scheduling in GPU Clusters", INFOCOM 2025 (arXiv 2501.05563). Jobs
// first run on a virtual machine, preemptively and the shortest first. The order in which they are done
// there is the order in which they get GPUs, as gangs that nobody preempts.
//
// Nouns:
//   - The virtual machine is as fast as all GPUs together and works on one job at a time.
//   - The size of a job is its work on it: predicted run time where it is placed best, times its GPUs,
//     divided by all GPUs. It is fixed when the job arrives.
//   - A job is released when it is done on the virtual machine, or at once (Release).
//   - A job is heavy when it is Theta times as fast on few nodes as on many.
//   - A heavy job is held while it would be spread, for at most Tau of its run time there.
//
// Source: of the paper the abstract was at hand. Theta, Tau and the hold are reasoned designs.
package asrpt

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"time"

	"github.com/norn-scheduler/norn/cluster"
	"github.com/norn-scheduler/norn/cluster/unit"
	"github.com/norn-scheduler/norn/job"
	"github.com/norn-scheduler/norn/perf/predict"
	"github.com/norn-scheduler/norn/perf/predict/forest"
	"github.com/norn-scheduler/norn/place"
	"github.com/norn-scheduler/norn/policy/kit/learner"
	"github.com/norn-scheduler/norn/policy/kit/queue"
	"github.com/norn-scheduler/norn/policy/kit/resize"
	"github.com/norn-scheduler/norn/policy/need"
	"github.com/norn-scheduler/norn/policy/param"
	"github.com/norn-scheduler/norn/sched"
)

// Release is when a job may start.
type Release uint8

// The releases.
const (
	OnVirtual Release = iota // when it is done on the virtual machine
	AtOnce                   // as soon as it fits, in the order of what is left on the virtual machine
)

// Source is where predictions come from.
type Source uint8

// The sources of predictions.
const (
	Given  Source = iota // the estimates of the run
	Learnt               // a random forest over the jobs that have ended
)

// Config is the settings of the policy.
type Config struct {
	Release Release
	Predict Source
	Theta   float64 // how much faster a heavy job is where it is placed best
	Tau     float64 // of the run time where it is placed worst: how long a heavy job is held
	Skip    bool
	Forest  forest.Config
	Refresh time.Duration
	Prior   time.Duration
	Place   place.Strategy
}

// NewConfig returns the defaults.
func NewConfig() *Config {
	return &Config{Theta: 1.5, Tau: 0.05, Forest: forest.Defaults(), Refresh: 24 * time.Hour, Prior: time.Hour, Place: place.Pack}
}

// Params binds the settings.
func (c *Config) Params() param.Set {
	return param.Set{
		param.Choice("release", &c.Release, []param.Option[Release]{{Name: "virtual", Value: OnVirtual}, {Name: "at-once", Value: AtOnce}},
			"when a job may start: virtual, when it is done on the virtual machine, as in the paper; at-once, by what is left of it there"),
		param.Choice("predict", &c.Predict, []param.Option[Source]{{Name: "given", Value: Given}, {Name: "learnt", Value: Learnt}},
			"where predictions come from: given by the run (--estimates), or learnt by a random forest from the jobs that have ended"),
		param.Float("theta", &c.Theta, 1, 1000, "ratio", "a job is heavy that is so many times as fast on few nodes as on many"),
		param.Float("tau", &c.Tau, 0, 1, "share", "of its run time when it is spread, for which a heavy job waits for a better place"),
		param.Bool("skip", &c.Skip, "jobs behind one that does not fit may start"),
		param.Int("trees", &c.Forest.Trees, 1, 1000, "trees", "of the forest"),
		param.Int("depth", &c.Forest.Depth, 1, 16, "splits", "depth of a tree"),
		param.Int("leaf", &c.Forest.Leaf, 1, 10_000, "jobs", "in a leaf of a tree, at least"),
		param.Duration("refresh", &c.Refresh, "how often the forest may be grown anew"),
		param.Duration("prior", &c.Prior, "run time that is believed while nothing is known"),
		place.Param(&c.Place),
	}
}

// Needs says what the policy lives on.
func (c *Config) Needs() need.List {
	return need.List(nil).
		If(c.Predict == Given, need.Of(need.RunTimes), fmt.Sprintf("every job is taken to run for %v", c.Prior)).
		If(c.Predict == Learnt, need.Of(need.History), "it does not learn which jobs are alike")
}

// Rows from which a forest is grown, and the share of them that must be new for the next one.
const (
	rows   = 5000
	growth = 0.25
)

// Policy makes the policy.
func (c *Config) Policy() (sched.Policy, error) {
	if err := c.Forest.Check(); err != nil {
		return nil, err
	}
	if c.Refresh <= 0 || c.Prior <= 0 {
		return nil, errors.New("refresh and prior must be above 0")
	}
	own := c.Forest
	l := learner.New(learner.Config{
		Rolling: predict.DefaultRolling(), Smooth: 3, Rows: rows, Least: 10 * own.Leaf, Growth: growth, Refresh: c.Refresh, Prior: c.Prior,
		Grow: func(x, y []float64) (learner.Regressor, error) {
			return forest.Train(own, x, y)
		},
	})
	return newPolicy(*c, l), nil
}

type policy struct {
	cfg        Config
	learner    *learner.Learner // shared between pools
	virtual    *machine
	queue      queue.Queue // released jobs, by rank
	infeasible sched.Infeasible

	changed []job.ID      // whose notes are to be written
	until   time.Duration // the first moment at which a job is no longer held
	kept    cluster.Alloc // on what the first job that is held is to start
	keeps   bool          // kept counts
	blocked job.ID        // the first job that does not fit
}

func newPolicy(c Config, l *learner.Learner) *policy {
	return &policy{cfg: c, learner: l, virtual: newMachine(), blocked: job.None}
}

// Divide implements sched.Divider: pools learn from all jobs, and have a virtual machine each.
func (o *policy) Divide() sched.Policy { return newPolicy(o.cfg, o.learner) }

// note is what is remembered of a job.
type note struct {
	run   time.Duration // that is predicted of the job, where it is placed best
	left  time.Duration // on the virtual machine, when the job last began or ceased to run there
	since time.Duration // since when the virtual machine works on it; -1: it does not
	done  time.Duration // when it was done there; -1: it is not
	held  time.Duration // since when it has been held; -1: it was not
}

// NewNote is a note of this policy, for the table of policies.
func NewNote() sched.Note { return &note{since: -1, done: -1, held: -1} }

// Kind implements sched.Note.
func (n *note) Kind() string { return "a-srpt" }

// Fields implements sched.Note.
func (n *note) Fields(f *sched.Fields) {
	f.Duration("run", &n.run)
	f.Duration("left", &n.left)
	f.Moment("since", &n.since)
	f.Moment("done", &n.done)
	f.Moment("held", &n.held)
}

// Decide implements sched.Policy.
func (o *policy) Decide(v *sched.View, p *sched.Plan) {
	if o.cfg.Predict == Learnt {
		o.learner.Follow(v)
	}
	if v.First {
		o.recall(v)
	}
	o.virtual.advance(v.Now, func(id job.ID, at time.Duration) { o.done(v, p, id, at) }, o.note)
	o.follow(v, p)
	o.order(v, o.virtual.running) // of which less is left than when it got its place
	o.start(v, p)
	slices.Sort(o.changed)
	for _, id := range slices.Compact(o.changed) {
		if o.virtual.has(id) {
			o.remember(p, v.Job(id))
		}
	}
	o.changed = o.changed[:0]
}

// note has the note of a job written at the end of the decision.
func (o *policy) note(id job.ID) { o.changed = append(o.changed, id) }

// remember writes the note of a job on the virtual machine.
func (o *policy) remember(p *sched.Plan, j sched.Job) {
	n, _ := sched.Noted[note](p, j)
	n.left, n.since, n.done = o.virtual.of(j.ID), -1, -1
	if j.ID == o.virtual.running {
		n.left, n.since = o.virtual.began, o.virtual.since
	}
	p.Remember(j.ID, &n)
}

// recall puts jobs back on the virtual machine that were on it before this policy was made.
func (o *policy) recall(v *sched.View) {
	o.virtual.clock = v.Now
	for id := range job.ID(v.Jobs()) {
		j := v.Job(id)
		n, ok := sched.Recall[note](j)
		switch {
		case !ok || n.done >= 0 || gone(j) || !v.Covers(j):
		case n.since >= 0:
			o.virtual.clock = n.since
			o.virtual.run(id, n.left)
		default:
			o.virtual.rest.Add(id, 0, queue.Key{A: int64(n.left)})
		}
	}
	if o.virtual.running == job.None { // that on which it worked has just left
		o.virtual.next(o.note)
	}
}

// follow takes in what happened since the last decision.
func (o *policy) follow(v *sched.View, p *sched.Plan) {
	for _, id := range o.infeasible.Reconsider(v) {
		o.add(v, p, v.Job(id))
	}
	for _, ch := range v.Changes() {
		switch ch.Kind {
		case sched.Arrived, sched.Stopped:
			o.add(v, p, v.Job(ch.Job))
		case sched.Ended:
			o.queue.Remove(ch.Job)
			o.infeasible.Remove(ch.Job)
			if o.virtual.has(ch.Job) && gone(v.Job(ch.Job)) {
				o.virtual.remove(ch.Job, o.rank(v))
			}
		}
	}
}

// gone tells whether a job has left for good. One that somebody holds stays on the virtual machine.
func gone(j sched.Job) bool { return j.Phase().Over() }

// add takes in a job that waits from now on.
func (o *policy) add(v *sched.View, p *sched.Plan, j sched.Job) {
	o.queue.Remove(j.ID)
	o.infeasible.Remove(j.ID)
	if o.infeasible.Rejects(p, j.ID, o.cfg.Place) {
		return // if it is on the virtual machine, it stays there
	}
	n, known := sched.Noted[note](p, j)
	if known && n.done >= 0 {
		o.release(j, n.done)
		return
	}
	if !o.virtual.has(j.ID) {
		if !known {
			run, err := o.predict(v, j)
			if err != nil {
				p.Invalidate(err)
			}
			n = note{run: run, left: size(v, j, run), since: -1, done: -1, held: -1}
			p.Remember(j.ID, &n)
		}
		o.virtual.add(j.ID, n.left, o.rank(v))
		o.note(j.ID)
	}
	o.order(v, j.ID)
}

// rank gives a job whose place on the virtual machine has changed its place in the queue.
func (o *policy) rank(v *sched.View) func(job.ID) {
	return func(id job.ID) {
		o.note(id)
		o.order(v, id)
	}
}

// order gives a job on the virtual machine its place in the queue.
func (o *policy) order(v *sched.View, id job.ID) {
	if o.cfg.Release != AtOnce || id == job.None || !v.Job(id).Waiting() || o.infeasible.Has(id) {
		return
	}
	running := int64(1)
	if id == o.virtual.running {
		running = 0
	}
	o.queue.Add(id, v.Job(id).Class(), queue.Key{A: int64(o.virtual.of(id)), B: running})
}

// done takes in that a job is done on the virtual machine.
func (o *policy) done(v *sched.View, p *sched.Plan, id job.ID, at time.Duration) {
	j := v.Job(id)
	if gone(j) {
		return
	}
	n, _ := sched.Noted[note](p, j)
	n.left, n.since, n.done = 0, -1, at
	p.Remember(id, &n)
	if j.Waiting() && !o.infeasible.Has(id) {
		o.release(j, at)
	}
}

// release puts a job that was done on the virtual machine at some time before those that are not.
func (o *policy) release(j sched.Job, done time.Duration) {
	o.queue.Add(j.ID, j.Class(), queue.Key{A: int64(done) - math.MaxInt64/2})
}

// predict is the run time that is predicted of a job, where it is placed best.
func (o *policy) predict(v *sched.View, j sched.Job) (time.Duration, error) {
	if o.cfg.Predict == Learnt {
		seconds, err := o.learner.Predict(j.Spec())
		return time.Duration(min(seconds*1e9, math.MaxInt64/4)), err
	}
	best, _ := speeds(v, j)
	if left, ok := j.Remaining(); ok && best > 0 {
		return time.Duration(min(float64(left)/best, math.MaxInt64/4)), nil
	}
	return o.cfg.Prior, nil
}

// size is the work on the virtual machine of a job that runs so long.
func size(v *sched.View, j sched.Job, run time.Duration) time.Duration {
	d := j.Spec().Demand
	gpus := float64(d.Milli(d.Roles[0].Tasks)) / float64(unit.One)
	return time.Duration(max(1, math.Round(min(float64(run)*gpus/float64(max(1, v.Total())), math.MaxInt64/4))))
}

// speeds are those of a job where it is placed best, on as few nodes as can be, and where it is spread.
func speeds(v *sched.View, j sched.Job) (best, worst float64) {
	tasks := int(j.Spec().Demand.Roles[0].Tasks)
	best = resize.BestSpeed(v, j, tasks, resize.LargestNode(v, j))
	return best, resize.BestSpeed(v, j, tasks, 0)
}

// start starts jobs in order.
func (o *policy) start(v *sched.View, p *sched.Plan) {
	o.blocked, o.until, o.keeps = job.None, unit.Never, false
	o.queue.Walk(nil, func(id job.ID) queue.Step {
		j := v.Job(id)
		heavy, until := o.patience(v, p, j)
		if o.place(p, id, heavy, until > v.Now) {
			return queue.Took
		}
		if until > v.Now && o.hold(v, p, j, until) {
			return queue.SkipJob
		}
		if o.blocked == job.None {
			o.blocked = id
		}
		if o.cfg.Skip {
			return queue.SkipClass
		}
		return queue.Stop
	})
}

// place starts a job, beside what is kept for one that is held: a heavy one on as few nodes as can be,
// and, if it need not wait for that, wherever Place finds.
func (o *policy) place(p *sched.Plan, id job.ID, heavy, waits bool) (ok bool) {
	try := func() { ok = heavy && p.Start(id, place.Consolidated) || !waits && p.Start(id, o.cfg.Place) }
	if o.keeps {
		p.Without(&o.kept, try)
	} else {
		try()
	}
	return ok
}

// patience tells whether it matters to a job how it is placed, and until when it then waits for a better
// place: for Tau of its run time where it is spread, from when it was first held.
func (o *policy) patience(v *sched.View, p *sched.Plan, j sched.Job) (heavy bool, until time.Duration) {
	best, worst := speeds(v, j)
	if worst <= 0 || best/worst <= o.cfg.Theta {
		return false, 0
	}
	n, ok := sched.Noted[note](p, j)
	if !ok {
		return true, 0
	}
	from := v.Now
	if n.held >= 0 {
		from = n.held
	}
	return true, from + time.Duration(min(o.cfg.Tau*float64(n.run)*best/worst, math.MaxInt64/4))
}

// hold has a heavy job wait until then that would fit now, but spread. The place where it is expected to
// fit is kept for it, if no other job is held. The result is false where it is not to be held.
func (o *policy) hold(v *sched.View, p *sched.Plan, j sched.Job, until time.Duration) bool {
	if _, fits := p.Fits(j.ID, o.cfg.Place); !fits {
		return false
	}
	if n, _ := sched.Noted[note](p, j); n.held < 0 {
		n.held = v.Now
		p.Remember(j.ID, &n)
	}
	p.Wait(j.ID, job.Reason{Code: job.NotYet, At: until, Job: job.None})
	o.until = min(o.until, until)
	if !o.keeps {
		if _, on, ok := p.Expect(j.ID, place.Consolidated); ok {
			o.keeps = true
			o.kept.CopyFrom(on)
		}
	}
	return true
}

// NextWake implements sched.Waker: when the next job is done on the virtual machine, and when a job
// is no longer held.
func (o *policy) NextWake(v *sched.View) time.Duration {
	at := o.until
	if next, ok := o.virtual.completion(); ok {
		at = min(at, next)
	}
	if at <= v.Now {
		return unit.Never
	}
	return at
}

// Why implements sched.Explainer.
func (o *policy) Why(v *sched.View, id job.ID) job.Reason {
	if !o.queue.Has(id) && o.virtual.has(id) {
		return job.Reason{Code: job.NotYet, Job: job.None, At: v.Now + o.virtual.of(id)} // if nobody comes before it
	}
	if o.blocked != job.None && o.blocked != id {
		return job.Reason{Code: job.Behind, Job: o.blocked}
	}
	return job.Reason{Code: job.NeedGPUs, Need: int32(v.Job(id).GPUs()), Have: int32(v.Free()), Job: job.None}
}
