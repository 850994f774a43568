// Package engine is the loop. A world tells what happened, and the engine folds
// it into the state. The policy answers with a plan. The engine turns the
// difference between plan and state into actions, which the world carries out.
//
// Nouns:
//   - A World is where jobs run: the simulator, this machine, Kubernetes.
//   - A Sink watches every event after it was folded in.
//   - An instant is everything that happens at one moment, after which the
//     policy decides once.
package engine

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"runtime/debug"
	"time"

	"github.com/norn-scheduler/norn/cluster"
	"github.com/norn-scheduler/norn/cluster/unit"
	"github.com/norn-scheduler/norn/eventlog"
	"github.com/norn-scheduler/norn/job"
	"github.com/norn-scheduler/norn/perf"
	"github.com/norn-scheduler/norn/perf/predict"
	"github.com/norn-scheduler/norn/place"
	"github.com/norn-scheduler/norn/sched"
	"github.com/norn-scheduler/norn/solve"
	"github.com/norn-scheduler/norn/state"
	"github.com/norn-scheduler/norn/tenant"
)

// World is where jobs run. The engine calls it from one goroutine.
type World interface {
	// Next moves on to the next instant at which anything happens, but not
	// beyond wake, and appends what happened to out. io.EOF says that nothing
	// will ever happen again, wake aside.
	Next(wake time.Duration, out []eventlog.Event) (now time.Duration, events []eventlog.Event, err error)
	// Start launches a job on its allocation. It returns the delay until the job
	// makes progress, and its speed.
	Start(id job.ID, a *cluster.Alloc) (delay time.Duration, speed float64)
	// Stop makes a job leave its devices. It returns the progress that the job
	// keeps, and whether the job has left already. If it has not, a Gone event
	// follows.
	Stop(id job.ID) (kept time.Duration, atOnce bool)
	// Reshape moves or resizes a running job to a.
	Reshape(id job.ID, a *cluster.Alloc, moved bool) (pause time.Duration, speed float64)
}

// Profiler is a world in which jobs can hold devices to be measured, without
// progress. In others they simply start.
type Profiler interface {
	Profile(id job.ID, a *cluster.Alloc) (delay time.Duration)
}

// Merger is a world that decides what a merge costs a job.
type Merger interface {
	// Merge returns the work of the job that counts from now on.
	Merge(id job.ID, how job.Merge, with job.ID) (kept time.Duration)
}

// abilities are the optional interfaces of a world. A field is nil when the
// world lacks that ability.
type abilities struct {
	profile Profiler
	merge   Merger
	measure Measuring
	exact   Exact
	power   Switching
	copies  Copying
}

// abilitiesOf asks a world once what it can do beside running jobs.
func abilitiesOf(w World) (a abilities) {
	a.profile, _ = w.(Profiler)
	a.merge, _ = w.(Merger)
	a.measure, _ = w.(Measuring)
	a.exact, _ = w.(Exact)
	a.power, _ = w.(Switching)
	a.copies, _ = w.(Copying)
	return a
}

// Sink watches events. The event is only valid during the call.
type Sink interface {
	Event(ev *eventlog.Event, s *state.State)
}

// Config is a run.
type Config struct {
	Cluster    *cluster.Cluster
	Tenants    *tenant.Tree // nil: every tenant unlimited
	Policy     sched.Policy
	PolicyName string
	Estimator  predict.Estimator // nil: predict.None
	Costs      *perf.Costs       // what the policy believes transitions cost
	Speeds     perf.Typed        // what the policy believes of speeds; nil: perf.Analytic with no penalty for spreading
	Sharing    perf.Sharing      // what the policy believes of jobs that share a device; nil: perf.Alone; each run teaches its own copy of a *perf.Learner
	Transfer   perf.Transfer     // what the policy believes that merged jobs learn from each other; nil: perf.Strangers
	Believe    Believe           // makes what is believed from what is measured; nil: nothing is
	Each       solve.Each        // how policies have independent work done; nil: one after the other
	Sleeper    sched.Sleeper     // decides which nodes sleep, in a world that is Switching; nil: none does
	Mover      sched.Mover       // decides which data is copied where, in a world that is Copying; nil: none is
	Exclusive  bool              // only jobs that ask for parts of a device share one under this policy, see Resume
	Seed       uint64            // of v.Rand
	Sinks      []Sink
	Budget     time.Duration // of a decision, see ErrOverdue; 0: it may take any time

	// Decided is told how long each decision of the policy took on this machine, before
	// anything of it is carried out; nil: nobody measures it.
	Decided func(took time.Duration, s *state.State)

	Linked      *perf.Linked      // how far jobs are believed to be slower that are not linked best; nil: they are not
	Variability *perf.Variability // how far the policy believes that devices of a type differ; nil: they are alike
}

// Believe makes a believer that has observed nothing yet. Of what it does not answer, or of
// what nothing was measured, the prior is believed.
type Believe func(perf.Prior) perf.Believer

// Engine runs one policy in one world.
type Engine struct {
	cfg    Config
	world  World
	can    abilities
	state  *state.State
	waker  sched.Waker
	why    sched.Explainer
	rand   *rand.Rand
	plan   sched.Plan
	view   sched.View
	ev     eventlog.Event
	events []eventlog.Event

	changes   []sched.Change
	nodes     bool
	overs     uint64 // of cluster.Overbookings, those that the policy knows of
	first     bool
	wake      time.Duration
	rouse     time.Duration // when the Sleeper or the Mover wants to be asked again
	ordered   []sched.PowerOrder
	copies    []sched.CopyOrder
	idle      int           // number of wakes in a row with no other event
	steps     int           // number of steps at the present moment
	last      time.Duration // of the last event
	drains    drains
	orders    []func(*sched.View, *sched.Plan)
	inherited []job.ID        // see inherit
	profile   map[job.ID]bool // jobs that were assigned devices only to be measured there
	seen      observer
	beliefs   beliefs
}

// maxIdleWakes is the number of wakes in a row after which a run ends, if
// nothing else can ever happen.
const maxIdleWakes = 10_000

// maxSteps is the number of steps at one moment after which a run fails. The
// policy's decisions then have immediate effects that make it decide otherwise,
// again and again.
const maxSteps = 100_000

// New prepares a run.
func New(cfg Config, world World) *Engine {
	if cfg.Tenants == nil {
		cfg.Tenants = tenant.NewTree(0)
	}
	if cfg.Estimator == nil {
		cfg.Estimator = predict.None{}
	}
	if cfg.Costs == nil {
		cfg.Costs = &perf.Costs{}
	}
	if cfg.Sharing == nil {
		cfg.Sharing = perf.Alone{}
	}
	if cfg.Transfer == nil {
		cfg.Transfer = perf.Strangers{}
	}
	if cfg.Speeds == nil {
		cfg.Speeds = perf.Analytic{Scaling: 1, Spread: 1}
	}
	e := &Engine{
		cfg: cfg, world: world, can: abilitiesOf(world), state: state.New(cfg.Cluster, cfg.Tenants),
		rand: rand.New(rand.NewPCG(cfg.Seed, 0x6e6f726e)), first: true, wake: unit.Never, rouse: unit.Never, profile: map[job.ID]bool{},
	}
	e.state.Believe(cfg.Speeds)
	e.SetPolicy(cfg.PolicyName, cfg.Policy)
	e.believe()
	return e
}

// Resume goes on from a state, such as that at the end of a log, instead of
// from an empty one. It must be called before the first Step, if at all. The
// policy is told of every active job.
//
// An earlier policy may have let jobs share devices although the present one is
// Exclusive. Such jobs go on. Each has the same fraction of its demand, so no
// other job is placed beside them, and gets all of its demand once it is alone.
func (e *Engine) Resume(s *state.State) {
	e.state, e.last = s, s.Now
	s.Believe(e.cfg.Speeds)
	for i := range s.Jobs() {
		if s.Record(job.ID(i)).Phase == job.Stopping {
			e.drains.leave(s.Cluster, job.ID(i), nil)
		}
	}
	for i := range s.Jobs() {
		if s.Record(job.ID(i)).Phase == job.Assigned {
			e.drains.resume(s.Cluster, job.ID(i), s.Alloc(job.ID(i)))
		}
	}
	for i := range s.Jobs() {
		if r := s.Record(job.ID(i)); r.Phase == job.Running {
			e.cfg.Linked.Enter(r.Job, s.Cluster, s.Alloc(job.ID(i)))
		}
	}
	e.inherit()
	e.believe()
}

// Order adds something to the policy's decision: f is called once, after the
// policy's next decision and in the same plan. A person's request that is a
// choice of devices, such as another size, is carried out this way.
func (e *Engine) Order(f func(v *sched.View, p *sched.Plan)) { e.orders = append(e.orders, f) }

// SetPolicy replaces the policy, as a restart does. The new one is told of
// every active job.
func (e *Engine) SetPolicy(name string, p sched.Policy) {
	e.cfg.PolicyName, e.cfg.Policy = name, p
	e.waker, _ = p.(sched.Waker)
	e.why, _ = p.(sched.Explainer)
	e.first = true
}

// Announce tells the sinks of the nodes that are there from the start, as a log
// begins with. It must be called before the first Step, if at all.
func (e *Engine) Announce() {
	for _, ev := range eventlog.Inventory(e.cfg.Cluster) {
		for _, sink := range e.cfg.Sinks {
			sink.Event(&ev, e.state)
		}
	}
}

// State is the state of the run. It must not be changed.
func (e *Engine) State() *state.State { return e.state }

// Run goes on until the world has nothing more to tell, or the context ends.
func (e *Engine) Run(ctx context.Context) error {
	for {
		if err := ctx.Err(); err != nil {
			return err
		}
		if err := e.Step(); errors.Is(err, io.EOF) {
			return nil
		} else if err != nil {
			return err
		}
	}
}

// horizon is the end of time: beyond it sums of times could overflow, and no log
// can carry them.
const horizon = time.Duration(unit.MaxScaled)

// Step handles one instant. io.EOF says that the run is over; the state is then
// that of its last event.
func (e *Engine) Step() error {
	now, events, err := e.world.Next(min(e.wake, e.rouse), e.events[:0])
	e.events = events
	if errors.Is(err, io.EOF) {
		if now, e.idle = min(e.wake, e.rouse), e.idle+1; e.wake == unit.Never || e.idle > maxIdleWakes {
			e.state.Now = e.last
			return io.EOF
		}
	} else if err != nil {
		return err
	} else if len(events) > 0 {
		e.idle = 0
	}
	switch {
	case now < e.state.Now:
		return fmt.Errorf("the world went back from %v to %v", e.state.Now, now)
	case now > horizon:
		return e.tooFar()
	}
	e.steps++
	if now > e.state.Now {
		e.steps = 0
		if err := e.settled(); err != nil {
			return err
		}
	}
	if e.steps > maxSteps {
		return e.mistake(errors.New("it changes its mind again and again, and time stands still"))
	}
	e.state.Now = now
	for i := range events {
		if err := e.happen(&events[i]); err != nil {
			return err
		}
	}
	if e.first { // in a resumed run, start the assigned jobs for which the last leaver had left before
		if err := e.left(job.None); err != nil {
			return err
		}
	}
	if err := e.handOver(); err != nil {
		return err
	}
	if err := e.decide(); err != nil {
		return err
	}
	if err := e.handOver(); err != nil {
		return err
	}
	if err := e.power(); err != nil {
		return err
	}
	return e.move()
}

// tooFar is the error of a run that goes on for longer than time can be counted.
func (e *Engine) tooFar() error {
	who := "nothing runs any more, but the policy wants to be woken again and again"
	for i := range e.state.Jobs() {
		if r := e.state.Record(job.ID(i)); r.Phase == job.Running {
			who = fmt.Sprintf("job %s, for one, runs since %s at speed %g", r.Job.Key, unit.Human(r.Since), r.Speed)
			break
		}
	}
	return e.mistake(fmt.Errorf("the run does not end within %s, which is as far as time is counted: %s", unit.Human(horizon), who))
}

// happen folds in one event of the world.
func (e *Engine) happen(ev *eventlog.Event) error {
	if ev.Kind == eventlog.Submit {
		ev.Job, ev.Estimate = ev.Spec.ID, -1
		if d, ok := e.estimate(ev.Spec); ok {
			ev.Estimate = d
		}
	}
	if err := e.apply(ev); err != nil {
		return fmt.Errorf("the world told what cannot be: %w", err)
	}
	switch ev.Kind {
	case eventlog.End:
		r := e.state.Record(ev.Job)
		e.cfg.Estimator.Observe(r.Job, r.Progress)
		return e.left(ev.Job) // if it was to leave its devices, it has left them
	case eventlog.Gone:
		return e.left(ev.Job)
	case eventlog.Evict, eventlog.Cancel:
		e.drains.forget(e.state.Cluster, ev.Job)
		return e.left(ev.Job) // if it was still leaving its devices, it has left them
	case eventlog.Resize: // it has lost a node, and goes on without it
		e.changes = append(e.changes, sched.Change{Job: ev.Job, Kind: sched.Altered})
	case eventlog.Fail:
		return e.estimateAgain(ev.Job)
	case eventlog.NodeSet:
		if on := e.state.JobsOn(ev.Node, nil); ev.Health == cluster.Down && len(on) > 0 {
			return fmt.Errorf("the world told that node %s went down and left job %s there",
				e.state.Cluster.Node(ev.Node).Name, e.state.Record(on[0]).Job.Key)
		}
	}
	return nil
}

// estimateAgain asks the estimator about the next attempt of a job.
func (e *Engine) estimateAgain(id job.ID) error {
	r := e.state.Record(id)
	d, ok := e.estimate(r.Job)
	if !ok || d == r.Estimate {
		return nil
	}
	e.ev = eventlog.Event{Time: e.state.Now, Kind: eventlog.Estimate, Job: id, Estimate: d}
	return e.apply(&e.ev)
}

// apply folds one event in, notes what the policy must hear of, and tells the
// sinks.
func (e *Engine) apply(ev *eventlog.Event) error {
	e.expect(ev)
	if err := Apply(e.state, ev); err != nil {
		return err
	}
	e.last = ev.Time
	e.link(ev)
	switch ev.Kind {
	case eventlog.Submit, eventlog.Free:
		e.changes = append(e.changes, sched.Change{Job: ev.Job, Kind: sched.Arrived})
	case eventlog.Preempt:
		if e.state.Record(ev.Job).Phase == job.Waiting {
			e.changes = append(e.changes, sched.Change{Job: ev.Job, Kind: sched.Stopped})
		}
	case eventlog.Gone, eventlog.Evict, eventlog.Fail:
		e.changes = append(e.changes, sched.Change{Job: ev.Job, Kind: sched.Stopped})
	case eventlog.End, eventlog.Cancel, eventlog.Hold:
		e.changes = append(e.changes, sched.Change{Job: ev.Job, Kind: sched.Ended})
	case eventlog.Speed, eventlog.Progress, eventlog.Estimate, eventlog.Config, eventlog.Saved:
		e.changes = append(e.changes, sched.Change{Job: ev.Job, Kind: sched.Altered})
	case eventlog.NodeLabels:
		e.nodes = true
		e.reconsider()
	case eventlog.NodeAdd, eventlog.NodeSet, eventlog.Device, eventlog.Foreign, eventlog.Recall:
		e.nodes = true
	}
	for _, sink := range e.cfg.Sinks {
		sink.Event(ev, e.state)
	}
	return e.watch(ev)
}

// reconsider tells the policy of the waiting jobs that may use only some nodes, and of
// those that could never run, as if they were held and released. Labels have changed: a
// job that could run may never run from now on, or the other way round.
func (e *Engine) reconsider() {
	for p := range cluster.PoolID(e.state.Cluster.Pools()) {
		for i := range e.state.Waiting(p).All() {
			id := job.ID(i)
			if r := e.state.Record(id); r.Reason.Never() || e.state.Class(r.Class).Restricted() {
				e.changes = append(e.changes, sched.Change{Job: id, Kind: sched.Ended}, sched.Change{Job: id, Kind: sched.Arrived})
			}
		}
	}
}

// decide asks the policy and carries out its plan.
func (e *Engine) decide() error {
	if e.first {
		e.changes = e.everything(e.changes[:0])
	}
	if n := cluster.Overbookings(e.state.Cluster); n != e.overs { // a job has left a device that others use as well
		e.nodes, e.overs = true, n
	}
	woken := e.wake <= e.state.Now
	arrived := len(e.changes)
	e.view = sched.NewView(e.state, e.changes, e.nodes)
	e.view.First, e.view.Woken, e.view.Rand, e.view.Costs = e.first, woken, e.rand, e.cfg.Costs
	e.view.Speeds, e.view.Sharing, e.view.Transfer = e.cfg.Speeds, e.cfg.Sharing, e.cfg.Transfer
	e.view.Variability, e.view.Sockets = e.variability(), e.cfg.Linked.Sockets()
	if e.cfg.Each != nil {
		e.view.Each = e.cfg.Each
	}
	e.view.Profiles = e.can.profile != nil
	if e.can.measure != nil {
		e.view.Lag = e.can.measure.SpeedLag()
	}
	e.plan.Open(&e.view)
	err := e.timed()
	if errors.Is(err, ErrOverdue) { // the policy still works on the plan
		return err
	}
	if err == nil {
		err = e.obey()
	}
	if err != nil {
		e.plan.Discard()
		return err
	}
	if err := e.plan.Commit(); err != nil {
		return e.mistake(fmt.Errorf("it made a plan that cannot be: %w", err))
	}
	if err := e.carryOut(); err != nil {
		return e.mistake(err)
	}
	if err := e.explain(e.changes[:arrived]); err != nil {
		return err
	}
	// The effects of the plan itself are changes for the next call.
	e.changes = append(e.changes[:0], e.changes[arrived:]...)
	e.nodes, e.first = false, false
	return e.askWake()
}

// ask has the policy decide, for as long as it may.
func (e *Engine) ask() error {
	if e.cfg.Budget == 0 {
		return e.consult()
	}
	decided := make(chan error, 1)
	go func() { decided <- e.consult() }()
	late := time.NewTimer(e.cfg.Budget)
	defer late.Stop()
	select {
	case err := <-decided:
		return err
	case <-late.C:
		return e.mistake(fmt.Errorf("%w within %s", ErrOverdue, unit.Human(e.cfg.Budget)))
	}
}

// timed is ask, and tells how long it took.
func (e *Engine) timed() error {
	if e.cfg.Decided == nil {
		return e.ask()
	}
	began := time.Now()
	err := e.ask()
	e.cfg.Decided(time.Since(began), e.state)
	return err
}

// obey adds to the plan what was ordered.
func (e *Engine) obey() (err error) {
	defer e.guard(&err)
	orders := e.orders
	e.orders = e.orders[:0]
	for _, order := range orders {
		order(&e.view, &e.plan)
	}
	return nil
}

// consult calls the policy.
func (e *Engine) consult() (err error) {
	defer e.guard(&err)
	e.cfg.Policy.Decide(&e.view, &e.plan)
	return nil
}

// guard turns a panic of what defers it into an error.
func (e *Engine) guard(err *error) {
	if r := recover(); r != nil {
		*err = e.mistake(&PanicError{Value: r, Stack: debug.Stack()})
	}
}

func (e *Engine) askWake() error {
	e.wake = unit.Never
	if e.waker == nil {
		return nil
	}
	if e.wake = e.waker.NextWake(&e.view); e.wake <= e.state.Now {
		return e.mistake(fmt.Errorf("it wants to be woken at %s, which is not later", unit.Human(e.wake)))
	}
	return nil
}

// everything lists every active job, for a policy that starts anew.
func (e *Engine) everything(out []sched.Change) []sched.Change {
	for i := range e.state.Jobs() {
		switch r := e.state.Record(job.ID(i)); {
		case r.Phase == job.Waiting && r.Starts == 0:
			out = append(out, sched.Change{Job: job.ID(i), Kind: sched.Arrived})
		case r.Phase == job.Waiting:
			out = append(out, sched.Change{Job: job.ID(i), Kind: sched.Stopped})
		case r.Phase.HasDevices():
			out = append(out, sched.Change{Job: job.ID(i), Kind: sched.Runs})
		}
	}
	return out
}

// carryOut turns the difference between plan and state into events and actions.
// Jobs that leave come first, then those that change, then those that start.
func (e *Engine) carryOut() error {
	ops := e.plan.Ops()
	e.state.Booked(true)
	defer e.state.Booked(false)
	for i := range ops {
		if op := &ops[i]; op.Was != nil && op.Now == nil {
			if err := e.stop(op); err != nil {
				return err
			}
		}
	}
	for _, m := range e.plan.Merges() {
		if err := e.merge(&m); err != nil {
			return err
		}
	}
	for i := range ops {
		if op := &ops[i]; op.Was != nil && op.Now != nil && op.Was != op.Now && !op.Was.Equal(op.Now) {
			if err := e.reshape(op); err != nil {
				return err
			}
		}
	}
	return e.starts(ops)
}

// starts begins the newcomers of a plan, or assigns them what others are still
// leaving. Newcomers of earlier plans come first, for which jobs that left at once
// may have made room.
func (e *Engine) starts(ops []sched.Op) error {
	for i := range ops {
		if op := &ops[i]; op.Was == nil && op.Now != nil {
			e.drains.expect(e.state.Cluster, op.Now)
		}
	}
	if err := e.left(job.None); err != nil {
		return err
	}
	for i := range ops {
		if op := &ops[i]; op.Was == nil && op.Now != nil {
			if err := e.start(op); err != nil {
				return err
			}
		}
	}
	return e.notes()
}

// notes carries out the parts of the plan that are only records: reasons and
// notes.
func (e *Engine) notes() error {
	for _, n := range e.plan.Notes() {
		if e.state.Record(n.Job).Note.Equal(n.Note) {
			continue
		}
		e.ev = eventlog.Event{Time: e.state.Now, Kind: eventlog.Memo, Job: n.Job, Note: n.Note}
		if err := e.apply(&e.ev); err != nil {
			return err
		}
	}
	holds := e.plan.Waits()
	for i := range holds {
		if err := e.waits(holds[i].Job, holds[i].Why); err != nil {
			return err
		}
	}
	return nil
}

// waits records why a job waits, if the reason is new. Another count of free
// GPUs does not make it new; another promised moment does.
func (e *Engine) waits(id job.ID, why job.Reason) error {
	r := e.state.Record(id)
	was := r.Reason
	same := was.Code == why.Code && was.Job == why.Job && was.Need == why.Need && was.Text == why.Text
	if r.Phase != job.Waiting || same && (was.At == why.At || !why.Promises()) {
		return nil
	}
	e.ev = eventlog.Event{Time: e.state.Now, Kind: eventlog.Wait, Job: id, Reason: why}
	return e.apply(&e.ev)
}

// explain gives a reason to each job that came and was left waiting, and to
// each one that can never run.
func (e *Engine) explain(changes []sched.Change) error {
	for _, ch := range changes {
		if ch.Kind != sched.Arrived && ch.Kind != sched.Stopped {
			continue
		}
		r := e.state.Record(ch.Job)
		never := r.Reason.Never() && r.Reason.Code != job.NoSuchNode && r.Reason.Code != job.TooLarge
		told := ch.Kind == sched.Stopped && waitReason(r.Reason)
		if r.Phase != job.Waiting || never || told && !e.first && !e.state.Class(r.Class).Restricted() {
			continue
		}
		why := e.plan.Never(ch.Job, place.Pack)
		if told { // labels may have changed while it ran, which the policy may not look at, or not see where it starts anew
			why = e.plan.NeverAtAnySize(ch.Job, place.Pack)
		}
		switch {
		case why.Code != job.NoReason:
		case waitReason(r.Reason) && !r.Reason.Never():
			continue
		case e.why != nil:
			why = e.why.Why(&e.view, ch.Job)
		default:
			why = job.Reason{Code: job.Outranked, Job: job.None}
		}
		if err := e.waits(ch.Job, why); err != nil {
			return err
		}
	}
	return nil
}

func waitReason(r job.Reason) bool { return r.Code > job.NoReason && r.Code <= job.Because }

func (e *Engine) start(op *sched.Op) error {
	if e.drains.blocks(e.state.Cluster, op.Job, op.Now) {
		e.profile[op.Job] = op.Profile
		e.ev = eventlog.Event{Time: e.state.Now, Kind: eventlog.Assign, Job: op.Job, Alloc: op.Now}
		return e.apply(&e.ev)
	}
	return e.begin(op.Job, op.Now, op.Now, op.Profile)
}

// begin starts a job on its allocation. given is nil for a job that has been
// assigned its devices before. With profile the job is there only to be
// measured.
func (e *Engine) begin(id job.ID, on, given *cluster.Alloc, profile bool) error {
	e.ev = eventlog.Event{Time: e.state.Now, Kind: eventlog.Start, Job: id, Alloc: given}
	if profile && e.can.profile != nil {
		e.ev.Delay, e.ev.Profile = e.can.profile.Profile(id, on), true
	} else {
		e.ev.Delay, e.ev.Speed = e.world.Start(id, on)
	}
	return e.apply(&e.ev)
}

// merge changes how a job is trained.
func (e *Engine) merge(m *sched.Merge) error {
	kept := e.state.Record(m.Job).ProgressAt(e.state.Now)
	if e.can.merge != nil {
		kept = e.can.merge.Merge(m.Job, m.How, m.With)
	}
	e.ev = eventlog.Event{Time: e.state.Now, Kind: eventlog.Merge, Job: m.Job, How: m.How, With: m.With, Kept: kept}
	return e.apply(&e.ev)
}

func (e *Engine) stop(op *sched.Op) error {
	e.ev = eventlog.Event{Time: e.state.Now, Kind: eventlog.Preempt, Job: op.Job, AtOnce: true, Reason: op.Why}
	r := e.state.Record(op.Job)
	if r.Phase == job.Assigned {
		e.drains.forget(e.state.Cluster, op.Job)
		e.ev.Kept = r.Progress
	} else {
		e.ev.Kept, e.ev.AtOnce = e.world.Stop(op.Job)
		if !e.ev.AtOnce {
			e.drains.leave(e.state.Cluster, op.Job, op.Was)
		}
	}
	return e.apply(&e.ev)
}

func (e *Engine) reshape(op *sched.Op) error {
	if e.state.Record(op.Job).Phase == job.Assigned {
		return fmt.Errorf("job %s: cannot move it before it has started", e.state.Record(op.Job).Job.Key)
	}
	kind := eventlog.Move
	if op.Was.Tasks(0) != op.Now.Tasks(0) {
		kind = eventlog.Resize
	}
	pause, speed := e.world.Reshape(op.Job, op.Now, kind == eventlog.Move)
	e.ev = eventlog.Event{Time: e.state.Now, Kind: kind, Job: op.Job, Alloc: op.Now, Delay: pause, Speed: speed}
	if kind == eventlog.Move && op.Why.Code == job.MakesRoom && op.Why.Job != job.None || op.Why.Code == job.TakenBack {
		e.ev.Reason = op.Why
	}
	return e.apply(&e.ev)
}

// left starts the assigned jobs that waited only for this job to leave; with no job,
// those that wait for nobody any more.
func (e *Engine) left(id job.ID) error {
	for _, next := range e.drains.left(e.state.Cluster, id) {
		if err := e.begin(next, e.state.Alloc(next), nil, e.profile[next]); err != nil {
			return err
		}
	}
	return nil
}
