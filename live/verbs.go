package live

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/norn-scheduler/norn/api"
	"github.com/norn-scheduler/norn/api/server"
	"github.com/norn-scheduler/norn/cluster/unit"
	"github.com/norn-scheduler/norn/eventlog"
	"github.com/norn-scheduler/norn/experiment"
	"github.com/norn-scheduler/norn/experiment/foreign"
	"github.com/norn-scheduler/norn/job"
	"github.com/norn-scheduler/norn/place"
	"github.com/norn-scheduler/norn/sched"
)

// orders is the daemon as it does what people ask for.
type orders struct{ *Daemon }

// Resize implements server.Backend.
func (d *Daemon) Resize(ctx context.Context, c server.Caller, id string, z api.Resize) error {
	decided := make(chan error, 1)
	err := d.Change(ctx, func() error {
		jobs, err := d.Mine(c, id)
		if err != nil {
			return err
		}
		if len(jobs) > 1 {
			return api.Refuse(api.Invalid, "%s is an array: resize its jobs one by one, such as %s", id, jobs[0].Key)
		}
		l := jobs[0]
		if err := d.Loop.Touch(l.ID); err != nil {
			return err
		}
		return orders{d}.resize(l, z.GPUs, decided)
	})
	if err != nil {
		return err
	}
	select {
	case err := <-decided:
		return err
	case <-ctx.Done():
		return ctx.Err()
	case <-d.Loop.Stopped():
		return ErrAway
	}
}

// resize orders another size, and says in decided what came of it.
func (d orders) resize(l *Job, gpus float64, decided chan<- error) error {
	r := d.st.Record(l.ID)
	n, g := int(gpus), l.Spec.GPUs
	role := &r.Job.Demand.Roles[0]
	each := max(1, int(role.GPU/unit.One)) // GPUs of a task
	least, most := role.Range()
	switch {
	case r.Phase != job.Running:
		return api.Refuse(api.Conflict, "job %s is %s: only a running job can be resized", l.Key, r.Phase)
	case !g.Elastic():
		return api.Refuse(api.Conflict, "job %s was submitted for exactly %s GPUs: a range such as --gpus 1-4 makes it elastic", l.Key, g)
	case float64(n) != gpus || gpus < g.Least || gpus > g.Most:
		return api.Refuse(api.Invalid, "job %s runs on %v to %v GPUs, not on %v", l.Key, g.Least, g.Most, gpus)
	case n%each != 0:
		return api.Refuse(api.Invalid, "job %s runs on a multiple of %d GPUs, as each of its tasks has so many: not on %v", l.Key, each, gpus)
	case n/each < int(least) || n/each > int(most):
		return api.Refuse(api.Invalid, "job %s has %d to %d tasks of %d GPUs each: it cannot run on %v", l.Key, least, most, each, gpus)
	case r.Job.Stop == job.Freeze || r.Job.Stop == job.Pinned:
		return api.Refuse(api.Conflict, "job %s cannot be resized: its way to stop is %s", l.Key, r.Job.Stop)
	case l.Purpose.Away():
		return api.Refuse(api.Conflict, "job %s is leaving its devices (%s)", l.Key, l.Purpose)
	case int(r.Tasks) == n/each:
		decided <- nil
		return nil
	}
	id := l.ID
	d.Loop.RequestDecision()
	d.undecided = append(d.undecided, decided)
	d.eng.Order(func(v *sched.View, p *sched.Plan) {
		switch {
		case p.Alloc(id) == nil || v.Job(id).Phase() != job.Running:
			decided <- api.Refuse(api.Conflict, "job %s was stopped by the scheduler at this very moment", l.Key)
		case p.Resize(id, n/each, place.Pack):
			decided <- nil
		default:
			decided <- api.Refuse(api.Conflict, "job %s cannot have %d GPUs now: too few are free", l.Key, n)
		}
	})
	return nil
}

// Mine finds the jobs that a caller means and may touch. Others' jobs do not
// exist for her.
func (d *Daemon) Mine(c server.Caller, id string) ([]*Job, error) {
	if !ValidID(id) {
		return nil, api.Refuse(api.Unknown, "there is no job %q", id)
	}
	var out []*Job
	for _, l := range d.group(id) {
		if c.Operator || l.User == c.User {
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
	err := d.Loop.Ask(ctx, func() error {
		jobs, err := d.Mine(c, id)
		for _, l := range jobs {
			list = append(list, l.Key)
		}
		return err
	})
	if err != nil {
		return err
	}
	for _, key := range list {
		if err := (orders{d}).do(ctx, c, v, key); err != nil {
			return err
		}
	}
	return nil
}

// do does what a person asks of a job, and waits until the world has been told what follows
// from that.
func (d orders) do(ctx context.Context, c server.Caller, v server.Verb, key string) error {
	var l *Job
	var told Lane
	err := d.Change(ctx, func() error {
		if l = d.byKey[key]; l == nil {
			return nil // it has ended meanwhile
		}
		if err := d.Loop.Touch(l.ID); err != nil {
			return err
		}
		err := d.verb(c, l, v)
		told = l.Lane
		return err
	})
	if err != nil || l == nil {
		return err
	}
	err = d.Loop.Ask(ctx, func() error { // what follows was put into the lane when it was decided
		told = l.Lane
		return nil
	})
	if err != nil && !errors.Is(err, ErrAway) {
		return err
	}
	return told.Wait(ctx)
}

func (d orders) verb(c server.Caller, l *Job, v server.Verb) error {
	r := d.st.Record(l.ID)
	switch v {
	case server.Cancel:
		d.cancel(l, c)
	case server.Hold:
		why := job.Reason{Code: job.OnHold, Job: job.None, Text: "is held by " + c.User}
		switch r.Phase {
		case job.Waiting:
			l.Held = true
			d.Loop.Emit(eventlog.Event{Kind: eventlog.Hold, Job: l.ID, Reason: why})
		case job.Held:
			if !l.Held {
				l.Held = true
				d.Loop.Emit(eventlog.Event{Kind: eventlog.Wait, Job: l.ID, Reason: why})
			}
		default:
			return api.Refuse(api.Conflict, "job %s is %s: only a waiting job can be held; norn requeue takes it off its devices", l.Key, r.Phase)
		}
	case server.Release:
		if r.Phase != job.Held {
			return api.Refuse(api.Conflict, "job %s is not held, it is %s", l.Key, r.Phase)
		}
		if l.Broken != "" {
			return api.Refuse(api.Conflict, "job %s can never run again: what was submitted is lost (%s); norn cancel %s ends it", l.Key, l.Broken, l.Key)
		}
		if r.Reason.Code == job.InTurn && !c.Operator {
			return api.Refuse(api.Conflict, "job %s %s; only an operator may let it start before", l.Key, r.Reason.Text)
		}
		l.Held, l.Until, l.After, l.Passed = false, 0, nil, c.Operator
		holds(d).freeIf(l)
	case server.Requeue:
		return d.requeue(l, r, c)
	default:
		return api.Refuse(api.Invalid, "nobody can %q a job", v)
	}
	return nil
}

// cancel takes a job back: at once where it has nothing, or when its processes
// have ended.
func (d orders) cancel(l *Job, c server.Caller) {
	phase := d.st.Record(l.ID).Phase
	there := d.cfg.World.There(l)
	if !there || phase != job.Running && phase != job.Stopping {
		l.Why = c.User + " cancelled it"
		if there { // its frozen processes go, too
			d.cfg.World.Leave(l, Cancelled, l.Why)
		}
		d.Loop.Emit(eventlog.Event{Kind: eventlog.Cancel, Job: l.ID})
		return
	}
	if l.Purpose == Cancelled {
		return
	}
	d.cfg.World.Leave(l, Cancelled, c.User+" cancelled it")
	d.intend(l)
}

// intend notes in the log that a person wants a run to leave, so that it comes about
// whatever happens until then: what its runner is told may get lost.
func (d orders) intend(l *Job) {
	if why, ok := l.Intention(); ok {
		d.Loop.Emit(eventlog.Event{Kind: eventlog.Wait, Job: l.ID, Reason: why})
	}
}

// requeue takes a running job off its devices; it waits again, with what it can
// save.
func (d orders) requeue(l *Job, r *job.Record, c server.Caller) error {
	if r.Phase != job.Running {
		return api.Refuse(api.Conflict, "job %s does not run, it is %s", l.Key, r.Phase)
	}
	if l.Purpose != "" {
		return api.Refuse(api.Conflict, "job %s is leaving its devices already (%s)", l.Key, l.Purpose)
	}
	d.cfg.World.Leave(l, Requeuing, c.User+" requeued it")
	d.intend(l)
	return nil
}

// Known refuses dependencies on jobs that never were, or that the caller may not
// see.
func (d *Daemon) Known(ctx context.Context, c server.Caller, after []api.After) error {
	if len(after) == 0 {
		return nil
	}
	return d.Loop.Ask(ctx, func() error {
		for _, a := range after {
			if a.Job == api.Singleton {
				continue
			}
			var no *api.Error
			if _, err := d.Mine(c, a.Job); errors.As(err, &no) && no.Kind == api.Unknown {
				return api.Refuse(api.Invalid, "it cannot come after job %q: there is no such job", a.Job)
			}
		}
		return nil
	})
}

// mustWait tells whether a job may not start yet, and why.
func (d holds) mustWait(l *Job) (job.Reason, bool) {
	why := job.Reason{Code: job.OnHold, Job: job.None}
	switch {
	case l.Broken != "":
		why.Text = fmt.Sprintf("its submission is lost: it can never run again, norn cancel %s ends it (%s)", l.Key, l.Broken)
		return why, true
	case l.Held:
		return why, true
	case len(l.After) > 0:
		why.Code, why.Text = job.AfterJob, waitsFor+l.After[0].Job
		if len(l.After) > 1 {
			why.Text += fmt.Sprintf(" and %d more", len(l.After)-1)
		}
		if state := d.endedState(l.After[0].Job); state != "" && len(d.group(l.After[0].Job)) == 0 && !l.After[0].Met(state) {
			why.Text = fmt.Sprintf("%s, which %s: it never comes; norn release lets it start all the same", waitsFor+l.After[0].Job, endsAs(state))
		}
		return why, true
	case l.Until > d.Loop.Now():
		return why, true
	}
	if text, waits := d.turn(l); waits {
		return job.Reason{Code: job.InTurn, Text: text, Job: job.None}, true
	}
	return why, false
}

// endsAs says how a job ended, behind "which".
func endsAs(s api.State) string {
	if s == api.Done {
		return "is done"
	}
	return string(s)
}

// unmet are the dependencies of a job that still have to be met. A singleton comes after each job like it that
// was submitted before.
func (d holds) unmet(l *Job) []api.After {
	var out []api.After
	for _, a := range l.After {
		if a.Job == api.Singleton {
			out = append(out, d.alike(l)...)
			continue
		}
		state := d.endedState(a.Job)
		if len(d.group(a.Job)) > 0 || !a.Met(state) {
			out = append(out, a)
		}
	}
	return out
}

// alike are the jobs of the user of one and with its name that were submitted before it and have not ended.
func (d holds) alike(l *Job) []api.After {
	var out []api.After
	for _, all := range [][]*Job{d.jobs, d.arrived} {
		for _, o := range all {
			if o != nil && o.ID < l.ID && o.User == l.User && o.Spec.Name == l.Spec.Name {
				out = append(out, api.After{Job: o.Key, Any: true})
			}
		}
	}
	return out
}

// group are the jobs that a number means: one, or those of an array that have not
// ended.
func (d *Daemon) group(id string) []*Job {
	if l := d.byKey[id]; l != nil {
		return []*Job{l}
	}
	var out []*Job
	for _, l := range d.jobs {
		if l != nil && l.Array != "" && l.Array == id {
			out = append(out, l)
		}
	}
	return out
}

// settle looks again at the jobs that wait for one that has ended.
func (d holds) settle(key string) {
	for _, l := range d.jobs {
		if l == nil || len(l.After) == 0 || !slices.ContainsFunc(l.After, func(a api.After) bool { return a.Job == key || a.Job == BaseOf(key) }) {
			continue
		}
		d.Loop.Later(func() error { return d.dependent(l) })
		d.Loop.RequestDecision()
	}
}

// dependent frees a job whose dependencies are met, and says why when they never
// will be.
func (d holds) dependent(l *Job) error {
	if d.byKey[l.Key] != l {
		return nil
	}
	if err := d.Loop.Touch(l.ID); err != nil {
		return err
	}
	l.After = d.unmet(l)
	d.freeIf(l)
	return nil
}

// freeIf frees a held job for which nothing stands in the way any more.
func (d holds) freeIf(l *Job) {
	r := d.st.Record(l.ID)
	if r.Phase != job.Held || l.Held {
		return
	}
	if why, held := d.mustWait(l); held {
		if why != r.Reason {
			d.Loop.Emit(eventlog.Event{Kind: eventlog.Wait, Job: l.ID, Reason: why})
		}
		return
	}
	d.counts.set(l, ready) // so that the next one sees what it takes
	d.Loop.Emit(eventlog.Event{Kind: eventlog.Free, Job: l.ID})
}

// waitsFor is how the reason of a job begins that waits for others. Logs of before there
// was a code for that are told by it.
const waitsFor = "waits for the end of job "

// choose reads a policy that somebody asks for. A program is one that whoever started this
// Norn has named, by its name alone or in the same words, and no other: it has the rights of
// the daemon.
func (c Config) choose(text string) (experiment.Choice, error) {
	text = strings.TrimSpace(text)
	if p := c.Policy; p.Policy == foreign.Name && (text == p.Policy || text == p.String()) {
		return p, nil
	}
	return experiment.ParseChoice(text)
}

// SetPolicy implements server.Backend.
func (d *Daemon) SetPolicy(ctx context.Context, c server.Caller, choice string) error {
	if !c.Operator {
		return api.Refuse(api.Denied, "only an operator may change the policy")
	}
	next, err := d.cfg.choose(choice)
	if err == nil {
		_, err = next.Make()
	}
	switch {
	case errors.Is(err, experiment.ErrUnnamed):
		return api.Refuse(api.Denied, "%v", err)
	case err != nil:
		return api.Refuse(api.Invalid, "%v", err)
	}
	return d.Change(ctx, func() error {
		if d.rolling != nil {
			return ErrLater
		}
		d.rolling = &next
		d.Loop.RequestDecision()
		d.mistake = ""
		return nil
	})
}
