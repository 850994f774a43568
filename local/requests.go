package local

import (
	"context"
	"errors"
	"fmt"
	"os/user"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/norn-scheduler/norn/api"
	"github.com/norn-scheduler/norn/eventlog"
	"github.com/norn-scheduler/norn/job"
	"github.com/norn-scheduler/norn/live"
	"github.com/norn-scheduler/norn/local/rundir"
	"github.com/norn-scheduler/norn/place"
	"github.com/norn-scheduler/norn/sched"
	"github.com/norn-scheduler/norn/server"
)

var _ server.Backend = (*Daemon)(nil)

// Submit implements server.Backend.
func (d *Daemon) Submit(ctx context.Context, c server.Caller, spec api.JobSpec) (ids []string, err error) {
	if err := d.complete(&spec); err != nil {
		return nil, err
	}
	s := &stored{Spec: spec, Submitted: time.Now().UTC()}
	if s.Indices, err = indices(spec.Array, d.opt.Limits.Array); err != nil {
		return nil, err
	}
	if s.User, s.Cred, err = d.runAs(c, spec.User); err != nil {
		return nil, err
	}
	if d.opt.TenantOf != nil {
		switch tenant, err := d.opt.TenantOf(s.User, spec.Tenant); {
		case err == nil:
			s.Spec.Tenant = tenant
		case !c.Operator:
			return nil, api.Refuse(api.Denied, "%v", err)
		case spec.Tenant == "": // an operator needs no tenant to try something
			s.Spec.Tenant = s.User
		}
	}
	if _, err := d.demand(&spec); err != nil {
		return nil, err
	}
	if err := d.mayChange(); err != nil {
		return nil, err
	}
	if d.health.refuses.Load() {
		return nil, api.Refuse(api.Unavailable, "the disk of norn's state folder is nearly full: no new jobs are taken until there is room")
	}
	if err := d.known(ctx, c, spec.After); err != nil {
		return nil, err
	}
	s.ID = strconv.FormatInt(d.next.Add(1)-1, 10)
	if err := d.store.writeSpec(s); err != nil {
		return nil, api.Refuse(api.Unavailable, "the job cannot be stored: %v", err)
	}
	if err := d.change(ctx, func() error { return d.submit(s) }); err != nil {
		return nil, err
	}
	if len(s.Indices) > 0 {
		ids = append(ids, s.ID)
	}
	return append(ids, s.keys()...), nil
}

// submit takes in a job whose description is on disk. It is there for everybody else
// when the engine has its record: see appear.
func (d *Daemon) submit(s *stored) error {
	keys := s.keys()
	if most, have := d.opt.Limits.Jobs, len(d.byKey)+len(d.arrived); most > 0 && have+len(keys) > most {
		return api.Refuse(api.Unavailable, "there are %d jobs that have not ended, at most %d are taken", have, most)
	}
	for _, key := range keys {
		spec, err := d.engineJob(s, key, d.loop.Now())
		if err != nil {
			return err
		}
		id := job.ID(len(d.jobs) + len(d.arrived))
		spec.ID = id
		l := newLiveJob(id, key, s)
		l.after = d.unmet(l.after)
		d.arrived = append(d.arrived, l)
		d.loop.Mark(id)
		d.loop.Emit(eventlog.Event{Kind: eventlog.Submit, Job: id, Spec: &spec})
		if why, held := d.mustWait(l); held {
			d.loop.Emit(eventlog.Event{Kind: eventlog.Hold, Job: id, Reason: why})
		}
	}
	return nil
}

// mark lets what a request has noted be taken back.
func (d *Daemon) mark() (undo func()) {
	arrived := len(d.arrived)
	return func() { d.arrived = d.arrived[:arrived] }
}

// appear makes the next job that was submitted in this instant one of those that
// everybody sees: the engine has just made its record.
func (d *Daemon) appear() {
	l := d.arrived[0]
	if d.arrived = d.arrived[1:]; len(d.arrived) == 0 {
		d.arrived = nil
	}
	d.jobs, d.byKey[l.key] = append(d.jobs, l), l
}

// runAs is who a job runs as: the caller, or whom an operator names. The
// daemon's own user needs no credentials; others need a daemon that runs as root.
func (d *Daemon) runAs(c server.Caller, name string) (string, *rundir.User, error) {
	if name != "" && name != c.User && !c.Operator {
		return "", nil, api.Refuse(api.Denied, "user %s may not submit jobs for %s", c.User, name)
	}
	if name == "" {
		name = c.User
	}
	return credentials(name, c)
}

// known refuses dependencies on jobs that never were, or that the caller may not
// see.
func (d *Daemon) known(ctx context.Context, c server.Caller, after []api.After) error {
	if len(after) == 0 {
		return nil
	}
	return d.loop.Ask(ctx, func() error {
		for _, a := range after {
			var no *api.Error
			if _, err := d.mine(c, a.Job); errors.As(err, &no) && no.Kind == api.Unknown {
				return api.Refuse(api.Invalid, "it cannot come after job %q: there is no such job", a.Job)
			}
		}
		return nil
	})
}

// validID tells whether a job can be called so: 17, or 17_3.
func validID(id string) bool {
	base, index, isArray := strings.Cut(id, "_")
	digits := func(s string) bool {
		return s != "" && len(s) < 19 && strings.Trim(s, "0123456789") == ""
	}
	return digits(base) && (!isArray || digits(index))
}

// waitsFor is how the reason of a job begins that waits for others.
const waitsFor = "waits for the end of job "

// mustWait tells whether a job may not start yet, and why.
func (d *Daemon) mustWait(l *liveJob) (job.Reason, bool) {
	why := job.Reason{Code: job.OnHold, Job: job.None}
	switch {
	case l.held:
		return why, true
	case len(l.after) > 0:
		why.Text = waitsFor + l.after[0].Job
		if len(l.after) > 1 {
			why.Text += fmt.Sprintf(" and %d more", len(l.after)-1)
		}
		if state := d.endedState(l.after[0].Job); state != "" && state != api.Done && !l.after[0].Any {
			why.Text = fmt.Sprintf("%s, which %s: it never comes; norn release lets it start all the same", waitsFor+l.after[0].Job, state)
		}
		return why, true
	case l.until > d.loop.Now():
		return why, true
	}
	return why, false
}

// unmet are the dependencies that still have to be met.
func (d *Daemon) unmet(after []api.After) []api.After {
	var out []api.After
	for _, a := range after {
		state := d.endedState(a.Job)
		if len(d.group(a.Job)) > 0 || state != api.Done && !(a.Any && state.Over()) {
			out = append(out, a)
		}
	}
	return out
}

// group are the jobs that a number means: one, or those of an array that have not
// ended.
func (d *Daemon) group(id string) []*liveJob {
	if l := d.byKey[id]; l != nil {
		return []*liveJob{l}
	}
	var out []*liveJob
	for _, l := range d.jobs {
		if l != nil && l.index >= 0 && l.stored.ID == id {
			out = append(out, l)
		}
	}
	return out
}

// settle looks again at the jobs that wait for one that has ended.
func (d *Daemon) settle(key string) {
	for _, l := range d.jobs {
		if l == nil || len(l.after) == 0 || !slices.ContainsFunc(l.after, func(a api.After) bool { return a.Job == key || a.Job == baseOf(key) }) {
			continue
		}
		d.loop.Later(func() error { return d.dependent(l) })
		d.loop.Kick()
	}
}

// dependent frees a job whose dependencies are met, and says why when they never
// will be.
func (d *Daemon) dependent(l *liveJob) error {
	if d.byKey[l.key] != l {
		return nil
	}
	if err := d.loop.Touch(l.id); err != nil {
		return err
	}
	l.after = d.unmet(l.after)
	d.freeIf(l)
	return nil
}

// freeIf frees a held job for which nothing stands in the way any more.
func (d *Daemon) freeIf(l *liveJob) {
	r := d.st.Record(l.id)
	if r.Phase != job.Held || l.held {
		return
	}
	if why, held := d.mustWait(l); held {
		if why != r.Reason {
			d.loop.Emit(eventlog.Event{Kind: eventlog.Wait, Job: l.id, Reason: why})
		}
		return
	}
	d.loop.Emit(eventlog.Event{Kind: eventlog.Free, Job: l.id})
}

// credentials are those of a user as the system knows her.
func credentials(name string, c server.Caller) (string, *rundir.User, error) {
	me, err := user.Current()
	if err != nil {
		return "", nil, err
	}
	u := me
	if name == c.User && c.Local {
		if u, err = user.LookupId(strconv.Itoa(int(c.UID))); err != nil { // a user without a name
			u = &user.User{Uid: strconv.Itoa(int(c.UID)), Gid: strconv.Itoa(int(c.UID)), Username: name}
		}
	} else if u, err = user.Lookup(name); err != nil {
		return "", nil, api.Refuse(api.Invalid, "user %s is not known on this machine", name)
	}
	if u.Uid == me.Uid {
		return name, nil, nil
	}
	if me.Uid != "0" {
		return "", nil, api.Refuse(api.Denied, "this norn runs as %s and cannot run jobs as %s; a norn that serves several users runs as root", me.Username, name)
	}
	cred := &rundir.User{}
	uid, err1 := strconv.ParseUint(u.Uid, 10, 32)
	gid, err2 := strconv.ParseUint(u.Gid, 10, 32)
	if err1 != nil || err2 != nil {
		return "", nil, fmt.Errorf("user %s has no numbers", name)
	}
	cred.UID, cred.GID = uint32(uid), uint32(gid)
	if groups, err := u.GroupIds(); err == nil {
		for _, g := range groups {
			if n, err := strconv.ParseUint(g, 10, 32); err == nil {
				cred.Groups = append(cred.Groups, uint32(n))
			}
		}
	}
	return name, cred, nil
}

// mine finds the jobs that a caller means and may touch. Others' jobs do not
// exist for her.
func (d *Daemon) mine(c server.Caller, id string) ([]*liveJob, error) {
	if !validID(id) {
		return nil, api.Refuse(api.Unknown, "there is no job %q", id)
	}
	var out []*liveJob
	for _, l := range d.group(id) {
		if c.Operator || l.stored.User == c.User {
			out = append(out, l)
		}
	}
	if len(out) > 0 {
		return out, nil
	}
	if state := d.endedState(id); state != "" && (c.Operator || d.owner(id) == c.User) {
		return nil, api.Refuse(api.Conflict, "job %s has ended: it is %s", id, state)
	}
	return nil, api.Refuse(api.Unknown, "there is no job %s", id)
}

// Do implements server.Backend.
func (d *Daemon) Do(ctx context.Context, c server.Caller, v server.Verb, id string) error {
	var list []string
	err := d.loop.Ask(ctx, func() error {
		jobs, err := d.mine(c, id)
		for _, l := range jobs {
			list = append(list, l.key)
		}
		return err
	})
	if err != nil {
		return err
	}
	for _, key := range list {
		var told live.Lane
		err := d.change(ctx, func() error {
			l := d.byKey[key]
			if l == nil {
				return nil // it has ended meanwhile
			}
			if err := d.loop.Touch(l.id); err != nil {
				return err
			}
			err := d.verb(c, l, v)
			told = l.lane
			return err
		})
		if err != nil {
			return err
		}
		if err := told.Wait(ctx); err != nil { // until its run has been told
			return err
		}
	}
	return nil
}

func (d *Daemon) verb(c server.Caller, l *liveJob, v server.Verb) error {
	r := d.st.Record(l.id)
	switch v {
	case server.Cancel:
		d.cancel(l, c)
	case server.Hold:
		why := job.Reason{Code: job.OnHold, Job: job.None, Text: "is held by " + c.User}
		switch r.Phase {
		case job.Waiting:
			l.held = true
			d.loop.Emit(eventlog.Event{Kind: eventlog.Hold, Job: l.id, Reason: why})
		case job.Held:
			if !l.held {
				l.held = true
				d.loop.Emit(eventlog.Event{Kind: eventlog.Wait, Job: l.id, Reason: why})
			}
		default:
			return api.Refuse(api.Conflict, "job %s is %s: only a waiting job can be held; norn requeue takes it off its devices", l.key, r.Phase)
		}
	case server.Release:
		if r.Phase != job.Held {
			return api.Refuse(api.Conflict, "job %s is not held, it is %s", l.key, r.Phase)
		}
		l.held, l.until, l.after = false, 0, nil
		d.freeIf(l)
	case server.Requeue:
		return d.requeue(l, r, c)
	default:
		return api.Refuse(api.Invalid, "nobody can %q a job", v)
	}
	return nil
}

// cancel takes a job back: at once where it holds nothing, or when its processes
// have ended.
func (d *Daemon) cancel(l *liveJob, c server.Caller) {
	phase := d.st.Record(l.id).Phase
	if !l.stage.there() || phase != job.Running && phase != job.Stopping {
		l.why = c.User + " cancelled it"
		if l.stage.there() { // its frozen processes go, too
			d.end(l, live.Cancelled, seqCancel, rundir.End, 0, l.why)
		}
		d.loop.Emit(eventlog.Event{Kind: eventlog.Cancel, Job: l.id})
		return
	}
	if l.purpose == live.Cancelled {
		return
	}
	d.end(l, live.Cancelled, seqCancel, rundir.End, d.opt.Defaults.CancelGrace, c.User+" cancelled it")
	d.intend(l)
}

// intend notes in the log that a person wants a run to leave, so that it comes about
// whatever happens until then: what its runner is told may get lost.
func (d *Daemon) intend(l *liveJob) {
	if why, ok := l.intention(); ok {
		d.loop.Emit(eventlog.Event{Kind: eventlog.Wait, Job: l.id, Reason: why})
	}
}

// intention is what a person wants of a run, as the log has it.
func (l *liveJob) intention() (why job.Reason, ok bool) {
	code := map[live.Purpose]job.ReasonCode{live.Cancelled: job.Cancelling, live.Requeuing: job.UserRequest}[l.purpose]
	return job.Reason{Code: code, Job: job.None, Text: l.why}, code != job.NoReason
}

// end has a run leave for a person's sake.
func (d *Daemon) end(l *liveJob, p live.Purpose, seq int, how rundir.WantState, grace api.Seconds, why string) {
	l.purpose, l.why, l.decided = p, why, d.loop.Now()
	d.happens(l, toEnd)
	l.seq = l.seq/seqs*seqs + seq
	d.wants(l, rundir.Want{Seq: l.seq, State: how, Grace: grace, Why: why})
	l.tell()
	d.loop.Mark(l.id)
}

// requeue takes a running job off its devices; it waits again, with what it can
// save.
func (d *Daemon) requeue(l *liveJob, r *job.Record, c server.Caller) error {
	if r.Phase != job.Running {
		return api.Refuse(api.Conflict, "job %s does not run, it is %s", l.key, r.Phase)
	}
	if l.purpose != "" {
		return api.Refuse(api.Conflict, "job %s is leaving its devices already (%s)", l.key, l.purpose)
	}
	d.throwOff(l, r, live.Requeuing, c.User+" requeued it")
	d.intend(l)
	return nil
}

// throwOff has a running job leave its devices and wait again, with what it can keep.
func (d *Daemon) throwOff(l *liveJob, r *job.Record, p live.Purpose, why string) {
	how, grace := rundir.End, d.opt.Defaults.CancelGrace
	if r.Job.Stop == job.Checkpoint {
		how, grace = rundir.Save, l.stored.Spec.Stop.Grace
	}
	d.end(l, p, seqRequeue, how, grace, why)
}

// Resize implements server.Backend.
func (d *Daemon) Resize(ctx context.Context, c server.Caller, id string, z api.Resize) error {
	decided := make(chan error, 1)
	err := d.change(ctx, func() error {
		jobs, err := d.mine(c, id)
		if err != nil {
			return err
		}
		if len(jobs) > 1 {
			return api.Refuse(api.Invalid, "%s is an array: resize its jobs one by one, such as %s", id, jobs[0].key)
		}
		l := jobs[0]
		if err := d.loop.Touch(l.id); err != nil {
			return err
		}
		return d.resize(l, z.GPUs, decided)
	})
	if err != nil {
		return err
	}
	select {
	case err := <-decided:
		return err
	case <-ctx.Done():
		return ctx.Err()
	case <-d.loop.Stopped():
		return live.ErrAway
	}
}

// resize orders another size, and says in decided what came of it.
func (d *Daemon) resize(l *liveJob, gpus float64, decided chan<- error) error {
	r := d.st.Record(l.id)
	n, g := int(gpus), l.stored.Spec.GPUs
	switch {
	case r.Phase != job.Running:
		return api.Refuse(api.Conflict, "job %s is %s: only a running job can be resized", l.key, r.Phase)
	case !g.Elastic():
		return api.Refuse(api.Conflict, "job %s was submitted for exactly %s GPUs: a range such as --gpus 1-4 makes it elastic", l.key, g)
	case float64(n) != gpus || gpus < g.Least || gpus > g.Most:
		return api.Refuse(api.Invalid, "job %s runs on %v to %v GPUs, not on %v", l.key, g.Least, g.Most, gpus)
	case r.Job.Stop == job.Freeze || r.Job.Stop == job.Pinned:
		return api.Refuse(api.Conflict, "job %s cannot be resized: its way to stop is %s", l.key, r.Job.Stop)
	case l.purpose.Away():
		return api.Refuse(api.Conflict, "job %s is leaving its devices (%s)", l.key, l.purpose)
	case int(r.Tasks) == n:
		decided <- nil
		return nil
	}
	id := l.id
	d.loop.Kick()
	d.undecided = append(d.undecided, decided)
	d.eng.Order(func(v *sched.View, p *sched.Plan) {
		switch {
		case p.Holding(id) == nil || v.Job(id).Phase() != job.Running:
			decided <- api.Refuse(api.Conflict, "job %s was stopped by the scheduler at this very moment", l.key)
		case p.Resize(id, n, place.Pack):
			decided <- nil
		default:
			decided <- api.Refuse(api.Conflict, "job %s cannot have %d GPUs now: too few are free", l.key, n)
		}
	})
	return nil
}
