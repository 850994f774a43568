package live

import (
	"context"
	"math"
	"path"
	"slices"
	"strings"

	"github.com/norn-scheduler/norn/api"
	"github.com/norn-scheduler/norn/api/server"
	"github.com/norn-scheduler/norn/cluster"
	"github.com/norn-scheduler/norn/cluster/label"
	"github.com/norn-scheduler/norn/perf"
	"github.com/norn-scheduler/norn/perf/predict/devices"
	"github.com/norn-scheduler/norn/trace"
)

// several tells whether a world has several nodes, so that a device alone does not say
// where it is.
func several(c *cluster.Cluster) bool { return c.Nodes() > 1 }

// Nodes implements server.Backend: in order of their names.
func (d *Daemon) Nodes(ctx context.Context, c server.Caller, q api.NodeQuery) (out []api.Node, err error) {
	err = d.Loop.Ask(ctx, func() error {
		out = inventory{d}.list(c, &q)
		return nil
	})
	if err != nil {
		return nil, err
	}
	return SelectNodes(out, &q)
}

// SelectNodes are those of some nodes that a query asks for. all is changed.
func SelectNodes(all []api.Node, q *api.NodeQuery) ([]api.Node, error) {
	where, err := label.ParseWhere(q.Where)
	if err != nil {
		return nil, api.Refuse(api.Invalid, "where: %v", err)
	}
	among := func(list []string, x string) bool { return len(list) == 0 || slices.Contains(list, x) }
	named := func(n string) bool {
		return len(q.Names) == 0 || slices.ContainsFunc(q.Names, func(name string) bool {
			is, err := path.Match(name, n)
			return is && err == nil || name == n
		})
	}
	return slices.DeleteFunc(all, func(n api.Node) bool {
		has := func(key string) (string, bool) { v, ok := n.Labels[key]; return v, ok }
		types := strings.Split(n.Type, ",")
		return !named(n.Name) || !among(q.Pools, n.Pool) || !among(q.States, n.State()) || !where.Holds(has) ||
			len(q.Types) > 0 && !slices.ContainsFunc(types, func(t string) bool { return slices.Contains(q.Types, t) })
	}), nil
}

// inventory is the daemon as it tells what there is.
type inventory struct{ *Daemon }

// list tells of all nodes, in order of their names.
func (d inventory) list(c server.Caller, q *api.NodeQuery) []api.Node {
	on := d.st.Cluster
	out := make([]api.Node, 0, on.Nodes())
	at := make([]int, on.Nodes()) // where each node is in out, or -1
	for i := range cluster.NodeID(on.Nodes()) {
		n := nodeOf(on, i)
		if at[i] = -1; d.cfg.Node == nil || d.cfg.Node(i, &n) {
			if at[i] = len(out); !q.Devices {
				n.Devices = []api.Device{}
			} else if len(n.Devices) == 0 {
				n.Devices = d.devicesOf(i)
			}
			out = append(out, n)
		}
	}
	d.nodesAllocated(c, out, at)
	if q.Devices {
		d.devicesAllocated(c, out, at)
		d.devicesDoubted(out, at)
	}
	slices.SortStableFunc(out, func(a, b api.Node) int { return trace.CompareKeys(a.Name, b.Name) })
	return out
}

// nodeOf is what the ledger has of a node, without what jobs hold of it.
func nodeOf(c *cluster.Cluster, id cluster.NodeID) api.Node {
	spec, foreign := c.Node(id), c.Foreign(id)
	n := api.Node{Name: spec.Name, CPUs: float64(spec.CPU) / 1000, Memory: api.Bytes(spec.Memory), Devices: []api.Device{}, Isolation: []string{}}
	switch n.Health = "up"; c.Health(id) {
	case cluster.Cordoned:
		n.Health = "drained"
	case cluster.Down:
		n.Health = "down"
	}
	if c.Pools() > 1 {
		n.Pool = c.PoolName(spec.Pool)
	}
	var types []string
	for _, g := range spec.GPUs {
		t := c.Type(g.Type)
		if t.Host {
			continue
		}
		if n.GPUs += float64(g.Count); !slices.Contains(types, t.Name) {
			types = append(types, t.Name)
		}
	}
	n.Type = strings.Join(types, ",")
	first, count := c.DeviceRange(id)
	for dev := first; dev < first+cluster.DeviceID(count); dev++ {
		switch {
		case c.Type(c.TypeOf(dev)).Host:
		case c.Broken(dev):
			n.GPUsBroken += float64(c.Capacity(dev)) / 1000
		case c.Usable(id):
			n.GPUsFree += float64(c.DeviceFree(dev)) / 1000
		}
	}
	free := c.SlotsFree(id)
	for i, name := range c.SlotNames() {
		if spec.Slots[i] > 0 {
			n.Slots = append(n.Slots, api.Slot{Name: name, Amount: spec.Slots[i], Free: max(0, free[i])})
		}
	}
	for _, l := range spec.Labels {
		if n.Labels == nil {
			n.Labels = map[string]string{}
		}
		n.Labels[l.Key] = l.Value
	}
	for _, t := range spec.Taints {
		n.Taints = append(n.Taints, t.String())
	}
	n.Foreign = foreignOf(c, &foreign)
	return n
}

// foreignOf is what others use of a node; nil: nothing.
func foreignOf(c *cluster.Cluster, f *cluster.Foreign) *api.Foreign {
	if f.None() {
		return nil
	}
	out := &api.Foreign{CPUs: float64(f.CPU) / 1000, Memory: api.Bytes(f.Memory)}
	for _, s := range f.GPUs {
		out.GPUs += float64(s.Milli) / 1000
	}
	for i, name := range c.SlotNames() {
		if f.Slots[i] > 0 {
			if out.Slots == nil {
				out.Slots = map[string]int64{}
			}
			out.Slots[name] = f.Slots[i]
		}
	}
	return out
}

// nodesAllocated adds up what jobs hold of nodes.
func (d inventory) nodesAllocated(c server.Caller, out []api.Node, at []int) {
	on := d.st.Cluster
	d.eachAllocated(func(l *Job, a *cluster.Alloc) {
		share := 0
		for i := range a.Pieces {
			p := &a.Pieces[i]
			mine := a.Shares[share : share+int(p.Shares)]
			share += int(p.Shares)
			if at[p.Node] < 0 {
				continue
			}
			n := &out[at[p.Node]]
			n.CPUsAllocated += float64(p.CPU) / 1000
			n.MemAllocated += api.Bytes(p.Memory)
			n.Tasks += int(p.Tasks)
			for _, s := range mine {
				if !on.Type(on.TypeOf(s.Device)).Host {
					n.GPUsAllocated += float64(s.Milli) / 1000
				}
			}
			switch there := slices.ContainsFunc(a.Pieces[:i], func(q cluster.Piece) bool { return q.Node == p.Node }); {
			case there:
			case c.Operator || l.User == c.User:
				n.Jobs = append(n.Jobs, l.Key)
			default:
				n.Others++
			}
		}
	})
}

// eachAllocated visits the jobs that have anything, by number.
func (d inventory) eachAllocated(visit func(*Job, *cluster.Alloc)) {
	for l := range d.All() {
		if a := d.st.Alloc(l.ID); a != nil && d.st.Record(l.ID).Phase.HasDevices() {
			visit(l, a)
		}
	}
}

// devicesOf tells of the devices of a node.
func (d inventory) devicesOf(id cluster.NodeID) []api.Device {
	c := d.st.Cluster
	first, count := c.DeviceRange(id)
	out := make([]api.Device, count)
	for i := range out {
		dev := first + cluster.DeviceID(i)
		t := c.Type(c.TypeOf(dev))
		out[i] = api.Device{Name: d.cfg.Names(dev), Index: i, Type: t.Name, NUMA: -1, Memory: api.Bytes(t.Memory), Host: t.Host, Broken: c.Broken(dev)}
	}
	return out
}

// devicesDoubted says on which devices jobs take longer than on others of their type.
func (d inventory) devicesDoubted(out []api.Node, at []int) {
	c := d.st.Cluster
	d.eachDoubt(func(dev cluster.DeviceID, doubt devices.Doubt) {
		n := c.NodeOf(dev)
		if first, _ := c.DeviceRange(n); at[n] >= 0 && int(dev-first) < len(out[at[n]].Devices) {
			to := &out[at[n]].Devices[dev-first]
			to.Slow, to.SlowJobs = math.Round(100*doubt.Score)/100, doubt.Jobs
		}
	})
}

// eachDoubt calls f for the doubtful devices that there are.
func (d inventory) eachDoubt(f func(cluster.DeviceID, devices.Doubt)) {
	by := map[perf.Seat]devices.Doubt{}
	for _, doubt := range d.devices.Doubts() {
		by[doubt.Seat] = doubt
	}
	c := d.st.Cluster
	for dev := range cluster.DeviceID(c.Devices()) {
		if len(by) == 0 {
			return
		}
		seat := perf.SeatOf(c, dev)
		if doubt, is := by[seat]; is {
			f(dev, doubt)
			delete(by, seat)
		}
	}
}

// devicesAllocated says which jobs have devices, as far as the caller may see them.
func (d inventory) devicesAllocated(caller server.Caller, out []api.Node, at []int) {
	c := d.st.Cluster
	d.eachAllocated(func(l *Job, a *cluster.Alloc) {
		if !caller.Operator && l.User != caller.User {
			return
		}
		for _, s := range a.Shares {
			id := c.NodeOf(s.Device)
			if first, _ := c.DeviceRange(id); at[id] >= 0 {
				dev := &out[at[id]].Devices[s.Device-first]
				dev.Jobs = append(dev.Jobs, l.Key)
			}
		}
	})
}

// Drained are the nodes and the devices that an order to drain means, by name or by
// condition; neither: it means the whole. It is called in the goroutine of the loop.
func (d *Daemon) Drained(z *api.Drain) (nodes []cluster.NodeID, devices []cluster.DeviceID, err error) {
	c := d.st.Cluster
	where, err := label.ParseWhere(z.Where)
	switch {
	case err != nil:
		return nil, nil, api.Refuse(api.Invalid, "where: %v", err)
	case z.Where != "" && len(z.Devices) > 0:
		return nil, nil, api.Refuse(api.Invalid, "name what is meant or write a condition, not both")
	}
	byName := map[string]cluster.NodeID{}
	for i := range cluster.NodeID(c.Nodes()) {
		byName[c.Node(i).Name] = i
		if z.Where != "" && where.Holds(c.Node(i).Label) {
			nodes = append(nodes, i)
		}
	}
	if z.Where != "" && len(nodes) == 0 {
		return nil, nil, api.Refuse(api.Unknown, "no node has labels such as %s", z.Where)
	}
	for _, name := range z.Devices {
		if i, is := byName[name]; is {
			nodes = append(nodes, i)
		} else if i, is := (inventory{d}).deviceNamed(name, byName); is {
			devices = append(devices, i)
		} else if several(c) {
			return nil, nil, api.Refuse(api.Unknown, "there is no node or device %q here", name)
		} else {
			return nil, nil, api.Refuse(api.Unknown, "there is no device %q here", name)
		}
	}
	return nodes, devices, nil
}

// deviceNamed finds a device by its name; byName are the nodes by theirs. The name of a
// device of several nodes begins with that of its node and a slash.
func (d inventory) deviceNamed(name string, byName map[string]cluster.NodeID) (cluster.DeviceID, bool) {
	c := d.st.Cluster
	first, count := cluster.DeviceID(0), c.Devices()
	if several(c) {
		node, _, _ := strings.Cut(name, "/")
		id, is := byName[node]
		if !is {
			return cluster.None, false
		}
		first, count = c.DeviceRange(id)
	}
	for i := first; i < first+cluster.DeviceID(count); i++ {
		if d.cfg.Names(i) == name {
			return i, true
		}
	}
	return cluster.None, false
}
