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
	"github.com/norn-scheduler/norn/local/rundir"
	"github.com/norn-scheduler/norn/local/runner"
	"github.com/norn-scheduler/norn/state"
	"github.com/norn-scheduler/norn/tenant"
)

// recover reads what the daemon before this one left behind and goes on from
// there, in a new epoch.
func (d *Daemon) recover() error {
	epochs, err := d.store.epochs()
	if err != nil {
		return err
	}
	if len(epochs) == 0 {
		return d.found()
	}
	last := epochs[len(epochs)-1]
	old := &past{devices: d.opt.Machine.Devices}
	st, h, err := d.store.foldLog(last, old.restart)
	if err != nil {
		return fmt.Errorf("the event log of the last run: %w", err)
	}
	d.clock = newClock(h.Origin, st.Now)
	d.next.Store(max(nextIn(h), old.next))
	d.st = st
	if err := d.findJobs(old); err != nil {
		return err
	}
	if err := d.catchUp(last); err != nil {
		return err
	}
	if err := d.fitDevices(); err != nil {
		return err
	}
	if choiceOf(h).String() != d.choice.String() {
		d.rolling = &d.choice // so that notes of the old policy are forgotten
	}
	st.Now = max(st.Now, d.clock.now())
	tenants, err := d.tenants(st)
	if err != nil {
		return err
	}
	c, err := d.cluster()
	if err != nil {
		return err
	}
	copyDrained(st.Cluster, c)
	fresh, err := d.begin(last+1, h.Origin, st, c, tenants)
	if err != nil {
		return err
	}
	d.rolling = nil
	d.adopt(fresh)
	if err := d.newEngine(); err != nil {
		return err
	}
	d.now, d.kick = fresh.Now, true
	for _, l := range d.jobs {
		d.find(l)
	}
	d.packOld(epochs)
	return nil
}

// copyDrained takes over what an operator has put out of use. What had been
// broken is looked at anew.
func copyDrained(from, to *cluster.Cluster) {
	if from.Nodes() > 0 {
		to.SetHealth(0, from.Health(0))
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
	d.clock = newClock(time.Now(), 0)
	d.next.Store(1)
	fresh, err := d.begin(1, d.clock.origin, state.New(cluster.New(), tenant.NewTree(0)), c, tenants)
	if err != nil {
		return err
	}
	d.adopt(fresh)
	return d.newEngine()
}

// packOld packs the logs of epochs that have ended, as far as a crash prevented
// it.
func (d *Daemon) packOld(epochs []int) {
	d.acting.Go(func() {
		for _, n := range epochs {
			d.store.pack(n) // one that is packed has no plain file: nothing to do
		}
	})
}

// past is the sink that notes what a log tells beside the state.
type past struct {
	next  int64
	texts []lifeLine

	devices []Device
}

type lifeLine struct {
	key  string
	at   time.Duration
	text string
}

// restart makes the sink forget, for a log that is read again.
func (p *past) restart() engine.Sink {
	p.next, p.texts = 1, nil
	return p
}

// Event implements engine.Sink.
func (p *past) Event(ev *eventlog.Event, s *state.State) {
	if text := eventText(ev, s, p.devices); text != "" && s.Known(ev.Job) && aboutJob(ev.Kind) {
		p.texts = append(p.texts, lifeLine{s.Record(ev.Job).Job.Key, ev.Time, text})
	}
	if ev.Kind == eventlog.Submit {
		if n, err := strconv.ParseInt(baseOf(ev.Spec.Key), 10, 64); err == nil {
			p.next = max(p.next, n+1)
		}
	}
}

// findJobs makes what is known of the jobs of the old log.
func (d *Daemon) findJobs(old *past) error {
	specs := map[string]*stored{}
	for i := range job.ID(d.st.Jobs()) {
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
		l := newLive(i, r.Job.Key, s)
		d.readRun(l)
		d.byKey[l.key] = l
	}
	for _, line := range old.texts {
		if l := d.byKey[line.key]; l != nil {
			l.remember(d.clock.wall(line.at), line.text)
		}
	}
	return nil
}

// readRun reads what the folder of the last run of a job says.
func (d *Daemon) readRun(l *live) {
	if l.run = d.store.lastRun(l.key); l.run == 0 {
		return
	}
	dir := d.store.runDir(l.key, l.run)
	var run rundir.Run
	if ok, _ := rundir.Read(dir, rundir.RunFile, &run); ok {
		for _, v := range run.Env {
			if token, is := strings.CutPrefix(v, rundir.EnvToken+"="); is {
				l.token = token
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
func (d *Daemon) catchUp(epoch int) error {
	told := 0
	err := d.store.eachEnded(func(e *ended) {
		if e.Log == epoch {
			told = max(told, e.N+1)
		}
		d.recent.add(e.Job)
		d.observe(&e.Job)
		d.tally.ended++
	})
	if err != nil {
		return fmt.Errorf("the history of jobs: %w", err)
	}
	var missing []ended
	for n, id := range d.st.Ended() {
		l := d.byKey[d.st.Record(id).Job.Key]
		if l != nil && n >= told {
			missing = append(missing, ended{Log: epoch, N: n, Job: d.view(l)})
		}
		if l != nil {
			delete(d.byKey, l.key)
			d.endStray(l)
		}
	}
	for i := range missing {
		d.recent.add(missing[i].Job)
		d.observe(&missing[i].Job)
		d.tally.ended++
	}
	if len(missing) == 0 {
		return nil
	}
	return d.store.appendEnded(missing)
}

// endStray ends a run of a job that has ended: its frozen processes, when the
// daemon died between the cancellation and telling them.
func (d *Daemon) endStray(l *live) {
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
	want = rundir.Want{Seq: want.Seq/seqs*seqs + seqCancel, State: rundir.End, Purpose: string(cancelled)}
	d.act(l, func() { d.write(dir, want) })
}

// fitDevices throws back the jobs whose devices this machine has no longer.
func (d *Daemon) fitDevices() error {
	node := d.opt.Machine.Node
	have := 0
	for _, g := range node.GPUs {
		have += g.Count
	}
	same := d.st.Cluster.Nodes() == 1 && d.st.Cluster.Devices() == have
	if same {
		for i, g := range d.st.Cluster.Node(0).GPUs {
			same = same && i < len(node.GPUs) && g == node.GPUs[i]
		}
		same = same && d.st.Cluster.Node(0).CPU <= node.CPU && d.st.Cluster.Node(0).Memory <= node.Memory
	}
	if same {
		return nil
	}
	for i := range job.ID(d.st.Jobs()) {
		l := d.byKey[d.st.Record(i).Job.Key]
		if l == nil || !d.st.Record(i).Phase.Holds() {
			continue
		}
		ev := eventlog.Event{Time: d.st.Now, Kind: eventlog.Evict, Job: i, Kept: min(time.Duration(l.saved.Progress), d.st.Record(i).Progress),
			Reason: job.Reason{Code: job.NodeLost, Job: job.None, Text: "the devices of this machine are others than before"}}
		if err := engine.Apply(d.st, &ev); err != nil {
			return err
		}
	}
	return nil
}

// find sets a job back to where it stood: its run is found again, launched where
// that had been decided but not done, or told again what is wanted of it.
func (d *Daemon) find(l *live) {
	r := d.st.Record(l.id)
	k := launches(r)
	dir := d.store.runDir(l.key, l.run)
	var want rundir.Want
	if l.run > 0 {
		rundir.Read(dir, rundir.WantFile, &want)
	}
	l.seq, l.decided = want.Seq, d.now
	over := l.run == 0 || l.exit != nil && want.Seq < k*seqs+seqGo
	if want.Purpose == string(cancelled) || want.Purpose == string(requeuing) {
		l.purpose = purpose(want.Purpose)
	}
	done := l.exit != nil && r.Job.Stop != job.Freeze && l.done(l.exit)
	switch {
	case r.Phase == job.Running && over && !done:
		d.put(l, d.st.Alloc(l.id), k)
		return
	case r.Phase == job.Running && want.Seq < k*seqs+seqGo && !done:
		d.findEarlier(l, r, k)
	case r.Phase == job.Running && l.status.PID != 0:
		l.stage = up
	case r.Phase == job.Running:
		l.stage = launching
	case r.Phase == job.Stopping && over: // it was stopped before it had been launched
		d.later = append(d.later, func() error {
			if err := d.touch(l.id); err != nil {
				return err
			}
			l.undone = true
			d.emit(eventlog.Event{Kind: eventlog.Gone, Job: l.id})
			return nil
		})
		return
	case r.Phase == job.Stopping && want.Seq < k*seqs+seqLeave:
		d.Stop(l.id)
	case r.Phase == job.Stopping:
		l.stage = leaving
		if l.purpose == "" {
			l.purpose = preempted
		}
	case l.run == 0 || d.st.Home(l.id) == nil && l.purpose == "":
		d.rest(l, r)
		return // it waits, and nothing of it is left
	default:
		l.stage = frozen
		d.rest(l, r)
	}
	if l.token != "" {
		d.tokens.set(l.token, l.key)
	}
	d.findRun(l, dir)
}

// findEarlier goes on with a running job whose last run belongs to an earlier
// launch: it was to be thawed, or to leave for other devices.
func (d *Daemon) findEarlier(l *live, r *job.Record, k int) {
	if r.Job.Stop == job.Freeze {
		l.stage = frozen
		d.put(l, d.st.Alloc(l.id), k)
		return
	}
	l.purpose, l.stage = resizing, leaving
	l.seq = (k-1)*seqs + seqLeave
	d.wants(l, rundir.Want{Seq: l.seq, State: rundir.Save, Grace: l.stored.Spec.Stop.Grace, Why: "it is given other devices"})
}

// findRun finds out what has become of a run while no daemon looked.
func (d *Daemon) findRun(l *live, dir string) {
	if l.exit != nil {
		n := notice{key: l.key, run: l.run, exit: l.exit}
		d.later = append(d.later, func() error { return d.notice(n) })
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
		d.act(l, func() {
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
	d.act(l, func() { d.lost(key, run, why) })
}

// watchAgain watches over a runner that lives.
func (d *Daemon) watchAgain(l *live, dir string) {
	key, run := l.key, l.run
	if l.status.PID != 0 {
		d.act(l, func() {
			if err := d.watch.add(l.status.PID, key, run); err != nil {
				d.log.Error("a run cannot be watched", "job", key, "error", err)
			}
			d.look(key, run)
		})
		return
	}
	var again func()
	again = func() { // until it says who it is
		if l.run != run || l.stage != launching || l.status.PID != 0 {
			return
		}
		rundir.Read(dir, rundir.StatusFile, &l.status)
		d.findRun(l, dir)
	}
	d.timers.add(d.now+100*time.Millisecond, again)
}

// rest goes on with a job that waits or is held.
func (d *Daemon) rest(l *live, r *job.Record) {
	if r.Phase != job.Held {
		l.held, l.after = false, nil
		return
	}
	why := r.Reason
	switch {
	case why.At > 0:
		l.held, l.until = false, why.At
		until := why.At
		d.timers.add(until, func() { d.expire(l, until) })
	case len(l.after) > 0 && strings.HasPrefix(why.Text, waitsFor):
		l.held = false
	default:
		l.held = true
	}
	if l.held && !strings.HasPrefix(why.Text, waitsFor) {
		l.after = d.unmet(l.after)
	}
}
