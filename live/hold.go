package live

import (
	"strings"
	"time"

	"github.com/norn-scheduler/norn/eventlog"
	"github.com/norn-scheduler/norn/job"
)

// holds is the daemon as it keeps jobs from starting: for people, for a while, or until
// others have ended.
type holds struct{ *Daemon }

// HoldUntil holds a job for a while.
func (d *Daemon) HoldUntil(l *Job, until time.Duration, why string) {
	l.Until = until
	d.Loop.Emit(eventlog.Event{Kind: eventlog.Hold, Job: l.ID, Reason: job.Reason{
		Code: job.OnHold, Job: job.None, At: until, Text: why + "; tries again at " + d.Loop.Clock.Wall(until).Format(time.TimeOnly),
	}})
	d.Loop.At(until, func() { holds{d}.expire(l, until) })
}

// expire lets a job go on whose time of waiting is over.
func (d holds) expire(l *Job, until time.Duration) {
	if d.byKey[l.Key] != l || l.Until != until {
		return
	}
	if d.Loop.Touch(l.ID) != nil {
		d.Loop.At(d.Loop.Now(), func() { d.expire(l, until) })
		return
	}
	l.Until = 0
	d.freeIf(l)
}

// Hold holds a job until somebody releases it.
func (d *Daemon) Hold(l *Job, why string) {
	l.Held = true
	d.Loop.Emit(eventlog.Event{Kind: eventlog.Hold, Job: l.ID, Reason: job.Reason{Code: job.OnHold, Job: job.None, Text: why}})
}

// Release lets a job go on that Daemon.Hold had held, unless something else stands in its
// way.
func Release(d *Daemon, l *Job) {
	l.Held, l.Until = false, 0
	holds{d}.freeIf(l)
}

// Rest goes on with a job that waits or is held.
func (d *Daemon) Rest(l *Job) {
	r := d.st.Record(l.ID)
	if l.Broken != "" {
		d.Loop.Later(func() error { return holds{d}.keep(l) })
		return
	}
	if r.Phase != job.Held {
		l.Held, l.After = false, nil
		return
	}
	why := r.Reason
	switch {
	case why.Code == job.InTurn:
		l.Held = false
		d.lookAtTurns()
	case why.At > 0:
		l.Held, l.Until = false, why.At
		until := why.At
		d.Loop.At(until, func() { holds{d}.expire(l, until) })
	case why.Code == job.NoReason: // the log was torn behind its submission
		l.Held = l.Spec.Held || len(l.After) == 0
		d.Loop.Later(func() error { return holds{d}.keep(l) })
	case why.Code == job.AfterJob, why.Code == job.OnHold && len(l.After) > 0 && strings.HasPrefix(why.Text, waitsFor):
		l.Held = false
	default:
		l.Held = true
	}
	if len(l.After) > 0 { // it may have ended in the last instant before
		d.Loop.Later(func() error { return holds{d}.dependent(l) })
	}
}

// keep holds a job that can never run again, and says of one that is held why it is.
func (d holds) keep(l *Job) error {
	if err := d.Loop.Touch(l.ID); err != nil {
		return err
	}
	r := d.st.Record(l.ID)
	switch why, _ := d.mustWait(l); {
	case r.Phase == job.Waiting:
		d.Loop.Emit(eventlog.Event{Kind: eventlog.Hold, Job: l.ID, Reason: why})
	case r.Phase == job.Held && why != r.Reason:
		d.Loop.Emit(eventlog.Event{Kind: eventlog.Wait, Job: l.ID, Reason: why})
	}
	return nil
}
