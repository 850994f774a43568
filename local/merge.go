package local

import (
	"time"

	"github.com/norn-scheduler/norn/api"
	"github.com/norn-scheduler/norn/engine"
	"github.com/norn-scheduler/norn/eventlog"
	"github.com/norn-scheduler/norn/job"
	"github.com/norn-scheduler/norn/live"
	"github.com/norn-scheduler/norn/local/rundir"
)

var _ engine.Merger = (*Daemon)(nil)

// Merge implements engine.Merger. A job that runs and is to be trained otherwise
// begins its run anew, and finds in its allocation how; what it has learnt from
// another one, and is not to go on from, does not count.
func (d *Daemon) Merge(id job.ID, how job.Merge, with job.ID) (kept time.Duration) {
	l, r := d.jobs[id], d.st.Record(id)
	kept = r.ProgressAt(d.st.Now)
	if l == nil {
		return kept
	}
	if r.Merged == job.After && how != job.After {
		kept = 0
	}
	alone := how == job.Apart && r.Merged == job.Together && (!d.st.Known(r.With) || d.st.Record(r.With).Phase.Over())
	if kept == 0 && r.Progress+r.ProgressAt(d.st.Now) > 0 {
		l.forget, l.saved = true, rundir.Saved{}
	}
	if r.Phase == job.Running && l.purpose == "" && l.stage.there() && l.stage != frozen && !alone && r.Job.Stop == job.Checkpoint {
		l.purpose, l.decided, l.why = live.Resizing, d.loop.Now(), "it is to be trained otherwise"
		d.happens(l, makeWay)
		l.seq = launches(r)*seqs + seqLeave
		d.wants(l, rundir.Want{Seq: l.seq, State: rundir.Save, Grace: l.stored.Spec.Stop.Grace, Why: l.why})
		l.tell()
	}
	return kept
}

// merged is with which job a job is trained.
func (d *Daemon) merged(l *liveJob) api.Merge {
	r := d.st.Record(l.id)
	if r.Merged == job.Apart || !d.st.Known(r.With) {
		return api.Merge{}
	}
	with := d.st.Record(r.With).Job.Key
	m := api.Merge{How: r.Merged.String(), With: with}
	if other := d.byKey[with]; other != nil {
		m.Checkpoint = other.saved.Point.Path
	} else if j := d.endedJob(with); j != nil && j.Progress != nil && j.Progress.Checkpoint != nil {
		m.Checkpoint = j.Progress.Checkpoint.Path
	}
	return m
}

// trial is what a merged run has shown so far of what merging is worth to it.
type trial struct {
	run    int
	from   float64            // the epoch of its first measure on validation data
	best   map[string]float64 // the best that any measure has been
	gained bool
	failed bool
}

// patience is for how many epochs a merged job may not get better on validation
// data before it counts as one that learns nothing by it [Ymir, section 3.5].
const patience = 2

// judge looks at the quality that a merged job reports. One that has not become any
// better within the first epochs makes progress more slowly, as far as policies are
// told, than by itself: those that guard their pairs split them.
func (d *Daemon) judge(l *liveJob, r *api.Report) {
	rec := d.st.Record(l.id)
	if rec.Phase != job.Running || rec.Merged == job.Apart || len(r.Quality) == 0 {
		return
	}
	t := &l.trial
	if t.run != l.run {
		*t = trial{run: l.run, from: r.Epoch, best: map[string]float64{}}
	}
	for name, v := range r.Quality {
		best, known := t.best[name]
		t.gained = t.gained || known && v > best
		if !known || v > best {
			t.best[name] = v
		}
	}
	if t.gained || t.failed || r.Epoch-t.from < patience || d.loop.Touch(l.id) != nil {
		return
	}
	t.failed = true
	d.log.Info("a merged job has learnt nothing in its first epochs", "job", l.key, "run", l.run, "with", d.merged(l).With)
	d.loop.Emit(eventlog.Event{Kind: eventlog.Speed, Job: l.id, Speed: d.paceOn(rec, d.st.Alloc(l.id)) / 2})
}
