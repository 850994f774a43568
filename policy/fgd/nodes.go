package fgd

import (
	"slices"

	"github.com/norn-scheduler/norn/cluster"
	"github.com/norn-scheduler/norn/cluster/unit"
	"github.com/norn-scheduler/norn/job"
	"github.com/norn-scheduler/norn/sched"
)

// shape is what one task asks for.
type shape struct {
	cpu          unit.Milli
	memory       unit.Bytes
	count        int32      // devices
	milli        int32      // of each
	deviceMemory unit.Bytes // of each
	types        cluster.TypeMask
	scope        cluster.PoolID // the nodes that it may use; 0: all
}

// shapeOf is the shape of the tasks of a class. ok is false for gangs of several
// roles, which have several.
func shapeOf(d *job.Demand, types cluster.TypeMask) (s shape, ok bool) {
	r := &d.Roles[0]
	s = shape{cpu: r.CPU, memory: r.Memory, deviceMemory: r.GPUMemory, types: types}
	switch {
	case r.GPU == 0:
	case r.GPU < unit.One:
		s.count, s.milli = 1, int32(r.GPU)
	default:
		s.count, s.milli = int32(r.GPU/unit.One), int32(unit.One)
	}
	return s, d.Roles[1].Tasks == 0 && (r.GPU < unit.One || r.GPU%unit.One == 0)
}

// tag is the sort of a shape, by which Clustering keeps tasks together: parts of
// a device, or so many whole ones.
func (s *shape) tag() int32 {
	if s.milli < int32(unit.One) {
		return 0
	}
	return s.count
}

// node is what is left of a node.
type node struct {
	cpu     unit.Milli   // unaccounted: plenty
	memory  unit.Bytes   // the same
	total   int32        // devices that work
	idle    int64        // milli of all devices
	free    []int32      // milli of each device
	spare   []unit.Bytes // memory of each device
	types   []cluster.TypeID
	whole   []unit.Bytes // memory of each device when it is free; 0: not known
	host    []bool       // of each device: it is a part of the processors
	first   cluster.DeviceID
	tags    map[int32]int32 // how many tasks of each tag run there
	version uint32          // changes with all else
	scopes  []cluster.PoolID
}

const plenty = 1 << 60

// fits tells whether a task fits.
func (n *node) fits(s *shape) bool {
	if n.cpu < s.cpu || n.memory < s.memory || s.scope != 0 && !slices.Contains(n.scopes, s.scope) {
		return false
	}
	need := s.count
	for d := range n.free {
		if need > 0 && n.holds(s, d) {
			need--
		}
	}
	return need == 0
}

// cores are what is left of the CPU beside a task, as far as it is accounted.
func (n *node) cores(s *shape) unit.Milli {
	if n.cpu > plenty/2 {
		return 0
	}
	return n.cpu - s.cpu
}

func (n *node) holds(s *shape, d int) bool {
	return n.free[d] >= s.milli && n.spare[d] >= s.deviceMemory && s.types.Has(n.types[d])
}

// smallest is the device with the least left that holds a part of a device.
func (n *node) smallest(s *shape) int {
	best := -1
	for d := range n.free {
		if n.holds(s, d) && (best < 0 || n.free[d] < n.free[best]) {
			best = d
		}
	}
	return best
}

// take books a task, parts of devices on device d and whole ones on the first that
// are free, and lists the devices.
func (n *node) take(s *shape, d int, out []int) []int {
	n.version++
	n.cpu, n.memory = n.cpu-s.cpu, n.memory-s.memory
	if s.count == 0 {
		return out
	}
	n.tags[s.tag()]++
	if s.milli < int32(unit.One) {
		n.free[d] -= s.milli
		n.spare[d] -= s.deviceMemory
		n.idle -= int64(s.milli)
		return append(out, d)
	}
	return n.occupy(s, out)
}

// occupy takes the first whole devices for a task, and lists them.
func (n *node) occupy(s *shape, out []int) []int {
	for d, need := 0, s.count; need > 0; d++ {
		if n.holds(s, d) {
			n.free[d], n.spare[d] = 0, n.spare[d]-s.deviceMemory
			n.idle -= int64(unit.One)
			out = append(out, d)
			need--
		}
	}
	return out
}

// giveBack frees what a task took.
func (n *node) giveBack(s *shape, shares []cluster.Share) {
	n.version++
	n.cpu, n.memory = n.cpu+s.cpu, n.memory+s.memory
	if s.count > 0 {
		if n.tags[s.tag()]--; n.tags[s.tag()] == 0 {
			delete(n.tags, s.tag())
		}
	}
	for _, share := range shares {
		d := share.Device - n.first
		n.free[d] += share.Milli
		n.spare[d] += share.Memory
		n.idle += int64(share.Milli)
	}
}

// mirror is what is left of all nodes, as the ledger says.
type mirror struct {
	nodes []node
	pool  []cluster.NodeID // those that the policy decides on
}

// follow brings the mirror up to date, and tells which nodes have changed by their
// versions.
func (m *mirror) follow(v *sched.View) {
	c := v.Cluster()
	for id := cluster.NodeID(len(m.nodes)); int(id) < c.Nodes(); id++ {
		n := node{tags: map[int32]int32{}, version: 1}
		first, count := c.DeviceRange(id)
		n.first = first
		for d := first; d < first+cluster.DeviceID(count); d++ {
			if c.Node(id).Pooled {
				break // devices that are only counted cannot be told apart
			}
			is := c.Type(c.TypeOf(d))
			n.free, n.spare, n.types = append(n.free, 0), append(n.spare, 0), append(n.types, c.TypeOf(d))
			n.whole, n.host = append(n.whole, is.Memory), append(n.host, is.Host)
		}
		m.nodes = append(m.nodes, n)
	}
	m.pool = m.pool[:0]
	for p := range v.EachPool() {
		for _, id := range c.PoolNodes(p) {
			if c.Usable(id) {
				m.pool = append(m.pool, id)
				m.nodes[id].read(v, id)
			}
		}
	}
}

// read takes what is left of a node from the ledger. Parts of its processors,
// which are no GPUs, are left out.
func (n *node) read(v *sched.View, id cluster.NodeID) {
	c := v.Cluster()
	cpu, memory := unit.Milli(plenty), unit.Bytes(plenty)
	if free, ok := c.CPUFree(id); ok {
		cpu = free
	}
	if free, ok := c.MemoryFree(id); ok {
		memory = free
	}
	changed := n.cpu != cpu || n.memory != memory || !slices.Equal(n.scopes, c.Scopes(id))
	n.scopes = append(n.scopes[:0], c.Scopes(id)...)
	n.cpu, n.memory, n.idle, n.total = cpu, memory, 0, 0
	for i := range n.free {
		d := n.first + cluster.DeviceID(i)
		free, spare := int32(c.DeviceFree(d)), c.DeviceMemoryFree(d)
		if n.whole[i] > 0 {
			spare = min(spare, n.whole[i]-v.Frozen(d))
		}
		if n.host[i] || c.Broken(d) {
			free = 0
		} else {
			n.total++
		}
		changed = changed || n.free[i] != free || n.spare[i] != spare
		n.free[i], n.spare[i] = free, spare
		n.idle += int64(free)
	}
	if changed {
		n.version++
	}
}

// count counts the tasks of each tag anew, for Clustering.
func (m *mirror) count(v *sched.View) {
	for i := range m.nodes {
		clear(m.nodes[i].tags)
	}
	for j := range v.Running() {
		s, ok := shapeOf(j.Spec().Demand, 0)
		if a := v.Alloc(j.ID); ok && s.count > 0 && a != nil {
			for i := range a.Pieces {
				m.nodes[a.Pieces[i].Node].tags[s.tag()] += a.Pieces[i].Tasks
			}
		}
	}
	for i := range m.nodes {
		m.nodes[i].version++
	}
}
