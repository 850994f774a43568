package local

import (
	"time"

	"github.com/norn-scheduler/norn/api"
	"github.com/norn-scheduler/norn/engine"
	"github.com/norn-scheduler/norn/job"
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
	if r.Phase == job.Running && l.purpose == "" && l.stage != noRun && !alone && r.Job.Stop == job.Checkpoint {
		l.purpose, l.stage, l.decided, l.why = resizing, leaving, d.now, "it is to be trained otherwise"
		l.seq = launches(r)*seqs + seqLeave
		d.wants(l, rundir.Want{Seq: l.seq, State: rundir.Save, Grace: l.stored.Spec.Stop.Grace, Why: l.why})
		l.tell()
	}
	return kept
}

// merged is with which job a job is trained.
func (d *Daemon) merged(l *live) api.Merge {
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
