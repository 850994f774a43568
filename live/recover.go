package live

import (
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/norn-scheduler/norn/api"
	"github.com/norn-scheduler/norn/cluster"
	"github.com/norn-scheduler/norn/engine"
	"github.com/norn-scheduler/norn/eventlog"
	"github.com/norn-scheduler/norn/experiment"
	"github.com/norn-scheduler/norn/job"
	"github.com/norn-scheduler/norn/state"
	"github.com/norn-scheduler/norn/tenant"
)

// recovery is the daemon while it goes on from what the one before it left behind.
type recovery struct{ *Daemon }

// Recover reads what the daemon before this one left behind and goes on from
// there, in a new epoch.
func (d *Daemon) Recover() error {
	if d.cfg.Tell != nil {
		defer func() { d.feed.Begin(d.epoch.N) }()
		return recovery{d}.believe()
	}
	old, err := recovery{d}.survey()
	if err != nil {
		return err
	}
	defer func() { d.feed.Begin(d.epoch.N) }()
	if old == nil {
		return recovery{d}.found()
	}
	d.cfg.Folded()
	if err := (recovery{d}).findJobs(old); err != nil {
		return err
	}
	if err = (recovery{d}).goOn(old); NoRoom(err) {
		recovery{d}.stall(old, err)
		return nil
	}
	return err
}

// Survey holds what the daemon before this one left behind against itself, as Recover
// does, and writes nothing. Findings has what was found wrong then. It returns how many
// jobs would have to leave what they run on.
func (d *Daemon) Survey() (leave int, err error) {
	old, err := recovery{d}.survey()
	if old != nil {
		leave = len(old.strays)
	}
	return leave, err
}

// survey takes in what the last log, the history and the folders of the jobs tell, and
// holds them against each other. It writes nothing: old.mends has what is to be done. old
// is nil where nothing was left behind.
func (d recovery) survey() (old *past, err error) {
	old = &past{name: d.cfg.Names, ended: map[string]api.State{}}
	if old.epochs, err = d.journal.Epochs(); err != nil {
		return nil, err
	}
	old.folders = d.cfg.Folders()
	if err := d.readLog(old); err != nil {
		return nil, err
	}
	if err := d.readHistory(old); err != nil {
		return nil, err
	}
	if old.header == nil && len(old.folders)+d.Tally.Ended == 0 && old.mark == (mark{}) && len(old.epochs) == 0 {
		return nil, nil
	}
	if old.header == nil {
		if err := d.begunWithout(old); err != nil {
			return nil, err
		}
	}
	d.next.Store(old.nextNumber())
	d.Loop.Clock = NewClock(old.header.Origin, d.st.Now)
	mend, err := d.cfg.Ordered(slices.Collect(maps.Values(old.orders)))
	if err != nil {
		return nil, err
	}
	if mend != nil {
		old.mends = append(old.mends, mend)
	}
	return old, d.hold(old)
}

// goOn goes on from what was read, in a new epoch. Where there is no room for that it
// may be tried again.
func (d recovery) goOn(old *past) error {
	for len(old.mends) > 0 {
		if err := old.mends[0](); err != nil {
			return err
		}
		old.mends = old.mends[1:]
	}
	for _, key := range old.strays {
		if err := d.cfg.SendOff(key); err != nil {
			return err
		}
	}
	if err := d.catchUp(old); err != nil {
		return err
	}
	var err error
	if d.refit, err = d.cfg.Refit(); err != nil {
		return err
	}
	if experiment.ChoiceOf(old.header).String() != d.choice.String() {
		d.rolling = &d.choice // so that notes of the old policy are forgotten
		d.lets = old.header.Policy != d.choice.Policy
	}
	d.st.Now = max(d.st.Now, d.Loop.Clock.Now())
	if err := d.renew(old.newest+1, old.header.Origin); err != nil {
		return err
	}
	d.packOld(old.epochs)
	return nil
}

// renew begins a new epoch with what is left of the state.
func (d recovery) renew(n int, origin time.Time) error {
	tenants, err := d.tenants(d.st)
	if err != nil {
		return err
	}
	c, err := d.cfg.Cluster()
	if err != nil {
		return err
	}
	d.cfg.Exclude(c)
	fresh, err := d.begin(n, origin, d.st, c, tenants)
	if err != nil {
		return err
	}
	d.rolling, d.refit = nil, false
	d.adopt(fresh)
	if err := d.newEngine(); err != nil {
		return err
	}
	d.Loop.SetNow(fresh.Now)
	d.Loop.RequestDecision()
	for l := range d.All() {
		d.cfg.Find(l)
	}
	return nil
}

// found begins the first epoch of a new state folder.
func (d recovery) found() error {
	tenants, err := d.cfg.Tenants()
	if err != nil {
		return err
	}
	c, err := d.cfg.Cluster()
	if err != nil {
		return err
	}
	if mend, err := d.cfg.Ordered(nil); err != nil {
		return err
	} else if mend != nil {
		if err := mend(); err != nil {
			return err
		}
	}
	d.Loop.Clock = NewClock(time.Now(), 0)
	d.next.Store(1)
	d.cfg.Exclude(c)
	fresh, err := d.begin(1, d.Loop.Clock.Origin, state.New(cluster.New(), tenant.NewTree(0)), c, tenants)
	if err != nil {
		return err
	}
	d.adopt(fresh)
	return d.newEngine()
}

// Told is what a world tells of its jobs.
type Told struct {
	Origin time.Time // of time, which stays the same however often Norn is started
	// Jobs are events of the kind Carry, in order of submission, then of keys. Moments in
	// them that are still to come count as now.
	Jobs []eventlog.Event
}

// believe goes on from what the world tells of its jobs. The logs that are there are kept
// for what-ifs, and their history teaches the estimator.
func (d recovery) believe() error {
	old := &past{name: d.cfg.Names, ended: map[string]api.State{}}
	old.restart()
	var err error
	if old.epochs, err = d.journal.Epochs(); err != nil {
		return err
	}
	for _, n := range old.epochs {
		old.newest = max(old.newest, n)
	}
	told, err := d.cfg.Tell()
	if err != nil {
		return err
	}
	if err := d.readHistory(old); err != nil {
		return err
	}
	d.next.Store(1)
	d.Loop.Clock = NewClock(told.Origin, 0)
	if d.st, err = d.toldState(old, &told); err != nil {
		return err
	}
	for _, mend := range old.mends {
		if err := mend(); err != nil {
			return err
		}
	}
	d.cfg.Folded()
	if err := d.findJobs(old); err != nil {
		return err
	}
	for _, key := range old.strays {
		if err := d.cfg.SendOff(key); err != nil {
			return err
		}
	}
	if err := d.renew(old.newest+1, told.Origin); err != nil {
		return err
	}
	d.packOld(old.epochs)
	return nil
}

// toldState is a state of which the world tells. A job whose devices are not there or are
// others' by now waits.
func (d recovery) toldState(old *past, told *Told) (*state.State, error) {
	tenants, err := d.cfg.Tenants()
	if err != nil {
		return nil, err
	}
	c, err := d.cfg.Cluster()
	if err != nil {
		return nil, err
	}
	st := state.New(c, tenants)
	st.Now = d.Loop.Clock.Now()
	m := mending{recovery: d, old: old}
	for i := range told.Jobs {
		ev := &told.Jobs[i]
		ev.Time = st.Now
		ev.Record.Since, ev.Record.Placed = min(ev.Record.Since, st.Now), min(ev.Record.Placed, st.Now)
		if err := m.apply(st, ev); err != nil {
			return nil, err
		}
	}
	return st, nil
}

// packOld packs the logs of epochs that have ended, as far as a crash prevented
// it.
func (d recovery) packOld(epochs []int) {
	d.Loop.Go(func() {
		for _, n := range epochs {
			d.journal.Pack(n) // one that is packed has no plain file: nothing to do
		}
	})
}

// catchUp writes the history of those whose end the log tells and the history
// does not, and forgets the jobs that have ended.
func (d recovery) catchUp(old *past) error {
	var gone []*Job
	var missing []Ended
	for n, id := range d.st.Ended() {
		l := d.byKey[d.st.Record(id).Job.Key]
		if l == nil {
			continue
		}
		gone = append(gone, l)
		if !old.isTold(d.st.Record(id)) {
			missing = append(missing, Ended{Log: old.log, N: n, Job: d.View(l)})
		}
	}
	if len(missing) > 0 {
		if err := d.journal.AppendEnded(missing); err != nil {
			return fmt.Errorf("the history of jobs: %w", err)
		}
	}
	for i := range missing {
		old.ended[missing[i].Job.ID] = missing[i].Job.State
		d.recent.Add(missing[i].Job)
		d.observe(&missing[i].Job)
		d.Tally.Ended++
	}
	for _, l := range gone {
		delete(d.byKey, l.Key)
		d.cfg.Stray(l)
	}
	return nil
}

// findJobs makes what is known of the jobs of the old log, but for those that came
// to their end and of which the history tells: nothing of them is left.
func (d recovery) findJobs(old *past) error {
	done := make([]bool, d.st.Jobs())
	for n, id := range d.st.Ended() {
		r := d.st.Record(id)
		done[id] = old.isTold(r) && (n < d.st.Past() || r.Phase != job.Cancelled) // of which frozen processes may be left
	}
	for i := range job.ID(d.st.Jobs()) {
		if done[i] {
			continue
		}
		l, err := d.cfg.Recall(d.st.Record(i))
		if err != nil {
			return err
		}
		if l == nil {
			continue
		}
		l.ID = i
		l.intended(old.wants[i])
		d.byKey[l.Key] = l
		if w := old.where[i]; w != nil {
			l.where = *w
		}
		for _, line := range old.texts[i] {
			l.Life.Remember(d.Loop.Clock.Wall(line.at), line.text)
		}
		if c := old.courses[i]; c != nil {
			l.Course = *c
		}
	}
	return nil
}

// past is what is known of what a daemon left behind, and the sink that notes what a log
// tells beside the state.
type past struct {
	next    int64
	texts   map[job.ID][]lifeLine // of jobs that have not ended
	courses map[job.ID]*Course
	where   map[job.ID]*Whereabouts
	wants   map[job.ID]job.Reason      // what somebody wants of runs that have still to leave
	orders  map[subject]eventlog.Event // what operators have ordered of nodes and devices

	name Names

	epochs  []int            // the numbers of the logs
	log     int              // the number of the one that was read; 0: none can be
	newest  int              // the largest number that any log has had
	header  *eventlog.Header // of the one that was read
	mark    mark
	lacks   bool                 // the log does not tell all that was made durable
	folders []string             // the numbers under which there are folders of jobs
	ended   map[string]api.State // the jobs of which the history tells, as far as anybody asks
	mends   []func() error       // what is to be done about what was found wrong
	strays  []string             // jobs that wait, and of which something runs
}

// isTold tells whether the history tells of a job that has ended.
func (p *past) isTold(r *job.Record) bool { return p.ended[r.Job.Key] != "" }

type lifeLine struct {
	at   time.Duration
	text string
}

// restart makes the sink forget, for a log that is read again.
func (p *past) restart() engine.Sink {
	p.next, p.texts, p.where, p.wants = 1, map[job.ID][]lifeLine{}, map[job.ID]*Whereabouts{}, map[job.ID]job.Reason{}
	p.courses = map[job.ID]*Course{}
	p.orders = map[subject]eventlog.Event{}
	return p
}

// Event implements engine.Sink.
func (p *past) Event(ev *eventlog.Event, s *state.State) {
	p.intention(ev, s)
	p.ordered(ev)
	if AboutJob(ev.Kind) && s.Known(ev.Job) {
		if s.Record(ev.Job).Phase.Over() {
			delete(p.texts, ev.Job)
			delete(p.where, ev.Job)
			delete(p.courses, ev.Job)
		} else {
			p.goes(ev, s)
		}
	}
	if ev.Kind == eventlog.Submit || ev.Kind == eventlog.Carry || ev.Kind == eventlog.Past {
		p.passed(ev.Spec.Key)
	}
}

// goes notes what a log tells of the life of a job that goes on.
func (p *past) goes(ev *eventlog.Event, s *state.State) {
	if text := p.text(ev, s); text != "" {
		p.texts[ev.Job] = append(p.texts[ev.Job], lifeLine{ev.Time, text})
	}
	c := p.courses[ev.Job]
	if c == nil {
		c = new(Course)
		p.courses[ev.Job] = c
	}
	c.Note(ev.Time, s, ev.Job, p.name)
}

// intention notes what somebody wants of a run, until it has come about.
func (p *past) intention(ev *eventlog.Event, s *state.State) {
	switch ev.Kind {
	case eventlog.Wait:
		if phase := s.Record(ev.Job).Phase; phase == job.Running || phase == job.Stopping {
			p.wants[ev.Job] = ev.Reason
		}
	case eventlog.End, eventlog.Cancel:
		delete(p.wants, ev.Job)
	case eventlog.Gone, eventlog.Evict, eventlog.Fail, eventlog.Start:
		if p.wants[ev.Job].Code == job.UserRequest { // who has cancelled a job wants it whatever becomes of its run
			delete(p.wants, ev.Job)
		}
	}
}

func (p *past) text(ev *eventlog.Event, s *state.State) string {
	w := p.where[ev.Job]
	if w == nil {
		w = new(Whereabouts)
		p.where[ev.Job] = w
	}
	return w.Text(ev, s, p.name, EventText(ev, s, p.name))
}

// setAside leaves a policy alone that does not come to the end of its decision, with all
// that it may still look at or change. The state is read back from the log.
func (d recovery) setAside() error {
	if err := d.durable(); err != nil {
		return err
	}
	f, err := d.journal.Fold(d.epoch.N, func() engine.Sink { return ignored{} })
	if err == nil {
		err = f.Wrong
	}
	if err != nil {
		return fmt.Errorf("the state before a decision that does not end cannot be read back: %w", err)
	}
	costs := *d.costs
	d.st, d.costs = f.State, &costs
	d.st.Now = max(d.st.Now, d.Loop.Now())
	return nil
}

// ignored is a sink for which all is as it should be.
type ignored struct{}

// Event implements engine.Sink.
func (ignored) Event(*eventlog.Event, *state.State) {}
