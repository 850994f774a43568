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

// Merge implements engine.Merger. A running job that is to be trained in
// another way begins its run anew, and its allocation tells how. Work that it
// took over from another job, and is not to go on from, does not count.
func (d *Daemon) Merge(id job.ID, how job.Merge, with job.ID) (kept time.Duration) {
	l, r := d.of(id), d.State().Record(id)
	kept = r.ProgressAt(d.State().Now)
	if l == nil {
		return kept
	}
	if r.Merged == job.After && how != job.After {
		kept = 0
	}
	alone := how == job.Apart && r.Merged == job.Together && (!d.State().Known(r.With) || d.State().Record(r.With).Phase.Over())
	if kept == 0 && r.Progress+r.ProgressAt(d.State().Now) > 0 {
		l.forget, l.saved = true, rundir.Saved{}
	}
	if r.Phase == job.Running && l.Purpose == "" && l.stage.there() && l.stage != frozen && !alone && r.Job.Stop == job.Checkpoint {
		l.Purpose, l.Decided, l.Why = live.Resizing, d.Loop.Now(), "it is to be trained otherwise"
		d.happens(l, makeWay)
		l.seq = launches(r)*seqs + seqLeave
		d.wants(l, rundir.Want{Seq: l.seq, State: rundir.Save, Grace: l.Spec.Stop.Grace, Why: l.Why})
		l.tell()
	}
	return kept
}

// merged tells with which job a job is trained.
func (d *Daemon) merged(l *entry) api.Merge {
	r := d.State().Record(l.ID)
	if r.Merged == job.Apart || !d.State().Known(r.With) {
		return api.Merge{}
	}
	with := d.State().Record(r.With).Job.Key
	m := api.Merge{How: r.Merged.String(), With: with}
	if other := d.by(with); other != nil {
		m.Checkpoint = other.saved.Point.Path
	} else if j := d.EndedJob(with); j != nil && j.Progress != nil && j.Progress.Checkpoint != nil {
		m.Checkpoint = j.Progress.Checkpoint.Path
	}
	if d.State().Record(r.With).Job.User != r.Job.User && m.Checkpoint != "" && !mayRead(l.cred, m.Checkpoint) {
		d.log.Warn("a job is to go on from another one's checkpoint, which its user may not read: it is not told where it is", "job", l.Key, "user", r.Job.User, "with", with)
		m.Checkpoint = ""
	}
	return m
}

// trial is what a merged run has shown so far about the gain from merging.
type trial struct {
	run    int
	from   float64            // the epoch of its first measure on validation data
	best   map[string]float64 // the best that any measure has been
	gained bool
	failed bool
}

// patience is the number of epochs without improvement on validation data after
// which a merged job counts as one that gains nothing [Ymir, section 3.5].
const patience = 2

// judge looks at the quality that a merged job reports. If the job has not
// improved within the first epochs, policies are told that it makes progress
// more slowly than by itself. Policies that guard their pairs then split this
// one.
func (d *Daemon) judge(l *entry, r *api.Report) {
	rec := d.State().Record(l.ID)
	if rec.Phase != job.Running || rec.Merged == job.Apart || len(r.Quality) == 0 {
		return
	}
	t := &l.trial
	if t.run != l.Run {
		*t = trial{run: l.Run, from: r.Epoch, best: map[string]float64{}}
	}
	for name, v := range r.Quality {
		best, known := t.best[name]
		t.gained = t.gained || known && v > best
		if !known || v > best {
			t.best[name] = v
		}
	}
	if t.gained || t.failed || r.Epoch-t.from < patience || d.Loop.Touch(l.ID) != nil {
		return
	}
	t.failed = true
	d.log.Info("a merged job has learnt nothing in its first epochs", "job", l.Key, "run", l.Run, "with", d.merged(l).With)
	d.Loop.Emit(eventlog.Event{Kind: eventlog.Speed, Job: l.ID, Speed: gauges{d}.paceOn(rec, d.State().Alloc(l.ID)) / 2})
}
