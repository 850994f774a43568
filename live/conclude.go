package live

import (
	"cmp"
	"time"

	"github.com/norn-scheduler/norn/eventlog"
	"github.com/norn-scheduler/norn/job"
	"github.com/norn-scheduler/norn/perf"
)

// Launched measures how long the launch of a run took, now that all of it runs.
func Launched(d *Daemon, l *Job) (took time.Duration) {
	r := d.st.Record(l.ID)
	took = d.Loop.Now() - l.Decided
	d.Tally.Launches.Observe(took.Seconds())
	if r.Starts+r.Resizes+r.Migrations > 1 {
		Average(&d.costs.Base.Restore, took)
	} else {
		Average(&d.costs.Base.Start, took)
		d.Tally.Starts.Observe((d.Loop.Now() - r.Job.Submit).Seconds())
	}
	reshapes(&d.costs.Base)
	return took
}

// Saved measures how long a run took to save its state, now that it has left its devices.
func Saved(d *Daemon, l *Job) {
	Average(&d.costs.Base.Checkpoint, d.Loop.Now()-l.Decided)
	reshapes(&d.costs.Base)
}

// reshapes has policies believe that a job which goes on elsewhere, or with another number of GPUs, stands
// still while it saves its state and starts again: as long as was measured of each.
func reshapes(c *perf.Cost) {
	c.Migrate = c.Checkpoint + cmp.Or(c.Restore, c.Start)
	c.Resize = c.Migrate
}

// CarryOut carries out what every world does alike on a verdict. A run that is to be thrown
// back, tried again or launched anew is dealt with by its world, before this.
func CarryOut(d *Daemon, l *Job, v *Verdict) {
	switch v.Fate {
	case Done:
		d.Loop.Emit(eventlog.Event{Kind: eventlog.End, Job: l.ID, Outcome: job.Done})
	case Failed:
		d.Loop.Emit(eventlog.Event{Kind: eventlog.End, Job: l.ID, Outcome: job.FailedPhase})
	case Revoked:
		d.Loop.Emit(eventlog.Event{Kind: eventlog.Cancel, Job: l.ID})
	case Gone:
		d.Loop.Emit(eventlog.Event{Kind: eventlog.Gone, Job: l.ID})
	}
	if v.Saved {
		Saved(d, l)
	}
	switch {
	case v.Wait > 0:
		d.HoldUntil(l, d.Loop.Now()+v.Wait, v.Hold)
	case v.Hold != "":
		d.Hold(l, v.Hold)
	}
}
