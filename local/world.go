package local

import (
	"slices"
	"time"

	"github.com/norn-scheduler/norn/api"
	"github.com/norn-scheduler/norn/cluster"
	"github.com/norn-scheduler/norn/cluster/unit"
	"github.com/norn-scheduler/norn/eventlog"
	"github.com/norn-scheduler/norn/job"
	"github.com/norn-scheduler/norn/live"
	"github.com/norn-scheduler/norn/local/rundir"
	"github.com/norn-scheduler/norn/perf"
)

// Start implements engine.World: the job is launched, or thawed, once the
// decision is durable.
func (d *Daemon) Start(id job.ID, a *cluster.Alloc) (delay time.Duration, speed float64) {
	l, r := d.of(id), d.State().Record(id)
	d.put(l, a, launches(r)+1, r.Progress)
	return d.startDelay(l), gauges{d}.speed(r, a)
}

// speed is the expected speed of a job. On processors it follows from the run
// time that its user declares; elsewhere it is the believed speed on its
// devices. A job that goes on from another one gains the configured transfer.
// The speed counts only for the part of the time that is the job's turn.
func (d gauges) speed(r *job.Record, a *cluster.Alloc) float64 {
	return d.alonePace(r, a) * float64(1000-live.ThrottleOf(a)) / 1000
}

// alonePace is the expected speed of a job with its devices for itself.
func (d gauges) alonePace(r *job.Record, a *cluster.Alloc) float64 {
	speed := d.paceOn(r, a)
	if t := d.opt.Transfer; t != nil && r.Merged == job.After && d.State().Known(r.With) {
		speed *= t.After(r.Job, d.State().Record(r.With).Job)
	}
	return speed
}

// paceOn is the expected speed of a job that is trained by itself.
func (d gauges) paceOn(r *job.Record, a *cluster.Alloc) float64 {
	if h := r.Job.Hints; d.opt.Machine.onHost(a) && h != nil && h.CPUEstimate > 0 && r.Estimate > 0 {
		return float64(r.Estimate) / float64(h.CPUEstimate)
	}
	return d.speeds().Speed(r.Job, d.State().Cluster, a)
}

// speeds is the belief about the speeds of jobs.
func (d *Daemon) speeds() perf.Typed {
	of := d.opt.Speeds
	if of == nil {
		of = perf.Analytic{Scaling: 1, Spread: 1}
	}
	return &perf.Grids{Of: of, Share: d.opt.Machine.share()}
}

// share is what the machine has of cores and memory for each of its GPUs.
func (m *Machine) share() perf.Ration {
	gpus := 0
	for _, g := range m.Node.GPUs {
		if !m.Types[g.Type].Host {
			gpus += g.Count
		}
	}
	if gpus == 0 {
		return perf.Ration{}
	}
	return perf.Ration{CPU: m.Node.CPU / unit.Milli(gpus), Memory: m.Node.Memory / unit.Bytes(gpus)}
}

// onHost tells whether an Alloc is parts of the processors.
func (m *Machine) onHost(a *cluster.Alloc) bool {
	return slices.ContainsFunc(m.devices(a), func(i int) bool { return i < len(m.Devices) && m.Devices[i].Host })
}

// startDelay is the expected delay of a start, as measured before.
func (d *Daemon) startDelay(l *entry) time.Duration {
	if d.State().Record(l.ID).Starts > 0 {
		return d.Costs().Base.Restore
	}
	return d.Costs().Base.Start
}

// put has a job run on a, for the k-th time, with the work that it has done
// already.
func (d *Daemon) put(l *entry, a *cluster.Alloc, k int, from time.Duration) {
	do := d.happens(l, starts)
	switch do {
	case recall: // it has ended already, but no waiting job can
		n := notice{key: l.Key, run: l.Run, exit: l.exit}
		d.Loop.Later(func() error { return d.notice(n) })
		return
	case cannotBe:
		return
	}
	l.Purpose, l.Why, l.Decided = "", "", d.Loop.Now()
	l.seq = k*seqs + seqGo
	want := rundir.Want{Seq: l.seq, State: rundir.Go}
	l.want = want
	if do == thaw {
		d.allow(l, a)
		d.wants(l, want)
		return
	}
	if l.Broken != "" {
		n := notice{key: l.Key, run: l.Run, exit: notStarted("its submission is lost: " + l.Broken)}
		d.Loop.Later(func() error { return d.notice(n) })
		return
	}
	l.Run++
	l.limits, l.exceeds, l.trapped = rundir.Limits{}, 0, false
	l.Report, l.status = nil, rundir.Status{}
	l.saved = rundir.Saved{Progress: int64(from)}
	l.token = newToken()
	d.tokens.set(l.token, l.Key)
	launch := d.describe(l, a)
	if launch.Images != "" && launch.Restore == "" && from > 0 { // CRIU has nothing that it could go on from
		l.undone, l.saved.Progress = true, 0
	}
	dir, saved := d.store.runDir(l.Key, l.Run), l.saved
	ways := []func() error{packing{d}.pack(l, a, launch), trainers{d}.makeWay(l, a, launch)}
	l.measured = false
	d.Loop.Act(&l.Lane, func() { d.launch(dir, launch, want, saved, ways) })
}

// Stop implements engine.World. The job is told to leave in the way that it
// supports, once the decision is durable. The kept work that Stop returns
// assumes that this goes well; if it does not, the job is set back later.
func (d *Daemon) Stop(id job.ID) (kept time.Duration, atOnce bool) {
	l, r := d.of(id), d.State().Record(id)
	kept = r.ProgressAt(d.State().Now)
	switch r.Job.Stop {
	case job.Restart, job.Pinned:
		kept = 0
	case job.LastSave:
		kept = min(kept, l.savedProgress())
	}
	if l.Purpose.Away() { // it is leaving already, for good or to wait again
		return kept, false
	}
	l.Purpose, l.Decided = live.Preempted, d.Loop.Now()
	d.happens(l, makeWay)
	l.seq = launches(r)*seqs + seqLeave
	want := rundir.Want{Seq: l.seq, State: rundir.Save, Grace: l.Spec.Stop.Grace, Why: "the scheduler needs its devices"}
	switch r.Job.Stop {
	case job.Freeze:
		want.State = rundir.Freeze
	case job.Restart, job.Pinned, job.LastSave:
		want.State = rundir.End
	}
	d.wants(l, want)
	l.tell()
	return kept, false
}

// Reshape implements engine.World. The job is told to leave, and is launched
// again on its new allocation.
func (d *Daemon) Reshape(id job.ID, a *cluster.Alloc, moved bool) (pause time.Duration, speed float64) {
	l, r := d.of(id), d.State().Record(id)
	if was := d.State().Alloc(id); was.SamePlaces(a) { // it has other parts of the same devices, and goes on
		d.allow(l, a)
		l.tell()
		return max(0, r.Ready-d.Loop.Now()), gauges{d}.rescaled(r, was, a)
	}
	l.Decided = d.Loop.Now()
	if l.Purpose == "" { // else it is leaving already, and will find the last size if it comes back at once
		l.Purpose = live.Resizing
		d.happens(l, makeWay)
		l.seq = launches(r)*seqs + seqLeave
		want := rundir.Want{Seq: l.seq, State: rundir.Save, Grace: l.Spec.Stop.Grace, Why: "it is given other devices"}
		if why, left := (condition{d}).reclaims(d.State().Alloc(id), want.Grace.Duration()); why != "" {
			want.Grace, want.Why = min(want.Grace, api.Of(left)), why
		}
		if r.Job.Stop != job.Checkpoint {
			want.State = rundir.End
		}
		d.wants(l, want)
		l.tell()
	}
	return d.Costs().Base.Checkpoint + d.Costs().Base.Restore, gauges{d}.speed(r, a)
}

// wants writes the want.json of a run, again and again until the run follows
// it: see lookAtRuns.
func (d *Daemon) wants(l *entry, w rundir.Want) {
	w.Purpose = string(l.Purpose)
	l.want = w
	d.urge(l)
}

// urge writes the want.json of a run.
func (d *Daemon) urge(l *entry) {
	dir, w := d.store.runDir(l.Key, l.Run), l.want
	d.Loop.Act(&l.Lane, func() { d.write(dir, w) })
}

// tell wakes the tasks that wait for orders.
func (l *entry) tell() {
	close(l.changed)
	l.changed = make(chan struct{})
}

// notice is the status or the exit of a run, as its runner has written it.
type notice struct {
	key    string
	run    int
	status *rundir.Status
	exit   *rundir.Exit
}

// notice takes in the status or the exit that a runner has written.
func (d *Daemon) notice(n notice) error {
	l := d.by(n.key)
	if l == nil || n.run != l.Run || !l.stage.there() {
		return nil // of a run that was over before
	}
	if err := d.Loop.Touch(l.ID); err != nil {
		return err
	}
	if n.exit != nil {
		d.over(l, n.exit)
	} else if n.status.Seq <= l.seq {
		d.stands(l, n.status)
	}
	return nil
}

// stands takes in the status of a run.
func (d *Daemon) stands(l *entry, s *rundir.Status) {
	r := d.State().Record(l.ID)
	l.status = *s
	news := isUp
	if s.State == rundir.Frozen && s.Seq == l.seq && r.Phase == job.Stopping {
		news = isStill
	}
	switch d.happens(l, news) {
	case measure:
		l.began = d.Loop.Now()
		d.launched(l, r)
	case vacate:
		live.Saved(d.Daemon, &l.Job)
		d.Loop.Emit(eventlog.Event{Kind: eventlog.Gone, Job: l.ID})
	}
}

// launched measures the time of a launch. It corrects the progress of a job
// that starts without its earlier work.
func (d *Daemon) launched(l *entry, r *job.Record) {
	took := live.Launched(d.Daemon, &l.Job)
	if r.Phase != job.Running {
		return
	}
	switch done := r.ProgressAt(d.Loop.Now()); {
	case l.undone:
		d.Loop.Emit(eventlog.Event{Kind: eventlog.Progress, Job: l.ID})
	case d.Loop.Now() > r.Ready+took/2 && r.Resizes+r.Migrations > 0: // it was to go on earlier
		d.Loop.Emit(eventlog.Event{Kind: eventlog.Progress, Job: l.ID, Kept: min(done, r.Progress)})
	}
	l.undone = false
}

// devices are the devices of an Alloc, by their index in the machine.
func (m *Machine) devices(a *cluster.Alloc) []int {
	out := make([]int, 0, len(a.Shares))
	for i := range a.Shares {
		out = append(out, int(a.Shares[i].Device))
	}
	return out
}

// names lists the names of the devices of an Alloc.
func (m *Machine) names(a *cluster.Alloc) []string {
	if a == nil {
		return nil
	}
	var out []string
	for _, i := range m.devices(a) {
		if i < len(m.Devices) {
			out = append(out, m.Devices[i].Name)
		}
	}
	return out
}
