package live

import (
	"fmt"
	"strconv"
	"time"

	"github.com/norn-scheduler/norn/cluster"
	"github.com/norn-scheduler/norn/eventlog"
	"github.com/norn-scheduler/norn/job"
	"github.com/norn-scheduler/norn/policy/defrag"
	"github.com/norn-scheduler/norn/state"
	"github.com/norn-scheduler/norn/tenant"
)

// nextOf is the condition that told the number of the next job in logs of
// version 1.
const nextOf = "next"

// mostPast is how many jobs that have ended are carried over into a new log, for
// policies that learn from them.
const mostPast = 4096

// begin writes a new log that starts with what is left of a state, and returns
// the state that reading it gives: the same jobs with new numbers. The log
// appears whole or not at all.
func (d recovery) begin(n int, origin time.Time, was *state.State, c *cluster.Cluster, tenants *tenant.Tree) (*state.State, error) {
	h := eventlog.Header{
		World: d.cfg.Kind, Policy: d.choice.Policy, Settings: d.choice.Settings, Estimate: d.cfg.Estimates,
		Next: d.next.Load(), Cluster: d.cfg.Name, Origin: origin,
	}
	if m := d.cfg.Defrag; m != nil {
		h.Conditions = append(h.Conditions, eventlog.Setting{Name: defrag.Flag, Value: m.Text()})
	}
	if err := d.keepEnded(); err != nil {
		return nil, err
	}
	if err := d.journal.SyncHistory(); err != nil { // what ended in the log before is told there alone from now on
		return nil, fmt.Errorf("the history of jobs: %w", err)
	}
	events := append(Inventory(c, was.Now, d.cfg.Orders()...), d.carried(was)...)
	events = append(events, d.intentions(events)...)
	events = append(events, eventlog.Lessons(was, events)...)
	h.Describe(c, tenants)
	h.Begins = was.Now
	h.Usage = Usage(was, tenants)

	next, fresh, err := d.journal.Begin(n, &h, events, d.next.Load)
	if err != nil {
		return nil, err
	}
	d.epoch.Close()
	d.epoch = next
	return fresh, nil
}

// carried is what is left of a state, for a new log. The notes of one policy
// mean nothing to another, and a job whose devices are gone was frozen in vain.
func (d recovery) carried(was *state.State) []eventlog.Event {
	events := eventlog.Carried(was, mostPast)
	for i := range events {
		ev := &events[i]
		if d.st != nil && d.rolling != nil {
			ev.Record.Note = nil
		}
		if d.refit && !ev.Record.Phase.HasDevices() {
			ev.Alloc = nil
		}
		if d.cfg.Correct != nil && ev.Kind == eventlog.Carry {
			d.cfg.Correct(ev)
		}
	}
	return events
}

// intentions are what is wanted of runs that are carried over and have still to leave.
func (d recovery) intentions(carried []eventlog.Event) (out []eventlog.Event) {
	for i := range carried {
		ev := &carried[i]
		if ev.Kind != eventlog.Carry || ev.Record.Phase != job.Running && ev.Record.Phase != job.Stopping {
			continue
		}
		if why, ok := d.byKey[ev.Spec.Key].Intention(); ok {
			out = append(out, eventlog.Event{Time: ev.Time, Kind: eventlog.Wait, Job: ev.Job, Reason: why})
		}
	}
	return out
}

// tenants is the configured tree with everybody else who has jobs or has used
// anything.
func (d recovery) tenants(was *state.State) (*tenant.Tree, error) {
	t, err := d.cfg.Tenants()
	if err != nil {
		return nil, err
	}
	for i := tenant.ID(1); int(i) < was.Tenants.Len(); i++ {
		if was.Tenants.Usage(i, was.Now) > 0.5 {
			t.Get(was.Tenants.At(i).Name)
		}
	}
	return t, nil
}

// roll begins a new epoch with what is left of the present one: what has ended
// leaves the memory, and a new policy comes into force.
func (d *Daemon) roll() error {
	if d.rolling != nil {
		d.lets = d.lets || d.rolling.Policy != d.choice.Policy
		d.choice = *d.rolling
	}
	was, old := d.st, d.epoch.N
	tenants, err := recovery{d}.tenants(was)
	if err != nil {
		return err
	}
	c, err := d.cfg.Cluster()
	if err != nil {
		return err
	}
	copyHealth(was.Cluster, c)
	fresh, err := recovery{d}.begin(old+1, d.Loop.Clock.Origin, was, c, tenants)
	if err != nil {
		return err
	}
	d.adopt(fresh)
	d.rolling, d.renews = nil, false
	if err := d.newEngine(); err != nil {
		return err
	}
	d.Loop.RequestDecision()
	d.Loop.Go(func() {
		if err := d.journal.Pack(old); err != nil {
			d.log.Warn("an old event log stays unpacked", "log", old, "error", err)
		}
	})
	return nil
}

// adopt makes a state the present one. Jobs keep what is known of them and get
// new numbers.
func (d *Daemon) adopt(fresh *state.State) {
	d.st, d.shapes = fresh, job.Interner{}
	d.jobs = make([]*Job, fresh.Jobs())
	for i := range d.jobs {
		r := fresh.Record(job.ID(i))
		if r.Past {
			continue
		}
		l := d.byKey[r.Job.Key]
		l.ID, d.jobs[i] = job.ID(i), l
		d.shapes.Get(*r.Job.Demand)
		d.counts.set(l, standingOf(r.Phase))
	}
}

// copyHealth takes over what is drained or broken.
func copyHealth(from, to *cluster.Cluster) {
	if from.Nodes() == 0 {
		return
	}
	for i := range cluster.NodeID(min(from.Nodes(), to.Nodes())) {
		to.SetHealth(i, from.Health(i))
	}
	for i := range cluster.DeviceID(min(from.Devices(), to.Devices())) {
		to.SetBroken(i, from.Defect(i))
	}
}

// nextIn is the number of the next job that a log tells of.
func nextIn(h *eventlog.Header) int64 {
	if h.Next > 0 {
		return h.Next
	}
	for _, c := range h.Conditions {
		if c.Name == nextOf {
			if n, err := strconv.ParseInt(c.Value, 10, 64); err == nil {
				return n
			}
		}
	}
	return 1
}
