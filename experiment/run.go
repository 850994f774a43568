// Package experiment puts a simulation together: a trace, a cluster, a policy with its
// settings, what the policy may know about run times, and how the world behaves.
// It is what norn sim does, as a library; package whatif does the same for norn plan.
//
// Nouns:
//   - A Choice is a policy with its settings.
//   - An Experiment is everything else, and is the same for all choices that
//     are compared.
//   - Prepare turns a trace into the input of the simulator.
//   - An Outcome is the result of one choice.
//   - A Folder keeps the files.
//
// Errors: what a user may have written wrongly fails before anything is simulated, with
// the words that there are. An error of a trace names its file and line, one of a run
// names its policy.
//
// Times are durations, those of events and jobs since the start of the trace. The same
// experiment, choice and trace give the same outcome, to the last digit.
package experiment

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"sync"
	"time"

	"github.com/norn-scheduler/norn/cluster"
	"github.com/norn-scheduler/norn/engine"
	"github.com/norn-scheduler/norn/eventlog"
	"github.com/norn-scheduler/norn/experiment/foreign"
	"github.com/norn-scheduler/norn/internal/workers"
	"github.com/norn-scheduler/norn/perf"
	"github.com/norn-scheduler/norn/policy"
	"github.com/norn-scheduler/norn/policy/defrag"
	"github.com/norn-scheduler/norn/policy/gavel"
	"github.com/norn-scheduler/norn/policy/need"
	"github.com/norn-scheduler/norn/policy/replica"
	"github.com/norn-scheduler/norn/policy/sleep"
	"github.com/norn-scheduler/norn/report"
	"github.com/norn-scheduler/norn/sched"
	"github.com/norn-scheduler/norn/sim"
	"github.com/norn-scheduler/norn/state"
	"github.com/norn-scheduler/norn/trace"
	"github.com/norn-scheduler/norn/trace/clusterspec"
)

// Experiment is what choices are compared on: a cluster, what is assumed of jobs, what
// policies know, and how the world behaves. Only Spec must be set. An experiment is not
// changed by runs, so several may go on at once.
type Experiment struct {
	Spec  *clusterspec.Spec
	Whole bool   // ignore the partitions of the cluster
	Seed  uint64 // of everything random

	// Properties of jobs beside those in their trace.
	Assume Assumption // what jobs are taken to be that do not tell; it may set Spec, Model, Transfer, Costs and World

	Due Due // deadlines that jobs without one are given; the zero value gives none

	// How the world behaves.
	Model    perf.Model        // the true speeds; nil: perf.Analytic with no penalty for spreading
	Costs    *perf.Costs       // of transitions; nil: those of the cluster
	Slowdown Slowdown          // how jobs that share a GPU disturb each other
	World    func(*sim.Config) // failures and the like, set after Slowdown; nil: none

	Variability *perf.Variability // how far GPUs of a type really differ; nil: they are alike

	// Communication is the part of their time, 0 to 1, during which jobs that mind their bandwidth communicate
	// where they are linked best (perf.Linked); 0: links make no difference to speeds.
	Communication float64

	// Sockets is what was measured of jobs on the CPU sockets of a node, which is the truth, and policies know it;
	// nil: jobs of a node do not slow each other down.
	Sockets *perf.Sockets

	Data *replica.Catalogue // where data is, by which jobs that read it may run; nil: everywhere
	Move *replica.Config    // how it is moved; nil: it stays where it is

	Sleep  sleep.Config   // chooses nodes that sleep; nil: none does
	Defrag *defrag.Config // moves jobs together for gangs that would wait, under policies that do not share GPUs; nil: nobody does

	// Knowledge of the policies.
	Beliefs  Beliefs       // whether policies with an estimator of their own use it, where the World has a Meter
	Estimate Estimate      // of run times; the zero value is the truth
	Speeds   perf.Typed    // of speeds; nil: the Model, if it can tell
	Sharing  perf.Sharing  // of jobs that share a device; nil: the truth, as far as Belief lets it be known
	Belief   Belief        // where Sharing is nil: how it differs from the truth
	Transfer perf.Transfer // of what merged jobs learn from each other; nil: the truth that World sets

	BelievedVariability *perf.Variability // of GPUs that differ; nil: the truth
	LearnVariability    bool              // policies that can learn that believe what they have learnt, and nothing at first

	// Outputs and observers.
	Report   report.Options                // what the result holds beside the figures
	Header   eventlog.Header               // of the log: trace, cluster as written, time of day at the start
	Log      func(run string) (Log, error) // where the event log of a run goes, by its name; nil: nowhere
	Watch    func(run string) engine.Sink  // watches a run, to show progress; nil: nobody
	Messages io.Writer                     // where the standard error of policies that are programs goes, in whole lines, of several at once; nil: os.Stderr
	Total    func(jobs int)                // is told how many jobs there are before runs begin, for which all are held in memory; nil: nobody

	Timed bool // notes how long each decision takes on this machine, see Outcome.Decisions

	growth *Growth // of the cluster; nil: none
}

// nameOf is the name of a run.
func (x *Experiment) nameOf(c Choice) string {
	if x.growth == nil {
		return c.Label()
	}
	return c.Label() + ", " + x.growth.Name
}

// Log is where an event log is written.
type Log struct {
	io.WriteCloser
	Compression eventlog.Compression
}

// Outcome is what came of one choice.
type Outcome struct {
	Choice Choice
	Name   string  // of the run: the choice, and the growth of the cluster
	Growth *Growth // of the cluster; nil: it is that of the experiment
	GPUs   int     // of the cluster, and of nodes that come later
	Result *report.Result
	Fates  []report.Fate // of the jobs, by their numbers
	State  *state.State
	Sim    *sim.Sim

	Decisions []Decision // with Experiment.Timed, in their order

	notes []string // what was made of the trace to fit the cluster
	needs need.List
	facts func() need.Set // what the run has of what policies live on
	lacks []need.Lack
	free  *freely  // nil: transitions have a cost
	said  []string // by the policy, of itself

	learns bool // it believes what it learnt from measurements
	told   bool // it has an estimator of its own, and was told the truth instead
}

// Run prepares a trace and simulates it under one choice, until nothing more can happen
// or the context ends. It then returns within a second or so, even when a policy does not
// come to the end of a decision; that goes on by itself. The event log is whole up to where it ended, also on an error. An
// error of the trace is returned as the source gave it; every other one names the
// policy, unless it is that of the context.
func (x *Experiment) Run(ctx context.Context, c Choice, src trace.Source) (*Outcome, error) {
	jobs, err := Prepare(src, x.Preparation())
	if err != nil {
		return nil, err
	}
	if x, err = x.assuming(); err != nil {
		return nil, err
	}
	o, err := x.simulate(ctx, c, jobs, jobs.Begins())
	if broken := jobs.err(); broken != nil {
		return nil, broken
	}
	if o != nil {
		o.notes = jobs.types.remarks()
	}
	return o, err
}

// simulate runs prepared jobs in the world that is assumed.
func (x *Experiment) simulate(ctx context.Context, c Choice, jobs trace.Source, begins time.Time) (*Outcome, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	site, err := x.site()
	if err != nil {
		return nil, err
	}
	var own made
	defer own.close()
	p, err := x.policy(c, site, &own)
	if err != nil {
		return nil, err
	}
	if err := x.checkVariability(site); err != nil {
		return nil, err
	}
	costs := cmp.Or(x.Costs, &site.Costs)
	cfg := x.world(c, site, costs, jobs)
	believe := x.believe(c, &cfg)
	world := sim.New(cfg)
	estimator, err := x.Estimate.Make(world.Oracle(), x.Seed)
	if err != nil {
		return nil, err
	}
	if believe != nil && x.Estimate.From == Oracle {
		estimator = untold{estimator, believe(perf.Prior{})}
	}
	collector := report.NewCollector(x.Report)
	sinks := []engine.Sink{collector}
	if x.Watch != nil {
		sinks = append(sinks, x.Watch(x.nameOf(c)))
	}
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	log, err := x.openLog(c, site, begins, stop)
	if err != nil {
		return nil, err
	}
	if log != nil {
		sinks = append(sinks, log)
	}
	o := &Outcome{Choice: c, Name: x.nameOf(c), Growth: x.growth, GPUs: x.Spec.GPUs(), Sim: world, needs: c.Needs(), learns: believe != nil && foretells(believe), told: believe == nil && x.Beliefs == TrueBeliefs && c.Believe() != nil}
	if x.Costs == nil && costs.Free() {
		o.free = new(freely)
		sinks = append(sinks, o.free)
	}
	sleeper, mover, err := x.beside(site.Cluster)
	if err != nil {
		return nil, err
	}
	sharing := cmp.Or(x.Sharing, x.Belief.Make(cfg.Sharing, x.Seed))
	e := engine.New(engine.Config{
		Cluster: site.Cluster, Tenants: site.Tenants, Policy: p, PolicyName: c.String(),
		Estimator: estimator, Costs: costs, Speeds: x.speeds(), Sharing: sharing, Transfer: cmp.Or(x.Transfer, cfg.Transfer), Believe: believe, Seed: x.Seed, Sinks: sinks, Each: workers.Pool(0),
		Variability: x.toldVariability(), Linked: perf.NewLinked(x.Communication, x.Sockets), Decided: o.timing(x.Timed), Sleeper: sleeper, Mover: mover,
	}, world)
	e.Announce()
	if err = world.Attach(e.State()); err == nil {
		err = run(ctx, e)
	}
	switch broken := log.close(); {
	case broken != nil:
		return nil, fmt.Errorf("policy %s: the event log: %w", c, broken)
	case err != nil && !errors.Is(err, context.Canceled) && !errors.As(err, new(*engine.PolicyError)):
		return nil, fmt.Errorf("policy %s: %w", c, err)
	case err != nil:
		return nil, err
	}
	o.State, o.Result, o.Fates, o.said = e.State(), collector.Result(e.State()), report.Fates(e.State()), own.remarks()
	o.rests(x, cfg.Sharing)
	return o, nil
}

// patience is for how long a run that is to end is waited for.
const patience = time.Second

// run goes on until nothing more can happen or the context ends. The decision of a policy
// cannot be stopped: one that does not end in time is left alone, and whatever comes of
// it is not looked at.
func run(ctx context.Context, e *engine.Engine) error {
	ended := make(chan error, 1)
	go func() { ended <- e.Run(ctx) }()
	select {
	case err := <-ended:
		return err
	case <-ctx.Done():
	}
	select {
	case err := <-ended:
		return err
	case <-time.After(patience):
		return ctx.Err()
	}
}

// speeds is what the scheduler believes of speeds.
func (x *Experiment) speeds() perf.Typed {
	if x.Speeds != nil {
		return x.Speeds
	}
	typed, _ := x.Model.(perf.Typed)
	return typed
}

// beside are those who decide something beside the policy in one run: which nodes sleep, and where data is; nil: nobody
// does.
func (x *Experiment) beside(c *cluster.Cluster) (s sched.Sleeper, m sched.Mover, err error) {
	if x.Sleep != nil {
		if s, err = x.Sleep.Sleeper(); err != nil {
			return nil, nil, err
		}
	}
	m, err = x.mover(c)
	return s, m, err
}

// world is how the simulated world of one run behaves.
func (x *Experiment) world(c Choice, site *clusterspec.Site, costs *perf.Costs, jobs trace.Source) sim.Config {
	cfg := sim.Config{Boot: sim.DefaultBoot, InPlace: c.Resizes(), Source: jobs, Model: x.Model, Costs: *costs, Seed: x.Seed, Variability: x.Variability, Linked: perf.NewLinked(x.Communication, x.Sockets)}
	if cfg.Model == nil {
		cfg.Model = perf.Analytic{Scaling: 1, Spread: 1}
	}
	for _, a := range site.Arrivals {
		cfg.Nodes = append(cfg.Nodes, sim.Node(a))
	}
	if truth := x.Slowdown.truth(); truth != nil {
		cfg.Sharing, cfg.Measure = truth, true
	}
	if x.Slowdown.Pairs != nil {
		cfg.Meter = pairMeter{useMeter{x.Seed}, x.Slowdown.Pairs.Table, gavel.References(references(x.Slowdown.Pairs.Table))}
	}
	if x.Data != nil {
		cfg.CopyGBps = x.Data.GBps
	}
	if x.World != nil {
		x.World(&cfg)
	}
	shares := c.Shares()
	if cfg.Sharing == nil && shares {
		cfg.Sharing, cfg.Measure = perf.Profiled{Turns: perf.Interleave{Overhead: perf.PublishedOverhead()}}, true
	}
	if !shares { // nobody looks at it
		cfg.Measure = false
	}
	return cfg
}

// site builds the cluster, without its partitions when those are to be ignored.
func (x *Experiment) site() (*clusterspec.Site, error) {
	spec := x.Spec
	if x.Whole && len(spec.Partitions) > 0 {
		whole := *spec
		whole.Partitions = nil
		whole.Nodes = append([]clusterspec.Group(nil), spec.Nodes...)
		for i := range whole.Nodes {
			whole.Nodes[i].Partition = ""
		}
		spec = &whole
	}
	return spec.Build()
}

// policy makes the policy: one for the whole cluster, or one for each partition.
func (x *Experiment) policy(c Choice, site *clusterspec.Site, all *made) (sched.Policy, error) {
	build := func() (sched.Policy, error) {
		p, err := c.Make()
		if err == nil {
			p = c.Moving(p, x.Defrag)
			all.add(p, x.Messages)
		}
		return p, err
	}
	p, err := build() // also to be told early of a setting that is wrong
	if err != nil || site.Cluster.Pools() == 1 {
		return p, err
	}
	return policy.Partitioned(build), nil
}

// made are the policies of a run. Some have a life of their own: a program that decides must
// be ended when the run ends. A decision may go on then, see run.
type made struct {
	adding sync.Mutex
	all    []sched.Policy
	closed bool
}

func (m *made) add(p sched.Policy, messages io.Writer) {
	if f, ok := p.(*foreign.Policy); ok && messages != nil {
		f.Stderr = messages
	}
	m.adding.Lock()
	defer m.adding.Unlock()
	if m.all = append(m.all, p); m.closed {
		closePolicy(p)
	}
}

func (m *made) close() {
	m.adding.Lock()
	defer m.adding.Unlock()
	for _, p := range m.all {
		closePolicy(p)
	}
	m.closed = true
}

func closePolicy(p sched.Policy) {
	if c, ok := p.(io.Closer); ok {
		_ = c.Close() // nothing of it is needed any more
	}
}

// remarks are what the policies say of themselves.
func (m *made) remarks() (out []string) {
	m.adding.Lock()
	defer m.adding.Unlock()
	for _, p := range m.all {
		if r, ok := p.(interface{ Remarks() []string }); ok {
			out = append(out, r.Remarks()...)
		}
	}
	return out
}

// logSink writes events to a log. It may be closed while the run goes on, see run.
type logSink struct {
	file io.Closer
	w    *eventlog.Writer
	stop func() // ends the run

	writing sync.Mutex
	closed  bool
}

// Event implements engine.Sink. An error is kept by the writer until the end,
// which then comes soon.
func (l *logSink) Event(ev *eventlog.Event, _ *state.State) {
	l.writing.Lock()
	defer l.writing.Unlock()
	if !l.closed && l.w.Write(ev) != nil {
		l.stop()
	}
}

func (l *logSink) close() error {
	if l == nil {
		return nil
	}
	l.writing.Lock()
	defer l.writing.Unlock()
	l.closed = true
	err := l.w.Close()
	if e := l.file.Close(); err == nil {
		err = e
	}
	return err
}

// openLog begins the event log; nil when none is wanted. stop ends the run.
func (x *Experiment) openLog(c Choice, site *clusterspec.Site, begins time.Time, stop func()) (*logSink, error) {
	if x.Log == nil {
		return nil, nil
	}
	file, err := x.Log(x.nameOf(c))
	if err != nil || file.WriteCloser == nil {
		return nil, err
	}
	h := x.Header
	if h.Origin.IsZero() {
		h.Origin = begins
	}
	h.World, h.Policy, h.Settings, h.Estimate, h.Seed = "sim", c.Policy, c.Settings, x.Estimate.String(), x.Seed
	h.Describe(site.Cluster, site.Tenants)
	w, err := eventlog.NewWriter(file, &h, file.Compression)
	if err != nil {
		return nil, errors.Join(err, file.Close())
	}
	return &logSink{file: file, w: w, stop: stop}, nil
}
