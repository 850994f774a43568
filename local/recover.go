package local

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/norn-scheduler/norn/cluster"
	"github.com/norn-scheduler/norn/engine"
	"github.com/norn-scheduler/norn/eventlog"
	"github.com/norn-scheduler/norn/job"
	"github.com/norn-scheduler/norn/live"
	"github.com/norn-scheduler/norn/local/rundir"
	"github.com/norn-scheduler/norn/local/runner"
	"github.com/norn-scheduler/norn/state"
	"github.com/norn-scheduler/norn/tenant"
)

// recover reads what the daemon before this one left behind and goes on from
// there, in a new epoch.
func (d *Daemon) recover() error {
	epochs, err := d.store.Epochs()
	if err != nil {
		return err
	}
	if _, err := rundir.Read(d.store.dir, drainedFile, &d.health.drained); err != nil {
		return fmt.Errorf("what operators have put out of use: %w", err)
	}
	if len(epochs) == 0 {
		return d.found()
	}
	old := &past{name: d.opt.Machine.name, epochs: epochs}
	if err := d.read(old); err != nil {
		return err
	}
	if err = d.goOn(old); noRoom(err) {
		d.stall(old, err)
		return nil
	}
	return err
}

// read takes in what the last log, the history and the folders of the runs tell. It
// writes nothing.
func (d *Daemon) read(old *past) error {
	last := old.last()
	st, h, err := d.store.Fold(last, old.restart)
	if err != nil {
		return fmt.Errorf("the event log of the last run: %w", err)
	}
	old.header = h
	d.loop.Clock = live.NewClock(h.Origin, st.Now)
	d.next.Store(max(nextIn(h), old.next))
	d.st = st
	if d.tally.Ended, old.told, err = d.store.TakeIn(last, &d.recent, d.observe); err != nil {
		return err
	}
	d.findResidents()
	d.findPackers()
	return d.findJobs(old)
}

// goOn goes on from what was read, in a new epoch. Where there is no room for that it
// may be tried again.
func (d *Daemon) goOn(old *past) error {
	if err := d.catchUp(old); err != nil {
		return err
	}
	if err := d.fitDevices(); err != nil {
		return err
	}
	if choiceOf(old.header).String() != d.choice.String() {
		d.rolling = &d.choice // so that notes of the old policy are forgotten
		d.lets = old.header.Policy != d.choice.Policy
	}
	d.st.Now = max(d.st.Now, d.loop.Clock.Now())
	if err := d.renew(old.last()+1, old.header.Origin); err != nil {
		return err
	}
	d.packOld(old.epochs)
	return nil
}

// renew begins a new epoch with what is left of the state.
func (d *Daemon) renew(n int, origin time.Time) error {
	tenants, err := d.tenants(d.st)
	if err != nil {
		return err
	}
	c, err := d.cluster()
	if err != nil {
		return err
	}
	d.takeOut(c)
	fresh, err := d.begin(n, origin, d.st, c, tenants)
	if err != nil {
		return err
	}
	d.rolling, d.refit = nil, false
	d.adopt(fresh)
	if err := d.newEngine(); err != nil {
		return err
	}
	d.loop.SetNow(fresh.Now)
	d.loop.Kick()
	for _, l := range d.jobs {
		d.find(l)
	}
	return nil
}

// takeOut takes out of a cluster what an operator has put out of use. All else is
// looked at anew.
func (d *Daemon) takeOut(c *cluster.Cluster) {
	if d.health.drained.Machine {
		c.SetHealth(0, cluster.Cordoned)
	}
	for i := range d.opt.Machine.Devices {
		if d.deviceNote(i) != "" {
			c.SetBroken(cluster.DeviceID(i), true)
		}
	}
}

// found begins the first epoch of a new state folder.
func (d *Daemon) found() error {
	tenants, err := d.opt.Tenants()
	if err != nil {
		return err
	}
	c, err := d.cluster()
	if err != nil {
		return err
	}
	d.loop.Clock = live.NewClock(time.Now(), 0)
	d.next.Store(1)
	d.takeOut(c)
	fresh, err := d.begin(1, d.loop.Clock.Origin, state.New(cluster.New(), tenant.NewTree(0)), c, tenants)
	if err != nil {
		return err
	}
	d.adopt(fresh)
	return d.newEngine()
}

// packOld packs the logs of epochs that have ended, as far as a crash prevented
// it.
func (d *Daemon) packOld(epochs []int) {
	d.loop.Go(func() {
		for _, n := range epochs {
			d.store.Pack(n) // one that is packed has no plain file: nothing to do
		}
	})
}

// past is the sink that notes what a log tells beside the state.
type past struct {
	next  int64
	texts map[job.ID][]lifeLine // of jobs that have not ended
	where map[job.ID]*live.Whereabouts
	wants map[job.ID]job.Reason // what somebody wants of runs that have still to leave

	name live.Names

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
	p.next, p.texts, p.where, p.wants = 1, map[job.ID][]lifeLine{}, map[job.ID]*live.Whereabouts{}, map[job.ID]job.Reason{}
	return p
}

// Event implements engine.Sink.
func (p *past) Event(ev *eventlog.Event, s *state.State) {
	p.intention(ev, s)
	if live.AboutJob(ev.Kind) && s.Known(ev.Job) {
		if s.Record(ev.Job).Phase.Over() {
			delete(p.texts, ev.Job)
			delete(p.where, ev.Job)
		} else if text := p.text(ev, s); text != "" {
			p.texts[ev.Job] = append(p.texts[ev.Job], lifeLine{ev.Time, text})
		}
	}
	if ev.Kind == eventlog.Submit {
		if n, err := strconv.ParseInt(baseOf(ev.Spec.Key), 10, 64); err == nil {
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
		w = new(live.Whereabouts)
		p.where[ev.Job] = w
	}
	return w.Text(ev, s, p.name, live.EventText(ev, s, p.name))
}

// findJobs makes what is known of the jobs of the old log, but for those that came
// to their end and of which the history tells: nothing of them is left.
func (d *Daemon) findJobs(old *past) error {
	done := make([]bool, d.st.Jobs())
	for n, id := range d.st.Ended() {
		done[id] = n < old.told && d.st.Record(id).Phase != job.Cancelled // of which frozen processes may be left
	}
	specs := map[string]*stored{}
	for i := range job.ID(d.st.Jobs()) {
		if done[i] {
			continue
		}
		r := d.st.Record(i)
		base := baseOf(r.Job.Key)
		s, ok := specs[base]
		if !ok {
			var err error
			if s, err = d.store.readSpec(base); err != nil {
				if r.Phase.Over() {
					continue
				}
				return err
			}
			specs[base] = s
		}
		l := newLiveJob(i, r.Job.Key, s)
		d.readRun(l)
		d.readAlone(l)
		l.intended(old.wants[i])
		d.byKey[l.key] = l
		if w := old.where[i]; w != nil {
			l.where = *w
		}
		for _, line := range old.texts[i] {
			l.life.Remember(d.loop.Clock.Wall(line.at), line.text)
		}
	}
	return nil
}

// intended takes over what the log says that somebody wants of a run.
func (l *liveJob) intended(why job.Reason) {
	switch why.Code {
	case job.Cancelling:
		l.purpose, l.why = live.Cancelled, why.Text
	case job.UserRequest:
		l.purpose, l.why = live.Requeuing, why.Text
	}
}

// readRun reads what the folder of the last run of a job says.
func (d *Daemon) readRun(l *liveJob) {
	if l.run = d.store.lastRun(l.key); l.run == 0 {
		return
	}
	dir := d.store.runDir(l.key, l.run)
	var run rundir.Run
	if ok, _ := rundir.Read(dir, rundir.RunFile, &run); ok {
		l.limits, l.packers = readLimits(dir, &run), d.packersOf(&run)
		for _, v := range run.Env {
			if token, is := strings.CutPrefix(v, rundir.EnvToken+"="); is {
				l.token = token
			}
			if socket, is := strings.CutPrefix(v, rundir.EnvResident+"="); is {
				l.resident, l.measured = d.residentAt(socket), true
			}
		}
	}
	var exit rundir.Exit
	if ok, _ := rundir.Read(dir, rundir.ExitFile, &exit); ok {
		l.exit = &exit
	}
	rundir.Read(dir, rundir.StatusFile, &l.status)
	rundir.Read(dir, rundir.SavedFile, &l.saved)
}

// catchUp writes the history of those whose end the log tells and the history
// does not, and forgets the jobs that have ended.
func (d *Daemon) catchUp(old *past) error {
	var gone []*liveJob
	var missing []live.Ended
	for n, id := range d.st.Ended() {
		l := d.byKey[d.st.Record(id).Job.Key]
		if l == nil {
			continue
		}
		gone = append(gone, l)
		if n >= old.told {
			missing = append(missing, live.Ended{Log: old.last(), N: n, Job: d.view(l)})
		}
	}
	if len(missing) > 0 {
		if err := d.store.AppendEnded(missing); err != nil {
			return fmt.Errorf("the history of jobs: %w", err)
		}
	}
	old.told += len(missing)
	for i := range missing {
		d.recent.Add(missing[i].Job)
		d.observe(&missing[i].Job)
		d.tally.Ended++
	}
	for _, l := range gone {
		delete(d.byKey, l.key)
		d.endStray(l)
	}
	return nil
}

// endStray ends a run of a job that has ended: its frozen processes, when the
// daemon died between the cancellation and telling them.
func (d *Daemon) endStray(l *liveJob) {
	if l.run == 0 || l.exit != nil {
		return
	}
	dir := d.store.runDir(l.key, l.run)
	lock, err := rundir.Lock(dir)
	if err == nil {
		lock.Close()
	}
	if !errors.Is(err, rundir.ErrHeld) {
		return
	}
	var want rundir.Want
	rundir.Read(dir, rundir.WantFile, &want)
	want = rundir.Want{Seq: want.Seq/seqs*seqs + seqCancel, State: rundir.End, Purpose: string(live.Cancelled)}
	d.loop.Act(&l.lane, func() { d.write(dir, want) })
}

// find sets a job back to where it stood: its run is found again, launched where
// that had been decided but not done, or told again what is wanted of it.
func (d *Daemon) find(l *liveJob) {
	r := d.st.Record(l.id)
	k := launches(r)
	dir := d.store.runDir(l.key, l.run)
	var want rundir.Want
	if l.run > 0 {
		rundir.Read(dir, rundir.WantFile, &want)
	}
	l.seq, l.want, l.decided = want.Seq, want, d.loop.Now()
	if l.purpose == "" {
		if l.purpose = purposeOf(&want, r); l.purpose == live.Overusing {
			l.why = want.Why
		}
	} else if d.insist(l, r, &want) {
		return
	}
	news := l.exit != nil && d.untold(l, &want, r)
	over := l.run == 0 || l.exit != nil && want.Seq < k*seqs+seqGo && !news
	switch {
	case r.Phase == job.Running && l.purpose != "":
		l.stage = leaving
	case r.Phase == job.Running && over:
		d.put(l, d.st.Alloc(l.id), k, r.Progress)
		return
	case r.Phase == job.Running && want.Seq < k*seqs+seqGo && !news:
		d.findEarlier(l, r, k)
	case r.Phase == job.Running && l.status.PID != 0:
		l.stage = up
	case r.Phase == job.Running:
		l.stage = launching
	case r.Phase == job.Stopping && over: // it was stopped before it had been launched
		d.loop.Later(func() error {
			if err := d.loop.Touch(l.id); err != nil {
				return err
			}
			l.undone = r.Job.Stop == job.Freeze && l.run > 0
			d.loop.Emit(eventlog.Event{Kind: eventlog.Gone, Job: l.id})
			return nil
		})
		return
	case r.Phase == job.Stopping && want.Seq < k*seqs+seqLeave && l.purpose == "" && !news:
		l.stage = up
		d.Stop(l.id)
	case r.Phase == job.Stopping:
		l.stage = leaving
		if l.purpose == "" {
			l.purpose = live.Preempted
		}
	case l.run == 0 || d.st.Home(l.id) == nil && l.purpose == "":
		if l.exit != nil && d.ending(l, r, l.exit).Done() { // it has done its work just when it was thrown back
			l.stage = late
		}
		d.rest(l, r)
		return // it waits, and nothing of it is left
	default:
		l.stage = frozen
		d.rest(l, r)
	}
	if l.token != "" {
		d.tokens.set(l.token, l.key)
	}
	if a := d.st.Alloc(l.id); a != nil && l.exit == nil && (l.stage == up || l.stage == launching) {
		d.allow(l, a) // that had been decided, and perhaps not done
	}
	d.findRun(l, dir)
}

// insist sees to it that what somebody wants of a run comes about although the run
// may never have been told, and tells whether nothing is left to be found.
func (d *Daemon) insist(l *liveJob, r *job.Record, want *rundir.Want) (settled bool) {
	if l.run == 0 { // it had not been launched
		d.loop.Later(func() error {
			if err := d.loop.Touch(l.id); err != nil {
				return err
			}
			if l.purpose == live.Cancelled {
				d.loop.Emit(eventlog.Event{Kind: eventlog.Cancel, Job: l.id})
			} else {
				d.evict(l, r.Progress, job.UserRequest, "it was requeued")
			}
			l.purpose = ""
			return nil
		})
		return true
	}
	if want.Purpose == string(l.purpose) || l.exit != nil {
		return false
	}
	l.seq, l.stage = max(launches(r), want.Seq/seqs)*seqs, up
	if l.purpose == live.Cancelled {
		d.end(l, live.Cancelled, seqCancel, rundir.End, d.opt.Defaults.CancelGrace, l.why)
	} else {
		d.throwOff(l, r, live.Requeuing, l.why)
	}
	return false
}

// purposeOf is why a run was told to leave, if that is still to come about.
func purposeOf(want *rundir.Want, r *job.Record) live.Purpose {
	k := launches(r)
	switch p := live.Purpose(want.Purpose); {
	case p == live.Cancelled,
		(p == live.Requeuing || p == live.Overusing) && want.Seq/seqs == k && (r.Phase == job.Running || r.Phase == job.Stopping),
		p == live.Resizing && want.Seq/seqs == k-1 && r.Phase == job.Running: // the launch behind it is decided
		return p
	}
	return ""
}

// untold tells whether the end of a job's last run is still to be taken in, though
// the job was to run again by now.
func (d *Daemon) untold(l *liveJob, want *rundir.Want, r *job.Record) bool {
	if r.Job.Stop == job.Freeze {
		return l.purpose != "" || want.State == rundir.Freeze && d.ending(l, r, l.exit).ByItself()
	}
	return l.purpose != "" || d.ending(l, r, l.exit).Done()
}

// findEarlier goes on with a running job whose last run belongs to an earlier
// launch: it was to be thawed, or to leave for other devices.
func (d *Daemon) findEarlier(l *liveJob, r *job.Record, k int) {
	if r.Job.Stop == job.Freeze {
		l.stage = frozen
		d.put(l, d.st.Alloc(l.id), k, r.Progress)
		return
	}
	l.purpose, l.stage = live.Resizing, leaving
	l.seq = (k-1)*seqs + seqLeave
	d.wants(l, rundir.Want{Seq: l.seq, State: rundir.Save, Grace: l.stored.Spec.Stop.Grace, Why: "it is given other devices"})
}

// findRun finds out what has become of a run while no daemon looked.
func (d *Daemon) findRun(l *liveJob, dir string) {
	if l.exit != nil {
		n := notice{key: l.key, run: l.run, exit: l.exit}
		d.loop.Later(func() error { return d.notice(n) })
		return
	}
	key, run := l.key, l.run
	lock, err := rundir.Lock(dir)
	if errors.Is(err, rundir.ErrHeld) {
		d.watchAgain(l, dir)
		return
	}
	if err == nil {
		lock.Close()
	}
	if l.status.PID == 0 { // its runner had not come so far, or was never launched
		d.loop.Act(&l.lane, func() {
			if err := d.spawn(dir, key, run); err != nil {
				d.log.Error("a run cannot be launched", "job", key, "error", err)
				d.lost(key, run, "norn could not launch it: "+err.Error())
			}
		})
		return
	}
	why := "the process that watched over it was lost while norn was away"
	if l.status.Boot != runner.BootID() {
		why = "the machine was restarted"
	}
	d.loop.Act(&l.lane, func() { d.lost(key, run, why) })
}

// watchAgain watches over a runner that lives.
func (d *Daemon) watchAgain(l *liveJob, dir string) {
	key, run := l.key, l.run
	if l.status.PID != 0 {
		pid := l.status.PID
		d.loop.Act(&l.lane, func() {
			d.follow(pid, key, run)
			d.look(key, run)
		})
		return
	}
	var again func()
	again = func() { // until it says who it is
		if l.run != run || !l.stage.there() {
			return
		}
		rundir.Read(dir, rundir.StatusFile, &l.status)
		d.findRun(l, dir)
	}
	d.loop.At(d.loop.Now()+100*time.Millisecond, again)
}

// rest goes on with a job that waits or is held.
func (d *Daemon) rest(l *liveJob, r *job.Record) {
	if r.Phase != job.Held {
		l.held, l.after = false, nil
		return
	}
	why := r.Reason
	switch {
	case why.At > 0:
		l.held, l.until = false, why.At
		until := why.At
		d.loop.At(until, func() { d.expire(l, until) })
	case len(l.after) > 0 && strings.HasPrefix(why.Text, waitsFor):
		l.held = false
	default:
		l.held = true
	}
	if len(l.after) > 0 { // it may have ended in the last instant before
		d.loop.Later(func() error { return d.dependent(l) })
	}
}
