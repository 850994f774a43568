package local

import (
	"time"

	"github.com/norn-scheduler/norn/eventlog"
	"github.com/norn-scheduler/norn/job"
	"github.com/norn-scheduler/norn/live"
	"github.com/norn-scheduler/norn/local/rundir"
)

// over takes in how a run ended.
func (d *Daemon) over(l *liveJob, e *rundir.Exit) {
	if d.happens(l, isOver) != conclude {
		return
	}
	r := d.st.Record(l.id)
	l.exit = e
	if l.resident != nil {
		l.resident.used, l.resident = d.loop.Now(), nil
	}
	d.tokens.drop(l.token)
	l.token = ""
	l.tell()
	v := d.ending(l, r, e).Verdict(&d.opt.Defaults.Patience)
	l.counts = v.Counts
	d.carryOut(l, r, &v)
	l.purpose = ""
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

// ending is all that is known of how a run of a job ended.
func (d *Daemon) ending(l *liveJob, r *job.Record, e *rundir.Exit) *live.Ending {
	stop := &l.stored.Spec.Stop
	out := &live.Ending{
		Exit: live.Exit{
			Cause: causeOf(e.Cause), Status: e.Exit, Tasks: len(e.Tasks), Asked: e.Asked != "", Killed: e.Killed, Images: e.Images, Error: e.Error,
		},
		Phase: r.Phase, Stop: r.Job.Stop, Purpose: l.purpose, Why: l.why,
		Progress: r.ProgressAt(d.loop.Now()), Saved: l.savedProgress(), Since: d.loop.Now() - l.decided,
		Failures: int(r.Failures), Retry: l.stored.Spec.Retry, Again: stop.Again, Signal: stop.Signal, Counts: l.counts,
	}
	if began := l.status.Began; began > 0 {
		out.Lived = time.Duration(e.Ended - began)
	}
	return out
}

// carryOut does what follows from the end of a run.
func (d *Daemon) carryOut(l *liveJob, r *job.Record, v *live.Verdict) {
	switch v.Fate {
	case live.Done:
		d.loop.Emit(eventlog.Event{Kind: eventlog.End, Job: l.id, Outcome: job.Done})
	case live.Failed:
		d.loop.Emit(eventlog.Event{Kind: eventlog.End, Job: l.id, Outcome: job.FailedPhase})
	case live.Revoked:
		d.loop.Emit(eventlog.Event{Kind: eventlog.Cancel, Job: l.id})
	case live.Gone:
		d.loop.Emit(eventlog.Event{Kind: eventlog.Gone, Job: l.id})
	case live.Evicted:
		d.evict(l, v.Kept, v.Reason, v.Why)
	case live.Retried:
		d.loop.Emit(eventlog.Event{Kind: eventlog.Fail, Job: l.id, Kept: v.Kept, Reason: job.Reason{Code: v.Reason, Job: job.None, Text: v.Why}})
	case live.Relaunch:
		d.put(l, d.st.Alloc(l.id), launches(r), v.Kept)
		d.loop.Emit(eventlog.Event{Kind: eventlog.Progress, Job: l.id, Kept: v.Kept})
	case live.Late:
		l.stage = late
	case live.Undone:
		l.undone = true
	}
	if v.Saved {
		d.average(&d.costs.Base.Checkpoint, d.loop.Now()-l.decided)
	}
	switch {
	case v.Wait > 0:
		d.holdUntil(l, d.loop.Now()+v.Wait, v.Hold)
	case v.Hold != "":
		d.hold(l, v.Hold)
	}
}

// holdUntil holds a job for a while.
func (d *Daemon) holdUntil(l *liveJob, until time.Duration, why string) {
	l.until = until
	d.loop.Emit(eventlog.Event{Kind: eventlog.Hold, Job: l.id, Reason: job.Reason{
		Code: job.OnHold, Job: job.None, At: until, Text: why + "; tries again at " + d.loop.Clock.Wall(until).Format(time.TimeOnly),
	}})
	d.loop.At(until, func() { d.expire(l, until) })
}

// expire lets a job go on whose time of waiting is over.
func (d *Daemon) expire(l *liveJob, until time.Duration) {
	if d.byKey[l.key] != l || l.until != until {
		return
	}
	if d.loop.Touch(l.id) != nil {
		d.loop.At(d.loop.Now(), func() { d.expire(l, until) })
		return
	}
	l.until = 0
	d.freeIf(l)
}

// hold holds a job until somebody releases it.
func (d *Daemon) hold(l *liveJob, why string) {
	l.held = true
	d.loop.Emit(eventlog.Event{Kind: eventlog.Hold, Job: l.id, Reason: job.Reason{Code: job.OnHold, Job: job.None, Text: why}})
}

// evict throws a job back to where it waits.
func (d *Daemon) evict(l *liveJob, kept time.Duration, code job.ReasonCode, why string) {
	r := d.st.Record(l.id)
	kept = min(kept, r.ProgressAt(d.loop.Now()))
	reason := job.Reason{Code: code, Job: job.None, Text: why}
	if a := d.st.Alloc(l.id); code == job.OutOfMemory && a != nil && len(a.Shares) > 0 {
		reason.Need = int32(a.Shares[0].Device)
	}
	d.loop.Emit(eventlog.Event{Kind: eventlog.Evict, Job: l.id, Kept: kept, Reason: reason})
}

// savedProgress is the work of a job up to the last checkpoint that it reported.
func (l *liveJob) savedProgress() time.Duration { return time.Duration(l.saved.Progress) }
