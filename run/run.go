// Package run puts a simulation together: a trace, a cluster, a policy with its
// settings, what the policy may know about run times, and how the world behaves.
// It is what norn sim does, as a library.
//
// Nouns: a Choice is a policy with its settings; an Experiment is everything
// else, and is the same for all choices that are compared; an Outcome is what
// came of one choice.
package run

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/norn-scheduler/norn/clusterspec"
	"github.com/norn-scheduler/norn/engine"
	"github.com/norn-scheduler/norn/eventlog"
	"github.com/norn-scheduler/norn/perf"
	"github.com/norn-scheduler/norn/policy"
	"github.com/norn-scheduler/norn/report"
	"github.com/norn-scheduler/norn/sched"
	"github.com/norn-scheduler/norn/sim"
	"github.com/norn-scheduler/norn/state"
	"github.com/norn-scheduler/norn/trace"
)

// Choice is a policy and the settings that differ from its defaults.
type Choice struct {
	Policy   string
	Settings []Setting
}

// Setting is one parameter and its value as a user writes it.
type Setting = eventlog.Setting

// String is how tables name the choice: tiresias, or tiresias(limits=500).
func (c Choice) String() string {
	if len(c.Settings) == 0 {
		return c.Policy
	}
	parts := make([]string, len(c.Settings))
	for i, s := range c.Settings {
		parts[i] = s.String()
	}
	return c.Policy + "(" + strings.Join(parts, ",") + ")"
}

// ChoiceOf is the policy under which a log was written.
func ChoiceOf(h *eventlog.Header) Choice {
	return Choice{Policy: h.Policy, Settings: slices.Clone(h.Settings)}
}

// Shares tells whether the policy puts several jobs on a device, always or as it is set.
func (c Choice) Shares() bool {
	e, err := policy.ByName(c.Policy)
	if err != nil {
		return false
	}
	cfg := e.New()
	for _, s := range c.Settings {
		if cfg.Params().Set(s.Name, s.Value) != nil {
			return false // Make says what is wrong
		}
	}
	sharer, ok := cfg.(interface{ Shares() bool })
	return e.Shares || ok && sharer.Shares()
}

// Make builds the policy. It fails on an unknown policy, setting or value, and
// says which are known.
func (c Choice) Make() (sched.Policy, error) {
	e, err := policy.ByName(c.Policy)
	if err != nil {
		return nil, err
	}
	cfg := e.New()
	for _, s := range c.Settings {
		if err := cfg.Params().Set(s.Name, s.Value); err != nil {
			return nil, fmt.Errorf("policy %s: %w", c.Policy, err)
		}
	}
	p, err := cfg.Policy()
	if err != nil {
		return nil, fmt.Errorf("policy %s: %w", c.Policy, err)
	}
	return p, nil
}

// Experiment is what a simulation is run on.
type Experiment struct {
	Spec     *clusterspec.Spec
	Whole    bool // ignore the partitions of the cluster
	Estimate Estimate
	Seed     uint64
	Model    perf.Model                // the true speeds; nil: perf.Analytic with no penalty for spreading
	Speeds   perf.Typed                // what the scheduler believes of speeds; nil: the Model, if it can tell
	Sharing  perf.Sharing              // what the scheduler believes of jobs that share a device; nil: the truth that World sets, as far as Belief lets it be known
	Belief   Belief                    // where Sharing is nil: how it differs from the truth
	Transfer perf.Transfer             // what the scheduler believes that merged jobs learn from each other; nil: the truth that World sets
	Costs    *perf.Costs               // of transitions; nil: those of the cluster
	World    func(*sim.Config)         // failures and the like; nil: none
	Report   report.Options            // what the result holds beside the figures
	Header   eventlog.Header           // of the log: trace, cluster as written, origin
	Watch    func(Choice) engine.Sink  // watches a run, to show progress; nil: nobody
	Total    func(jobs int)            // told how many jobs there are, where that is known; nil: nobody
	Log      func(Choice) (Log, error) // where the event log goes; nil: nowhere
}

// Log is where an event log is written.
type Log struct {
	io.WriteCloser
	Compression eventlog.Compression
}

// Outcome is what came of one choice.
type Outcome struct {
	Choice Choice
	Result *report.Result
	State  *state.State
	Sim    *sim.Sim

	notes []string // what was made of the trace to fit the cluster
}

// Run simulates a trace under one choice, until nothing more can happen or the
// context ends. The event log is whole up to where it ended, also on an error.
func (x *Experiment) Run(ctx context.Context, c Choice, src trace.Source) (*Outcome, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	site, err := x.site()
	if err != nil {
		return nil, err
	}
	p, err := x.policy(c, site)
	if err != nil {
		return nil, err
	}
	costs := &site.Costs
	if x.Costs != nil {
		costs = x.Costs
	}
	types := newTyped(src, site.Cluster)
	jobs := &source{Source: types}
	cfg := x.world(c, site, costs, jobs)
	world := sim.New(cfg)
	estimator, err := x.Estimate.Make(world.Oracle(), x.Seed)
	if err != nil {
		return nil, err
	}
	collector := report.NewCollector(x.Report)
	sinks := []engine.Sink{collector}
	if x.Watch != nil {
		sinks = append(sinks, x.Watch(c))
	}
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	log, err := x.openLog(c, site, stop)
	if err != nil {
		return nil, err
	}
	if log != nil {
		sinks = append(sinks, log)
	}
	e := engine.New(engine.Config{
		Cluster: site.Cluster, Tenants: site.Tenants, Policy: p, PolicyName: c.String(),
		Estimator: estimator, Costs: costs, Speeds: x.speeds(), Sharing: cmp.Or(x.Sharing, x.Belief.Make(cfg.Sharing, x.Seed)), Transfer: cmp.Or(x.Transfer, cfg.Transfer), Seed: x.Seed, Sinks: sinks,
	}, world)
	e.Announce()
	if err = world.Attach(e.State()); err == nil {
		err = e.Run(ctx)
	}
	switch broken := log.close(); {
	case broken != nil:
		return nil, fmt.Errorf("policy %s: the event log: %w", c, broken)
	case jobs.err != nil:
		return nil, jobs.err
	case err != nil && !errors.Is(err, context.Canceled) && !errors.As(err, new(*engine.PolicyError)):
		return nil, fmt.Errorf("policy %s: %w", c, err)
	case err != nil:
		return nil, err
	}
	return &Outcome{Choice: c, Result: collector.Result(e.State()), State: e.State(), Sim: world, notes: types.remarks()}, nil
}

// speeds is what the scheduler believes of speeds.
func (x *Experiment) speeds() perf.Typed {
	if x.Speeds != nil {
		return x.Speeds
	}
	typed, _ := x.Model.(perf.Typed)
	return typed
}

// source notes what is wrong with a trace, so that it is not taken for a fault of
// the policy.
type source struct {
	trace.Source
	err error
}

// Next implements trace.Source.
func (s *source) Next(e *trace.Entry) error {
	err := s.Source.Next(e)
	if err != nil && !errors.Is(err, io.EOF) {
		s.err = err
	}
	return err
}

// world is how the simulated world of one run behaves.
func (x *Experiment) world(c Choice, site *clusterspec.Site, costs *perf.Costs, src trace.Source) sim.Config {
	cfg := sim.Config{Source: trace.ByKey(src), Model: x.Model, Costs: *costs, Seed: x.Seed}
	if cfg.Model == nil {
		cfg.Model = perf.Analytic{Scaling: 1, Spread: 1}
	}
	for _, a := range site.Arrivals {
		cfg.Nodes = append(cfg.Nodes, sim.Node(a))
	}
	if x.World != nil {
		x.World(&cfg)
	}
	shares := c.Shares()
	if cfg.Sharing == nil && shares {
		cfg.Sharing, cfg.Measure = perf.Profiled{Turns: perf.Interleave{Overhead: perf.PublishedOverhead()}}, true
	}
	if _, err := policy.ByName(c.Policy); err == nil && !shares { // nobody looks at it
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
func (x *Experiment) policy(c Choice, site *clusterspec.Site) (sched.Policy, error) {
	p, err := c.Make() // also to be told early of a setting that is wrong
	if err != nil || site.Cluster.Pools() == 1 {
		return p, err
	}
	return policy.Partitioned(c.Make), nil
}

// logSink writes events to a log.
type logSink struct {
	file io.Closer
	w    *eventlog.Writer
	stop func() // ends the run
}

// Event implements engine.Sink. An error is kept by the writer until the end,
// which then comes soon.
func (l *logSink) Event(ev *eventlog.Event, _ *state.State) {
	if l.w.Write(ev) != nil {
		l.stop()
	}
}

func (l *logSink) close() error {
	if l == nil {
		return nil
	}
	err := l.w.Close()
	if e := l.file.Close(); err == nil {
		err = e
	}
	return err
}

// openLog begins the event log; nil when none is wanted. stop ends the run.
func (x *Experiment) openLog(c Choice, site *clusterspec.Site, stop func()) (*logSink, error) {
	if x.Log == nil {
		return nil, nil
	}
	file, err := x.Log(c)
	if err != nil || file.WriteCloser == nil {
		return nil, err
	}
	h := x.Header
	h.World, h.Policy, h.Settings, h.Estimate, h.Seed = "sim", c.Policy, c.Settings, x.Estimate.String(), x.Seed
	h.Describe(site.Cluster, site.Tenants)
	w, err := eventlog.NewWriter(file, &h, file.Compression)
	if err != nil {
		return nil, errors.Join(err, file.Close())
	}
	return &logSink{file, w, stop}, nil
}
