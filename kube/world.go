package kube

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"time"

	meta "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/norn-scheduler/norn/api"
	"github.com/norn-scheduler/norn/cluster"
	"github.com/norn-scheduler/norn/cluster/unit"
	"github.com/norn-scheduler/norn/eventlog"
	"github.com/norn-scheduler/norn/job"
	"github.com/norn-scheduler/norn/kube/convert"
	"github.com/norn-scheduler/norn/kube/names"
	"github.com/norn-scheduler/norn/live"
)

// Start implements engine.World: the owner goes on and its pods are bound, once the
// decision is durable.
func (d *Daemon) Start(id job.ID, a *cluster.Alloc) (delay time.Duration, speed float64) {
	l, r := d.of(id), d.State().Record(id)
	delay = d.Costs().Base.Start
	if r.Starts > 0 {
		delay = d.Costs().Base.Restore
	}
	speed = d.opt.Speeds.Speed(r.Job, d.State().Cluster, a)
	if l.stage.there() { // what is left of its last run has to go first
		l.anew, l.Decided = true, d.Loop.Now()
		return delay, speed
	}
	d.launch(l, a)
	return delay, speed
}

// launch begins a run of a job.
func (d *Daemon) launch(l *entry, a *cluster.Alloc) {
	l.Purpose, l.Why, l.Decided = "", "", d.Loop.Now()
	l.stage, l.told, l.drains, l.anew, l.lost, l.trouble, l.began, l.found = starting, false, true, false, "", "", 0, false
	clear(l.codes)
	l.trapped = false
	l.Run++
	l.seats = d.nodes.seatsOf(a)
	run := l.Run
	var bind []binding
	if l.kind != aJob { // its pods are there already
		if s := d.view.see(l.Key); s != nil && len(s.ready()) >= len(l.seats) {
			bind = d.sit(l, s.pods)
		}
	}
	d.Loop.Then(&l.Lane, func() func() {
		p := d.goOn(l)
		return func() {
			if d.tell(l, run, p) == nil {
				d.put(l, run, bind)
			}
		}
	})
}

// goOn is the change of its owner by which a run begins; nil: there is none, as a single pod
// is told by its binding.
func (d *Daemon) goOn(l *entry) *patch {
	if l.kind == aPod {
		return nil
	}
	plan := convert.Plan{Run: int32(l.Run)}
	for i := range l.seats {
		plan.Nodes = append(plan.Nodes, l.seats[i].node)
	}
	run, text := strconv.Itoa(l.Run), plan.String()
	p := &patch{annotations: map[string]*string{names.Run: &run, names.Plan: &text, names.Record: d.recordOf(l)}}
	if l.kind == aJob {
		off := false
		p.suspend, p.of = &off, l.of
		if least, most := l.ask.demand.Roles[0].Range(); least != most {
			asked := strconv.Itoa(int(l.ask.demand.Roles[0].Tasks))
			p.annotations[names.Asked], p.size = &asked, len(l.seats)
		}
	}
	return p
}

// recordOf is what has to be remembered of a job, as it stands now; nil: nothing can be.
func (d *Daemon) recordOf(l *entry) *string {
	r := *d.State().Record(l.ID)
	if r.Phase == job.Stopping { // nobody knows yet whether it saves more
		r.Saves.Last = min(r.Saves.Last, l.saved)
	}
	text, err := convert.FormatRecord(&eventlog.Event{Time: d.State().Now, Record: &r, Estimate: r.Estimate, Reason: r.Reason, Note: r.Note})
	if err != nil {
		d.opt.Log.Warn("the record of a job cannot be written on it", "error", err)
		return nil
	}
	return &text
}

// tell tells the API that a run goes on, or is to leave: in the lane of the job. The job is
// looked at afterwards.
func (d *Daemon) tell(l *entry, run int, p *patch) (err error) {
	if p != nil {
		err = d.change(l, run, p)
	}
	if errors.Is(err, errFollows) {
		return err
	}
	d.Loop.Post(func() error {
		looker{d}.soon(func() error { return d.isTold(l, run, err) })
		return nil
	})
	return err
}

// stands notes on its owner that a job is held, or is not any more, so that the next leader
// knows. States that follow from its pods, or that are over soon, are not noted.
func (d *Daemon) stands(j *live.Job) {
	l := d.entries[j.Key]
	if l == nil || &l.Job != j {
		return
	}
	held := d.State().Record(l.ID).Phase == job.Held && l.Held && !l.short && l.unfit == "" && l.denied == ""
	if held == l.noted {
		return
	}
	l.noted = held
	run := l.Run
	d.Loop.Then(&l.Lane, func() func() {
		p := &patch{annotations: map[string]*string{names.Record: d.recordOf(l)}}
		return func() {
			if err := d.change(l, run, p); err != nil && !errors.Is(err, errFollows) {
				d.Loop.Post(func() error { d.unnoted(l, held, err); return nil })
			}
		}
	})
}

// unnoted tries again to note that a job is held, or is not.
func (d *Daemon) unnoted(l *entry, held bool, err error) {
	if d.entries[l.Key] != l || l.noted != held {
		return
	}
	d.opt.Log.Warn("that a job is held, or is not, cannot be noted on it", "job", l.Key, "error", err)
	l.noted = !held
	d.Loop.At(d.Loop.Now()+time.Second, func() {
		if d.entries[l.Key] == l {
			d.stands(&l.Job)
		}
	})
}

// change changes the owner of a job, or what stands for it. A Norn that finds there that
// another one has decided comes to its end.
func (d *Daemon) change(l *entry, run int, p *patch) error {
	if l.kind != aJob {
		return d.patchGang(l, p)
	}
	err := d.patchOwner(l, run, p)
	if errors.Is(err, errOvertaken) {
		d.Loop.Post(func() error { return fmt.Errorf("job %s: %w", l.Key, errOvertaken) })
	}
	return err
}

// patchOwner changes the owner of a job, unless another Norn has launched a later run of it, or this one.
func (d *Daemon) patchOwner(l *entry, run int, p *patch) (err error) {
	for range 5 { // its controller writes its status now and then
		now, gerr := d.owner(l)
		if gerr != nil {
			return gerr
		}
		n := number(now.GetAnnotations()[names.Run])
		if mine := p.annotations[names.Plan]; n > run || n == run && p.annotations[names.Run] != nil && now.GetAnnotations()[names.Plan] != *mine {
			return errOvertaken
		}
		p.uid, p.version = now.GetUID(), now.GetResourceVersion()
		if err = d.write.patchOwner(l.namespace, l.name, p); !errors.Is(err, errConflict) {
			return err
		}
	}
	return err
}

// owner is the owner of a job as the API has it at this moment, where what is watched is not
// that.
func (d *Daemon) owner(l *entry) (out meta.Object, err error) {
	if o := d.view.ownerAt(l.Key); o != nil && o.GetUID() == l.uid && d.fresh.take(l.uid, o.GetResourceVersion()) {
		return o, nil
	}
	err = d.write.do(func(ctx context.Context) (err error) {
		if l.of != nil {
			out, err = d.opt.Dynamic.Resource(resourceOf(l.of)).Namespace(l.namespace).Get(ctx, l.name, meta.GetOptions{})
		} else {
			out, err = d.opt.Client.BatchV1().Jobs(l.namespace).Get(ctx, l.name, meta.GetOptions{})
		}
		return err
	})
	if err == nil && out.GetUID() != l.uid {
		err = errConflict
	}
	return out, err
}

// patchGang notes the plan of a gang on its first pod, before any of it is bound.
func (d *Daemon) patchGang(l *entry, p *patch) error {
	pods := d.view.podsOf(l.Key, l.uid)
	if len(pods) == 0 {
		return errConflict
	}
	first := pods[0]
	for _, q := range pods {
		if q.Name < first.Name {
			first = q
		}
	}
	p.uid = first.UID
	return d.write.patchPod(first.Namespace, first.Name, p)
}

// isTold goes on when the API has, or has not, taken what a run was told.
func (d *Daemon) isTold(l *entry, run int, err error) error {
	if d.entries[l.Key] != l || l.Run != run {
		return nil
	}
	if terr := d.Loop.Touch(l.ID); terr != nil {
		return terr
	}
	if err != nil && !errors.Is(err, errConflict) {
		d.refused(l, err)
		return nil
	}
	l.told = true
	if err != nil && l.kind != aJob { // its first pod is gone: those that are left are seated anew
		for i := range l.seats {
			if !l.seats[i].bound {
				l.seats[i] = newSeat(&l.seats[i])
			}
		}
	}
	if err != nil && l.stage == starting && l.kind == aJob { // it is not what it was: whether it goes on is seen
		d.opt.Log.Warn("a job has changed while it was to be started", "job", l.Key, "error", err)
		l.told = false
		d.throwOff(l, "it was changed while it was to be started")
		return nil
	}
	d.Loop.Later(func() error { return looker{d}.look(l.Key) })
	return nil
}

// refused deals with a write that the API server does not take.
func (d *Daemon) refused(l *entry, err error) {
	d.opt.Log.Warn("the API server refused a change", "job", l.Key, "error", err)
	if l.stage != starting {
		run := l.Run
		d.Loop.At(d.Loop.Now()+time.Second, func() { // what is to leave has to leave
			if d.entries[l.Key] == l && l.Run == run && l.stage == leaving {
				d.tellToLeave(l)
			}
		})
		return
	}
	d.throwOff(l, "the API server refused it: "+err.Error())
}

// backoff is how long a job waits before it is launched again after so many refusals.
func backoff(failed int) time.Duration { return min(5*time.Minute, time.Second<<min(failed, 9)) }

// bind binds pods to their seats.
func (d *Daemon) bind(l *entry, all []binding) {
	run := l.Run
	d.Loop.Act(&l.Lane, func() { d.put(l, run, all) })
}

// put binds pods to their seats: in the lane of the job.
func (d *Daemon) put(l *entry, run int, all []binding) {
	for i, err := range d.write.bind(all) {
		if errors.Is(err, errFollows) {
			return
		}
		if err != nil {
			d.Loop.Post(func() error {
				looker{d}.soon(func() error { return d.unbound(l, run, &all[i], err) })
				return nil
			})
		}
	}
}

// unbound deals with a pod that could not be bound.
func (d *Daemon) unbound(l *entry, run int, b *binding, err error) error {
	d.Loop.At(d.Loop.Now()+time.Second, func() { fleet{d}.staysAway(b) })
	if d.entries[l.Key] != l || l.Run != run || l.stage == leaving {
		return nil
	}
	if terr := d.Loop.Touch(l.ID); terr != nil {
		return terr
	}
	if !errors.Is(err, errConflict) {
		d.refused(l, err)
		return nil
	}
	// Either it is bound already, as when an answer was lost, or it is gone: it is seen which.
	d.Loop.At(d.Loop.Now()+time.Second, func() {
		at := l.seatOf(b.uid)
		if d.entries[l.Key] != l || l.Run != run || at < 0 || l.seats[at].bound {
			return
		}
		l.seats[at] = newSeat(&l.seats[at])
		looker{d}.soon(func() error { return looker{d}.look(l.Key) })
	})
	return nil
}

// Stop implements engine.World. The owner is suspended once the decision is durable. The
// kept work that Stop returns assumes that its pods save it; if they do not, the job is set
// back later.
func (d *Daemon) Stop(id job.ID) (kept time.Duration, atOnce bool) {
	l, r := d.of(id), d.State().Record(id)
	kept = keptBy(r, d.State().Now)
	l.saved = r.SavedAt(d.State().Now)
	if l.anew { // nothing of this run is there yet
		l.anew = false
		return r.Progress, true
	}
	if l.Purpose.Away() {
		return kept, false
	}
	l.Purpose, l.Why, l.Decided = live.Preempted, "the scheduler needs its devices", d.Loop.Now()
	d.leaves(l)
	return kept, false
}

// keptBy is the work that is left of a run that leaves at a moment, if it does as it says.
func keptBy(r *job.Record, now time.Duration) time.Duration {
	switch r.Job.Stop {
	case job.Restart, job.Pinned:
		return 0
	case job.LastSave:
		return r.SavedAt(now)
	}
	return r.ProgressAt(now)
}

// Reshape implements engine.World: the run leaves, and the job is launched again on its new
// allocation.
func (d *Daemon) Reshape(id job.ID, a *cluster.Alloc, moved bool) (pause time.Duration, speed float64) {
	l, r := d.of(id), d.State().Record(id)
	l.Decided = d.Loop.Now()
	if l.Purpose == "" && !l.anew {
		l.Purpose, l.Why = live.Resizing, "it is given other devices"
		l.anew = true
		d.leaves(l)
	}
	return d.Costs().Base.Checkpoint + d.Costs().Base.Restore, d.opt.Speeds.Speed(r.Job, d.State().Cluster, a)
}

// Leave implements live.World.
func (d *Daemon) Leave(j *live.Job, p live.Purpose, why string) {
	l := d.entries[j.Key]
	l.Purpose, l.Why, l.anew = p, why, false
	d.Loop.Mark(l.ID)
	switch {
	case l.stage != leaving:
		l.Decided = d.Loop.Now()
		d.leaves(l)
	case l.kind == aJob && p == live.Cancelled: // its owner has to say so
		d.tellToLeave(l)
	}
}

// throwOff makes a run leave that cannot go on. Its job waits again, and for a while if that
// happens again.
func (d *Daemon) throwOff(l *entry, why string) {
	if l.Purpose.Away() || l.stage == leaving {
		return
	}
	d.opt.Log.Warn("a job is thrown off", "job", l.Key, "why", why)
	l.trouble = why
	d.Leave(&l.Job, live.Requeuing, why)
}

// leaves has what there is of a run leave.
func (d *Daemon) leaves(l *entry) {
	l.stage, l.told = leaving, false
	d.tellToLeave(l)
}

// tellToLeave tells a run to leave, once that is durable: a Job is suspended, bare pods are
// deleted.
func (d *Daemon) tellToLeave(l *entry) {
	run := l.Run
	d.Loop.Then(&l.Lane, func() func() {
		if l.kind == aJob && !l.gone {
			on := true
			p := &patch{annotations: map[string]*string{names.Plan: nil, names.Record: d.recordOf(l)}, suspend: &on, of: l.of}
			return func() { d.tell(l, run, p) }
		}
		pods, again := d.view.podsOf(l.Key, l.uid), l.trouble // where it is tried again, pods that wait go on waiting
		return func() {
			var err error
			for _, p := range pods {
				if p.DeletionTimestamp == nil && !over(p) && (p.Spec.NodeName != "" || again == "") {
					err = errors.Join(err, d.write.remove(p.Namespace, p.Name, p.UID, nil))
				}
			}
			d.Loop.Post(func() error {
				looker{d}.soon(func() error { return d.isTold(l, run, err) })
				return nil
			})
		}
	})
}

// quit forgets a run that has left.
func (d *Daemon) quit(l *entry) {
	for i := range l.seats {
		d.view.mark(subject{node: true, name: l.seats[i].node}) // what is left there is others' now
	}
	l.stage, l.seats, l.told, l.anew, l.lost, l.began, l.found = noRun, nil, false, false, "", 0, false
}

// There implements live.World.
func (d *Daemon) There(j *live.Job) bool { return d.entries[j.Key].stage.there() }

// Describe implements live.World.
func (d *Daemon) Describe(j *live.Job, out *api.Job) {
	l := d.entries[j.Key]
	out.Namespace, out.Kind = l.namespace, l.called()
	for i := range l.seats {
		if l.seats[i].name != "" {
			out.Pods = append(out.Pods, l.seats[i].name)
		}
	}
	if out.State != api.Running || out.Reason != "" {
		return
	}
	bound := 0
	for i := range l.seats {
		if l.seats[i].bound {
			bound++
		}
	}
	switch {
	case l.stage == leaving || l.anew:
		out.Reason = "waits until its last run has left"
	case l.stage == starting && bound < len(l.seats):
		out.Reason = "is being launched: " + strconv.Itoa(bound) + " of " + strconv.Itoa(len(l.seats)) + " pods are bound"
	case l.stage == starting:
		out.Reason = "is being launched: its pods are starting"
	}
}

// Explain implements live.World.
func (d *Daemon) Explain(j *live.Job, out *api.Why) {
	l, r := d.entries[j.Key], d.State().Record(j.ID)
	now := max(d.Loop.Now(), d.State().Now)
	done := r.ProgressAt(now)
	cost := func(kept time.Duration) string {
		return unit.Human((done - min(done, kept)).Round(time.Second)) + " of work"
	}
	switch r.Job.Stop {
	case job.Checkpoint:
		out.Stop = "checkpoint: its " + l.called() + " is suspended, and its pods have " + unit.Human(l.ask.grace) + " to save their state"
		if mean := d.Costs().Base.Checkpoint.Round(time.Millisecond); mean > 0 {
			out.Stop += "; leaving has taken " + unit.Human(mean) + " on average"
		}
	case job.LastSave:
		out.Stop = "last-save: its " + l.called() + " is suspended, and it goes on from its last checkpoint; now that would cost " + cost(r.SavedAt(now))
	case job.Pinned:
		out.Stop = "never: it is not preempted"
		if l.kind != aJob {
			out.Stop += ", for nobody would make its pods again"
		}
	default:
		out.Stop = "restart: its " + l.called() + " is suspended and begins anew later; now that would cost " + cost(0)
	}
}
