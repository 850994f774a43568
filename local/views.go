package local

import (
	"context"
	"slices"
	"strings"
	"time"

	"github.com/norn-scheduler/norn/api"
	"github.com/norn-scheduler/norn/cluster"
	"github.com/norn-scheduler/norn/job"
	"github.com/norn-scheduler/norn/live"
	"github.com/norn-scheduler/norn/server"
	"github.com/norn-scheduler/norn/tenant"
)

// stateOf is a phase in the words of the API.
func stateOf(p job.Phase) api.State { return api.State(p.String()) }

// view is a job as its users see it.
func (d *Daemon) view(l *liveJob) api.Job {
	r, spec := d.st.Record(l.id), &l.stored.Spec
	now := max(d.loop.Now(), d.st.Now)
	if r.Phase.Over() {
		now = r.End
	}
	j := api.Job{
		ID: l.key, Name: spec.Name, User: l.stored.User, Tenant: spec.Tenant, State: stateOf(r.Phase), Reason: d.reason(l, r),
		GPUs: spec.GPUs, Tasks: spec.Tasks, CPUs: spec.CPUs, Memory: spec.Memory, Priority: spec.Priority, StopMode: spec.Stop.Mode,
		Submitted: d.loop.Clock.Wall(r.Job.Submit), Started: d.loop.Clock.Wall(r.FirstStart), Since: d.loop.Clock.Wall(l.standsSince(r)), Ended: d.loop.Clock.Wall(r.End),
		Wait: api.Of(r.WaitAt(now)), Ran: api.Of(r.HeldAt(now)), GPUTime: api.Seconds(r.ServiceAt(now)),
		Run: l.run, Preemptions: int(r.Preemptions), Resizes: int(r.Resizes), Failures: int(r.Failures),
		Progress: l.report, Command: spec.Command, Dir: spec.Dir, After: l.after, Limit: spec.Limit, Deadl: spec.Deadline,
	}
	if a := d.st.Alloc(l.id); a != nil {
		j.Held, j.Devices, j.Throttle = float64(d.st.Cluster.GPUMilli(a))/1000, d.names(a), live.ThrottleOf(a)
	}
	if r.Phase == job.Running && r.Speed != 1 {
		j.Speed = r.Speed
	}
	if r.Estimate >= 0 {
		j.Estimate = api.Of(r.Estimate)
		if left := r.Estimate - r.ProgressAt(now); r.Phase == job.Running && r.Speed > 0 {
			j.ExpectEnd = d.loop.Clock.Wall(max(now, r.Ready) + time.Duration(float64(max(0, left))/r.Speed))
		}
	}
	if l.exit != nil && !l.stage.there() {
		exit := l.exit.Exit
		j.Exit = &exit
	}
	return j
}

// standsSince is since when a job stands as it does: running on its devices, waiting.
func (l *liveJob) standsSince(r *job.Record) time.Duration {
	if l.where.Since > 0 && r.Phase == job.Running {
		return l.where.Since
	}
	return r.Since
}

// reason is why a job stands as it stands, in a sentence.
func (d *Daemon) reason(l *liveJob, r *job.Record) string {
	switch r.Phase {
	case job.Running:
		if l.purpose != "" && l.why != "" {
			return "is leaving its devices: " + l.why
		}
		if l.stage == launching {
			return "is being launched"
		}
		return ""
	case job.FailedPhase:
		return d.failure(l, r)
	case job.Cancelled:
		return l.why
	case job.Done:
		return ""
	case job.Waiting, job.Held, job.Stopping, job.Assigned:
		return d.sentence(r.Reason)
	}
	return ""
}

// failure says how a job failed.
func (d *Daemon) failure(l *liveJob, r *job.Record) string {
	switch {
	case l.exit == nil:
		return "failed"
	case l.exit.Cause == "time-limit":
		return "ran into its time limit of " + human(l.stored.Spec.Limit.Duration())
	}
	return d.ending(l, r, l.exit).Text()
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
		return strings.Replace(r.Sentence(name), human(r.At), d.loop.Clock.Wall(r.At).Format(time.TimeOnly), 1)
	}
	return r.Sentence(name)
}

// Jobs implements server.Backend.
func (d *Daemon) Jobs(ctx context.Context, c server.Caller, q api.Query) ([]api.Job, error) {
	var out []api.Job
	visible := func(user string) bool { return c.Operator || user == c.User }
	err := d.loop.Ask(ctx, func() error {
		var found []*liveJob
		for _, l := range d.jobs {
			if l != nil && visible(l.stored.User) && d.asked(l, &q) {
				found = append(found, l)
			}
		}
		slices.SortFunc(found, func(a, b *liveJob) int { return compareIDs(a.key, b.key) }) // nearly is already
		out = make([]api.Job, len(found))
		for i, l := range found {
			out[i] = d.view(l)
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	out = slices.DeleteFunc(out, func(j api.Job) bool { return !matches(&j, &q) })
	if wantsEnded(&q) {
		more, err := d.endedJobs(&q, visible)
		if err != nil {
			return nil, err
		}
		out = append(more, out...)
		slices.SortStableFunc(out, func(a, b api.Job) int { return compareIDs(a.ID, b.ID) })
	}
	if q.Limit > 0 && len(out) > q.Limit {
		out = out[len(out)-q.Limit:]
	}
	return out, nil
}

// asked tells quickly whether a job that has not ended may match a query, so that
// views are made of few.
func (d *Daemon) asked(l *liveJob, q *api.Query) bool {
	if len(q.IDs) > 0 && !slices.Contains(q.IDs, l.key) && !slices.Contains(q.IDs, l.array()) {
		return false
	}
	if d.st.Record(l.id).Phase.Over() && !wantsEnded(q) { // where the history could not be written
		return false
	}
	return len(q.States) == 0 || slices.Contains(q.States, stateOf(d.st.Record(l.id).Phase))
}

// wantsEnded tells whether a query asks for jobs that have ended.
func wantsEnded(q *api.Query) bool {
	return q.All || len(q.IDs) > 0 || slices.ContainsFunc(q.States, api.State.Over)
}

// matches tells whether a job is one that a query asks for.
func matches(j *api.Job, q *api.Query) bool {
	base := baseOf(j.ID)
	switch {
	case len(q.IDs) > 0 && !slices.Contains(q.IDs, j.ID) && !slices.Contains(q.IDs, base),
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

// compareIDs orders jobs by number, then by index.
func compareIDs(a, b string) int {
	for {
		x, resta, morea := strings.Cut(a, "_")
		y, restb, moreb := strings.Cut(b, "_")
		if len(x) != len(y) {
			return len(x) - len(y)
		}
		if c := strings.Compare(x, y); c != 0 || !morea && !moreb {
			return c
		}
		a, b = resta, restb
	}
}

// Node implements server.Backend.
func (d *Daemon) Node(ctx context.Context) (api.Node, error) {
	var n api.Node
	err := d.loop.Ask(ctx, func() error {
		n = d.node()
		return nil
	})
	return n, err
}

func (d *Daemon) node() api.Node {
	m := &d.opt.Machine
	n := api.Node{
		Name: m.Name, Health: "up", CPUs: float64(m.Node.CPU) / 1000, Memory: api.Bytes(m.Node.Memory), NUMA: m.NUMA,
		Isolation: m.Isolation, Note: d.health.note(),
	}
	if d.st.Cluster.Health(0) != cluster.Up {
		n.Health = "drained"
	}
	n.Disk = api.Disk{Path: d.store.dir, Low: d.health.full.Load()}
	n.Disk.Free, n.Disk.Size = d.store.free()
	for i := range m.Devices {
		n.Devices = append(n.Devices, d.device(i))
	}
	for p := range d.st.Cluster.Pools() {
		for i := range d.st.Running(cluster.PoolID(p)).All() {
			a := d.st.Alloc(job.ID(i))
			cpus, mem := live.Beside(a)
			n.CPUsHeld += cpus
			n.MemHeld += mem
			for _, dev := range d.devices(a) {
				n.Devices[dev].Jobs = append(n.Devices[dev].Jobs, d.jobs[i].key)
			}
		}
	}
	return n
}

func (d *Daemon) device(i int) api.Device {
	dev := &d.opt.Machine.Devices[i]
	out := api.Device{
		Name: dev.Name, Index: i, Type: dev.Type, UUID: dev.UUID, PCI: dev.PCI, NUMA: dev.NUMA, Memory: dev.Memory,
		Host: dev.Host, Broken: d.st.Cluster.Broken(cluster.DeviceID(i)), Note: d.deviceNote(i),
	}
	for _, r := range d.residents {
		if !r.ending && slices.Contains(r.note.Devices, dev.Name) {
			out.Resident = append(out.Resident, r.note.Backbone)
		}
	}
	if i < len(d.health.samples) {
		s := d.health.samples[i]
		out.Used, out.Util, out.Celsius, out.Watts, out.Measured = s.Used, s.Util, s.Celsius, s.Watts, s.OK
	}
	return out
}

// Status implements server.Backend.
func (d *Daemon) Status(ctx context.Context) (api.Status, error) {
	var s api.Status
	err := d.loop.Ask(ctx, func() error {
		s, _ = d.status()
		return nil
	})
	return s, err
}

// status is the whole at one glance, and the jobs that have not ended by state.
func (d *Daemon) status() (api.Status, map[api.State]int) {
	s := api.Status{
		Version: d.opt.Version, Now: d.loop.Clock.Wall(d.loop.Now()), Up: d.started, Policy: d.choice.String(), Trouble: d.trouble(),
		Ended: d.tally.Ended, Events: d.feed.Last(),
	}
	by := map[api.State]int{api.Held: 0, api.Waiting: 0, api.Assigned: 0, api.Running: 0, api.Stopping: 0}
	waiting := map[tenant.ID]int{}
	for _, l := range d.jobs {
		if l == nil {
			continue
		}
		r := d.st.Record(l.id)
		by[stateOf(r.Phase)]++
		if r.Phase == job.Waiting {
			waiting[r.Tenant]++
		}
	}
	s.Held, s.Waiting, s.Running, s.Stopping = by[api.Held], by[api.Waiting], by[api.Running]+by[api.Assigned], by[api.Stopping]
	t := d.st.Tenants
	for id := tenant.ID(1); int(id) < t.Len(); id++ {
		e := t.At(id)
		v := api.Tenant{
			Name: e.Name, Guarantee: float64(e.Guarantee) / 1000, Weight: e.Weight, Held: float64(e.Used.GPU) / 1000,
			Waiting: waiting[id], Usage: t.Usage(id, max(d.loop.Now(), d.st.Now)) / 3600,
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
