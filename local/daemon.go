package local

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"runtime/debug"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/norn-scheduler/norn/api"
	"github.com/norn-scheduler/norn/engine"
	"github.com/norn-scheduler/norn/eventlog"
	"github.com/norn-scheduler/norn/job"
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
	clock  clock

	eng       *engine.Engine
	st        *state.State
	epoch     epoch
	shapes    job.Interner
	costs     perf.Costs
	jobs      []*liveJob // by number; nil when it has ended
	residents []*resident
	packers   []*packer
	byKey     map[string]*liveJob
	recent    recent
	tally     tally
	health    health
	failed    error // why nothing can be written any more
	past      *past // from which it has still to go on; nil: it has

	next     atomic.Int64 // number of the next submission
	requests chan *request
	notices  chan notice
	tokens   tokens
	watch    *watcher
	spare    *runner.Spare
	feed     feed
	ready    atomic.Bool
	stalled  atomic.Pointer[string] // why it can only be asked; nil: it does all
	stopped  chan struct{}
	started  time.Time
	acting   sync.WaitGroup

	turn
}

// turn is what is collected for one instant.
type turn struct {
	now     time.Duration
	events  []eventlog.Event
	arrived []*liveJob // submitted in it, by number: the engine has no record of them yet
	touched map[job.ID]bool
	later   []func() error // what has to wait for the next instant
	spent   []func() error // room for it
	acts    []func()
	answers []func()
	timers  timers
	kick    bool // decide, even if nothing has happened
	halt    bool // this instant is the last one
	awake   time.Time
	rolling *run.Choice
	lets    bool    // the policy that comes into force is another one: see engine.LetGo
	refit   bool    // the devices are others than those of the last log
	buried  []ended // for the history file

	undecided []chan<- error // orders of other sizes
}

// request is something that a user wants, carried out in the goroutine of Run.
type request struct {
	run  func() error
	done chan error
}

// errLater is what a request or a notice returns that concerns a job to which
// something has happened in this very instant: it has to see what came of it.
var errLater = errors.New("later")

// clock turns wall time into time since the origin of the log.
type clock struct {
	origin time.Time
	base   time.Duration // at start
	start  time.Time
}

func newClock(origin time.Time, atLeast time.Duration) clock {
	now := time.Now()
	return clock{origin: origin, base: max(now.Sub(origin).Round(0), atLeast), start: now}
}

// now is monotonic: a wall clock that is set back does not turn it back.
func (c *clock) now() time.Duration { return c.base + time.Since(c.start) }

// wall is the time of day of a moment; the zero time for one that never was.
func (c *clock) wall(at time.Duration) time.Time {
	if at < 0 {
		return time.Time{}
	}
	return c.start.Add(at - c.base).Round(time.Microsecond)
}

// since is the moment of a time of day.
func (d *Daemon) since(t time.Time) time.Duration { return d.clock.base + t.Sub(d.clock.start) }

// Open takes over the state folder: it reads what was left there, begins a new
// epoch, and finds the runs again that go on. Nothing is started before Run.
func Open(opt Options) (*Daemon, error) {
	s, err := openStore(opt.State)
	if err != nil {
		return nil, err
	}
	d := &Daemon{
		opt: opt, log: opt.Log, store: s, choice: opt.Policy, byKey: map[string]*liveJob{}, started: time.Now(),
		spare:    runner.NewSpare(opt.Exe),
		requests: make(chan *request, 256), notices: make(chan notice, 1024), stopped: make(chan struct{}),
	}
	d.recent.most, d.touched = opt.Limits.Recent, map[job.ID]bool{}
	d.tokens.runs = map[string]string{}
	d.feed.init()
	d.health.sick = make([]string, len(opt.Machine.Devices))
	if d.log == nil {
		d.log = slog.New(slog.DiscardHandler)
	}
	if d.watch, err = newWatcher(d); err == nil {
		err = d.recover()
	}
	if err != nil {
		d.Close()
		return nil, err
	}
	d.feed.begin(d.epoch.n)
	return d, nil
}

// Close lets go of the state folder. Jobs go on.
func (d *Daemon) Close() {
	if d.watch != nil {
		d.watch.close()
	}
	d.spare.Close()
	d.epoch.close()
	d.store.close()
}

// Run schedules until the context ends, or until the log cannot be written. Jobs
// go on afterwards, and the next daemon finds them again.
func (d *Daemon) Run(ctx context.Context) error {
	defer d.acting.Wait()
	defer close(d.stopped) // first, so that nobody waits for this goroutine any more
	context.AfterFunc(ctx, func() {
		d.enqueue(&request{run: func() error { d.halt = true; return nil }, done: make(chan error, 1)})
	})
	if err := d.waitForRoom(); err != nil || d.halt {
		return err
	}
	d.spare.Ready()
	d.ready.Store(true)
	defer d.ready.Store(false)
	d.everySoOften()
	for !d.halt { // what was asked in its last instant is still decided and written
		if err := d.step(); err != nil {
			return err
		}
	}
	return nil
}

// step is one instant.
func (d *Daemon) step() error {
	err := d.eng.Step()
	d.tally.decisions.observe(time.Since(d.awake).Seconds())
	switch {
	case d.failed != nil:
		return d.failed
	case err != nil && strings.HasPrefix(err.Error(), "policy ") && d.st.Check() == nil:
		d.fallBack(err)
	case err != nil:
		return err
	}
	if err := d.commit(); err != nil {
		return err
	}
	if d.rolling != nil || d.epoch.events >= d.opt.Limits.Compact+d.epoch.carried {
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

// commit makes what was decided durable, and then does it.
func (d *Daemon) commit() error {
	if err := d.epoch.sync(); err != nil {
		d.failed = fmt.Errorf("the event log cannot be written, so that nothing more may be decided; jobs go on, start norn again when there is room: %w", err)
		return d.failed
	}
	if len(d.buried) > 0 {
		if err := d.store.appendEnded(d.buried); err != nil { // the log has them, and the next daemon writes them again
			d.log.Error("the history of jobs cannot be written", "error", err)
		}
		d.buried = d.buried[:0]
	}
	for _, act := range d.acts {
		act()
	}
	for _, answer := range d.answers {
		answer()
	}
	clear(d.acts)
	clear(d.answers)
	clear(d.touched)
	d.acts, d.answers, d.undecided = d.acts[:0], d.answers[:0], d.undecided[:0]
	return nil
}

// lateness is how late a moment of the policy's own may come and still be that moment.
const lateness = time.Second

// Next implements engine.World: it waits until something happens, or until wake. That
// is then an instant of its own, at exactly that moment, as in the simulator: a policy
// with rounds knows them by the time.
func (d *Daemon) Next(wake time.Duration, out []eventlog.Event) (time.Duration, []eventlog.Event, error) {
	d.events = out
	timer := time.NewTimer(time.Hour)
	defer timer.Stop()
	for {
		d.now = max(d.clock.now(), d.st.Now)
		if late := d.now - wake; late >= 0 && late < lateness && wake >= d.st.Now {
			d.now, d.awake = wake, time.Now()
			return wake, d.events, nil
		}
		if err := d.collect(); err != nil {
			return d.now, d.events, err
		}
		if len(d.events) > 0 || d.kick || d.now >= wake || d.rolling != nil || d.halt {
			d.kick, d.awake = false, time.Now()
			return d.now, d.events, nil
		}
		if err := d.commit(); err != nil { // answers to questions
			return d.now, d.events, err
		}
		if len(d.later) > 0 { // nothing stands in its way any more
			continue
		}
		timer.Reset(min(wake, d.timers.next(), d.now+time.Hour) - d.now)
		select {
		case r := <-d.requests:
			d.later = append(d.later, d.attend(r))
		case n := <-d.notices:
			d.later = append(d.later, func() error { return d.notice(n) })
		case <-timer.C:
		}
	}
}

// collect carries out what is due, as far as it fits into one instant.
func (d *Daemon) collect() error {
	d.timers.due(d.now, func(f func()) { d.later = append(d.later, func() error { f(); return nil }) })
	for range 256 { // so that an instant does not grow without end
		select {
		case n := <-d.notices:
			d.later = append(d.later, func() error { return d.notice(n) })
			continue
		case r := <-d.requests:
			d.later = append(d.later, d.attend(r))
			continue
		default:
		}
		break
	}
	work := d.later
	d.later = d.spent // f may add to it
	for _, f := range work {
		switch err := f(); {
		case errors.Is(err, errLater):
			d.later = append(d.later, f)
		case err != nil:
			return err
		}
	}
	clear(work)
	d.spent = work[:0]
	return nil
}

// attend is a request as a piece of work: who asked is answered when what it led
// to is durable.
func (d *Daemon) attend(r *request) func() error {
	return func() error {
		err := d.attempt(r.run)
		if errors.Is(err, errLater) {
			return err
		}
		d.answers = append(d.answers, func() { r.done <- err })
		return nil
	}
}

// attempt carries out what somebody has asked for. A mistake in it is an error for
// who asked and nobody else: what it had noted for this instant is taken back.
func (d *Daemon) attempt(run func() error) (err error) {
	events, arrived, later, acts := len(d.events), len(d.arrived), len(d.later), len(d.acts)
	defer func() {
		if p := recover(); p != nil {
			d.log.Error("a request made norn panic", "panic", p, "stack", string(debug.Stack()))
			d.events, d.arrived, d.later, d.acts = d.events[:events], d.arrived[:arrived], d.later[:later], d.acts[:acts]
			err = fmt.Errorf("a request made norn panic: %v", p)
		}
	}()
	return run()
}

// enqueue hands a request over, unless the daemon has stopped.
func (d *Daemon) enqueue(r *request) bool {
	select {
	case d.requests <- r:
		return true
	case <-d.stopped:
		return false
	}
}

// ask has f carried out in the goroutine of Run and returns what it returned,
// when that is durable. It may be called from any goroutine.
func (d *Daemon) ask(ctx context.Context, f func() error) error {
	r := &request{run: f, done: make(chan error, 1)}
	select {
	case d.requests <- r:
	case <-ctx.Done():
		return ctx.Err()
	case <-d.stopped:
		return errAway
	}
	select {
	case err := <-r.done:
		return err
	case <-ctx.Done():
		return ctx.Err()
	case <-d.stopped:
		select {
		case err := <-r.done:
			return err
		default:
			return errAway
		}
	}
}

var errAway = api.Refuse(api.Unavailable, "norn is stopping")

// touch marks a job as one to which something has happened in this instant; it
// fails with errLater when something has already.
func (d *Daemon) touch(id job.ID) error {
	if d.touched[id] {
		return errLater
	}
	d.touched[id] = true
	return nil
}

// emit tells the engine that something has happened.
func (d *Daemon) emit(ev eventlog.Event) {
	ev.Time = d.now
	d.events = append(d.events, ev)
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
