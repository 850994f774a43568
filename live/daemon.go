package live

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"iter"
	"log/slog"
	"slices"
	"sync/atomic"
	"time"

	"github.com/norn-scheduler/norn/api"
	"github.com/norn-scheduler/norn/cluster"
	"github.com/norn-scheduler/norn/engine"
	"github.com/norn-scheduler/norn/eventlog"
	"github.com/norn-scheduler/norn/experiment"
	"github.com/norn-scheduler/norn/experiment/foreign"
	"github.com/norn-scheduler/norn/internal/workers"
	"github.com/norn-scheduler/norn/job"
	"github.com/norn-scheduler/norn/live/planner"
	"github.com/norn-scheduler/norn/perf"
	"github.com/norn-scheduler/norn/perf/predict"
	"github.com/norn-scheduler/norn/perf/predict/devices"
	"github.com/norn-scheduler/norn/policy/defrag"
	"github.com/norn-scheduler/norn/sched"
	"github.com/norn-scheduler/norn/state"
	"github.com/norn-scheduler/norn/tenant"
)

// World is where jobs run: the machine, or the cluster. It is called in the goroutine of
// the loop, and notes what is to be done as acts of that.
type World interface {
	engine.World
	// Leave has what there is of a job's run leave, whatever a policy wants. An
	// event tells the outcome later.
	Leave(j *Job, p Purpose, why string)
	// There tells whether anything of a run of a job may be there.
	There(j *Job) bool
	// Describe fills in what the world alone knows of a job.
	Describe(j *Job, out *api.Job)
	// Explain fills in what happens when the job is stopped, and what its run is
	// confined to.
	Explain(j *Job, out *api.Why)
}

// Config is what a Daemon is made of.
type Config struct {
	World   World
	Journal *Journal
	Log     *slog.Logger
	Version string

	Kind string // of the world, for logs
	Name string // of the machine or cluster, for logs
	// Cluster makes what is shared out, all of it in working order, and Tenants a fresh
	// tree of the configured tenants.
	Cluster func() (*cluster.Cluster, error)
	Tenants func() (*tenant.Tree, error)
	Names   Names

	Policy    experiment.Choice
	Defrag    *defrag.Config // moves jobs together for gangs that would wait, under policies that do not share GPUs; nil: nobody does
	Estimator predict.Estimator
	Estimates string        // its name, for logs
	Speeds    perf.Typed    // what is believed of speeds
	Transfer  perf.Transfer // what is believed that merged jobs learn from each other; nil: nothing
	Budget    time.Duration // of a decision; 0: the usual one
	Compact   int           // events after which a new log is begun
	Recent    int           // ended jobs that are kept in memory
	Jobs      int           // that have not ended, at most; 0: no limit
	Quotas    Quotas        // of users and tenants

	Folded func()                            // the last log has been read: the state is known
	Recall func(r *job.Record) (*Job, error) // makes a job of an earlier log known again; nil: nothing is known of it any more
	// Tell is what the world itself tells of its jobs, in a world where that is the truth and
	// logs are only the history; nil: the last log is the truth.
	Tell    func() (Told, error)
	Refit   func() (other bool, err error) // throws back jobs whose devices are gone; tells whether there are other devices
	Exclude func(*cluster.Cluster)         // takes out what is not to be used
	// Ordered takes in what operators had ordered of nodes and devices, as the last log
	// tells it: events of the kinds NodeSet and Device. It writes nothing; mend does, and may
	// be nil. Orders are those that hold now, with which a new log begins.
	Ordered func(orders []eventlog.Event) (mend func() error, err error)
	Orders  func() []eventlog.Event
	Correct func(*eventlog.Event)  // corrects what a new log tells of a job that is carried over; nil: nothing has to be
	Find    func(*Job)             // finds out what has become of a job's run
	Ended   func(*Job)             // a job has ended: nothing of it need be kept
	Stands  func(*Job)             // a job was held, let go, or is held for another reason; nil: the log alone need know
	Stray   func(*Job)             // ends what may be left of a job that had ended
	SendOff func(key string) error // ends what runs of a job that waits, and waits for that
	// Folders are the numbers of the submissions of which there are folders, and Remains
	// what these tell; SetAside takes them out of the way. nil: there are none.
	Folders  func() []string
	Remains  func(base string) ([]Remains, error)
	SetAside func(base string) error
	// Node fills in what the world alone knows of a node, such as why it is down, and of its
	// devices; it returns false for one that is only left in the ledger. nil: it knows nothing.
	Node    func(id cluster.NodeID, out *api.Node) bool
	Planner *planner.Planner           // answers what-ifs; nil: nobody does
	Closed  func() (why, frees string) // why nothing new is started, and the verb that ends that; empty: it is
	Trouble func() []string            // what else is wrong, one sentence each
}

// Daemon is what every live world has: the engine with its state, the jobs that have not
// ended, the log, and the answers to those who ask.
type Daemon struct {
	Loop  *Loop
	Tally Tally
	books

	cfg    Config
	log    *slog.Logger
	choice experiment.Choice
	policy sched.Policy // in force; it may be a program that has to be ended
	lacks  []string     // what it lives on and the machine cannot give
	eng    *engine.Engine
	st     *state.State
	epoch  Epoch
	costs  *perf.Costs // as a policy that is left alone has them, see recovery.setAside
	jobs   []*Job      // by number; nil when it has ended
	byKey  map[string]*Job
	shapes job.Interner
	failed error // why nothing can be written any more
	past   *past // from which it has still to go on; nil: it has

	arrived   []*Job             // submitted in this instant, by number: the engine has no record of them yet
	undecided []chan<- error     // orders of other sizes in this instant
	rolling   *experiment.Choice // the policy that comes into force
	renews    bool               // a new log is to begin under the same policy
	lets      bool               // it is another one: see engine.RestoreDemand
	refit     bool               // the devices are others than those of the last log
	mistake   string             // what is wrong with the policy
	findings  []api.Finding      // what was found wrong with what is kept
	counts    counts             // whom jobs belong to
	outlook   outlook
	devices   *devices.Learner // of which are slower than others, whatever the policy
	turning   bool             // those who wait for their turn are to be looked at

	programs chan struct{} // see forecast

	ready   atomic.Bool
	stalled atomic.Pointer[string] // why it can only be asked; nil: it does all
	started time.Time
}

// New makes a daemon; Recover has it go on from where the last one was.
func New(c Config) *Daemon {
	if c.Folders == nil {
		c.Folders = func() []string { return nil }
	}
	d := &Daemon{cfg: c, log: c.Log, books: books{journal: c.Journal}, choice: c.Policy, byKey: map[string]*Job{}, counts: counts{}, costs: &perf.Costs{}, devices: devices.New(), programs: make(chan struct{}, 1), started: time.Now()}
	d.recent.Most = c.Recent
	d.Loop = NewLoop(d.log, Hooks{Durable: d.durable, Settled: func() time.Duration { return d.st.Now }, Mark: d.mark})
	return d
}

// State is the state of the run. It must not be changed.
func (d *Daemon) State() *state.State { return d.st }

// Costs are what transitions are measured to take.
func (d *Daemon) Costs() *perf.Costs { return d.costs }

// Epoch is the number of the present log.
func (d *Daemon) Epoch() int { return d.epoch.N }

// All visits the jobs that have not ended, by number.
func (d *Daemon) All() iter.Seq[*Job] {
	return func(yield func(*Job) bool) {
		for _, l := range d.jobs {
			if l != nil && !yield(l) {
				return
			}
		}
	}
}

// Shape is a demand as all jobs have it that demand the same.
func (d *Daemon) Shape(demand job.Demand) *job.Demand { return d.shapes.Get(demand) }

// Of is a job that has not ended, by its number.
func (d *Daemon) Of(id job.ID) *Job { return d.jobs[id] }

// By is a job that has not ended, by its key; nil: there is none.
func (d *Daemon) By(key string) *Job { return d.byKey[key] }

// Admit takes in a job. It is there for everybody else when the engine has its record:
// see appear. The serial of a job with a name is the one that spec has, which must be above
// 0 and rise with submissions, or if that is 0 the next one.
func (d *Daemon) Admit(l *Job, spec job.Job) {
	l.ID = job.ID(len(d.jobs) + len(d.arrived))
	spec.ID = l.ID
	if n := serial(l.Key); n > 0 {
		spec.Serial = n
	} else if spec.Serial == 0 {
		spec.Serial = max(1, d.st.Submitted()+int64(len(d.arrived)))
	}
	l.After = holds{d}.unmet(l)
	d.arrived = append(d.arrived, l)
	d.Loop.Mark(l.ID)
	why, held := holds{d}.mustWait(l)
	d.counts.set(l, map[bool]standing{false: ready, true: kept}[held])
	d.Loop.Emit(eventlog.Event{Kind: eventlog.Submit, Job: l.ID, Spec: &spec, Held: held})
	if held { // should this be torn off the log, it is held all the same
		d.Loop.Emit(eventlog.Event{Kind: eventlog.Hold, Job: l.ID, Reason: why})
	}
}

// mark lets what a request has noted be taken back.
func (d *Daemon) mark() (undo func()) {
	arrived := len(d.arrived)
	return func() {
		for _, l := range d.arrived[arrived:] {
			d.counts.set(l, gone)
		}
		d.arrived = d.arrived[:arrived]
	}
}

// appear makes the next job that was submitted in this instant one of those that
// everybody sees: the engine has just made its record.
func (d *Daemon) appear() {
	l := d.arrived[0]
	if d.arrived = d.arrived[1:]; len(d.arrived) == 0 {
		d.arrived = nil
	}
	d.jobs, d.byKey[l.Key] = append(d.jobs, l), l
}

// Run decides until the context ends, or until the log cannot be written. begin is called
// when it can take work. It waits for all acts.
func (d *Daemon) Run(ctx context.Context, begin func()) error {
	defer d.Loop.End()
	defer d.feed.End()
	context.AfterFunc(ctx, func() {
		d.Loop.Post(func() error { d.Loop.Halt(); return nil })
	})
	if err := (recovery{d}).waitForRoom(); err != nil || d.Loop.Halted() {
		return err
	}
	d.ready.Store(true)
	defer d.ready.Store(false)
	begin()
	d.Loop.Every(keepEvery, func() { d.tryHistory(d.log) })
	for !d.Loop.Halted() { // what was asked in its last instant is still decided and written
		if err := d.step(); err != nil {
			return err
		}
	}
	return nil
}

// Close closes the log, and ends a policy that is a program.
func (d *Daemon) Close() {
	endProgram(d.policy, d.log)
	d.policy = nil
	d.epoch.Close()
}

// endProgram ends a policy that is a program.
func endProgram(p sched.Policy, log *slog.Logger) {
	if c, ok := p.(io.Closer); ok {
		if err := c.Close(); err != nil {
			log.Warn("the program of a policy", "error", err)
		}
	}
}

// Event implements engine.Sink: every event goes to the log, to the watchers, and
// into the life of its job.
func (d *Daemon) Event(ev *eventlog.Event, s *state.State) {
	d.epoch.Write(ev)
	d.Tally.Count(ev)
	switch ev.Kind {
	case eventlog.Submit:
		d.appear()
	case eventlog.Measured:
		d.devices.Observe(s.Record(ev.Job).Job, ev.Measured)
	}
	text := EventText(ev, s, d.cfg.Names)
	e := api.Event{Time: d.Loop.Clock.Wall(ev.Time), Kind: ev.Kind.String()}
	if AboutJob(ev.Kind) {
		l := d.jobs[ev.Job]
		text = l.where.Text(ev, s, d.cfg.Names, text)
		e.Job, e.User = l.Key, l.User
		if text != "" {
			l.Life.Remember(e.Time, text)
		}
		l.Course.Note(ev.Time, s, ev.Job, d.cfg.Names)
		d.count(l, s.Record(ev.Job).Phase)
		if d.cfg.Stands != nil && (ev.Kind == eventlog.Hold || ev.Kind == eventlog.Free || ev.Kind == eventlog.Wait) {
			d.cfg.Stands(l)
		}
		if s.Record(ev.Job).Phase.Over() {
			d.bury(ev.Job)
		}
	}
	if e.Text = text; text != "" {
		d.feed.Publish(e)
	}
}

// durable makes what was decided durable.
func (d *Daemon) durable() error {
	if err := d.epoch.Sync(); err != nil {
		d.failed = fmt.Errorf("the event log cannot be written, so that nothing more may be decided; jobs go on: %w", err)
		return d.failed
	}
	d.tryHistory(d.log)
	return nil
}

// keepEvery is how often the history is tried again that could not be written.
const keepEvery = 5 * time.Second

// Average takes one more measurement into a running mean.
func Average(mean *time.Duration, v time.Duration) {
	if *mean == 0 {
		*mean = v
		return
	}
	*mean += (v - *mean) / 8
}

// belief is what is believed of jobs that share a device before anything was seen: that
// they take turns as the stages say that they tell, or else share what they demand.
func belief() *perf.Learner {
	return &perf.Learner{First: perf.Profiled{Turns: perf.Interleave{Overhead: perf.PublishedOverhead()}}}
}

// newEngine makes the engine of an epoch.
func (d *Daemon) newEngine() error {
	p, err := d.choice.Make()
	if err != nil {
		return err
	}
	endProgram(d.policy, d.log)
	d.policy = p
	if f, ok := p.(*foreign.Policy); ok {
		f.Stderr = &said{log: d.log}
	}
	believe := d.choice.Believe()
	budget := cmp.Or(d.cfg.Budget, max(usualBudget, d.choice.Patience()))
	if d.choice.String() == fallback.String() { // nothing is left to fall back to
		budget = 0
	}
	d.eng = engine.New(engine.Config{
		Cluster: d.st.Cluster, Tenants: d.st.Tenants, Policy: d.choice.Moving(p, d.cfg.Defrag), PolicyName: d.choice.Policy,
		Estimator: d.cfg.Estimator, Costs: d.costs, Speeds: d.cfg.Speeds, Sharing: belief(), Transfer: d.cfg.Transfer, Believe: believe, Exclusive: !d.choice.Shares(), Seed: 1, Sinks: []engine.Sink{d}, Budget: budget, Each: workers.Pool(0),
	}, d.cfg.World)
	d.eng.Resume(d.st)
	d.devices = devices.New()
	for _, m := range d.st.Readings.All() {
		d.devices.Observe(d.st.Record(m.Job).Job, m.Reading)
	}
	if lacks := lacking(d.choice, d.st, d.cfg.Speeds, d.cfg.Estimator); !slices.Equal(lacks, d.lacks) {
		d.lacks = lacks
		tellLacks(d.log, d.choice, lacks)
	}
	if d.lets {
		d.eng.RestoreDemand()
		d.lets = false
	}
	return nil
}

// step is one instant.
func (d *Daemon) step() error {
	err := d.eng.Step()
	d.Tally.Decisions.Observe(time.Since(d.Loop.Awake()).Seconds())
	switch {
	case d.failed != nil:
		return d.failed
	case errors.Is(err, engine.ErrOverdue):
		if d.failed = (recovery{d}).setAside(); d.failed != nil {
			return d.failed
		}
		d.fallBack(err)
	case errors.As(err, new(*engine.PolicyError)) && d.st.Check() == nil:
		d.fallBack(err)
	case err != nil:
		return err
	}
	if err := d.Loop.Commit(); err != nil {
		return err
	}
	d.undecided = d.undecided[:0]
	if d.rolling != nil || d.renews || len(d.buried) == 0 && d.epoch.Events >= d.cfg.Compact+d.epoch.Carried {
		return d.roll()
	}
	return nil
}

// usualBudget is how long a decision may take. Nobody is answered until it is made.
const usualBudget = 10 * time.Second

// fallback is the policy that replaces one which has failed.
var fallback = experiment.Choice{Policy: "fifo"}

// fallBack goes on under FIFO when the policy has made a mistake: who uses the
// machine must not suffer for it.
func (d *Daemon) fallBack(err error) {
	d.log.Error("the policy failed; going on with fifo", "policy", d.choice.String(), "error", err)
	d.mistake = fmt.Sprintf("policy %s failed and was replaced by fifo: %v", d.choice, err)
	for _, decided := range d.undecided { // the mistake may have come before them
		select {
		case decided <- api.Refuse(api.Unavailable, "the policy failed; try again"):
		default:
		}
	}
	choice := fallback
	if d.choice.String() == choice.String() {
		d.failed = fmt.Errorf("the policy failed: %w", err) // nothing is left to fall back to
		return
	}
	d.rolling = &choice
}

// Impose puts a policy in force that need not be in any table.
func (d *Daemon) Impose(name string, p sched.Policy) { d.eng.SetPolicy(name, p) }

// Kept counts what is kept in memory that could grow with the jobs that have ended. It is
// for tests of worlds.
func (d *Daemon) Kept() map[string]int {
	_, work, timers := d.Loop.Waiting()
	return map[string]int{
		"jobs": len(d.jobs), "live jobs": len(d.byKey), "records": d.st.Jobs(),
		"timers": timers, "things to do": work, "ended jobs": d.recent.Len(), "events": d.feed.Len(),
	}
}
