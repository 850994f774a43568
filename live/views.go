package live

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/norn-scheduler/norn/api"
	"github.com/norn-scheduler/norn/api/server"
	"github.com/norn-scheduler/norn/cluster"
	"github.com/norn-scheduler/norn/cluster/unit"
	"github.com/norn-scheduler/norn/job"
	"github.com/norn-scheduler/norn/perf/predict/devices"
	"github.com/norn-scheduler/norn/tenant"
)

// stateOf is a phase in the words of the API.
func stateOf(p job.Phase) api.State { return api.State(p.String()) }

// stands is how a job stands in the words of the API: one that somebody has told to leave
// its devices is stopping, whatever a policy has been told.
func (j *Job) stands(r *job.Record) api.State {
	if r.Phase == job.Running && j.Purpose.Away() {
		return api.Stopping
	}
	return stateOf(r.Phase)
}

// View is a job as its users see it.
func (d *Daemon) View(l *Job) api.Job {
	r, spec := d.st.Record(l.ID), l.Spec
	now := max(d.Loop.Now(), d.st.Now)
	if r.Phase.Over() {
		now = r.End
	}
	j := api.Job{
		ID: l.Key, Name: spec.Name, User: l.User, Tenant: spec.Tenant, App: spec.App, State: l.stands(r), Reason: d.reason(l, r),
		GPUs: spec.GPUs, Tasks: spec.Tasks, CPUs: spec.CPUs, Memory: spec.Memory, Priority: spec.Priority, StopMode: spec.Stop.Mode,
		Submitted: d.Loop.Clock.Wall(r.Job.Submit), Started: d.Loop.Clock.Wall(r.FirstStart), Since: d.Loop.Clock.Wall(l.standsSince(r)), Ended: d.Loop.Clock.Wall(r.End),
		Wait: api.Of(r.WaitAt(now)), Ran: api.Of(r.AllocatedAt(now)), GPUTime: api.Seconds(r.ServiceAt(now)),
		Run: l.Run, Preemptions: int(r.Preemptions), Resizes: int(r.Resizes), Failures: int(r.Failures),
		Progress: l.Report, Command: spec.Command, Dir: spec.Dir, After: l.After, Limit: spec.Limit, Deadl: spec.Deadline, Soft: spec.Soft, Promise: r.FractionText(now), PTY: spec.PTY,
	}
	if a := d.st.Alloc(l.ID); a != nil {
		j.Allocated, j.Devices, j.Throttle = float64(d.st.Cluster.GPUMilli(a))/1000, d.cfg.Names.of(a), ThrottleOf(a)
		if several(d.st.Cluster) {
			j.Nodes = nodesOf(d.st.Cluster, a)
		}
	}
	if r.Phase == job.Running && r.Speed != 1 {
		j.Speed = r.Speed
	}
	if r.Estimate >= 0 {
		j.Estimate = api.Of(r.Estimate)
		if left := r.Estimate - r.ProgressAt(now); r.Phase == job.Running && r.Speed > 0 {
			j.ExpectEnd = d.Loop.Clock.Wall(max(now, r.Ready) + time.Duration(float64(max(0, left))/r.Speed))
		}
	}
	d.cfg.World.Describe(l, &j)
	return j
}

// of is what the devices of an Alloc are called.
func (names Names) of(a *cluster.Alloc) []string {
	var out []string
	for i := range a.Shares {
		out = append(out, names(a.Shares[i].Device))
	}
	return out
}

// reason is why a job stands as it stands, in a sentence.
func (d *Daemon) reason(l *Job, r *job.Record) string {
	switch r.Phase {
	case job.Running:
		if l.Purpose != "" && l.Why != "" {
			return "is leaving its devices: " + l.Why
		}
		return ""
	case job.FailedPhase:
		return l.failure()
	case job.Cancelled:
		return l.Why
	case job.Done:
		return ""
	case job.Waiting, job.Held, job.Stopping, job.Assigned:
		return d.sentence(r.Reason)
	}
	return ""
}

// failure says how a job failed.
func (l *Job) failure() string {
	switch {
	case l.Exit == nil:
		return "failed"
	case l.Exit.Cause == TimeLimit:
		return "ran into its time limit of " + unit.Human(l.Spec.Limit.Duration())
	}
	return l.Exit.Text()
}

// sentence says a reason with the numbers by which users know jobs, and with
// times of day.
func (d *Daemon) sentence(r job.Reason) string {
	if r.Code == job.NoReason {
		return ""
	}
	name := func(id job.ID) string {
		if d.st.Known(id) {
			return d.st.Record(id).Job.Key
		}
		return "that has ended"
	}
	if r.At > 0 && (r.Promises() || r.Code == job.Reserved || r.Code == job.NotYet) {
		return strings.Replace(r.Sentence(name), unit.Human(r.At), d.Loop.Clock.Wall(r.At).Format(time.TimeOnly), 1)
	}
	return r.Sentence(name)
}

// Jobs implements server.Backend.
func (d *Daemon) Jobs(ctx context.Context, c server.Caller, q api.Query) ([]api.Job, error) {
	var out []api.Job
	wanted := idsOf(&q)
	visible := func(user string) bool { return c.Operator || user == c.User }
	err := d.Loop.Ask(ctx, func() error {
		var found []*Job
		for _, l := range d.jobs {
			if l != nil && visible(l.User) && l.asked(d.st.Record(l.ID), &q, wanted) {
				found = append(found, l)
			}
		}
		submitted := func(l *Job) time.Time { return d.Loop.Clock.Wall(d.st.Record(l.ID).Job.Submit) }
		slices.SortFunc(found, func(a, b *Job) int { return compareJobs(a.Key, submitted(a), b.Key, submitted(b)) }) // nearly is already
		if onlyPaged(&q) {                                                                                           // so that views are made of one page
			at, _ := slices.BinarySearchFunc(found, q.After, func(l *Job, c api.Cursor) int {
				if c.ID == "" || compareJobs(l.Key, submitted(l), c.ID, c.Submitted) > 0 {
					return 1
				}
				return -1
			})
			found = found[at:min(len(found), at+q.Page)]
		}
		out = make([]api.Job, len(found))
		for i, l := range found {
			out[i] = d.View(l)
		}
		for i := range d.buried { // the file of the history may not tell of them yet
			if j := &d.buried[i].Job; wantsEnded(&q) && visible(j.User) {
				out = append(out, *j)
			}
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	out = slices.DeleteFunc(out, func(j api.Job) bool { return !matches(&j, &q, wanted) })
	if wantsEnded(&q) {
		more, err := d.endedJobs(&q, visible)
		if err != nil {
			return nil, err
		}
		out = both(more, out)
	}
	if q.Limit > 0 && len(out) > q.Limit {
		out = out[len(out)-q.Limit:]
	}
	return PageOf(out, &q), nil
}

// onlyPaged tells whether a query selects by what asked looks at, and asks for a page.
func onlyPaged(q *api.Query) bool {
	return q.Page > 0 && !wantsEnded(q) && len(q.Users) == 0 && q.Tenant == "" && q.Name == "" && q.Since.IsZero() && q.Until.IsZero()
}

// PageOf is the page of a list of jobs, in their order, that a query asks for.
func PageOf(jobs []api.Job, q *api.Query) []api.Job {
	if q.Page <= 0 {
		return jobs
	}
	for q.After.ID != "" && len(jobs) > 0 && compareJobs(jobs[0].ID, jobs[0].Submitted, q.After.ID, q.After.Submitted) <= 0 {
		jobs = jobs[1:]
	}
	return jobs[:min(len(jobs), q.Page)]
}

// idsOf are the numbers or names that a query asks for, which may be many.
func idsOf(q *api.Query) map[string]bool {
	out := make(map[string]bool, len(q.IDs))
	for _, id := range q.IDs {
		out[id] = true
	}
	return out
}

// both are jobs that have ended and such that had not a moment before, in order. One that
// ended in between is in either list, and counts as ended.
func both(ended, active []api.Job) []api.Job {
	over := make(map[identity]bool, len(ended))
	for i := range ended {
		over[identityOf(&ended[i])] = true
	}
	active = slices.DeleteFunc(active, func(j api.Job) bool { return over[identityOf(&j)] })
	out := append(ended, active...)
	slices.SortStableFunc(out, func(a, b api.Job) int { return compareViews(&a, &b) })
	return out
}

// asked tells quickly whether a job that has not ended may match a query, so that
// views are made of few.
func (j *Job) asked(r *job.Record, q *api.Query, wanted map[string]bool) bool {
	if len(wanted) > 0 && !wanted[j.Key] && !wanted[j.Array] {
		return false
	}
	if r.Phase.Over() && !wantsEnded(q) { // where the history could not be written
		return false
	}
	return len(q.States) == 0 || slices.Contains(q.States, j.stands(r))
}

// wantsEnded tells whether a query asks for jobs that have ended.
func wantsEnded(q *api.Query) bool {
	if len(q.States) > 0 { // of no other jobs, however they are named
		return slices.ContainsFunc(q.States, api.State.Over)
	}
	return q.All || len(q.IDs) > 0
}

// matches tells whether a job is one that a query asks for.
func matches(j *api.Job, q *api.Query, wanted map[string]bool) bool {
	switch {
	case len(wanted) > 0 && !wanted[j.ID] && !wanted[BaseOf(j.ID)],
		len(q.States) > 0 && !slices.Contains(q.States, j.State),
		len(q.Users) > 0 && !slices.Contains(q.Users, j.User),
		q.Tenant != "" && q.Tenant != j.Tenant,
		q.Name != "" && q.Name != j.Name,
		!q.Since.IsZero() && !j.Ended.IsZero() && j.Ended.Before(q.Since),
		!q.Until.IsZero() && !j.Submitted.Before(q.Until):
		return false
	}
	return true
}

// Status implements server.Backend.
func (d *Daemon) Status(ctx context.Context) (api.Status, error) {
	var s api.Status
	err := d.Loop.Ask(ctx, func() error {
		s, _ = d.status()
		return nil
	})
	return s, err
}

// status is the whole at one glance, and the jobs that have not ended by state.
func (d *Daemon) status() (api.Status, map[api.State]int) {
	s := api.Status{
		Version: d.cfg.Version, Now: d.Loop.Clock.Wall(d.Loop.Now()), Up: d.started, Policy: d.choice.String(), Lacks: d.lacks, Trouble: explainer{d}.trouble(),
		Ended: d.Tally.Ended, Events: d.feed.Last(),
	}
	if moves := d.cfg.Defrag; moves != nil && !d.choice.Shares() {
		s.Defrag = moves.Margin
	}
	by := map[api.State]int{api.Held: 0, api.Waiting: 0, api.Assigned: 0, api.Running: 0, api.Stopping: 0}
	waiting := map[tenant.ID]int{}
	for _, l := range d.jobs {
		if l == nil {
			continue
		}
		r := d.st.Record(l.ID)
		by[l.stands(r)]++
		if r.Phase == job.Waiting {
			waiting[r.Tenant]++
		}
	}
	s.Held, s.Waiting, s.Running, s.Stopping = by[api.Held], by[api.Waiting], by[api.Running]+by[api.Assigned], by[api.Stopping]
	if several(d.st.Cluster) {
		s.Nodes = d.st.Cluster.Nodes()
	}
	t := d.st.Tenants
	for id := tenant.ID(1); int(id) < t.Len(); id++ {
		e := t.At(id)
		v := api.Tenant{
			Name: e.Name, Guarantee: float64(e.Guarantee) / 1000, Weight: e.Weight, Allocated: float64(e.Used.GPU) / 1000,
			Waiting: waiting[id], Usage: t.Usage(id, max(d.Loop.Now(), d.st.Now)) / 3600,
		}
		if e.Limit != tenant.Unlimited {
			v.Limit = float64(e.Limit) / 1000
		}
		if e.Name != "" {
			s.Tenants = append(s.Tenants, v)
		}
	}
	return s, by
}

func things(n int) string {
	if n == 1 {
		return "1 thing was"
	}
	return fmt.Sprintf("%d things were", n)
}

// trouble is what is wrong, one sentence each.
func (d explainer) trouble() []string {
	var out []string
	if why := d.stalled.Load(); why != nil {
		out = append(out, *why)
	}
	if d.mistake != "" {
		out = append(out, d.mistake)
	}
	if p, ok := d.policy.(interface{ Remarks() []string }); ok {
		for _, text := range p.Remarks() {
			out = append(out, fmt.Sprintf("policy %s: %s", d.choice, text))
		}
	}
	if n := len(d.findings); n > 0 {
		f := &d.findings[0]
		out = append(out, fmt.Sprintf("%s wrong with what norn keeps when it started, first with %s: %s; norn fsck lists all", things(n), cmp.Or(f.File, "job "+f.Job), f.Text))
	}
	inventory(d).eachDoubt(func(dev cluster.DeviceID, doubt devices.Doubt) {
		out = append(out, fmt.Sprintf("%s is slow: jobs take %.2f times as long there as on a usual %s, as was seen of %s", d.cfg.Names(dev), doubt.Score, d.st.Cluster.Type(d.st.Cluster.TypeOf(dev)).Name, unit.Count(doubt.Jobs, "job")))
	})
	return append(out, d.cfg.Trouble()...)
}

// Present is the number of the log that is being written, and how long it is: what was
// decided is in it, and it ends with a whole line.
func (d *Daemon) Present() (n int, size int64, err error) {
	if d.stalled.Load() == nil {
		err = d.epoch.Sync()
	}
	return d.epoch.N, d.epoch.Bytes(), err
}

// Renew begins a new log at the end of this instant.
func (d *Daemon) Renew() {
	d.renews = true
	d.Loop.RequestDecision()
}
