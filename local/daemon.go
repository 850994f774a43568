package local

import (
	"context"
	"fmt"
	"log/slog"
	"strings"
	"sync/atomic"
	"time"

	"github.com/norn-scheduler/norn/api"
	"github.com/norn-scheduler/norn/engine"
	"github.com/norn-scheduler/norn/eventlog"
	"github.com/norn-scheduler/norn/job"
	"github.com/norn-scheduler/norn/live"
	"github.com/norn-scheduler/norn/local/runner"
	"github.com/norn-scheduler/norn/perf"
	"github.com/norn-scheduler/norn/run"
	"github.com/norn-scheduler/norn/state"
)

// Daemon is one engine with its world: this machine. Its fields belong to the
// goroutine of Run, but for those that say otherwise.
type Daemon struct {
	opt    Options
	log    *slog.Logger
	store  *store
	choice run.Choice
	loop   *live.Loop

	eng       *engine.Engine
	st        *state.State
	epoch     live.Epoch
	shapes    job.Interner
	costs     perf.Costs
	jobs      []*liveJob // by number; nil when it has ended
	residents []*resident
	packers   []*packer
	byKey     map[string]*liveJob
	recent    live.Recent
	tally     live.Tally
	health    health
	failed    error // why nothing can be written any more
	past      *past // from which it has still to go on; nil: it has

	arrived   []*liveJob     // submitted in this instant, by number: the engine has no record of them yet
	undecided []chan<- error // orders of other sizes in this instant
	buried    []live.Ended   // in this instant, for the history file
	rolling   *run.Choice    // the policy that comes into force
	lets      bool           // it is another one: see engine.LetGo
	refit     bool           // the devices are others than those of the last log

	next    atomic.Int64 // number of the next submission
	tokens  tokens
	watch   *watcher
	spare   *runner.Spare
	feed    live.Feed
	ready   atomic.Bool
	stalled atomic.Pointer[string] // why it can only be asked; nil: it does all
	started time.Time
}

// Open takes over the state folder: it reads what was left there, begins a new
// epoch, and finds the runs again that go on. Nothing is started before Run.
func Open(opt Options) (*Daemon, error) {
	s, err := openStore(opt.State)
	if err != nil {
		return nil, err
	}
	d := &Daemon{
		opt: opt, log: opt.Log, store: s, choice: opt.Policy, byKey: map[string]*liveJob{}, started: time.Now(),
		spare: runner.NewSpare(opt.Exe),
	}
	d.recent.Most = opt.Limits.Recent
	d.tokens.runs = map[string]string{}
	d.health.sick = make([]string, len(opt.Machine.Devices))
	if d.log == nil {
		d.log = slog.New(slog.DiscardHandler)
	}
	d.loop = live.NewLoop(d.log, live.Hooks{Durable: d.durable, Settled: func() time.Duration { return d.st.Now }, Mark: d.mark})
	if d.watch, err = newWatcher(d); err == nil {
		err = d.recover()
	}
	if err != nil {
		d.Close()
		return nil, err
	}
	d.feed.Begin(d.epoch.N)
	return d, nil
}

// Close lets go of the state folder. Jobs go on.
func (d *Daemon) Close() {
	if d.watch != nil {
		d.watch.close()
	}
	d.spare.Close()
	d.epoch.Close()
	d.store.close()
}

// Run schedules until the context ends, or until the log cannot be written. Jobs
// go on afterwards, and the next daemon finds them again.
func (d *Daemon) Run(ctx context.Context) error {
	defer d.loop.End()
	context.AfterFunc(ctx, func() {
		d.loop.Post(func() error { d.loop.Halt(); return nil })
	})
	if err := d.waitForRoom(); err != nil || d.loop.Halted() {
		return err
	}
	d.spare.Ready()
	d.ready.Store(true)
	defer d.ready.Store(false)
	d.everySoOften()
	for !d.loop.Halted() { // what was asked in its last instant is still decided and written
		if err := d.step(); err != nil {
			return err
		}
	}
	return nil
}

// step is one instant.
func (d *Daemon) step() error {
	err := d.eng.Step()
	d.tally.Decisions.Observe(time.Since(d.loop.Awake()).Seconds())
	switch {
	case d.failed != nil:
		return d.failed
	case err != nil && strings.HasPrefix(err.Error(), "policy ") && d.st.Check() == nil:
		d.fallBack(err)
	case err != nil:
		return err
	}
	if err := d.loop.Commit(); err != nil {
		return err
	}
	d.undecided = d.undecided[:0]
	if d.rolling != nil || d.epoch.Events >= d.opt.Limits.Compact+d.epoch.Carried {
		return d.roll()
	}
	return nil
}

// fallBack goes on under FIFO when the policy has made a mistake: who uses the
// machine must not suffer for it.
func (d *Daemon) fallBack(err error) {
	d.log.Error("the policy failed; going on with fifo", "policy", d.choice.String(), "error", err)
	d.health.policy = fmt.Sprintf("policy %s failed and was replaced by fifo: %v", d.choice, err)
	for _, decided := range d.undecided { // the mistake may have come before them
		select {
		case decided <- api.Refuse(api.Unavailable, "the policy failed; try again"):
		default:
		}
	}
	choice := run.Choice{Policy: "fifo"}
	if d.choice.String() == choice.String() {
		d.failed = fmt.Errorf("the policy failed: %w", err) // nothing is left to fall back to
		return
	}
	d.rolling = &choice
}

// durable makes what was decided durable.
func (d *Daemon) durable() error {
	if err := d.epoch.Sync(); err != nil {
		d.failed = fmt.Errorf("the event log cannot be written, so that nothing more may be decided; jobs go on, start norn again when there is room: %w", err)
		return d.failed
	}
	if len(d.buried) > 0 {
		if err := d.store.AppendEnded(d.buried); err != nil { // the log has them, and the next daemon writes them again
			d.log.Error("the history of jobs cannot be written", "error", err)
		}
		d.buried = d.buried[:0]
	}
	return nil
}

// Next implements engine.World.
func (d *Daemon) Next(wake time.Duration, out []eventlog.Event) (time.Duration, []eventlog.Event, error) {
	return d.loop.Next(wake, out)
}

// newEngine makes the engine of an epoch.
func (d *Daemon) newEngine() error {
	p, err := d.choice.Make()
	if err != nil {
		return err
	}
	d.eng = engine.New(engine.Config{
		Cluster: d.st.Cluster, Tenants: d.st.Tenants, Policy: p, PolicyName: d.choice.Policy,
		Estimator: d.opt.Estimator, Costs: &d.costs, Speeds: d.speeds(), Sharing: belief(), Transfer: d.opt.Transfer, Exclusive: !d.choice.Shares(), Seed: 1, Sinks: []engine.Sink{d},
	}, d)
	d.eng.Resume(d.st)
	if d.lets {
		d.eng.LetGo()
		d.lets = false
	}
	return nil
}
