package replay

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"slices"
	"time"

	"github.com/norn-scheduler/norn/cluster"
	"github.com/norn-scheduler/norn/engine"
	"github.com/norn-scheduler/norn/eventlog"
	"github.com/norn-scheduler/norn/job"
	"github.com/norn-scheduler/norn/state"
	"github.com/norn-scheduler/norn/trace"
)

// Stretch is a part of the time that a log tells of: from From on, and before To;
// with a To of zero, to the end.
type Stretch struct{ From, To time.Duration }

// Past is a stretch of what a machine went through, so told that it can be played
// again otherwise.
//
// It is a world of its own. Jobs that were there already when it begins come at
// its beginning, those that ran ahead of those that waited, with the work that
// they had left. A job that was on hold when it came, comes when it is released:
// until then it was nobody's turn.
type Past struct {
	State    *state.State // at its end
	From, To time.Duration
	Parts    []Part // the logs that tell of it
	Torn     bool   // the last of them breaks off

	Jobs     []trace.Entry    // to be played again, by number
	Of       []job.ID         // of each of them: its number in State
	Believed []time.Duration  // of each of them: for how long the scheduler believed that it would run; -1: it did not
	Script   []eventlog.Event // what people did meanwhile, with the numbers of Jobs and of Machine's nodes; see sim.Config
	Costs    Costs            // of transitions

	Already int // jobs that were there already when it began
	Waived  int // jobs that were on hold from when they came for as long as it is told
	Unknown int // jobs that never ran, and nobody knows for how long they would have

	machine []cluster.NodeID // at its end, by the numbers of State
}

// ReadPast reads a stretch of a log, or of several one behind the other. The sinks
// are shown the events of the stretch as if it were all that there is. A log that
// breaks off is read as far as it goes.
func ReadPast(r *eventlog.Reader, in Stretch, sinks ...engine.Sink) (*Past, error) {
	e := &editor{
		stretch: in, sinks: sinks, attempts: attempts{}, base: map[job.ID]time.Duration{}, held: map[job.ID]arrival{}, scripted: map[job.ID]bool{},
		costs: measured{left: map[job.ID]time.Duration{}, on: map[job.ID][]cluster.Share{}},
	}
	f, err := newFolder(r, []engine.Sink{e})
	if err != nil {
		return nil, err
	}
	e.f, f.before = f, e.before
	err = f.run()
	torn := errors.Is(err, eventlog.ErrTorn)
	if err != nil && !torn {
		return nil, err
	}
	if err := e.end(); err != nil {
		return nil, r.Wrap(err)
	}
	p := &Past{State: e.s, From: e.from, To: e.s.Now, Torn: torn, Costs: e.costs.means(), Already: e.already, Waived: len(e.held) + e.waived, machine: e.machine}
	for i := range f.parts {
		if f.parts[i].From < p.To || i == 0 {
			p.Parts = append(p.Parts, f.parts[i])
		}
	}
	for len(p.Parts) > 1 && p.Parts[1].From <= p.From {
		p.Parts = p.Parts[1:]
	}
	p.entries(e)
	p.script(e)
	return p, nil
}

// entries makes the jobs that are played again, in the order in which a simulation
// numbers them.
func (p *Past) entries(e *editor) {
	for id := range job.ID(p.State.Jobs()) {
		r := p.State.Record(id)
		entry := trace.Entry{Job: *r.Job}
		entry.Truth.Attempts = e.attempts[id]
		known := truth(&entry.Truth, r, p.To)
		if !known && r.Phase == job.Cancelled { // it would have run until then at most
			entry.Truth.Work, known = r.End-r.Job.Submit, true
		}
		if !known {
			p.Unknown++
			continue
		}
		p.Jobs, p.Of = append(p.Jobs, entry), append(p.Of, id)
	}
	order := make([]int, len(p.Jobs))
	for i := range order {
		order[i] = i
	}
	slices.SortStableFunc(order, func(a, b int) int {
		x, y := &p.Jobs[a].Job, &p.Jobs[b].Job
		return cmp.Or(cmp.Compare(x.Submit, y.Submit), trace.CompareKeys(x.Key, y.Key))
	})
	jobs, of := make([]trace.Entry, len(order)), make([]job.ID, len(order))
	for i, k := range order {
		jobs[i], of[i] = p.Jobs[k], p.Of[k]
		jobs[i].Job.ID = job.ID(i)
		p.Believed = append(p.Believed, e.believed[of[i]])
	}
	p.Jobs, p.Of = jobs, of
}

// script gives what people did the numbers of the jobs and nodes that are played
// again. Nothing is done to a job in the moment in which it comes.
func (p *Past) script(e *editor) {
	number := make([]job.ID, p.State.Jobs())
	for i := range number {
		number[i] = job.None
	}
	for i, id := range p.Of {
		number[id] = job.ID(i)
	}
	nodes, devices := map[cluster.NodeID]cluster.NodeID{}, map[cluster.DeviceID]cluster.DeviceID{}
	for i, id := range p.machine {
		nodes[id] = cluster.NodeID(i)
		first, n := p.State.Cluster.DeviceRange(id)
		for k := range n {
			devices[first+cluster.DeviceID(k)] = cluster.DeviceID(len(devices))
		}
	}
	for _, ev := range e.script {
		known := true
		switch ev.Kind {
		case eventlog.NodeSet:
			ev.Node, known = nodes[ev.Node], has(nodes, ev.Node)
		case eventlog.Foreign:
			ev.Node, known = nodes[ev.Node], has(nodes, ev.Node)
			use := *ev.Foreign
			use.GPUs = slices.Clone(use.GPUs)
			for i := range use.GPUs {
				use.GPUs[i].Device = devices[use.GPUs[i].Device]
			}
			ev.Foreign = &use
		case eventlog.Device:
			ev.Device, known = devices[ev.Device], has(devices, ev.Device)
		default:
			came := p.State.Record(ev.Job).Job.Submit
			ev.Job, ev.Time = number[ev.Job], max(ev.Time, came+1)
			known = ev.Job >= 0
		}
		if known {
			p.Script = append(p.Script, ev)
		}
	}
	slices.SortStableFunc(p.Script, func(a, b eventlog.Event) int { return cmp.Compare(a.Time, b.Time) })
	p.mend()
}

// mend puts everything back into use at the end of the stretch, for those who are
// later than they were.
func (p *Past) mend() {
	c := p.State.Cluster
	devices := cluster.DeviceID(0)
	for i, id := range p.machine {
		if c.Health(id) != cluster.Up || c.Power(id) != cluster.Awake {
			p.Script = append(p.Script, eventlog.Event{Time: p.To, Kind: eventlog.NodeSet, Node: cluster.NodeID(i)})
		}
		first, n := c.DeviceRange(id)
		for k := range cluster.DeviceID(n) {
			if c.Defect(first + k) {
				p.Script = append(p.Script, eventlog.Event{Time: p.To, Kind: eventlog.Device, Device: devices + k})
			}
		}
		devices += cluster.DeviceID(n)
	}
}

func has[K comparable, V any](m map[K]V, k K) bool {
	_, ok := m[k]
	return ok
}

// Machine is the machine as it was at the end of the stretch, with everything in
// working order and nothing running on it.
func (p *Past) Machine() (*cluster.Cluster, error) {
	was, c := p.State.Cluster, cluster.New()
	if err := CopyKinds(was, c); err != nil {
		return nil, err
	}
	for _, id := range p.machine {
		if _, err := c.AddNode(*was.Node(id)); err != nil {
			return nil, err
		}
	}
	return c, nil
}

// Machine reads the machine with which a log begins, with everything in working
// order and nothing running on it.
func Machine(r *eventlog.Reader) (*cluster.Cluster, error) {
	c, _, err := r.Header.Build()
	if err != nil {
		return nil, r.Wrap(fmt.Errorf("the header: %w", err))
	}
	var ev eventlog.Event
	for {
		switch err := r.Next(&ev); {
		case errors.Is(err, io.EOF), errors.Is(err, eventlog.ErrTorn), errors.Is(err, eventlog.ErrAnother):
			return c, nil
		case err != nil:
			return nil, err
		}
		switch ev.Kind {
		case eventlog.NodeAdd:
			if _, err := c.AddNode(*ev.NodeSpec); err != nil {
				return nil, r.Wrap(err)
			}
		case eventlog.NodeSet, eventlog.NodeLabels, eventlog.Device, eventlog.Foreign:
		default:
			return c, nil
		}
	}
}

// CopyKinds makes known to a cluster what another one knows beside nodes: types,
// pools and places.
func CopyKinds(from, to *cluster.Cluster) error {
	for t := to.Types(); t < from.Types(); t++ {
		if _, err := to.AddType(from.Type(cluster.TypeID(t))); err != nil {
			return err
		}
	}
	for _, name := range from.SlotNames() {
		if _, err := to.AddSlot(name); err != nil {
			return err
		}
	}
	for p := to.Pools(); p < from.Pools(); p++ {
		to.AddPool(from.PoolName(cluster.PoolID(p)))
	}
	for d := to.Domains(); d < from.Domains(); d++ {
		id, err := to.AddDomain(from.Domain(cluster.DomainID(d)))
		if err != nil {
			return err
		}
		cluster.SetUplink(to, id, cluster.UplinkOf(from, cluster.DomainID(d)))
	}
	return nil
}
