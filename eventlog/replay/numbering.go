package replay

import (
	"fmt"
	"reflect"
	"slices"

	"github.com/norn-scheduler/norn/cluster"
	"github.com/norn-scheduler/norn/eventlog"
	"github.com/norn-scheduler/norn/job"
	"github.com/norn-scheduler/norn/state"
	"github.com/norn-scheduler/norn/tenant"
)

// numbering says which numbers of the state those of a log stand for.
type numbering struct {
	header  eventlog.Header
	jobs    []job.ID
	nodes   []cluster.NodeID // cluster.None: not there yet
	devices []cluster.DeviceID
	begins  []int // of the devices of each node in devices
	types   []cluster.TypeID
	counted []int // counted resources
	domains []cluster.DomainID
}

// names makes known what nodes and jobs are described with.
func (n *numbering) names(s *state.State) error {
	for _, t := range n.header.Types {
		id, err := s.Cluster.AddType(t)
		if err != nil {
			return err
		}
		n.types = append(n.types, id)
	}
	for _, name := range n.header.Slots {
		id, err := s.Cluster.AddSlot(name)
		if err != nil {
			return err
		}
		n.counted = append(n.counted, id)
	}
	places := map[eventlog.Domain]cluster.DomainID{}
	for d := cluster.DomainID(1); int(d) < s.Cluster.Domains(); d++ {
		level, name, parent := s.Cluster.Domain(d)
		places[eventlog.Domain{Level: level, Name: name, Parent: parent}] = d
	}
	n.domains = []cluster.DomainID{0}
	for _, d := range n.header.Domains {
		if d.Parent < 0 || int(d.Parent) >= len(n.domains) {
			return fmt.Errorf("%s %q: unknown parent domain %d", d.Level, d.Name, d.Parent)
		}
		d.Parent = n.domains[d.Parent]
		up := d.Uplink
		d.Uplink = cluster.Uplink{}
		id, known := places[d]
		if !known {
			var err error
			if id, err = s.Cluster.AddDomain(d.Level, d.Name, d.Parent); err != nil {
				return err
			}
		}
		cluster.SetUplink(s.Cluster, id, up)
		n.domains = append(n.domains, id)
	}
	return n.tenants(s.Tenants)
}

// tenants takes over how tenants are configured from now on. One that has moved
// below another parent stays where it was: nothing that a log tells depends on it.
func (n *numbering) tenants(tree *tenant.Tree) error {
	ids := []tenant.ID{tenant.Root}
	for i := range n.header.Tenants {
		t := &n.header.Tenants[i]
		if t.Parent < 0 || int(t.Parent) >= len(ids) {
			return fmt.Errorf("tenant %q: unknown parent", t.Name)
		}
		parent := ids[t.Parent]
		if id, known := tree.Lookup(t.Name); known {
			parent = tree.At(id).Parent
		}
		id, err := tree.Add(t.Name, parent, t.Guarantee, t.Limit, t.Weight)
		if err != nil {
			return err
		}
		tree.SetCells(id, t.Cells)
		ids = append(ids, id)
	}
	return nil
}

// spec is a node in the terms of the state.
func (n *numbering) spec(spec *cluster.NodeSpec, c *cluster.Cluster) error {
	for i := range spec.GPUs {
		g := &spec.GPUs[i]
		if g.Type < 0 || int(g.Type) >= len(n.types) {
			return fmt.Errorf("node %q: unknown GPU type %d", spec.Name, g.Type)
		}
		if g.Count < 0 || g.Count > cluster.MaxGroup && !spec.Pooled {
			return fmt.Errorf("node %q: %d GPUs", spec.Name, g.Count)
		}
		g.Type = n.types[g.Type]
	}
	switch {
	case spec.Domain < 0 || int(spec.Domain) >= len(n.domains):
		return fmt.Errorf("node %q: unknown domain %d", spec.Name, spec.Domain)
	case spec.Pool < 0 || int(spec.Pool) > len(n.header.Pools):
		return fmt.Errorf("node %q: unknown pool %d", spec.Name, spec.Pool)
	case spec.Pool > 0:
		spec.Pool = c.AddPool(n.header.Pools[spec.Pool-1])
	}
	spec.Domain = n.domains[spec.Domain]
	return n.slots(&spec.Slots)
}

// slots brings amounts of counted resources into the terms of the state.
func (n *numbering) slots(amounts *cluster.Slots) error {
	was := *amounts
	*amounts = cluster.Slots{}
	for i, amount := range was {
		switch {
		case amount == 0:
		case i >= len(n.counted):
			return fmt.Errorf("unknown counted resource %d", i)
		default:
			amounts[n.counted[i]] = amount
		}
	}
	return nil
}

// match finds the nodes of an opening among those of the log before: those of
// equal name that are as they were. It brings the others into the terms of the
// state.
func (n *numbering) match(nodes []cluster.NodeSpec, before []cluster.NodeID, c *cluster.Cluster) (known map[cluster.NodeID]bool, err error) {
	byName := map[string]cluster.NodeID{}
	for _, id := range before {
		byName[c.Node(id).Name] = id
	}
	known = map[cluster.NodeID]bool{}
	for i := range nodes {
		spec := &nodes[i]
		if err := n.spec(spec, c); err != nil {
			return nil, err
		}
		id, there := byName[spec.Name]
		if !there || known[id] || !reflect.DeepEqual(*c.Node(id), *spec) {
			id = cluster.None
		}
		n.nodes = append(n.nodes, id)
		n.begins = append(n.begins, len(n.devices))
		for range devicesOf(spec) {
			n.devices = append(n.devices, cluster.None)
		}
		if id != cluster.None {
			known[id] = true
			n.locate(i, c)
		}
	}
	return known, nil
}

// devicesOf is the number of devices as which a node's GPUs are counted.
func devicesOf(spec *cluster.NodeSpec) int {
	count := 0
	for _, g := range spec.GPUs {
		switch {
		case g.Count > 0 && spec.Pooled:
			count++
		case g.Count > 0:
			count += g.Count
		}
	}
	return count
}

// locate notes the devices of a node that is there.
func (n *numbering) locate(node int, c *cluster.Cluster) {
	first, count := c.DeviceRange(n.nodes[node])
	for i := range count {
		n.devices[n.begins[node]+i] = first + cluster.DeviceID(i)
	}
}

// find finds the carried jobs among those that are active, by their keys; those
// that are new get the numbers behind them. It tells which stand as the state has
// them.
func (n *numbering) find(carried []eventlog.Event, active []job.ID, s *state.State) (stays map[job.ID]bool, err error) {
	byKey := map[string][]job.ID{}
	for _, id := range active {
		key := s.Record(id).Job.Key
		byKey[key] = append(byKey[key], id)
	}
	over := endedByKey(carried, s)
	stays = map[job.ID]bool{}
	next := job.ID(s.Jobs())
	for i := range carried {
		ev := &carried[i]
		if int(ev.Job) != i {
			return nil, fmt.Errorf("job %s: has number %d, the next one is %d", ev.Spec.Key, ev.Job, i)
		}
		if ev.Kind == eventlog.Past {
			n.jobs = append(n.jobs, over[ev.Spec.Key])
			continue
		}
		same := byKey[ev.Spec.Key]
		if len(same) == 0 {
			n.jobs = append(n.jobs, next)
			next++
			continue
		}
		id := same[0]
		byKey[ev.Spec.Key] = same[1:]
		n.jobs = append(n.jobs, id)
		stays[id] = n.stays(ev, id, s)
	}
	return stays, nil
}

// endedByKey finds those of the carried jobs that had ended already; job.None where
// the log that tells of one is missing.
func endedByKey(carried []eventlog.Event, s *state.State) map[string]job.ID {
	over := map[string]job.ID{}
	for i := range carried {
		if carried[i].Kind == eventlog.Past {
			over[carried[i].Spec.Key] = job.None
		}
	}
	if len(over) > 0 {
		for _, id := range s.Ended() {
			key := s.Record(id).Job.Key
			if _, told := over[key]; told {
				over[key] = id
			}
		}
	}
	return over
}

// stays tells whether a carried job stands as the state has it.
func (n *numbering) stays(ev *eventlog.Event, id job.ID, s *state.State) bool {
	x, y := *s.Record(id), *ev.Record
	for _, r := range []*job.Record{&x, &y} {
		r.Job, r.Reason, r.Note, r.Estimate = nil, job.Reason{}, nil, 0
		r.Tenant, r.Pool, r.Class, r.Mask, r.Slot = 0, 0, 0, 0, 0
	}
	alloc, pinned := s.Alloc(id), s.PinnedPlace(id)
	if frozen := alloc != nil && pinned != nil; frozen != ev.Frozen {
		return false
	}
	if alloc == nil {
		alloc = pinned
	}
	if x != y || (alloc == nil) != (ev.Alloc == nil) {
		return false
	}
	if alloc == nil {
		return true
	}
	told := eventlog.Event{Alloc: new(cluster.Alloc)}
	told.Alloc.CopyFrom(ev.Alloc)
	return n.places(&told) == nil && alloc.Equal(told.Alloc)
}

// event brings an event into the terms of the state.
func (n *numbering) event(ev *eventlog.Event, s *state.State) error {
	switch ev.Kind {
	case eventlog.NodeAdd:
		if err := n.spec(ev.NodeSpec, s.Cluster); err != nil {
			return err
		}
		n.nodes, n.begins = append(n.nodes, cluster.NodeID(s.Cluster.Nodes())), append(n.begins, len(n.devices))
		for i := range devicesOf(ev.NodeSpec) {
			n.devices = append(n.devices, cluster.DeviceID(s.Cluster.Devices()+i))
		}
		return nil
	case eventlog.NodeSet, eventlog.NodeLabels:
		return n.node(&ev.Node)
	case eventlog.Foreign:
		return n.foreign(ev)
	case eventlog.Learnt, eventlog.Recall:
		return nil
	case eventlog.Device, eventlog.Used:
		return n.device(&ev.Device)
	case eventlog.Submit, eventlog.Carry, eventlog.Past:
		if int(ev.Job) != len(n.jobs) {
			return fmt.Errorf("job %s: has number %d, the next one is %d", ev.Spec.Key, ev.Job, len(n.jobs))
		}
		n.jobs = append(n.jobs, job.ID(s.Jobs()))
		ev.Spec.ID = job.ID(s.Jobs())
	}
	if ev.Job < 0 || int(ev.Job) >= len(n.jobs) {
		return fmt.Errorf("%s: job number %d is not known", ev.Kind, ev.Job)
	}
	ev.Job = n.jobs[ev.Job]
	ev.With, ev.Note = n.job(ev.With), ev.Note.Renumbered(n.job)
	if r := ev.Record; r != nil {
		r.With, r.Note = n.job(r.With), r.Note.Renumbered(n.job)
	}
	return n.places(ev)
}

// job is the number of another job in the terms of the state; None when it is not
// known, or not yet.
func (n *numbering) job(id job.ID) job.ID {
	if id < 0 || int(id) >= len(n.jobs) {
		return job.None
	}
	return n.jobs[id]
}

// places brings what a job has, and the reason that names others, into the
// terms of the state.
func (n *numbering) places(ev *eventlog.Event) error {
	ev.Reason.Job = n.job(ev.Reason.Job)
	if why := &ev.Reason; (why.Code == job.NodeLost || why.Code == job.TakenBack || why.Code == job.Sleeps) && why.Need >= 0 && int(why.Need) < len(n.nodes) {
		why.Need = int32(n.nodes[why.Need])
	}
	if ev.Alloc == nil {
		return nil
	}
	for i := range ev.Alloc.Pieces {
		if err := n.node(&ev.Alloc.Pieces[i].Node); err != nil {
			return err
		}
	}
	for i := range ev.Alloc.Shares {
		if err := n.device(&ev.Alloc.Shares[i].Device); err != nil {
			return err
		}
	}
	return nil
}

// foreign brings what others use of a node into the terms of the state.
func (n *numbering) foreign(ev *eventlog.Event) error {
	use := *ev.Foreign
	use.GPUs = slices.Clone(use.GPUs)
	ev.Foreign = &use
	for i := range use.GPUs {
		if err := n.device(&use.GPUs[i].Device); err != nil {
			return err
		}
	}
	if err := n.slots(&use.Slots); err != nil {
		return err
	}
	return n.node(&ev.Node)
}

func (n *numbering) node(id *cluster.NodeID) error {
	if *id < 0 || int(*id) >= len(n.nodes) || n.nodes[*id] == cluster.None {
		return fmt.Errorf("node number %d is not known", *id)
	}
	*id = n.nodes[*id]
	return nil
}

func (n *numbering) device(id *cluster.DeviceID) error {
	if *id < 0 || int(*id) >= len(n.devices) || n.devices[*id] == cluster.None {
		return fmt.Errorf("device number %d is not known", *id)
	}
	*id = n.devices[*id]
	return nil
}
