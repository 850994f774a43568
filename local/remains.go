package local

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"github.com/norn-scheduler/norn/api"
	"github.com/norn-scheduler/norn/cluster/unit"
	"github.com/norn-scheduler/norn/eventlog"
	"github.com/norn-scheduler/norn/job"
	"github.com/norn-scheduler/norn/live"
	"github.com/norn-scheduler/norn/local/rundir"
)

// below is a path as it is called in what is told of it: below the state folder.
func (s *store) below(path string) string {
	if rel, err := filepath.Rel(s.dir, path); err == nil {
		return rel
	}
	return path
}

// readFile reads a file of the state folder, and tells whether it could. One that is
// damaged is told of, with what follows.
func (d recovery) readFile(dir, name string, v any, follows string) bool {
	ok, err := rundir.Read(dir, name, v)
	if errors.Is(err, rundir.ErrDamaged) {
		d.Note(api.Finding{File: d.store.below(filepath.Join(dir, name)), Text: err.Error(), Done: follows})
	} else if err != nil {
		d.log.Error("a file cannot be read", "file", filepath.Join(dir, name), "error", err)
	}
	return ok && err == nil
}

// ordered reads what operators have put out of use. Where drained.json is gone or damaged
// that is put back from the last log. Where the log does not tell it either, the whole
// machine stays out of use until an operator says otherwise.
func (d condition) ordered(orders []eventlog.Event) (mend func() error, err error) {
	there, err := rundir.Read(d.store.dir, drainedFile, &d.health.drained)
	broken := errors.Is(err, rundir.ErrDamaged)
	if !broken && (err != nil || there || len(orders) == 0) {
		return nil, err
	}
	found := api.Finding{File: drainedFile, Text: "the file is gone", Done: "the devices that operators had drained are put back from the event log"}
	if broken {
		found.Text = err.Error()
	}
	if d.health.drained = d.drainedIn(orders); len(orders) == 0 {
		d.health.drained = drained{Machine: true, Why: "the list of drained devices is lost, as drained.json was damaged: drain devices again, then norn undrain"}
		found.Done = "the machine takes no new work until norn undrain"
	}
	d.Note(found)
	return func() error {
		if broken {
			if err := d.store.SetAside(drainedFile); err != nil {
				return err
			}
		}
		return rundir.Write(d.store.dir, drainedFile, d.health.drained)
	}, nil
}

// drainedIn is what operators had put out of use by their orders. The name of a device
// that is no longer here is not known.
func (d condition) drainedIn(orders []eventlog.Event) drained {
	out := drained{Devices: map[string]string{}, Reclaimed: map[string]reclaim{}}
	for i := range orders {
		ev := &orders[i]
		name := wholeMachine
		if ev.Kind == eventlog.Device {
			if int(ev.Device) >= len(d.opt.Machine.Devices) {
				continue
			}
			name = d.opt.Machine.Devices[ev.Device].Name
		}
		switch {
		case ev.Reason.Code == job.TakenBack:
			out.Reclaimed[name] = d.reclaimIn(&ev.Reason)
		case name == wholeMachine:
			out.Machine, out.Why = true, ev.Reason.Text
		default:
			out.Devices[name] = ev.Reason.Text
		}
	}
	return out
}

// readWant reads what was last wanted of the run of a job. Where that is damaged it is
// what the run follows, which is to be written again.
func (d recovery) readWant(l *entry, r *job.Record) (want rundir.Want, anew bool) {
	if l.Run == 0 || d.readFile(d.store.runDir(l.Key, l.Run), rundir.WantFile, &want, "it is written anew, as the run and the log have it") {
		return want, false
	}
	if _, err := os.Lstat(filepath.Join(d.store.runDir(l.Key, l.Run), rundir.WantFile)); err != nil {
		return rundir.Want{}, false // the run had not been launched
	}
	want = rundir.Want{Seq: max(l.status.Seq, launches(r)*seqs), State: rundir.Go}
	switch {
	case l.status.State == rundir.Frozen:
		want.State = rundir.Freeze
	case l.status.State == rundir.Leaving || r.Phase == job.Stopping:
		want = rundir.Want{Seq: launches(r)*seqs + seqLeave, State: rundir.Save, Grace: l.Spec.Stop.Grace, Purpose: string(live.Preempted)}
	}
	return want, true
}

// withoutSpec is what is known of a job whose description is lost: what the log tells.
// It is enough to see how its run ends, and never to launch it.
func (d recovery) withoutSpec(r *job.Record, why string) *stored {
	j := r.Job
	base := live.BaseOf(j.Key)
	d.Note(api.Finding{File: filepath.Join("jobs", base, specFile), Job: j.Key, Text: why, Done: "it is never started again: norn cancel " + j.Key})
	s := &stored{ID: base, User: j.User, Spec: api.JobSpec{
		Name: j.Name, Tenant: j.Tenant, App: j.App, Priority: j.Priority, Estimate: api.Of(j.Estimate), Dir: "/", Command: []string{j.Name},
		Stop: api.Stop{Mode: j.Stop.String(), Signal: "TERM", Grace: d.opt.Defaults.Stop.Grace},
	}}
	if j.Demand != nil {
		s.Spec.GPUs = api.Fixed(float64(j.Demand.GPUs()) / float64(unit.One))
	}
	return s
}

// remains is what the folders of a submission tell of its jobs.
func (d recovery) remains(base string) ([]live.Remains, error) {
	s, err := d.store.readSpec(base)
	if err != nil {
		return nil, err
	}
	var out []live.Remains
	for _, key := range s.keys() {
		spec, err := d.engineJob(s, key, 0)
		if err != nil {
			return nil, fmt.Errorf("job %s: %w", key, err)
		}
		r := live.Remains{Spec: spec, Submitted: s.Submitted, Held: s.Spec.Held, After: len(s.Spec.After) > 0, Phase: job.Waiting}
		d.remainsOfRun(newEntry(key, s), &r)
		out = append(out, r)
	}
	return out, nil
}

// remainsOfRun fills in what the folder of the last run of a job tells.
func (d recovery) remainsOfRun(l *entry, out *live.Remains) {
	if l.Run = d.store.lastRun(l.Key); l.Run == 0 {
		return
	}
	dir := d.store.runDir(l.Key, l.Run)
	var run rundir.Run
	var want rundir.Want
	var exit rundir.Exit
	rundir.Read(dir, rundir.RunFile, &run) // what is damaged is told of when the job is looked at
	rundir.Read(dir, rundir.WantFile, &want)
	rundir.Read(dir, rundir.StatusFile, &l.status)
	rundir.Read(dir, rundir.SavedFile, &l.saved)
	out.Launches, out.Progress, out.On = max(1, want.Seq/seqs, l.status.Seq/seqs), l.savedProgress(), run.On
	if l.status.Began > 0 {
		out.Began = time.Unix(0, l.status.Began)
	}
	if ok, err := rundir.Read(dir, rundir.ExitFile, &exit); ok && err == nil {
		l.ends(&exit)
		l.Purpose = live.Purpose(want.Purpose)
		out.Phase, out.On = d.fateOf(l, &out.Spec), nil
		return
	}
	switch {
	case want.State == rundir.Freeze:
		out.Phase = job.Waiting
	case live.Purpose(want.Purpose) == live.Preempted:
		out.Phase = job.Stopping
	default:
		out.Phase = job.Running
	}
}

// fateOf is how a job stands whose last run has ended, by what the run says alone.
func (d recovery) fateOf(l *entry, spec *job.Job) job.Phase {
	r := &job.Record{Job: spec, Phase: job.Running}
	if l.Purpose == live.Preempted {
		r.Phase = job.Stopping
	}
	switch d.ending(l, r, l.exit).Verdict(&d.opt.Defaults.Patience).Fate {
	case live.Done:
		return job.Done
	case live.Failed:
		return job.FailedPhase
	case live.Revoked:
		return job.Cancelled
	}
	return job.Waiting
}

// sendAway ends what runs of a job that waits, and waits for that.
func (d recovery) sendAway(key string) error {
	l := d.by(key)
	if l == nil {
		return nil
	}
	if err := d.sendOff(l, d.State().Record(l.ID)); err != nil {
		return err
	}
	return d.awaitEnd(l)
}
