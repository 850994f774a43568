package local

import (
	"errors"
	"strings"
	"time"

	"github.com/norn-scheduler/norn/cluster"
	"github.com/norn-scheduler/norn/eventlog"
	"github.com/norn-scheduler/norn/job"
	"github.com/norn-scheduler/norn/live"
	"github.com/norn-scheduler/norn/local/rundir"
	"github.com/norn-scheduler/norn/local/runner"
)

// recovery is the daemon while it finds the runs of the last daemon again.
type recovery struct{ *Daemon }

// takeOut takes the nodes and devices out of use that an operator has drained.
// Everything else is measured anew.
func (d recovery) takeOut(c *cluster.Cluster) {
	if d.health.out() {
		c.SetHealth(0, cluster.Cordoned)
	}
	for i := range d.opt.Machine.Devices {
		if (condition(d)).deviceNote(i) != "" {
			c.SetBroken(cluster.DeviceID(i), true)
		}
	}
}

// recaller makes jobs of an earlier log known again, from their submissions and
// from the folders of their last runs.
func (d recovery) recaller() func(r *job.Record) (*live.Job, error) {
	specs, lost := map[string]*stored{}, map[string]string{}
	return func(r *job.Record) (*live.Job, error) {
		key := r.Job.Key
		base := live.BaseOf(key)
		if specs[base] == nil && lost[base] == "" {
			s, err := d.store.readSpec(base)
			if err == nil {
				specs[base] = s
			} else {
				lost[base] = err.Error()
			}
		}
		s := specs[base]
		if s == nil && r.Phase.Over() {
			return nil, nil
		}
		if s == nil {
			s = d.withoutSpec(r, lost[base])
		}
		l := newEntry(key, s)
		l.Broken = lost[base]
		d.readRun(l)
		gauges(d).readAlone(l)
		d.entries[key] = l
		return &l.Job, nil
	}
}

// readRun reads the folder of the last run of a job.
func (d recovery) readRun(l *entry) {
	if l.Run = d.store.lastRun(l.Key); l.Run == 0 {
		return
	}
	dir := d.store.runDir(l.Key, l.Run)
	var run rundir.Run
	if d.readFile(dir, rundir.RunFile, &run, "reports of its tasks are not known as such until it is launched again") {
		l.limits, l.packers = d.readLimits(dir, &run), packing(d).packersOf(&run)
		for _, v := range run.Env {
			if token, is := strings.CutPrefix(v, rundir.EnvToken+"="); is {
				l.token = token
			}
			if socket, is := strings.CutPrefix(v, rundir.EnvResident+"="); is {
				l.resident, l.measured = trainers(d).residentAt(socket), true
			}
		}
	}
	var exit rundir.Exit
	d.readFile(dir, rundir.StatusFile, &l.status, "its runner writes it anew")
	d.readFile(dir, rundir.SavedFile, &l.saved, "the work up to its last checkpoint counts as lost if it fails")
	if d.readFile(dir, rundir.ExitFile, &exit, "the run counts as lost") {
		l.ends(&exit)
	}
}

// endStray ends a run that is left of an ended job. Frozen processes are left
// if the daemon died after the cancellation and before it told them.
func (d recovery) endStray(j *live.Job) {
	l := d.entries[j.Key]
	delete(d.entries, j.Key)
	if l.Run == 0 || l.exit != nil {
		return
	}
	dir := d.store.runDir(l.Key, l.Run)
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
	d.Loop.Act(&l.Lane, func() { d.write(dir, want) })
}

// find restores a job. It finds the run again, launches it if that was decided
// and not done, or writes its want.json again.
func (d recovery) find(l *entry) {
	r := d.State().Record(l.ID)
	k := launches(r)
	dir := d.store.runDir(l.Key, l.Run)
	want, anew := d.readWant(l, r)
	if anew {
		d.Loop.Act(&l.Lane, func() { d.write(dir, want) })
	}
	l.seq, l.want, l.Decided = want.Seq, want, d.Loop.Now()
	if l.Purpose == "" {
		if l.Purpose = purposeOf(&want, r); l.Purpose == live.Overusing || l.Purpose == live.Reclaimed {
			l.Why = want.Why
		}
	} else if d.insist(l, r, &want) {
		return
	}
	f := facts{
		phase: r.Phase, away: l.Purpose != "", ran: l.Run > 0, ended: l.exit != nil, news: l.exit != nil && d.untold(l, &want, r),
		behind: want.Seq < k*seqs+seqGo, toLeave: want.Seq >= k*seqs+seqLeave, seen: l.status.PID != 0, pinned: d.State().PinnedPlace(l.ID) != nil,
	}
	f.done = f.ended && d.ending(l, r, l.exit).Done()
	var do todo
	if l.stage, do = f.resume(); !d.resume(l, r, do) {
		return
	}
	if l.token != "" {
		d.tokens.set(l.token, l.Key)
	}
	if a := d.State().Alloc(l.ID); a != nil && l.exit == nil && (l.stage == up || l.stage == launching) {
		d.allow(l, a) // that had been decided, and perhaps not done
	}
	d.findRun(l, dir)
}

// resume carries out the task that a found job needs, and tells whether there
// is a run to be looked at.
func (d recovery) resume(l *entry, r *job.Record, do todo) (look bool) {
	switch do {
	case startNow:
		d.put(l, d.State().Alloc(l.ID), launches(r), r.Progress)
		return false
	case goBack:
		d.findEarlier(l, r, launches(r))
	case stopNow:
		d.Stop(l.ID)
	case hasLeft:
		d.Loop.Later(func() error {
			if err := d.Loop.Touch(l.ID); err != nil {
				return err
			}
			l.undone = r.Job.Stop == job.Freeze && l.Run > 0
			d.Loop.Emit(eventlog.Event{Kind: eventlog.Gone, Job: l.ID})
			return nil
		})
		return false
	case waits:
		d.Rest(&l.Job)
		return l.stage == frozen
	case watch:
		if r.Phase == job.Stopping && l.Purpose == "" {
			l.Purpose = live.Preempted
		}
	}
	return true
}

// insist carries out a person's request for a run, even if the run was never
// told. It returns whether nothing is left to be found.
func (d recovery) insist(l *entry, r *job.Record, want *rundir.Want) (settled bool) {
	if l.Run == 0 { // it had not been launched
		d.Loop.Later(func() error {
			if err := d.Loop.Touch(l.ID); err != nil {
				return err
			}
			if l.Purpose == live.Cancelled {
				d.Loop.Emit(eventlog.Event{Kind: eventlog.Cancel, Job: l.ID})
			} else {
				d.evict(l, r.Progress, job.UserRequest, "it was requeued")
			}
			l.Purpose = ""
			return nil
		})
		return true
	}
	if want.Purpose == string(l.Purpose) || l.exit != nil {
		return false
	}
	l.seq, l.stage = max(launches(r), want.Seq/seqs)*seqs, up
	if l.Purpose == live.Cancelled {
		d.end(l, live.Cancelled, seqCancel, rundir.End, d.opt.Defaults.CancelGrace, l.Why)
	} else {
		d.throwOff(l, r, live.Requeuing, l.Why)
	}
	return false
}

// purposeOf is the purpose for which a run was told to leave, if it has not
// left yet.
func purposeOf(want *rundir.Want, r *job.Record) live.Purpose {
	k := launches(r)
	switch p := live.Purpose(want.Purpose); {
	case p == live.Cancelled,
		(p == live.Requeuing || p == live.Overusing || p == live.Reclaimed) && want.Seq/seqs == k && (r.Phase == job.Running || r.Phase == job.Stopping),
		p == live.Resizing && want.Seq/seqs == k-1 && r.Phase == job.Running: // the launch behind it is decided
		return p
	}
	return ""
}

// untold tells whether the end of a job's last run was not taken in yet,
// although the job was decided to run again.
func (d recovery) untold(l *entry, want *rundir.Want, r *job.Record) bool {
	if r.Job.Stop == job.Freeze {
		return l.Purpose != "" || want.State == rundir.Freeze && d.ending(l, r, l.exit).ByItself()
	}
	return l.Purpose != "" || d.ending(l, r, l.exit).Done()
}

// findEarlier goes on with a running job whose last run belongs to an earlier
// launch. The run was to be thawed, or to leave for other devices.
func (d recovery) findEarlier(l *entry, r *job.Record, k int) {
	if r.Job.Stop == job.Freeze {
		l.stage = frozen
		d.put(l, d.State().Alloc(l.ID), k, r.Progress)
		return
	}
	l.Purpose, l.stage = live.Resizing, leaving
	l.seq = (k-1)*seqs + seqLeave
	d.wants(l, rundir.Want{Seq: l.seq, State: rundir.Save, Grace: l.Spec.Stop.Grace, Why: "it is given other devices"})
}

// findRun finds out how a run went on while there was no daemon.
func (d recovery) findRun(l *entry, dir string) {
	if l.exit != nil {
		n := notice{key: l.Key, run: l.Run, exit: l.exit}
		d.Loop.Later(func() error { return d.notice(n) })
		return
	}
	key, run := l.Key, l.Run
	lock, err := rundir.Lock(dir)
	if errors.Is(err, rundir.ErrHeld) {
		d.watchAgain(l, dir)
		return
	}
	if err == nil {
		lock.Close()
	}
	if l.status.PID == 0 { // its runner had not come so far, or was never launched
		d.Loop.Act(&l.Lane, func() {
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
	d.Loop.Act(&l.Lane, func() { d.lost(key, run, why) })
}

// watchAgain watches over a runner that lives.
func (d recovery) watchAgain(l *entry, dir string) {
	key, run := l.Key, l.Run
	if l.status.PID != 0 {
		is := rundir.Proc{PID: l.status.PID, Start: l.status.Start}
		d.Loop.Act(&l.Lane, func() {
			if runner.Alive(is) {
				d.follow(is.PID, key, run)
			} else { // another one has the run, and has still to say so
				d.watch.gone(key, run)
			}
			d.look(key, run)
		})
		return
	}
	d.Loop.At(d.Loop.Now()+100*time.Millisecond, func() { // until it has written its process ID
		if l.Run != run || !l.stage.there() {
			return
		}
		rundir.Read(dir, rundir.StatusFile, &l.status)
		d.findRun(l, dir)
	})
}
