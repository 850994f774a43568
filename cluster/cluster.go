// Package cluster is the machine: nodes with typed GPUs, CPUs and memory, where
// they stand, how they are linked, whether they work, and the ledger of what is
// taken.
//
// Nouns:
//   - A Node has groups of equal devices (GPUs).
//   - A device has a capacity of 1000 milli and can be shared.
//   - A Pool is a partition of the nodes (a virtual cluster). Pool 0 takes the
//     nodes that belong to no other pool.
//   - A Domain is a place in the topology tree (rack, zone, region, to any
//     depth).
//   - An Alloc is the allocation of one job. A node may count its devices
//     instead of telling them apart (Pooled): its group is then one device of
//     count x 1000 milli.
//
// Units: devices and cores in thousandths (unit.Milli), memory in bytes, link
// speeds in GB/s.
//
// The ledger (Take, Release) works in time that depends on the size of the
// allocation and not on the size of the cluster. Groups are indexed by pool,
// GPU type and number of whole free devices. Devices in partial use are indexed
// by their free part. Mark, Undo and Keep make it a what-if: Undo restores
// every index bit by bit.
package cluster

import (
	"fmt"
	"math/bits"
	"slices"

	"github.com/norn-scheduler/norn/cluster/label"
	"github.com/norn-scheduler/norn/cluster/unit"
	"github.com/norn-scheduler/norn/state/dense"
)

// Numbers of things, dense from zero in the order in which they were added.
type (
	NodeID   int32
	DeviceID int32
	GroupID  int32
	TypeID   int32
	PoolID   int32
	DomainID int32
)

// MaxGroup is the largest number of devices that a node can tell apart in one
// group. A larger group must be Pooled.
const MaxGroup = 64

// TypeMask is a set of GPU types, one bit each; zero means any type.
type TypeMask uint64

// Has tells whether the set holds t.
func (m TypeMask) Has(t TypeID) bool { return m == 0 || m&(1<<t) != 0 }

// GPUType is a model of GPU. Speed is relative to the reference type of the
// cluster, for jobs about which nothing better is known; zero means one.
//
// A device of a Host type is no GPU but a part of the processors of its node,
// for jobs that can do without GPUs. It is shared and booked like a GPU, but
// counts as none. Only demands that name the type, and policies that know about
// it, put jobs there.
type GPUType struct {
	Name   string
	Memory unit.Bytes
	Speed  float64
	Host   bool
}

// GPUs is a group of equal devices in a node.
type GPUs struct {
	Type  TypeID
	Count int
}

// NodeSpec is a node as an operator describes it.
type NodeSpec struct {
	Name   string
	GPUs   []GPUs
	CPU    unit.Milli // zero: not accounted
	Memory unit.Bytes // zero: not accounted
	Domain DomainID   // the smallest place it stands in
	Pool   PoolID
	Links  *Links // between its devices; nil: not known
	NICs   NICs   // between its devices and the network
	Pooled bool   // count the devices instead of telling them apart
	Slots  Slots  // of the counted resources

	Labels []label.Label // in order of their keys, each of which is there once
	Taints []label.Taint // by which it repels jobs
}

// Health says whether a node may be used.
type Health uint8

// The healths of a node.
const (
	Up       Health = iota
	Cordoned        // takes no new work, what runs goes on
	Down            // lost with all that ran there
)

func (h Health) String() string { return [...]string{"up", "cordoned", "down"}[h] }

// Power is the power state of a node.
type Power uint8

// The power states of a node.
const (
	Awake Power = iota
	Asleep
	Booting
)

func (p Power) String() string { return [...]string{"awake", "asleep", "booting"}[p] }

// node is the accounted side of a NodeSpec.
type node struct {
	spec      NodeSpec
	groups    []GroupID
	scopes    []PoolID // the scopes that it is in
	health    Health
	power     Power
	shares    int32 // device shares and CPU pieces allocated here
	cpuFree   unit.Milli
	memFree   unit.Bytes
	accountsC bool
	accountsM bool
}

func (n *node) usable() bool { return n.health == Up && n.power == Awake }

type group struct {
	node   NodeID
	typ    TypeID
	shelf  int32
	first  DeviceID
	count  int32  // devices
	free   int32  // wholly free and healthy devices
	mask   uint64 // of those, when not pooled
	pooled bool
	listed bool    // in the indexes, because its node is usable
	also   []int32 // its shelves in the scopes that its node is in
}

type device struct {
	free    int32 // milli
	cap     int32 // milli
	group   GroupID
	sharers int32
	broken  bool
	foreign int32 // milli that others use; free is negative where jobs have some of it
	memFree unit.Bytes
}

// shelf indexes the usable groups of one pool and one GPU type.
type shelf struct {
	pool       PoolID
	typ        TypeID
	byFree     []dense.Set // byFree[k]: groups with exactly k whole free devices
	pooled     dense.Set   // pooled groups
	partialBy  []dense.Set // partialBy[m]: devices with m milli left, 0 < m < 1000; nil before there was one
	partial    dense.Set   // the m for which partialBy[m] is not empty
	sized      []int32     // sized[n]: groups of n devices, usable or not; pooled ones aside
	whole      []int32     // whole[n]: those of them that are usable and have all n free
	most       int32       // devices of the largest group, pooled ones included, usable or not
	domainFree []int32     // whole free devices of each leaf domain
	free       int64       // whole free devices
	milli      int64       // free milli, partial devices included
	total      int64       // devices that work
}

type pool struct {
	name    string
	shelves []int32 // in order of type
	free    int64
	milli   int64
	total   int64
	room    dense.Set // usable nodes with CPU left (or not accounted)
	nodes   []NodeID
}

// Cluster is an inventory and its ledger. It is not safe for concurrent use.
type Cluster struct {
	types   []GPUType
	hosts   TypeMask // of the types that are no GPUs; 0: none is
	pools   []pool
	scopes  []scope
	domains []domain
	nodes   []node
	groups  []group
	devices []device
	shelves []shelf

	slotBook
	foreign map[NodeID]use // of the nodes that others use
	settled bool           // see Settle
	overs   uint64         // see Overbookings
	busy    int32          // see BusyNodes

	journal []journalEntry
	depth   int
	version uint64
}

// New returns an empty cluster with the default pool 0 and the root domain 0.
func New() *Cluster {
	c := &Cluster{}
	c.pools = append(c.pools, pool{})
	c.domains = append(c.domains, domain{parent: -1, level: "cluster"})
	return c
}

// AddType makes a GPU type known and returns its number; a name already known
// keeps its number, and its data is replaced where given. It fails beyond 64
// types.
func (c *Cluster) AddType(t GPUType) (TypeID, error) {
	for i := range c.types {
		if c.types[i].Name == t.Name {
			if t.Memory > 0 {
				c.types[i].Memory = t.Memory
			}
			if t.Speed > 0 {
				c.types[i].Speed = t.Speed
			}
			if t.Host {
				c.types[i].Host = true
				c.hosts |= 1 << i
			}
			return TypeID(i), nil
		}
	}
	if len(c.types) == 64 {
		return 0, fmt.Errorf("GPU type %q: a cluster has at most 64 types", t.Name)
	}
	if t.Host {
		c.hosts |= 1 << len(c.types)
	}
	c.types = append(c.types, t)
	return TypeID(len(c.types) - 1), nil
}

// AddPool makes a pool known and returns its number. The empty name is pool 0.
func (c *Cluster) AddPool(name string) PoolID {
	if id, ok := c.PoolByName(name); ok {
		return id
	}
	c.pools = append(c.pools, pool{name: name})
	return PoolID(len(c.pools) - 1)
}

// PoolByName finds a pool.
func (c *Cluster) PoolByName(name string) (PoolID, bool) {
	for i := range c.pools {
		if c.pools[i].name == name {
			return PoolID(i), true
		}
	}
	return 0, false
}

// AddNode adds a node, up and awake. It fails when the description names an
// unknown type, pool or domain, or a group is too large to tell its devices
// apart; the cluster is then unchanged.
func (c *Cluster) AddNode(spec NodeSpec) (NodeID, error) {
	if err := c.checkSpec(&spec); err != nil {
		return 0, err
	}
	id := NodeID(len(c.nodes))
	if spec.Name == "" {
		spec.Name = fmt.Sprintf("n%d", id)
	}
	c.nodes = append(c.nodes, node{
		spec: spec, cpuFree: spec.CPU, memFree: spec.Memory,
		accountsC: spec.CPU > 0, accountsM: spec.Memory > 0,
	})
	n := &c.nodes[id]
	for _, g := range spec.GPUs {
		if g.Count > 0 {
			n.groups = append(n.groups, c.addGroup(id, spec, g))
		}
	}
	c.addSlots(id, spec.Slots)
	c.pools[spec.Pool].nodes = append(c.pools[spec.Pool].nodes, id)
	c.domains[spec.Domain].nodes = append(c.domains[spec.Domain].nodes, id)
	c.joinScopes(id)
	c.list(id)
	return id, nil
}

func (c *Cluster) checkSpec(spec *NodeSpec) error {
	bad := func(format string, args ...any) error {
		return fmt.Errorf("node %q: %s", spec.Name, fmt.Sprintf(format, args...))
	}
	switch {
	case int(spec.Pool) >= len(c.pools) || spec.Pool < 0:
		return bad("unknown pool %d", spec.Pool)
	case int(spec.Domain) >= len(c.domains) || spec.Domain < 0:
		return bad("unknown domain %d", spec.Domain)
	case spec.CPU < 0 || spec.Memory < 0:
		return bad("negative CPU or memory")
	}
	devices := 0
	for _, g := range spec.GPUs {
		switch {
		case int(g.Type) >= len(c.types) || g.Type < 0:
			return bad("unknown GPU type %d", g.Type)
		case g.Count < 0:
			return bad("%d GPUs", g.Count)
		case g.Count > MaxGroup && !spec.Pooled:
			return bad("%d GPUs of one type: more than %d cannot be told apart, write pooled: true to have them counted", g.Count, MaxGroup)
		case g.Count > 2_000_000:
			return bad("%d GPUs: a node counts at most 2,000,000", g.Count)
		}
		devices += g.Count
	}
	if err := checkLabels(spec); err != nil {
		return bad("%v", err)
	}
	if spec.Links != nil && spec.Links.Devices() != devices {
		return bad("links are given for %d devices, it has %d", spec.Links.Devices(), devices)
	}
	return c.checkSlots(spec)
}

// unaccounted is the memory of a GPU whose type tells none: more than anybody
// asks for.
const unaccounted unit.Bytes = 1 << 50

func (c *Cluster) addGroup(id NodeID, spec NodeSpec, g GPUs) GroupID {
	gid := GroupID(len(c.groups))
	gr := group{
		node: id, typ: g.Type, shelf: c.shelfFor(spec.Pool, g.Type), first: DeviceID(len(c.devices)),
		count: int32(g.Count), free: int32(g.Count), pooled: spec.Pooled,
	}
	mem := c.types[g.Type].Memory
	if mem == 0 {
		mem = unaccounted
	}
	if spec.Pooled {
		c.devices = append(c.devices, device{free: int32(g.Count) * 1000, cap: int32(g.Count) * 1000, group: gid, memFree: mem * unit.Bytes(g.Count)})
	} else {
		gr.mask = ^uint64(0) >> (64 - g.Count)
		for range g.Count {
			c.devices = append(c.devices, device{free: 1000, cap: 1000, group: gid, memFree: mem})
		}
	}
	c.groups = append(c.groups, gr)
	c.shelves[gr.shelf].enrol(&gr)
	return gid
}

// enrol counts a group that belongs to the shelf, whether its node is usable or not.
func (s *shelf) enrol(g *group) {
	s.most = max(s.most, g.count)
	if g.pooled {
		return
	}
	for int(g.count) >= len(s.sized) {
		s.sized, s.whole = append(s.sized, 0), append(s.whole, 0)
	}
	s.sized[g.count]++
	s.levels(int(g.count) + 1)
}

// levels makes room in the index for groups with fewer than n free devices.
func (s *shelf) levels(n int) {
	if n > len(s.byFree) { // sets that a scope had before are empty
		s.byFree = slices.Grow(s.byFree, n-len(s.byFree))[:n]
	}
}

func (c *Cluster) shelfFor(p PoolID, t TypeID) int32 {
	of := c.pool(p)
	for _, s := range of.shelves {
		if c.shelves[s].typ == t {
			return s
		}
	}
	id := int32(len(c.shelves))
	c.shelves = append(c.shelves, shelf{pool: p, typ: t})
	at := 0
	for at < len(of.shelves) && c.shelves[of.shelves[at]].typ < t {
		at++
	}
	of.shelves = slices.Insert(of.shelves, at, id)
	return id
}

// list brings the groups of a usable node into the indexes.
func (c *Cluster) list(id NodeID) {
	n := &c.nodes[id]
	for _, gid := range n.groups {
		g := &c.groups[gid]
		if g.listed {
			continue
		}
		g.listed = true
		c.index(g.shelf, gid, true)
		for _, s := range g.also {
			c.index(s, gid, true)
		}
	}
	c.showRoom(id)
	c.version++
}

// unlist takes the groups of a node out of the indexes.
func (c *Cluster) unlist(id NodeID) {
	n := &c.nodes[id]
	for _, gid := range n.groups {
		g := &c.groups[gid]
		if !g.listed {
			continue
		}
		c.index(g.shelf, gid, false)
		for _, s := range g.also {
			c.index(s, gid, false)
		}
		g.listed = false
	}
	c.pools[n.spec.Pool].room.Remove(int(id))
	for _, p := range n.scopes {
		c.pool(p).room.Remove(int(id))
	}
	c.version++
}

// index brings a group into the indexes of one of its shelves, or takes it out.
func (c *Cluster) index(of int32, gid GroupID, in bool) {
	s, g := &c.shelves[of], &c.groups[gid]
	sign := int64(1)
	if !in {
		sign = -1
	}
	c.shelveFree(s, g, gid, in)
	works := sign * c.works(g)
	s.total += works
	c.pool(s.pool).total += works
	c.countFree(s, g, sign*int64(g.free))
	for d := g.first; d < g.first+DeviceID(g.devices()); d++ {
		if free := c.devices[d].left(); in {
			c.countMilli(s, &c.devices[d], d, 0, free)
		} else {
			c.countMilli(s, &c.devices[d], d, free, 0)
		}
	}
}

// showRoom brings a node into the indexes of usable nodes with CPU left, or takes it out.
func (c *Cluster) showRoom(id NodeID) {
	n := &c.nodes[id]
	set := func(p *pool) {
		if n.usable() && (!n.accountsC || n.cpuFree > 0) {
			p.room.Add(int(id))
		} else {
			p.room.Remove(int(id))
		}
	}
	set(&c.pools[n.spec.Pool])
	for _, p := range n.scopes {
		set(c.pool(p))
	}
}

// works is the number of devices of a group that are not broken, and that others do
// not use as a whole.
func (c *Cluster) works(g *group) int64 {
	n := int64(g.count)
	for d := g.first; d < g.first+DeviceID(g.devices()); d++ {
		if c.devices[d].broken {
			n -= int64(c.devices[d].cap / 1000)
		} else {
			n -= int64(c.devices[d].foreign / 1000)
		}
	}
	return n
}

// devices is how many entries of Cluster.devices a group has.
func (g *group) devices() int32 {
	if g.pooled {
		return 1
	}
	return g.count
}

func (c *Cluster) shelveFree(s *shelf, g *group, id GroupID, in bool) {
	if g.pooled {
		if in {
			s.pooled.Add(int(id))
		} else {
			s.pooled.Remove(int(id))
		}
		return
	}
	s.levels(int(g.free) + 1)
	change := int32(1)
	if in {
		s.byFree[g.free].Add(int(id))
	} else {
		s.byFree[g.free].Remove(int(id))
		change = -1
	}
	if g.free == g.count {
		s.whole[g.count] += change
	}
}

func (c *Cluster) countFree(s *shelf, g *group, delta int64) {
	s.free += delta
	c.pool(s.pool).free += delta
	leaf := c.nodes[g.node].spec.Domain
	for int(leaf) >= len(s.domainFree) {
		s.domainFree = append(s.domainFree, 0)
	}
	s.domainFree[leaf] += int32(delta)
}

// countMilli updates the counts of free milli, and the index of partial
// devices, when the free part of a device goes from was to now. Either is 0
// where the device comes or goes.
func (c *Cluster) countMilli(s *shelf, d *device, id DeviceID, was, now int32) {
	if d.broken {
		return
	}
	s.milli += int64(now - was)
	c.pool(s.pool).milli += int64(now - was)
	if d.cap != 1000 {
		return
	}
	if was > 0 && was < 1000 {
		set := &s.partialBy[was]
		if set.Remove(int(id)); set.Len() == 0 {
			s.partial.Remove(int(was))
		}
	}
	if now > 0 && now < 1000 {
		if s.partialBy == nil {
			s.partialBy = make([]dense.Set, 1000)
		}
		s.partialBy[now].Add(int(id))
		s.partial.Add(int(now))
	}
}

// SetHealth changes the health of a node. Allocations there stay until they are
// released.
func (c *Cluster) SetHealth(id NodeID, h Health) {
	c.nodes[id].health = h
	relist(c, id)
}

// SetPower changes the power state of a node.
func (c *Cluster) SetPower(id NodeID, p Power) {
	c.nodes[id].power = p
	relist(c, id)
}

func relist(c *Cluster, id NodeID) {
	if c.nodes[id].usable() {
		c.list(id)
	} else {
		c.unlist(id)
	}
}

// SetBroken takes one device out of use, or back into use. Allocations on it
// stay until they are released. A pooled device loses or regains all.
func (c *Cluster) SetBroken(id DeviceID, broken bool) {
	d := &c.devices[id]
	if d.broken == broken {
		return
	}
	g := &c.groups[d.group]
	node := g.node
	listed := g.listed
	if listed {
		c.unlist(node)
	}
	whole := int32(0)
	if g.pooled {
		whole = d.left() / 1000
	} else if d.free == 1000 {
		whole = 1
	}
	d.broken = broken
	if broken {
		g.free -= whole
		g.mask &^= 1 << (id - g.first)
	} else {
		g.free += whole
		if whole > 0 && !g.pooled {
			g.mask |= 1 << (id - g.first)
		}
	}
	if listed {
		c.list(node)
	}
}

// Version changes whenever nodes come, go, or change health or power, and devices begin or cease
// to be overbooked.
func (c *Cluster) Version() uint64 { return c.version }

// Overbookings is how often a device has begun or ceased to be overbooked because of what jobs
// have there: how often Broken has changed without an event of its node.
func Overbookings(c *Cluster) uint64 { return c.overs }

// BusyNodes is the number of nodes of which jobs have anything.
func BusyNodes(c *Cluster) int { return int(c.busy) }

// Nodes is the number of nodes, usable or not.
func (c *Cluster) Nodes() int { return len(c.nodes) }

// Devices is the number of devices; a pooled group counts as one.
func (c *Cluster) Devices() int { return len(c.devices) }

// Pools is the number of pools, the default pool included.
func (c *Cluster) Pools() int { return len(c.pools) }

// PoolName is the name of a pool, empty for the default one.
func (c *Cluster) PoolName(p PoolID) string { return c.pools[p].name }

// Types is the number of GPU types.
func (c *Cluster) Types() int { return len(c.types) }

// Type is a GPU type.
func (c *Cluster) Type(t TypeID) GPUType { return c.types[t] }

// TypeByName finds a GPU type.
func (c *Cluster) TypeByName(name string) (TypeID, bool) {
	for i := range c.types {
		if c.types[i].Name == name {
			return TypeID(i), true
		}
	}
	return 0, false
}

// Node is the description of a node. It must not be changed.
func (c *Cluster) Node(id NodeID) *NodeSpec { return &c.nodes[id].spec }

// Health is the health of a node.
func (c *Cluster) Health(id NodeID) Health { return c.nodes[id].health }

// Power is the power state of a node.
func (c *Cluster) Power(id NodeID) Power { return c.nodes[id].power }

// Usable tells whether a node may be given new work.
func (c *Cluster) Usable(id NodeID) bool { return c.nodes[id].usable() }

// UsableDevice tells whether a device may be given new work: its node may, and it is
// not broken.
func (c *Cluster) UsableDevice(d DeviceID) bool { return c.Usable(c.NodeOf(d)) && !c.Broken(d) }

// UsableDevices is how many devices of an Alloc may be given new work.
func (c *Cluster) UsableDevices(a *Alloc) int {
	n := 0
	for i := range a.Shares {
		if c.UsableDevice(a.Shares[i].Device) {
			n++
		}
	}
	return n
}

// UsableAlloc tells whether all nodes and devices of an Alloc may be given new work.
func (c *Cluster) UsableAlloc(a *Alloc) bool {
	return !slices.ContainsFunc(a.Pieces, func(p Piece) bool { return !c.Usable(p.Node) }) &&
		!slices.ContainsFunc(a.Shares, func(s Share) bool { return c.Broken(s.Device) })
}

// Busy tells whether anything is held on a node.
func (c *Cluster) Busy(id NodeID) bool { return c.nodes[id].shares > 0 }

// NodeOf is the node that a device sits in.
func (c *Cluster) NodeOf(d DeviceID) NodeID { return c.groups[c.devices[d].group].node }

// TypeOf is the type of a device.
func (c *Cluster) TypeOf(d DeviceID) TypeID { return c.groups[c.devices[d].group].typ }

// Sharers is the number of shares allocated on a device.
func (c *Cluster) Sharers(d DeviceID) int { return int(c.devices[d].sharers) }

// DeviceFree is what is left of a device, in milli.
func (c *Cluster) DeviceFree(d DeviceID) unit.Milli { return unit.Milli(c.devices[d].left()) }

// Capacity is what a device has in all, in milli, without what others use of it as a whole.
func (c *Cluster) Capacity(d DeviceID) unit.Milli {
	return unit.Milli(c.devices[d].cap - c.devices[d].foreign/1000*1000)
}

// DeviceMemoryFree is what is left of the memory of a device; where its type tells
// none, more than anybody asks for.
func (c *Cluster) DeviceMemoryFree(d DeviceID) unit.Bytes { return max(0, c.devices[d].memFree) }

// DeviceRange is the first device of a node and their number; a pooled group
// counts as one device.
func (c *Cluster) DeviceRange(id NodeID) (first DeviceID, n int) {
	for i, g := range c.nodes[id].groups {
		if i == 0 {
			first = c.groups[g].first
		}
		n += int(c.groups[g].devices())
	}
	return first, n
}

// FreeGPUs is the number of wholly free, usable devices of a pool whose types
// are in the mask.
func (c *Cluster) FreeGPUs(p PoolID, m TypeMask) int {
	if m |= c.gpus(m); m == 0 {
		return int(c.pool(p).free)
	}
	return int(c.sumShelves(p, m, func(s *shelf) int64 { return s.free }))
}

// TotalGPUs is the number of usable devices of a pool whose types are in the
// mask: those of usable nodes that are not broken.
func (c *Cluster) TotalGPUs(p PoolID, m TypeMask) int {
	if m |= c.gpus(m); m == 0 {
		return int(c.pool(p).total)
	}
	return int(c.sumShelves(p, m, func(s *shelf) int64 { return s.total }))
}

// gpus is the set of all GPU types where the cluster has others beside them and
// none are named; 0 otherwise.
func (c *Cluster) gpus(m TypeMask) TypeMask {
	if m != 0 {
		return 0
	}
	return c.GPUMask()
}

// GPUMask is the set of types that are GPUs, 0 when all are.
func (c *Cluster) GPUMask() TypeMask {
	if c.hosts == 0 {
		return 0
	}
	return ^c.hosts
}

// Hosts is the set of types that are no GPUs but parts of a node's processors, 0
// when there are none.
func (c *Cluster) Hosts() TypeMask { return c.hosts }

// GPUMilli is the device time that an Alloc holds of GPUs, in thousandths of one.
func (c *Cluster) GPUMilli(a *Alloc) unit.Milli {
	sum := a.Milli()
	if c.hosts == 0 {
		return sum
	}
	for i := range a.Shares {
		if c.Type(c.TypeOf(a.Shares[i].Device)).Host {
			sum -= unit.Milli(a.Shares[i].Milli)
		}
	}
	return sum
}

// FreeMilli is what is left of the devices of a pool, partial ones included.
func (c *Cluster) FreeMilli(p PoolID, m TypeMask) unit.Milli {
	if m |= c.gpus(m); m == 0 {
		return unit.Milli(c.pool(p).milli)
	}
	return unit.Milli(c.sumShelves(p, m, func(s *shelf) int64 { return s.milli }))
}

func (c *Cluster) sumShelves(p PoolID, m TypeMask, f func(*shelf) int64) int64 {
	var sum int64
	for _, i := range c.pool(p).shelves {
		if s := &c.shelves[i]; m.Has(s.typ) {
			sum += f(s)
		}
	}
	return sum
}

// PoolNodes are the nodes of a pool in order. The slice must not be changed.
func (c *Cluster) PoolNodes(p PoolID) []NodeID { return c.pool(p).nodes }

// CPUFree tells how many cores are left in a node; ok is false where the node
// does not account for them.
func (c *Cluster) CPUFree(id NodeID) (free unit.Milli, ok bool) {
	n := &c.nodes[id]
	return max(0, n.cpuFree), n.accountsC
}

// MemoryFree tells how much memory is left in a node; ok is false where the
// node does not account for it.
func (c *Cluster) MemoryFree(id NodeID) (free unit.Bytes, ok bool) {
	n := &c.nodes[id]
	return max(0, n.memFree), n.accountsM
}

// TasksBeside is the number of tasks, each of so much CPU and memory, for which
// a node has room beside what is booked, as far as it accounts for them. It
// stops counting at most.
func (c *Cluster) TasksBeside(id NodeID, cpu unit.Milli, memory unit.Bytes, most int) int {
	n := &c.nodes[id]
	if n.accountsC && cpu > 0 {
		most = min(most, int(max(0, n.cpuFree)/cpu))
	}
	if n.accountsM && memory > 0 {
		most = min(most, int(max(0, n.memFree)/memory))
	}
	return most
}

// NodeFreeGPUs is the number of wholly free, healthy devices of a node whose
// types are in the mask, usable or not.
func (c *Cluster) NodeFreeGPUs(id NodeID, m TypeMask) int {
	n := 0
	for _, gid := range c.nodes[id].groups {
		if g := &c.groups[gid]; m.Has(g.typ) {
			n += int(g.free)
		}
	}
	return n
}

// NodeGPUs is the number of GPUs of a node, counted ones included.
func (c *Cluster) NodeGPUs(id NodeID) int {
	n := 0
	for _, g := range c.nodes[id].spec.GPUs {
		if !c.types[g.Type].Host {
			n += g.Count
		}
	}
	return n
}

// MaxNodeGPUs is the largest number of devices of one type that any node of a
// pool has, usable or not, over the types in the mask.
func (c *Cluster) MaxNodeGPUs(p PoolID, m TypeMask) int {
	most := int32(0)
	for _, i := range c.pool(p).shelves {
		if s := &c.shelves[i]; m.Has(s.typ) {
			most = max(most, s.most)
		}
	}
	return int(most)
}

// lowest returns the n lowest bits of mask.
func lowest(mask uint64, n int) uint64 {
	if bits.OnesCount64(mask) <= n {
		return mask
	}
	var out uint64
	for range n {
		low := mask & -mask
		out |= low
		mask &^= low
	}
	return out
}

// Empty is a cluster with the same inventory, in which no job has anything and
// every node and device works. Others use what they have used ever since Settle: so what
// once fits there fits there later, too.
func (c *Cluster) Empty() *Cluster {
	e := New()
	e.types, e.hosts, e.slots = append(e.types, c.types...), c.hosts, c.slots
	for i := range c.pools[1:] {
		e.AddPool(c.pools[i+1].name)
	}
	e.domains[0].children = c.domains[0].children
	for _, d := range c.domains[1:] {
		e.domains = append(e.domains, domain{name: d.name, level: d.level, parent: d.parent, children: d.children})
	}
	for i := range c.scopes {
		e.scopes = append(e.scopes, c.scopes[i].empty())
	}
	for i := range c.nodes {
		if _, err := e.AddNode(c.nodes[i].spec); err != nil {
			panic("cluster: a node that was added once cannot be added again: " + err.Error())
		}
	}
	for id, u := range c.foreign {
		if err := e.SetForeign(id, u.least); err != nil {
			panic("cluster: what others use of a node cannot be used of its copy: " + err.Error())
		}
	}
	return e
}
