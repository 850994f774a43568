// Package lucid profiles new jobs for a short time on nodes of their own, which
// most of the short ones do not outlive. It orders the others by GPU time
// predicted from history. It lets two jobs share GPUs if they will hardly
// disturb each other. Source: Hu et al., "Lucid: A Non-intrusive, Scalable and
// Interpretable Scheduler for Deep Learning Training Jobs", ASPLOS 2023. Nobody
// is preempted but at the end of the profiling, or when a pair uses more of its
// GPUs than its jobs told.
//
// Nouns:
//   - The score of a job is how much it disturbs others (Analyser).
//   - Its rank is the predicted run time times GPUs, in GPU-seconds.
//   - A partner is a running job that has its GPUs for itself.
//   - The forecast is the mean number of jobs that will come in each of the
//     next steps of ten minutes.
//
// All predictions are functions of the past: of the jobs that ended before the last
// refresh, and of those that came before the last step.
package lucid

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	"github.com/norn-scheduler/norn/cluster"
	"github.com/norn-scheduler/norn/cluster/unit"
	"github.com/norn-scheduler/norn/job"
	"github.com/norn-scheduler/norn/perf/predict/boost"
	"github.com/norn-scheduler/norn/place"
	"github.com/norn-scheduler/norn/policy/kit/beside"
	"github.com/norn-scheduler/norn/policy/need"
	"github.com/norn-scheduler/norn/policy/param"
	"github.com/norn-scheduler/norn/sched"
	"github.com/norn-scheduler/norn/state"
)

// Source is where predicted run times come from.
type Source uint8

// The sources.
const (
	Learnt Source = iota // the policy's own
	Given                // the estimates of the run
)

// Names is what counts of the name of a job.
type Names uint8

// The criteria.
const (
	Alike Names = iota // the group of names that are alike
	Plain              // the name
)

// Packing is when jobs share.
type Packing uint8

// The modes.
const (
	ByForecast Packing = iota
	Always
	Never
)

// Config is the settings of the policy.
type Config struct {
	Predict  Source
	Trees    boost.Config
	Rows     int
	Smooth   float64
	Monotone bool // predictions never fall with GPUs
	Names    Names
	Refresh  time.Duration
	Prior    time.Duration

	Profile     float64 // part of the nodes of a pool that is the profiler's
	ProfileTime time.Duration
	ProfileGPUs int
	Lend        Lend

	Packing  Packing
	Quiet    float64 // forecast up to which nobody shares
	Calm     float64 // forecast up to which scores may sum to 1 only
	Analyser Analyser
	Scores   int
	Memory   float64 // GiB of a GPU whose memory is not told
	Ratio    float64
	Check    time.Duration
	Unstable float64
	Watch    time.Duration
	Place    place.Strategy
}

// NewConfig returns the defaults, those of the published code where it has them.
func NewConfig() *Config {
	trees := boost.Config{Trees: 300, Depth: 1, Leaf: 10, Bins: 64, Rate: 0.1}
	return &Config{
		Trees: trees, Rows: 20_000, Smooth: 5, Monotone: true, Refresh: 12 * time.Hour, Prior: time.Hour,
		Profile: 0.015, ProfileTime: 200 * time.Second, ProfileGPUs: 8,
		Lend:  Lend{Nodes: 1, Above: 10, Every: 10 * time.Second, Below: 5, Back: 100 * time.Second, Ahead: 5},
		Quiet: 2, Analyser: Analyser{Tiny: 0.3, Medium: 0.65, Large: 10 * unit.GiB}, Scores: 2, Memory: 24, Ratio: 2, Check: 100 * time.Second,
		Unstable: 0.2, Watch: state.UsedWindow, Place: place.Consolidated,
	}
}

// Params binds the settings.
func (c *Config) Params() param.Set {
	return param.Set{
		param.Choice("predict", &c.Predict, []param.Option[Source]{{Name: "learnt", Value: Learnt}, {Name: "given", Value: Given}},
			"where predicted run times come from: learnt from the jobs that have ended, or given by the run (--estimates)"),
		param.Int("trees", &c.Trees.Trees, 0, boost.MaxTrees, "trees", "of one split each, that run times are predicted with"),
		param.Int("rows", &c.Rows, 1, boost.MaxRows, "jobs", "that are learnt from, the last to end"),
		param.Float("smooth", &c.Smooth, 0, 1e9, "jobs", "by which the mean of a user, tenant or name is drawn to that of all"),
		param.Bool("monotone", &c.Monotone, "the predicted run time never falls with the number of GPUs"),
		param.Choice("names", &c.Names, []param.Option[Names]{{Name: "alike", Value: Alike}, {Name: "plain", Value: Plain}},
			"what counts of the names of jobs, less their digits: groups of names that are alike, or each name"),
		param.Duration("refresh", &c.Refresh, "how often run times are learnt anew and waiting jobs ranked again"),
		param.Duration("prior", &c.Prior, "run time that is believed while no job has ended"),
		param.Float("profile", &c.Profile, 0, 1, "share", "of the nodes of a partition that is kept for measuring new jobs, rounded; never all of them"),
		param.Duration("profile-time", &c.ProfileTime, "after which a job that is measured makes room"),
		param.Int("profile-gpus", &c.ProfileGPUs, 0, 1_000_000, "GPUs", "of a job that is measured, at most"),
		param.Int("lend", &c.Lend.Nodes, 0, 1_000_000, "nodes", "of a partition, at most, that are lent to the profiler at a time while many jobs wait to be measured"),
		param.Int("lend-above", &c.Lend.Above, 0, 1_000_000, "jobs", "that wait to be measured, beyond which a node is lent"),
		param.Duration("lend-every", &c.Lend.Every, "how often it is seen whether a node is to be lent"),
		param.Int("return-below", &c.Lend.Below, 0, 1_000_000, "jobs", "that wait to be measured, below which an idle node that was lent is given back"),
		param.Duration("return-every", &c.Lend.Back, "how often it is seen whether a node is to be given back"),
		param.Float("return-ahead", &c.Lend.Ahead, 0, 1e9, "times profile-gpus", "that are foreseen to be asked for in ten minutes, up to which a node is given back"),
		param.Choice("packing", &c.Packing, []param.Option[Packing]{{Name: "forecast", Value: ByForecast}, {Name: "on", Value: Always}, {Name: "off", Value: Never}},
			"when jobs share GPUs: while many are foreseen to come, always, or never"),
		param.Float("quiet", &c.Quiet, 0, 1e9, "jobs", "foreseen for each ten minutes up to which nobody shares"),
		param.Float("calm", &c.Calm, 0, 1e9, "jobs", "foreseen up to which the scores of a pair sum to 1 at most; the published code knows no such mode"),
		param.Float("tiny", &c.Analyser.Tiny, 0, 1, "share", "use of a GPU up to which a job disturbs nobody (score 0)"),
		param.Float("medium", &c.Analyser.Medium, 0, 1, "share", "use of a GPU up to which a job disturbs others a little (score 1)"),
		param.Int("scores", &c.Scores, 0, 4, "points", "that the scores of a pair may sum to"),
		param.Float("memory", &c.Memory, 0, 1e6, "GiB", "of a GPU whose memory is not told"),
		param.Float("ratio", &c.Ratio, 0, 1e9, "ratio", "of the predicted GPU time of a job to that of its partner, at most"),
		param.Duration("check", &c.Check, "how often those who wait look for partners, beside when something happens"),
		param.Float("unstable", &c.Unstable, 0, 1, "share", "of a shared GPU's time, or memory, that is used beyond what its two jobs told, up to which they stay together; 0: whatever is used"),
		param.Duration("watch", &c.Watch, "for which the use of a shared GPU is looked at, a minute at most"),
		place.Param(&c.Place),
	}
}

// Needs says what the policy lives on.
func (c *Config) Needs() need.List {
	return need.List(nil).
		If(c.Packing != Never, need.Of(need.Use), "no two jobs share GPUs").
		If(c.Packing != Never, need.Of(need.Memory), "no two jobs share GPUs").
		If(c.Predict == Learnt, need.Of(need.History), "it does not learn which jobs are alike").
		If(c.Predict != Learnt, need.Of(need.RunTimes), fmt.Sprintf("every job is taken to run for %v", c.Prior))
}

// Policy makes the policy.
func (c *Config) Policy() (sched.Policy, error) {
	if err := c.Trees.Check(); err != nil {
		return nil, err
	}
	for _, d := range []struct {
		name string
		is   time.Duration
	}{{"refresh", c.Refresh}, {"check", c.Check}, {"watch", c.Watch}, {"profile-time", c.ProfileTime}, {"lend-every", c.Lend.Every}, {"return-every", c.Lend.Back}} {
		if d.is <= 0 {
			return nil, fmt.Errorf("%s must be above 0s", d.name)
		}
	}
	more := c.Trees
	more.Depth = 3
	return &policy{
		cfg: *c, throughput: &throughput{trees: more}, requests: &throughput{trees: more, gpus: true},
		estimator: &estimator{trees: c.Trees, refresh: c.Refresh, rows: c.Rows, smooth: c.Smooth, prior: c.Prior, monotone: c.Monotone, alike: c.Names == Alike},
	}, nil
}

type policy struct {
	cfg        Config
	estimator  *estimator  // shared between pools
	throughput *throughput // of jobs; shared between pools
	requests   *throughput // of GPUs that they ask for; shared between pools

	known    []known // by job
	queue    []waiting
	runs     followed
	lonely   map[seeker]unit.Bytes   // who found no partner in this decision: the least memory that they take of a GPU
	reserved []bool                  // by node: it is the profiler's, its own or lent
	profiles bool                    // there are such nodes
	loans    []loan                  // nodes that are lent to it
	wants    bool                    // it waits for the moment at which a node may be lent
	refused  map[int32]bool          // classes that have no room outside the profiler in this decision
	busy     map[cluster.PoolID]bool // whether jobs run outside the profiler, by pool, where that was asked
	mixed    map[cluster.PoolID]bool // pools with nodes that have several groups of GPUs
	version  uint64                  // of the cluster, for which that holds
	spots    []spot
	found    []cluster.DeviceID
	alloc    cluster.Alloc
	why      job.Reason // for which the last job was not started
	blocked  job.ID
	failed   error // of learning
}

// known is a predicted run time, and the refresh for which it holds.
type known struct {
	epoch   time.Duration
	seconds float64
}

type waiting struct {
	id   job.ID
	rank float64
}

// Divide implements sched.Divider: pools learn from all jobs.
func (l *policy) Divide() sched.Policy {
	return &policy{cfg: l.cfg, estimator: l.estimator, throughput: l.throughput, requests: l.requests}
}

// Decide implements sched.Policy.
func (l *policy) Decide(v *sched.View, p *sched.Plan) {
	l.decide(v, p)
	if l.failed != nil {
		p.Invalidate(l.failed)
	}
}

func (l *policy) decide(v *sched.View, p *sched.Plan) {
	l.failed = nil
	l.follow(v)
	l.reserve(v)
	l.release(v, p)
	l.part(v, p)
	l.restore(v, p)
	l.line(v, p)
	l.refused, l.busy, l.lonely = map[int32]bool{}, map[cluster.PoolID]bool{}, map[seeker]unit.Bytes{}
	l.blocked = job.None
	if len(l.queue) == 0 {
		return
	}
	scores := l.scores(v)
	for _, w := range l.queue {
		j := v.Job(w.id)
		if scores >= 0 && l.share(v, p, j, w.rank, scores) || l.start(v, p, j) {
			continue
		}
		if l.cfg.Predict == Learnt && j.Since() == v.Now {
			p.Wait(w.id, l.waits(j, l.why))
		}
		if scores < 0 {
			l.blocked = w.id
			return
		}
	}
}

// waits is why a job that has just come waits, and what it is predicted to take.
func (l *policy) waits(j sched.Job, why job.Reason) job.Reason {
	return beside.Because("%v; it is %s", why, l.estimator.explain(j.Spec()))
}

// scores is what the scores of a pair may sum to now; negative: nobody shares.
func (l *policy) scores(v *sched.View) int {
	switch l.cfg.Packing {
	case Always:
		return l.cfg.Scores
	case Never:
		return -1
	}
	next, err := l.throughput.next(v)
	switch {
	case err != nil || next <= l.cfg.Quiet:
		return -1
	case next <= l.cfg.Calm:
		return min(1, l.cfg.Scores)
	}
	return l.cfg.Scores
}

// rank is the predicted GPU time of a job in GPU-seconds. Nothing is learnt while nobody asks.
func (l *policy) rank(v *sched.View, j sched.Job) float64 {
	seconds := l.cfg.Prior.Seconds()
	if l.cfg.Predict == Learnt {
		if err := l.estimator.at(v); err != nil {
			l.failed = err
		}
		for int(j.ID) >= len(l.known) {
			l.known = append(l.known, make([]known, max(256, len(l.known)))...)
		}
		k := &l.known[j.ID]
		if k.epoch != l.estimator.epoch {
			*k = known{l.estimator.epoch, l.estimator.seconds(j.Spec())}
		}
		seconds = k.seconds
	} else if d, ok := j.Estimate(); ok {
		seconds = d.Seconds()
	}
	return seconds * float64(j.GPUs())
}

// line ranks those who wait. New jobs go to the profiler first, those with the
// fewest GPUs before others, until one has no room.
func (l *policy) line(v *sched.View, p *sched.Plan) {
	var fresh []waiting
	profilable := map[int32]bool{} // by class
	for j := range v.Waiting() {
		if why := p.Never(j.ID, l.cfg.Place); why.Code != job.NoReason {
			p.Wait(j.ID, why)
			continue
		}
		w := waiting{j.ID, l.rank(v, j)}
		if _, known := profilable[j.Class()]; !known {
			profilable[j.Class()] = l.profilable(v, j)
		}
		if _, ran := j.FirstStart(); !ran && l.short(j) && profilable[j.Class()] {
			fresh = append(fresh, w)
		} else {
			l.queue = append(l.queue, w)
		}
	}
	slices.SortFunc(l.queue, func(a, b waiting) int { return cmp.Or(cmp.Compare(a.rank, b.rank), cmp.Compare(a.id, b.id)) })
	l.measure(v, p, fresh)
}

// NextWake implements sched.Waker: a measurement ends, those who wait look for
// partners, or a prediction changes.
func (l *policy) NextWake(v *sched.View) time.Duration {
	at := unit.Never
	for j := range each(v, &l.runs.measuring) {
		if until, ok := l.measured(v, j); ok && until > v.Now {
			at = min(at, until)
		}
	}
	at = min(at, l.nextLoan(v), l.nextPart(v))
	for j := range v.Waiting() {
		if !j.Reason().Never() {
			return min(at, l.grid(v.Now))
		}
	}
	return at
}

// grid is the next moment at which something may change by itself.
func (l *policy) grid(now time.Duration) time.Duration {
	at := unit.Never
	every := []time.Duration{l.cfg.Refresh, l.cfg.Check}
	if l.cfg.Packing == ByForecast {
		every = append(every, step)
	}
	if l.cfg.Packing == Never {
		every = every[:1]
	}
	for _, d := range every {
		at = min(at, beside.Next(now, d))
	}
	return at
}

// Why implements sched.Explainer.
func (l *policy) Why(v *sched.View, id job.ID) job.Reason {
	j := v.Job(id)
	switch {
	case l.blocked != job.None && l.blocked != id && l.cfg.Predict == Given:
		return job.Reason{Code: job.Behind, Job: l.blocked}
	case l.cfg.Predict == Given:
		return beside.NeedsGPUs(v, j)
	}
	text := "jobs with less predicted GPU time go first; it is "
	if l.blocked != job.None && l.blocked != id {
		text = "job " + v.Job(l.blocked).Spec().Key + " has less predicted GPU time and goes first; this one is "
	}
	return beside.Because("%s%s", text, l.estimator.explain(j.Spec()))
}
