package live

import (
	"fmt"
	"strconv"
	"time"

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
	epochs, err := d.journal.Epochs()
	if err != nil {
		return err
	}
	defer func() { d.feed.Begin(d.epoch.N) }()
	if len(epochs) == 0 {
		return recovery{d}.found()
	}
	old := &past{name: d.cfg.Names, epochs: epochs}
	if err := (recovery{d}).read(old); err != nil {
		return err
	}
	if err = (recovery{d}).goOn(old); noRoom(err) {
		recovery{d}.stall(old, err)
		return nil
	}
	return err
}

// read takes in what the last log, the history and the folders of the runs tell. It
// writes nothing.
func (d recovery) read(old *past) error {
	last := old.last()
	st, h, err := d.journal.Fold(last, old.restart)
	if err != nil {
		return fmt.Errorf("the event log of the last run: %w", err)
	}
	old.header = h
	d.Loop.Clock = NewClock(h.Origin, st.Now)
	d.next.Store(max(nextIn(h), old.next))
	d.st = st
	if d.Tally.Ended, old.told, err = d.journal.Load(last, &d.recent, d.observe); err != nil {
		return err
	}
	old.told = max(old.told, st.Past()) // of whom an earlier log told
	d.cfg.Folded()
	return d.findJobs(old)
}

// goOn goes on from what was read, in a new epoch. Where there is no room for that it
// may be tried again.
func (d recovery) goOn(old *past) error {
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
	if err := d.renew(old.last()+1, old.header.Origin); err != nil {
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
		if n >= old.told {
			missing = append(missing, Ended{Log: old.last(), N: n, Job: d.View(l)})
		}
	}
	if len(missing) > 0 {
		if err := d.journal.AppendEnded(missing); err != nil {
			return fmt.Errorf("the history of jobs: %w", err)
		}
	}
	old.told += len(missing)
	for i := range missing {
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
		done[id] = n < d.st.Past() || n < old.told && d.st.Record(id).Phase != job.Cancelled // of which frozen processes may be left
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
	}
	return nil
}

// past is the sink that notes what a log tells beside the state.
type past struct {
	next  int64
	texts map[job.ID][]lifeLine // of jobs that have not ended
	where map[job.ID]*Whereabouts
	wants map[job.ID]job.Reason // what somebody wants of runs that have still to leave

	name Names

	epochs []int            // the numbers of the logs
	header *eventlog.Header // of the last
	told   int              // of the ends that it tells, so many are in the history
}

// last is the number of the last log.
func (p *past) last() int { return p.epochs[len(p.epochs)-1] }

type lifeLine struct {
	at   time.Duration
	text string
}

// restart makes the sink forget, for a log that is read again.
func (p *past) restart() engine.Sink {
	p.next, p.texts, p.where, p.wants = 1, map[job.ID][]lifeLine{}, map[job.ID]*Whereabouts{}, map[job.ID]job.Reason{}
	return p
}

// Event implements engine.Sink.
func (p *past) Event(ev *eventlog.Event, s *state.State) {
	p.intention(ev, s)
	if AboutJob(ev.Kind) && s.Known(ev.Job) {
		if s.Record(ev.Job).Phase.Over() {
			delete(p.texts, ev.Job)
			delete(p.where, ev.Job)
		} else if text := p.text(ev, s); text != "" {
			p.texts[ev.Job] = append(p.texts[ev.Job], lifeLine{ev.Time, text})
		}
	}
	if ev.Kind == eventlog.Submit {
		if n, err := strconv.ParseInt(BaseOf(ev.Spec.Key), 10, 64); err == nil {
			p.next = max(p.next, n+1)
		}
	}
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
