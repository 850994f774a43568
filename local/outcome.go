package local

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/norn-scheduler/norn/api"
	"github.com/norn-scheduler/norn/eventlog"
	"github.com/norn-scheduler/norn/job"
	"github.com/norn-scheduler/norn/local/rundir"
	"github.com/norn-scheduler/norn/unit"
)

// exitAgain is the exit status (EX_TEMPFAIL) of a job that wants to be continued
// later.
const exitAgain = 75

// over takes in how a run ended.
func (d *Daemon) over(l *live, e *rundir.Exit) {
	r := d.st.Record(l.id)
	l.exit, l.stage = e, noRun
	if l.resident != nil {
		l.resident.used, l.resident = d.now, nil
	}
	d.tokens.drop(l.token)
	l.token = ""
	l.tell()
	switch holds := r.Phase == job.Running || r.Phase == job.Stopping; {
	case holds && l.done(e) && (e.Asked == "" || l.purpose != cancelled): // whatever was wanted of it meanwhile
		d.emit(eventlog.Event{Kind: eventlog.End, Job: l.id, Outcome: job.Done})
	case holds && e.Asked == "" && e.Cause == rundir.Exited && l.purpose != cancelled: // it had not heard of it
		d.ended(l, r, e)
	case l.purpose == cancelled:
		d.emit(eventlog.Event{Kind: eventlog.Cancel, Job: l.id})
	case r.Phase == job.Running && l.purpose == requeuing:
		d.evict(l, d.keeps(l, e, r), job.UserRequest, "it was requeued")
	case r.Phase == job.Running && l.purpose == overusing:
		d.evict(l, d.keeps(l, e, r), job.OutOfMemory, l.why)
		d.restrainHog(l)
	case r.Phase == job.Running && l.purpose == resizing && (e.Asked != "" || l.again(e)):
		d.relaunch(l, r, e)
	case r.Phase == job.Running:
		d.ended(l, r, e)
	case r.Phase == job.Stopping:
		d.left(l, r, e)
	case r.Job.Stop == job.Freeze && byItself(e):
		l.late = true
	default: // frozen processes were killed while the job waited
		l.undone = true
	}
	l.purpose = ""
}

// ended takes in the end of a run that nobody had asked for.
func (d *Daemon) ended(l *live, r *job.Record, e *rundir.Exit) {
	switch {
	case e.Cause == rundir.RunnerLost:
		d.evict(l, d.savedProgress(l), job.NodeLost, lostText(e))
	case e.Cause == rundir.TimeLimit:
		d.emit(eventlog.Event{Kind: eventlog.End, Job: l.id, Outcome: job.FailedPhase})
	case l.again(e) && r.Phase == job.Stopping:
		d.emit(eventlog.Event{Kind: eventlog.Gone, Job: l.id})
	case l.again(e):
		d.evict(l, r.ProgressAt(d.now), job.UserRequest, fmt.Sprintf("it asked to be continued later (exit code %d)", e.Exit.Code))
		d.restrain(l)
	default:
		d.fail(l, r, e)
	}
}

// byItself tells whether a run has ended with nobody's doing.
func byItself(e *rundir.Exit) bool {
	return e.Cause == rundir.Exited && e.Asked == "" && e.Exit.Signal == "" && len(e.Tasks) > 0
}

// done tells whether a run has brought its job to its end: it said so by its exit
// status. That it had been told to leave does not matter: one that has not done
// all its work says so.
func (l *live) done(e *rundir.Exit) bool {
	clean := e.Cause == rundir.Exited || e.Cause == rundir.Left
	return clean && len(e.Tasks) > 0 && e.Exit.Code == 0 && !e.Killed && !e.Images && !(e.Asked != "" && l.again(e))
}

// again tells whether a run has said that its job is to be continued later.
func (l *live) again(e *rundir.Exit) bool {
	codes := l.stored.Spec.Stop.Again
	if len(codes) == 0 {
		return e.Exit.Code == exitAgain && e.Exit.Signal == ""
	}
	return slices.Contains(codes, e.Exit.Code) && e.Exit.Signal == ""
}

func lostText(e *rundir.Exit) string {
	if e.Error != "" {
		return e.Error
	}
	return "the process that watched over it was lost"
}

// fail takes in a failed attempt: another one follows, or the job has failed.
func (d *Daemon) fail(l *live, r *job.Record, e *rundir.Exit) {
	limit := l.stored.Spec.Retry.Limit
	if limit >= 0 && int(r.Failures) >= limit {
		d.emit(eventlog.Event{Kind: eventlog.End, Job: l.id, Outcome: job.FailedPhase})
		return
	}
	kept, why := min(d.savedProgress(l), r.ProgressAt(d.now)), "the attempt failed: "+exitText(e)
	if r.Phase == job.Stopping { // it was to leave its devices, and has
		d.evict(l, kept, job.Failed, why)
	} else {
		d.emit(eventlog.Event{Kind: eventlog.Fail, Job: l.id, Kept: kept, Reason: job.Reason{Code: job.Failed, Job: job.None, Text: why}})
	}
	if d.restrain(l) {
		return
	}
	if wait := backoff(&l.stored.Spec.Retry, int(r.Failures)); wait > 0 {
		d.holdUntil(l, d.now+wait, "its attempt failed: "+exitText(e))
	}
}

// restrain holds a job that ends at once again and again, and tells whether it
// did.
func (d *Daemon) restrain(l *live) bool {
	def := &d.opt.Defaults
	if d.now-l.decided >= def.CrashWithin {
		l.crashes = 0
		return false
	}
	if l.crashes++; def.CrashTimes <= 0 || l.crashes < def.CrashTimes {
		return false
	}
	times := l.crashes
	l.crashes = 0
	d.hold(l, fmt.Sprintf("ended %d times in a row within %s of its start, last %s; norn release lets it try again",
		times, unit.Human(def.CrashWithin), exitText(l.exit)))
	return true
}

// maxBackoff bounds the wait between two attempts.
const maxBackoff = time.Hour

// backoff is how long a job waits before its next attempt, when so many failed
// before the last one.
func backoff(r *api.Retry, failures int) time.Duration {
	return min(maxBackoff, min(maxBackoff, r.Backoff.Duration())<<min(failures, 12))
}

// holdUntil holds a job for a while.
func (d *Daemon) holdUntil(l *live, until time.Duration, why string) {
	l.until = until
	d.emit(eventlog.Event{Kind: eventlog.Hold, Job: l.id, Reason: job.Reason{
		Code: job.OnHold, Job: job.None, At: until, Text: why + "; tries again at " + d.clock.wall(until).Format(time.TimeOnly),
	}})
	d.timers.add(until, func() { d.expire(l, until) })
}

// expire lets a job go on whose time of waiting is over.
func (d *Daemon) expire(l *live, until time.Duration) {
	if d.byKey[l.key] != l || l.until != until {
		return
	}
	if d.touch(l.id) != nil {
		d.timers.add(d.now, func() { d.expire(l, until) })
		return
	}
	l.until = 0
	d.freeIf(l)
}

// hold holds a job until somebody releases it.
func (d *Daemon) hold(l *live, why string) {
	l.held = true
	d.emit(eventlog.Event{Kind: eventlog.Hold, Job: l.id, Reason: job.Reason{Code: job.OnHold, Job: job.None, Text: why}})
}

// left takes in the end of a run that was told to make room.
func (d *Daemon) left(l *live, r *job.Record, e *rundir.Exit) {
	gone := func() { d.emit(eventlog.Event{Kind: eventlog.Gone, Job: l.id}) }
	switch mode := r.Job.Stop; {
	case e.Cause == rundir.RunnerLost:
		d.evict(l, d.savedProgress(l), job.NodeLost, lostText(e))
	case mode == job.Restart || mode == job.Pinned:
		gone()
	case mode == job.Freeze:
		d.evict(l, 0, job.Failed, "it ended before it was frozen: "+exitText(e))
	case l.savedBy(e):
		l.failedSaves = 0
		d.average(&d.costs.Base.Checkpoint, d.now-l.decided)
		gone()
	default:
		d.unsaved(l, e)
	}
}

// savedBy tells whether a run that was told to save its state says that it did.
// One that had not started anything yet has nothing to save.
func (l *live) savedBy(e *rundir.Exit) bool {
	return e.Images || l.again(e) && !e.Killed || e.Cause == rundir.Left && len(e.Tasks) == 0
}

// unsaved takes in a checkpoint that failed: the job goes back to the one before,
// and is held when that happens again and again.
func (d *Daemon) unsaved(l *live, e *rundir.Exit) {
	kept := d.savedProgress(l)
	from := "begins anew"
	if kept > 0 {
		from = "goes on from the one before, " + unit.Human(kept) + " of work"
	}
	why := "its checkpoint failed: " + exitText(e) + "; it " + from
	d.evict(l, kept, job.Failed, why)
	if l.unready(e, d.opt.Defaults.CrashWithin) {
		return
	}
	if l.failedSaves++; d.opt.Defaults.SaveFailures > 0 && l.failedSaves >= d.opt.Defaults.SaveFailures {
		times := l.failedSaves
		l.failedSaves = 0
		d.hold(l, fmt.Sprintf("its checkpoint failed %d times in a row, last: %s; norn release lets it try again", times, exitText(e)))
	}
}

// unready tells whether a run ended by the very signal that told it to save its
// state, so soon after its start that it may not have known of it yet: programs
// load for a while before they handle signals.
func (l *live) unready(e *rundir.Exit, soon time.Duration) bool {
	ended := e.Exit.Signal == "SIG"+cmp.Or(l.stored.Spec.Stop.Signal, "TERM")
	return ended && !e.Killed && l.status.Began > 0 && time.Duration(e.Ended-l.status.Began) < soon
}

// evict throws a job back to where it waits.
func (d *Daemon) evict(l *live, kept time.Duration, code job.ReasonCode, why string) {
	r := d.st.Record(l.id)
	kept = min(kept, r.ProgressAt(d.now))
	reason := job.Reason{Code: code, Job: job.None, Text: why}
	if a := d.st.Alloc(l.id); code == job.OutOfMemory && a != nil && len(a.Shares) > 0 {
		reason.Need = int32(a.Shares[0].Device)
	}
	d.emit(eventlog.Event{Kind: eventlog.Evict, Job: l.id, Kept: kept, Reason: reason})
}

// relaunch starts a job again on its new devices, behind a resize or a move.
func (d *Daemon) relaunch(l *live, r *job.Record, e *rundir.Exit) {
	kept := d.keeps(l, e, r)
	d.put(l, d.st.Alloc(l.id), launches(r), kept)
	d.emit(eventlog.Event{Kind: eventlog.Progress, Job: l.id, Kept: kept})
}

// keeps is the work that a job still has behind a run that was told to leave.
func (d *Daemon) keeps(l *live, e *rundir.Exit, r *job.Record) time.Duration {
	if r.Job.Stop == job.Checkpoint && l.savedBy(e) {
		return r.ProgressAt(d.now)
	}
	return min(d.savedProgress(l), r.ProgressAt(d.now))
}

// savedProgress is the work of a job up to the last checkpoint that it reported.
func (d *Daemon) savedProgress(l *live) time.Duration { return time.Duration(l.saved.Progress) }

// exitText says how a run ended.
func exitText(e *rundir.Exit) string {
	if e == nil {
		return "it is not known how"
	}
	text := ""
	switch {
	case e.Cause == rundir.NotStarted:
		return e.Error
	case e.Killed:
		text = "killed when its grace was over"
	case e.Exit.Signal != "":
		text = "ended by " + e.Exit.Signal
	default:
		text = fmt.Sprintf("exit code %d", e.Exit.Code)
	}
	if len(e.Tasks) > 1 {
		text = fmt.Sprintf("task %d: %s", e.Exit.Task, text)
	}
	for _, more := range []string{e.Exit.Note, e.Error} {
		if more != "" && !strings.Contains(text, more) {
			text += ", " + more
		}
	}
	return text
}
