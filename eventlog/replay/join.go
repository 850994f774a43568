package replay

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/norn-scheduler/norn/cluster"
	"github.com/norn-scheduler/norn/cluster/unit"
	"github.com/norn-scheduler/norn/eventlog"
	"github.com/norn-scheduler/norn/job"
)

// opening is what a log begins with that goes on from an earlier one: the
// machine, and the jobs that had not ended.
type opening struct {
	nodes   []cluster.NodeSpec
	ill     []eventlog.Event // of the nodes, those that are not up and awake
	broken  []eventlog.Event // of the devices
	others  []eventlog.Event // what they use of nodes
	carried []eventlog.Event
	learnt  []eventlog.Event
	seen    []eventlog.Event // measurements
}

// another goes on with the log that begins where the last one ended, and reads
// the first event behind its opening. The events of the opening are known
// already, unless something happened between the two logs.
func (f *folder) another(ev *eventlog.Event) error {
	torn, err := f.r.Another()
	if err != nil {
		return err
	}
	h, last := &f.r.Header, f.part()
	last.To = max(last.From, f.s.Now)
	if torn {
		last.Torn = f.r.Wrap(eventlog.ErrTorn)
	}
	switch was := last.Header.Origin; {
	case !h.Origin.Equal(was):
		return f.r.Wrap(fmt.Errorf("another log begins here, but its zero is %s and that of the one before %s: they are not of one machine", clock(h.Origin), clock(was)))
	case h.Begins < last.To:
		return f.r.Wrap(fmt.Errorf("another log begins here, at %s, but the one before goes on to %s: they belong one behind the other, oldest first", unit.Human(h.Begins), unit.Human(last.To)))
	}
	var o opening
	next := f.r.Next(ev)
	for next == nil && ev.Time == h.Begins && o.take(ev) {
		next = f.r.Next(ev)
	}
	if errors.Is(next, eventlog.ErrTorn) {
		return next // nothing but a part of the opening is there
	}
	f.begin()
	if err := f.join(&o); err != nil {
		return f.r.Wrap(err)
	}
	return next
}

func clock(t time.Time) string {
	if t.IsZero() {
		return "not known"
	}
	return t.UTC().Format(time.RFC3339Nano)
}

// take takes an event that belongs to the opening: first the machine, in the order
// in which eventlog.Inventory tells of it, then the jobs, and what was learnt.
func (o *opening) take(ev *eventlog.Event) bool {
	switch devices, jobs := len(o.broken), len(o.carried); {
	case ev.Kind == eventlog.NodeAdd && devices+jobs == 0:
		o.nodes = append(o.nodes, *ev.NodeSpec)
	case ev.Kind == eventlog.NodeSet && devices+jobs == 0 && o.fresh(ev):
		o.ill = append(o.ill, *ev)
	case ev.Kind == eventlog.Device && jobs == 0 && ev.Broken && (devices == 0 || ev.Device > o.broken[devices-1].Device):
		o.broken = append(o.broken, *ev)
	case ev.Kind == eventlog.Foreign && jobs == 0:
		own, use := *ev, *ev.Foreign
		use.GPUs = slices.Clone(use.GPUs)
		own.Foreign = &use
		o.others = append(o.others, own)
	case ev.Kind == eventlog.Carry, ev.Kind == eventlog.Past:
		own, past := *ev, *ev.Record
		own.Record = &past
		if ev.Alloc != nil {
			own.Alloc = new(cluster.Alloc)
			own.Alloc.CopyFrom(ev.Alloc)
		}
		o.carried = append(o.carried, own)
	case ev.Kind == eventlog.Measured && jobs > 0:
		o.seen = append(o.seen, *ev)
	case ev.Kind == eventlog.Learnt:
		o.learnt = append(o.learnt, *ev)
	default:
		return false
	}
	return true
}

// fresh tells whether an event is the first about the last node.
func (o *opening) fresh(ev *eventlog.Event) bool {
	last := cluster.NodeID(len(o.nodes) - 1)
	told := len(o.ill) > 0 && o.ill[len(o.ill)-1].Node == last
	return ev.Node == last && !told && (ev.Health != cluster.Up || ev.Power != cluster.Awake)
}

// join brings the state to where a log begins. Jobs that stand as the state has
// them are left alone; the others are taken off first, so that nobody is in the
// way of whoever has his devices now.
func (f *folder) join(o *opening) error {
	s, now := f.s, f.r.Header.Begins
	n := &numbering{header: f.r.Header}
	if err := n.names(s); err != nil {
		return err
	}
	known, err := n.match(o.nodes, f.nodes(), s.Cluster)
	if err != nil {
		return err
	}
	active := f.stillActive()
	stays, err := n.find(o.carried, active, s)
	if err != nil {
		return err
	}
	f.ran = map[job.ID]bool{}
	lost, err := f.lost(active, stays)
	if err != nil {
		return err
	}
	s.Now = now
	for _, id := range active {
		if !stays[id] {
			if err := f.putOff(id); err != nil {
				return err
			}
		}
	}
	if err := s.Settle(); err != nil {
		return err
	}
	before := f.nodes()
	f.number = n
	if err := f.inventory(o, before, known, now); err != nil {
		return err
	}
	fresh := job.ID(s.Jobs())
	if err := f.seat(o.carried, stays); err != nil {
		return err
	}
	if err := f.measured(o.seen, fresh); err != nil {
		return err
	}
	if err := f.believe(o.learnt); err != nil {
		return err
	}
	for _, id := range lost {
		why := job.Reason{Code: job.OnHold, Job: job.None, Text: missing}
		if err := f.fold(&eventlog.Event{Time: now, Kind: eventlog.Hold, Job: id, Reason: why}); err != nil {
			return err
		}
	}
	f.active, f.first = active, job.ID(s.Jobs())
	for _, id := range n.jobs {
		if _, before := stays[id]; !before {
			f.active = append(f.active, id)
		}
	}
	return nil
}

// measured takes in what was measured of jobs of which the earlier logs do not tell. fresh
// is the number of the first of them.
func (f *folder) measured(seen []eventlog.Event, fresh job.ID) error {
	for i := range seen {
		ev := &seen[i]
		if ev.Job = f.number.job(ev.Job); ev.Job == job.None || ev.Job < fresh {
			continue
		}
		if err := f.fold(ev); err != nil {
			return err
		}
	}
	return nil
}

// believe takes in what is believed where a log begins, as far as that is news.
func (f *folder) believe(learnt []eventlog.Event) error {
	for i := range learnt {
		if ev := &learnt[i]; f.s.Learnt()[ev.Pair] != ev.Speed {
			if err := f.fold(ev); err != nil {
				return err
			}
		}
	}
	return nil
}

// putOff takes everything from a job, as if it waited.
func (f *folder) putOff(id job.ID) error {
	s, r := f.s, f.s.Record(id)
	f.ran[id] = r.Phase == job.Running
	past := *r
	past.Phase = job.Waiting
	return s.Rejoin(id, &past, nil, r.Estimate, r.Reason)
}

// nodes are the nodes of the present log, by its numbers.
func (f *folder) nodes() []cluster.NodeID {
	if f.number != nil {
		return f.number.nodes
	}
	out := make([]cluster.NodeID, f.s.Cluster.Nodes())
	for i := range out {
		out[i] = cluster.NodeID(i)
	}
	return out
}

// stillActive are the jobs that have not ended.
func (f *folder) stillActive() []job.ID {
	var out []job.ID
	for _, id := range f.active {
		if !f.s.Record(id).Phase.Over() {
			out = append(out, id)
		}
	}
	for id := f.first; int(id) < f.s.Jobs(); id++ {
		if !f.s.Record(id).Phase.Over() {
			out = append(out, id)
		}
	}
	return out
}

// inventory makes the machine what the opening says: nodes that are new are
// added, those that are no longer there are down.
func (f *folder) inventory(o *opening, before []cluster.NodeID, known map[cluster.NodeID]bool, now time.Duration) error {
	s, n := f.s, f.number
	for i := range o.nodes {
		if n.nodes[i] == cluster.None {
			if err := f.fold(&eventlog.Event{Time: now, Kind: eventlog.NodeAdd, NodeSpec: &o.nodes[i]}); err != nil {
				return err
			}
			n.nodes[i] = cluster.NodeID(s.Cluster.Nodes() - 1)
			n.locate(i, s.Cluster)
		}
	}
	for _, id := range before {
		if !known[id] && s.Cluster.Health(id) != cluster.Down {
			if err := f.fold(&eventlog.Event{Time: now, Kind: eventlog.NodeSet, Node: id, Health: cluster.Down, Power: s.Cluster.Power(id)}); err != nil {
				return err
			}
		}
	}
	return f.health(o, now)
}

// health sets nodes and devices to the health that the opening says; what it does
// not mention is well.
func (f *folder) health(o *opening, now time.Duration) error {
	s, n := f.s, f.number
	nodes := make([]eventlog.Event, len(n.nodes))
	for i, id := range n.nodes {
		nodes[i] = eventlog.Event{Time: now, Kind: eventlog.NodeSet, Node: id}
	}
	for _, ev := range o.ill {
		nodes[ev.Node].Health, nodes[ev.Node].Power = ev.Health, ev.Power
	}
	broken := make([]bool, len(n.devices))
	for _, ev := range o.broken {
		if ev.Device < 0 || int(ev.Device) >= len(broken) {
			return fmt.Errorf("device number %d is not known", ev.Device)
		}
		broken[ev.Device] = true
	}
	for i := range nodes {
		ev := &nodes[i]
		if ev.Health != s.Cluster.Health(ev.Node) || ev.Power != s.Cluster.Power(ev.Node) {
			if err := f.fold(ev); err != nil {
				return err
			}
		}
	}
	for i, id := range n.devices {
		if broken[i] != s.Cluster.Defect(id) {
			if err := f.fold(&eventlog.Event{Time: now, Kind: eventlog.Device, Device: id, Broken: broken[i]}); err != nil {
				return err
			}
		}
	}
	return f.foreign(o, now)
}

// foreign sets what others use of the nodes to what the opening says; of a node that
// it does not mention they use nothing.
func (f *folder) foreign(o *opening, now time.Duration) error {
	use := map[cluster.NodeID]*cluster.Foreign{}
	for i := range o.others {
		ev := &o.others[i]
		if err := f.number.foreign(ev); err != nil {
			return err
		}
		use[ev.Node] = ev.Foreign
	}
	for _, id := range f.number.nodes {
		now := eventlog.Event{Time: now, Kind: eventlog.Foreign, Node: id, Foreign: cmp.Or(use[id], &cluster.Foreign{})}
		if was := f.s.Cluster.Foreign(id); was.Equal(now.Foreign) {
			continue
		}
		if err := f.fold(&now); err != nil {
			return err
		}
	}
	return nil
}

// missing is why a job is held that a later log does not carry on.
const missing = "its end was told in a part of the log that is missing"

// lost are the jobs that are not carried, because a part of a log is missing.
// Their work until then counts, and they are held for good.
func (f *folder) lost(active []job.ID, stays map[job.ID]bool) ([]job.ID, error) {
	var out []job.ID
	settled := f.s.Settle() == nil
	for _, id := range active {
		if _, carried := stays[id]; carried {
			continue
		}
		out = append(out, id)
		if r := f.s.Record(id); settled && (r.Phase.HasDevices() || r.Phase == job.Stopping) {
			ev := eventlog.Event{
				Time: f.s.Now, Kind: eventlog.Evict, Job: id, Kept: r.ProgressAt(f.s.Now),
				Reason: job.Reason{Code: job.NodeLost, Job: job.None, Text: missing},
			}
			if err := f.fold(&ev); err != nil {
				return nil, err
			}
		}
	}
	return out, nil
}

// seat has the carried jobs stand as they are told to.
func (f *folder) seat(carried []eventlog.Event, stays map[job.ID]bool) error {
	s, n := f.s, f.number
	for i := range carried {
		ev, id := &carried[i], n.jobs[i]
		if ev.Kind == eventlog.Past {
			continue // it is known, or the log that tells of it is missing
		}
		ev.Job, ev.Spec.ID = id, id
		if err := n.places(ev); err != nil {
			return err
		}
		var err error
		switch {
		case stays[id]:
			r := s.Record(id)
			r.Note, r.Estimate = ev.Record.Note.Renumbered(n.job), ev.Estimate
			if ev.Reason.Code != r.Reason.Code {
				r.Reason = ev.Reason
			}
		case s.Known(id):
			ev.Record.With, ev.Record.Note = n.job(ev.Record.With), ev.Record.Note.Renumbered(n.job)
			err = f.rejoin(ev)
		default:
			ev.Record.With, ev.Record.Note = n.job(ev.Record.With), ev.Record.Note.Renumbered(n.job)
			err = f.fold(ev)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// rejoin has a job that is known stand as it is told to: something has happened
// to it between the two logs. Watchers are told the result.
func (f *folder) rejoin(ev *eventlog.Event) error {
	was := f.ran[ev.Job]
	if err := f.s.Rejoin(ev.Job, ev.Record, ev.Alloc, ev.Estimate, ev.Reason); err != nil {
		return err
	}
	if ev.Frozen {
		if err := f.s.KeepPinnedPlace(ev.Job); err != nil {
			return err
		}
	}
	switch r := f.s.Record(ev.Job); {
	case was && r.Phase == job.Waiting:
		ev.Kind, ev.Kept = eventlog.Evict, r.Progress
	case was && r.Phase == job.Running:
		ev.Kind, ev.Speed = eventlog.Move, r.Speed
	}
	f.tell(ev)
	return nil
}
