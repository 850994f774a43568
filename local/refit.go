package local

import (
	"fmt"
	"time"

	"github.com/norn-scheduler/norn/engine"
	"github.com/norn-scheduler/norn/eventlog"
	"github.com/norn-scheduler/norn/job"
	"github.com/norn-scheduler/norn/live"
	"github.com/norn-scheduler/norn/local/rundir"
	"github.com/norn-scheduler/norn/local/runner"
)

// otherDevices tells whether this machine has other devices than the one in the
// log, or less CPU or memory.
func (d recovery) otherDevices() bool {
	now := d.opt.Machine.Node
	have := 0
	for _, g := range now.GPUs {
		have += g.Count
	}
	if d.State().Cluster.Nodes() != 1 || d.State().Cluster.Devices() != have {
		return true
	}
	was := d.State().Cluster.Node(0)
	for i, g := range was.GPUs {
		if i >= len(now.GPUs) || g != now.GPUs[i] {
			return true
		}
	}
	return was.CPU > now.CPU || was.Memory > now.Memory
}

// fitDevices evicts the jobs whose devices this machine no longer has. It tells
// their runs to leave and waits for them, so that no job runs twice.
func (d recovery) fitDevices() (other bool, err error) {
	if !d.otherDevices() {
		return false, nil
	}
	var all []job.ID
	for i := range job.ID(d.State().Jobs()) {
		r, l := d.State().Record(i), d.by(d.State().Record(i).Job.Key)
		if l == nil || !r.Phase.HasDevices() && d.State().PinnedPlace(i) == nil {
			continue
		}
		all = append(all, i)
		if err := d.sendOff(l, r); err != nil {
			return true, fmt.Errorf("job %s cannot be told to leave devices that this machine has no longer: %w", l.Key, err)
		}
	}
	for _, i := range all {
		r, l := d.State().Record(i), d.by(d.State().Record(i).Job.Key)
		if err := d.awaitEnd(l); err != nil {
			return true, err
		}
		if d.State().PinnedPlace(i) != nil { // it was frozen
			l.undone = true
		}
		if r.Phase == job.Waiting || r.Phase == job.Held {
			continue
		}
		kept := l.savedProgress()
		if l.exit != nil {
			kept = d.ending(l, r, l.exit).Keeps()
		}
		ev := eventlog.Event{Time: d.State().Now, Kind: eventlog.Evict, Job: i, Kept: min(kept, r.Progress),
			Reason: job.Reason{Code: job.NodeLost, Job: job.None, Text: "the devices of this machine are others than before"}}
		if err := engine.Apply(d.State(), &ev); err != nil {
			return true, err
		}
		if l.Purpose == live.Requeuing || l.Purpose == live.Reclaimed { // that has come about
			l.Purpose = ""
		}
	}
	return true, nil
}

// sendOff tells the run of a job, if it still goes on, to leave.
func (d recovery) sendOff(l *entry, r *job.Record) error {
	if l.Run == 0 || l.exit != nil {
		return nil
	}
	dir := d.store.runDir(l.Key, l.Run)
	want, _ := d.readWant(l, r)
	d.log.Warn("waiting for a job to leave devices that this machine has no longer", "job", l.Key)
	if want.Seq%seqs >= seqRequeue { // it leaves already
		return nil
	}
	want = rundir.Want{
		Seq: want.Seq/seqs*seqs + seqRequeue, State: rundir.End, Grace: d.opt.Defaults.CancelGrace, Why: "its devices are gone",
	}
	if r.Job.Stop == job.Checkpoint {
		want.State, want.Grace = rundir.Save, l.Spec.Stop.Grace
	}
	if err := rundir.Write(dir, rundir.WantFile, want); err != nil {
		return err
	}
	return runner.Poke(dir)
}

// awaitEnd waits until nothing of a job runs any more, and notes how its last run
// ended.
func (d recovery) awaitEnd(l *entry) error {
	if l.Run == 0 || l.exit != nil {
		return nil
	}
	dir := d.store.runDir(l.Key, l.Run)
	grace := max(l.Spec.Stop.Grace, d.opt.Defaults.CancelGrace).Duration()
	for until := time.Now().Add(grace + time.Minute); ; time.Sleep(10 * time.Millisecond) {
		lock, err := rundir.Lock(dir)
		if err == nil {
			var exit *rundir.Exit
			if exit, err = d.exitOf(l.Key, l.Run, "its devices are gone"); err == nil {
				l.ends(exit)
			}
			lock.Close()
		}
		if err == nil {
			return nil
		}
		if time.Now().After(until) {
			return fmt.Errorf("job %s does not leave devices that this machine has no longer: %w", l.Key, err)
		}
	}
}
