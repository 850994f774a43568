package local

import (
	"time"

	"github.com/norn-scheduler/norn/eventlog"
	"github.com/norn-scheduler/norn/job"
	"github.com/norn-scheduler/norn/live"
	"github.com/norn-scheduler/norn/local/rundir"
)

// over takes in how a run ended.
func (d *Daemon) over(l *entry, e *rundir.Exit) {
	if d.happens(l, isOver) != conclude {
		return
	}
	r := d.State().Record(l.ID)
	l.ends(e)
	if l.resident != nil {
		l.resident.used, l.resident = d.Loop.Now(), nil
	}
	d.tokens.drop(l.token)
	l.token = ""
	l.tell()
	v := d.ending(l, r, e).Verdict(&d.opt.Defaults.Patience)
	l.Counts = v.Counts
	d.carryOut(l, r, &v)
	l.Purpose = ""
}

// causeOf is the cause of an exit as its runner wrote it.
func causeOf(c rundir.Cause) live.Cause {
	switch c {
	case rundir.Left:
		return live.Left
	case rundir.TimeLimit:
		return live.TimeLimit
	case rundir.NotStarted:
		return live.NotStarted
	case rundir.RunnerLost:
		return live.Lost
	}
	return live.Exited
}

// ending is all that is known of the end of a run.
func (d *Daemon) ending(l *entry, r *job.Record, e *rundir.Exit) *live.Ending {
	stop := &l.Spec.Stop
	return &live.Ending{
		Exit: *l.exitOf(e), Phase: r.Phase, Stop: r.Job.Stop, Purpose: l.Purpose, Why: l.Why,
		Progress: r.ProgressAt(d.Loop.Now()), Saved: l.savedProgress(), Since: d.Loop.Now() - l.Decided,
		Failures: int(r.Failures), Retry: l.Spec.Retry, Again: stop.Again, Signal: stop.Signal, Counts: l.Counts,
	}
}

// exitOf is the exit of a run in the form that live worlds share.
func (l *entry) exitOf(e *rundir.Exit) *live.Exit {
	out := &live.Exit{
		Cause: causeOf(e.Cause), Status: e.Exit, Tasks: len(e.Tasks), Asked: e.Asked != "", Killed: e.Killed, Images: e.Images, Error: e.Error,
	}
	if began := l.status.Began; began > 0 {
		out.Lived = time.Duration(e.Ended - began)
	}
	return out
}

// ends notes how the last run ended.
func (l *entry) ends(e *rundir.Exit) { l.exit, l.Exit = e, l.exitOf(e) }

// carryOut carries out the verdict on the end of a run.
func (d *Daemon) carryOut(l *entry, r *job.Record, v *live.Verdict) {
	readings{d}.ended(l, v.Fate == live.Done)
	switch v.Fate {
	case live.Evicted:
		d.evict(l, v.Kept, v.Reason, v.Why)
	case live.Retried:
		d.Loop.Emit(eventlog.Event{Kind: eventlog.Fail, Job: l.ID, Kept: v.Kept, Reason: job.Reason{Code: v.Reason, Job: job.None, Text: v.Why}})
	case live.Relaunch:
		d.put(l, d.State().Alloc(l.ID), launches(r), v.Kept)
		d.Loop.Emit(eventlog.Event{Kind: eventlog.Progress, Job: l.ID, Kept: v.Kept})
	case live.Late:
		l.stage = late
	case live.Undone:
		l.undone = true
	}
	live.CarryOut(d.Daemon, &l.Job, v)
}

// evict takes a job off its devices, so that it waits again.
func (d *Daemon) evict(l *entry, kept time.Duration, code job.ReasonCode, why string) {
	r := d.State().Record(l.ID)
	kept = min(kept, r.ProgressAt(d.Loop.Now()))
	reason := job.Reason{Code: code, Job: job.None, Text: why}
	if a := d.State().Alloc(l.ID); code == job.OutOfMemory && a != nil && len(a.Shares) > 0 {
		reason.Need = int32(a.Shares[0].Device)
	}
	d.Loop.Emit(eventlog.Event{Kind: eventlog.Evict, Job: l.ID, Kept: kept, Reason: reason})
}

// savedProgress is the work of a job up to the last checkpoint that it reported.
func (l *entry) savedProgress() time.Duration { return time.Duration(l.saved.Progress) }
