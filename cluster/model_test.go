package cluster

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/norn-scheduler/norn/cluster/unit"
)

// twin is the plain model of a cluster: what is there and what is left, with no
// index. The ledger is driven beside it by random operations.
type twin struct {
	nodes []twinNode
}

type twinNode struct {
	spec    NodeSpec
	health  Health
	power   Power
	cpu     unit.Milli
	memory  unit.Bytes
	slots   Slots
	pieces  int
	devices []twinDevice
}

type twinDevice struct {
	id      DeviceID
	group   int
	typ     TypeID
	cap     int32
	free    int32 // negative where jobs hold what others use
	foreign int32
	memory  unit.Bytes
	sharers int
	broken  bool
}

func (n *twinNode) usable() bool { return n.health == Up && n.power == Awake }

// copyOf is a deep copy.
func (m *twin) copyOf() twin {
	c := twin{nodes: slices.Clone(m.nodes)}
	for i := range c.nodes {
		c.nodes[i].devices = slices.Clone(c.nodes[i].devices)
	}
	return c
}

func (m *twin) device(id DeviceID) *twinDevice {
	for i := range m.nodes {
		for j := range m.nodes[i].devices {
			if d := &m.nodes[i].devices[j]; d.id == id {
				return d
			}
		}
	}
	return nil
}

// fits tells whether an Alloc can be booked, by trying it on a copy.
func (m *twin) fits(a *Alloc) bool {
	try := m.copyOf()
	shares := a.Shares
	for _, p := range a.Pieces {
		n := &try.nodes[p.Node]
		if !n.usable() || n.spec.CPU > 0 && p.CPU > max(0, n.cpu) || n.spec.Memory > 0 && p.Memory > max(0, n.memory) {
			return false
		}
		for i := 0; i < len(n.slots) && len(a.Slots) > 0; i++ {
			asks := int64(p.Tasks) * a.Slots[p.Role][i]
			if n.slots[i] -= asks; n.slots[i] < 0 && asks > 0 {
				return false
			}
		}
		for _, s := range shares[:p.Shares] {
			d := try.device(s.Device)
			inside := slices.ContainsFunc(n.devices, func(x twinDevice) bool { return x.id == s.Device })
			if !inside || d.broken || s.Milli > max(0, d.free) || s.Memory > max(0, d.memory) || s.Milli < 0 || s.Memory < 0 {
				return false
			}
			d.free -= s.Milli
			d.memory -= s.Memory
		}
		n.cpu -= p.CPU
		n.memory -= p.Memory
		shares = shares[p.Shares:]
	}
	return true
}

// book books (sign 1) or gives back (sign -1).
func (m *twin) book(a *Alloc, sign int32) {
	shares := a.Shares
	for _, p := range a.Pieces {
		n := &m.nodes[p.Node]
		n.pieces += int(sign)
		n.cpu -= unit.Milli(sign) * p.CPU
		for i := 0; i < len(n.slots) && len(a.Slots) > 0; i++ {
			n.slots[i] -= int64(sign) * int64(p.Tasks) * a.Slots[p.Role][i]
		}
		n.memory -= unit.Bytes(sign) * p.Memory
		for _, s := range shares[:p.Shares] {
			d := m.device(s.Device)
			d.free -= sign * s.Milli
			d.memory -= unit.Bytes(sign) * s.Memory
			d.sharers += int(sign)
		}
		shares = shares[p.Shares:]
	}
}

// machine is the pair that rapid drives.
type machine struct {
	c     *Cluster
	m     twin
	held  []*Alloc
	stack []level
}

// level is an open what-if.
type level struct {
	mark  int
	print string
	m     twin
	held  []*Alloc
}

func newMachine(t *rapid.T) *machine {
	x := &machine{c: New()}
	for _, name := range []string{"A", "B", "C"}[:rapid.IntRange(1, 3).Draw(t, "types")] {
		if _, err := x.c.AddType(GPUType{Name: name, Memory: unit.Bytes(len(x.c.types)) * 16 * unit.GiB}); err != nil {
			t.Fatal(err)
		}
	}
	for _, name := range []string{"rdma", "pods"} {
		if _, err := x.c.AddSlot(name); err != nil {
			t.Fatal(err)
		}
	}
	for i := range rapid.IntRange(0, 2).Draw(t, "pools") {
		x.c.AddPool(fmt.Sprint("pool", i))
	}
	for range rapid.IntRange(1, 4).Draw(t, "first nodes") {
		x.addNode(t)
	}
	return x
}

func (x *machine) addDomain(t *rapid.T) {
	parent := DomainID(rapid.IntRange(0, x.c.Domains()-1).Draw(t, "parent"))
	if _, err := x.c.AddDomain("place", fmt.Sprint("d", x.c.Domains()), parent); err != nil {
		t.Fatal(err)
	}
}

func (x *machine) addNode(t *rapid.T) {
	spec := NodeSpec{
		Pool:   PoolID(rapid.IntRange(0, x.c.Pools()-1).Draw(t, "pool")),
		Domain: DomainID(rapid.IntRange(0, x.c.Domains()-1).Draw(t, "domain")),
		CPU:    rapid.SampledFrom([]unit.Milli{0, 2000, 8500}).Draw(t, "cpu"),
		Memory: rapid.SampledFrom([]unit.Bytes{0, 4 * unit.GiB, 64 * unit.GiB}).Draw(t, "memory"),
		Pooled: rapid.IntRange(0, 5).Draw(t, "pooled") == 0,
		Slots:  rapid.SampledFrom([]Slots{{}, {}, {2}, {3, 5}}).Draw(t, "slots"),
	}
	for range rapid.IntRange(0, 2).Draw(t, "groups") {
		most := 8
		if spec.Pooled {
			most = 200
		}
		spec.GPUs = append(spec.GPUs, GPUs{
			Type: TypeID(rapid.IntRange(0, x.c.Types()-1).Draw(t, "type")), Count: rapid.IntRange(0, most).Draw(t, "count"),
		})
	}
	first := DeviceID(x.c.Devices())
	id, err := x.c.AddNode(spec)
	if err != nil {
		t.Fatal(err)
	}
	spec.Name = x.c.Node(id).Name
	n := twinNode{spec: spec, cpu: spec.CPU, memory: spec.Memory, slots: spec.Slots}
	group := 0
	for _, g := range spec.GPUs {
		if g.Count == 0 {
			continue
		}
		mem := x.c.Type(g.Type).Memory
		if mem == 0 { // not told
			mem = unaccounted
		}
		d := twinDevice{group: group, typ: g.Type, cap: 1000, free: 1000, memory: mem}
		times := g.Count
		if spec.Pooled {
			d.cap, d.free, d.memory, times = int32(g.Count)*1000, int32(g.Count)*1000, mem*unit.Bytes(g.Count), 1
		}
		for range times {
			d.id = first
			first++
			n.devices = append(n.devices, d)
		}
		group++
	}
	x.m.nodes = append(x.m.nodes, n)
}

// drawAlloc makes a random Alloc: often one that fits, sometimes one that names
// a device of another node, a broken one or too much.
func (x *machine) drawAlloc(t *rapid.T) *Alloc {
	a := &Alloc{}
	if rapid.IntRange(0, 3).Draw(t, "asks") == 0 {
		a.Slots = []Slots{{1}, {0, 2}}
	}
	for range rapid.IntRange(1, 3).Draw(t, "pieces") {
		node := rapid.IntRange(0, len(x.m.nodes)-1).Draw(t, "node")
		n := &x.m.nodes[node]
		p := Piece{Node: NodeID(node), Tasks: 1, Role: uint8(rapid.IntRange(0, 1).Draw(t, "role"))}
		p.CPU = rapid.SampledFrom([]unit.Milli{0, 0, 500, 2000, 9000}).Draw(t, "cpus")
		p.Memory = rapid.SampledFrom([]unit.Bytes{0, 0, unit.GiB, 5 * unit.GiB}).Draw(t, "mem")
		for range rapid.IntRange(0, 3).Draw(t, "shares") {
			devices := n.devices
			if rapid.IntRange(0, 20).Draw(t, "astray") == 0 {
				devices = x.m.nodes[rapid.IntRange(0, len(x.m.nodes)-1).Draw(t, "other")].devices
			}
			if len(devices) == 0 {
				continue
			}
			d := devices[rapid.IntRange(0, len(devices)-1).Draw(t, "device")]
			s := Share{Device: d.id, Milli: rapid.SampledFrom([]int32{1000, 1000, 1000, 500, 250, 1, 0, d.cap}).Draw(t, "milli")}
			s.Memory = rapid.SampledFrom([]unit.Bytes{0, 0, unit.GiB, 20 * unit.GiB}).Draw(t, "gpu memory")
			a.Shares = append(a.Shares, s)
			p.Shares++
		}
		a.Pieces = append(a.Pieces, p)
	}
	return a
}

func (x *machine) take(t *rapid.T) {
	a := x.drawAlloc(t)
	want := x.m.fits(a)
	before := x.c.fingerprint()
	err := x.c.Allocate(a)
	if (err == nil) != want {
		t.Fatalf("Take(%+v) = %v, the model says %v", a, err, want)
	}
	if err != nil {
		if after := x.c.fingerprint(); after != before {
			t.Fatalf("a Take that failed (%v) changed the ledger:\n%s\n---\n%s", err, before, after)
		}
		named := slices.ContainsFunc(a.Pieces, func(p Piece) bool { return strings.Contains(err.Error(), "node "+x.c.Node(p.Node).Name) })
		if !named {
			t.Fatalf("the error names no node of the Alloc: %v", err)
		}
		return
	}
	x.m.book(a, 1)
	x.held = append(x.held, a)
}

func (x *machine) release(t *rapid.T) {
	if len(x.held) == 0 {
		t.Skip("nothing is held")
	}
	i := rapid.IntRange(0, len(x.held)-1).Draw(t, "which")
	a := x.held[i]
	x.held = slices.Delete(slices.Clone(x.held), i, i+1)
	x.c.Release(a)
	x.m.book(a, -1)
}

func (x *machine) mark(t *rapid.T) {
	if len(x.stack) == 4 {
		t.Skip("deep enough")
	}
	l := level{print: x.c.fingerprint(), m: x.m.copyOf(), held: slices.Clone(x.held)}
	l.mark = x.c.Mark()
	x.stack = append(x.stack, l)
}

func (x *machine) close(t *rapid.T) level {
	if len(x.stack) == 0 {
		t.Skip("no what-if is open")
	}
	l := x.stack[len(x.stack)-1]
	x.stack = x.stack[:len(x.stack)-1]
	return l
}

func (x *machine) undo(t *rapid.T) {
	l := x.close(t)
	x.c.Undo(l.mark)
	x.m, x.held = l.m, l.held
	if got := x.c.fingerprint(); got != l.print {
		t.Fatalf("Undo did not restore the ledger:\n%s\n--- it was\n%s", got, l.print)
	}
}

// outside skips what a what-if does not cover.
func (x *machine) outside(t *rapid.T) {
	if len(x.stack) > 0 {
		t.Skip("a what-if is open")
	}
}

func (x *machine) setHealth(t *rapid.T) {
	x.outside(t)
	id := rapid.IntRange(0, len(x.m.nodes)-1).Draw(t, "node")
	h := Health(rapid.IntRange(0, 2).Draw(t, "health"))
	x.c.SetHealth(NodeID(id), h)
	x.m.nodes[id].health = h
}

func (x *machine) setPower(t *rapid.T) {
	x.outside(t)
	id := rapid.IntRange(0, len(x.m.nodes)-1).Draw(t, "node")
	p := Power(rapid.IntRange(0, 2).Draw(t, "power"))
	x.c.SetPower(NodeID(id), p)
	x.m.nodes[id].power = p
}

func (x *machine) setBroken(t *rapid.T) {
	x.outside(t)
	if x.c.Devices() == 0 {
		t.Skip("no devices")
	}
	id := DeviceID(rapid.IntRange(0, x.c.Devices()-1).Draw(t, "device"))
	broken := rapid.Bool().Draw(t, "broken")
	x.c.SetBroken(id, broken)
	x.m.device(id).broken = broken
}

// setForeign has others use something of a node, often what jobs hold.
func (x *machine) setForeign(t *rapid.T) {
	x.outside(t)
	if len(x.m.nodes) == 0 {
		t.Skip("no nodes")
	}
	id := NodeID(rapid.IntRange(0, len(x.m.nodes)-1).Draw(t, "node"))
	n := &x.m.nodes[id]
	var f Foreign
	if rapid.IntRange(0, 3).Draw(t, "others") > 0 {
		f.CPU = rapid.SampledFrom([]unit.Milli{0, 500, 3000, 20000}).Draw(t, "cpu of others")
		f.Memory = rapid.SampledFrom([]unit.Bytes{0, 3 * unit.GiB, 80 * unit.GiB}).Draw(t, "memory of others")
		f.Slots = rapid.SampledFrom([]Slots{{}, {1}, {2, 4}}).Draw(t, "slots of others")
		for i := range n.devices {
			if d := &n.devices[i]; rapid.IntRange(0, 3).Draw(t, "used by others") == 0 {
				milli := rapid.SampledFrom([]int32{1000, 300, 0, d.cap}).Draw(t, "milli of others")
				f.GPUs = append(f.GPUs, Share{Device: d.id, Milli: milli, Memory: rapid.SampledFrom([]unit.Bytes{0, 20 * unit.GiB}).Draw(t, "GPU memory of others")})
			}
		}
	}
	was := x.c.Foreign(id)
	if err := x.c.SetForeign(id, f); err != nil {
		t.Fatal(err)
	}
	x.m.others(id, &was, -1)
	x.m.others(id, &f, 1)
	over := x.c.Overbooked(id)
	for _, s := range over.GPUs {
		if d := x.m.device(s.Device); s.Milli != max(0, -d.free) || s.Memory != max(0, -d.memory) {
			t.Fatalf("device %d is overbooked by %+v, the model has %+v", s.Device, s, d)
		}
	}
	if n.spec.CPU > 0 && over.CPU != max(0, -n.cpu) || n.spec.Memory > 0 && over.Memory != max(0, -n.memory) {
		t.Fatalf("node %d is overbooked by %+v, the model has %+v", id, over, n)
	}
}

func (m *twin) others(id NodeID, f *Foreign, sign int32) {
	n := &m.nodes[id]
	n.cpu -= unit.Milli(sign) * f.CPU
	n.memory -= unit.Bytes(sign) * f.Memory
	for i := range n.slots {
		n.slots[i] -= int64(sign) * f.Slots[i]
	}
	for _, s := range f.GPUs {
		d := m.device(s.Device)
		d.free -= sign * s.Milli
		d.foreign += sign * s.Milli
		d.memory -= unit.Bytes(sign) * s.Memory
	}
}

// check compares every question that can be asked with the model's answer.
func (x *machine) check(t *rapid.T) {
	if err := x.c.Check(); err != nil {
		t.Fatal(err)
	}
	for i := range x.m.nodes {
		x.checkNode(t, NodeID(i))
	}
	for p := range PoolID(x.c.Pools()) {
		for mask := range TypeMask(1 << x.c.Types()) {
			x.checkPool(t, p, mask)
		}
		for _, s := range x.c.Shelves(p) {
			x.checkPartial(t, p, ShelfID(s))
		}
		x.checkRoom(t, p)
	}
}

func (x *machine) checkNode(t *rapid.T, id NodeID) {
	n := &x.m.nodes[id]
	cpu, hasCPU := x.c.CPUFree(id)
	memory, hasMemory := x.c.MemoryFree(id)
	if hasCPU != (n.spec.CPU > 0) || cpu != max(0, n.cpu) || hasMemory != (n.spec.Memory > 0) || memory != max(0, n.memory) {
		t.Fatalf("node %d: %v CPUs and %v free, want %v and %v", id, cpu, memory, n.cpu, n.memory)
	}
	if got := x.c.SlotsFree(id); got != n.slots {
		t.Fatalf("node %d: %v of the counted resources free, want %v", id, got, n.slots)
	}
	if x.c.Usable(id) != n.usable() || x.c.Busy(id) != (n.pieces > 0 || x.sharers(n) > 0) {
		t.Fatalf("node %d: usable %v busy %v, the model has %+v", id, x.c.Usable(id), x.c.Busy(id), n)
	}
	whole := 0
	for _, d := range n.devices {
		if x.c.DeviceFree(d.id) != unit.Milli(max(0, d.free)) || x.c.DeviceMemoryFree(d.id) != max(0, d.memory) || x.c.Sharers(d.id) != d.sharers || x.c.Defect(d.id) != d.broken || x.c.Broken(d.id) != (d.broken || d.free < 0) || x.c.NodeOf(d.id) != id {
			t.Fatalf("device %d: %v free, %d sharers, want %+v", d.id, x.c.DeviceFree(d.id), x.c.Sharers(d.id), d)
		}
		if held := d.free + d.foreign; held < 0 || held > d.cap {
			t.Fatalf("device %d is over-committed: %+v", d.id, d)
		}
		if !d.broken {
			whole += int(max(0, d.free) / 1000)
		}
	}
	if got := x.c.NodeFreeGPUs(id, 0); got != whole {
		t.Fatalf("node %d: %d devices free, want %d", id, got, whole)
	}
}

func (x *machine) sharers(n *twinNode) int {
	sum := 0
	for _, d := range n.devices {
		sum += d.sharers
	}
	return sum
}

func (x *machine) checkPool(t *rapid.T, p PoolID, mask TypeMask) {
	free, total, milli := 0, 0, unit.Milli(0)
	inDomain := make([]int, x.c.Domains())
	for i := range x.m.nodes {
		n := &x.m.nodes[i]
		if n.spec.Pool != p || !n.usable() {
			continue
		}
		for _, d := range n.devices {
			if d.broken || !mask.Has(d.typ) {
				continue
			}
			free += int(max(0, d.free) / 1000)
			total += int(d.cap/1000 - d.foreign/1000)
			milli += unit.Milli(max(0, d.free))
			inDomain[n.spec.Domain] += int(max(0, d.free) / 1000)
		}
	}
	if x.c.FreeGPUs(p, mask) != free || x.c.TotalGPUs(p, mask) != total || x.c.FreeMilli(p, mask) != milli {
		t.Fatalf("pool %d types %b: %d of %d free, %v in all; want %d of %d, %v", p, mask,
			x.c.FreeGPUs(p, mask), x.c.TotalGPUs(p, mask), x.c.FreeMilli(p, mask), free, total, milli)
	}
	for d := DomainID(x.c.Domains()) - 1; d > 0; d-- {
		if got := x.c.DomainFree(d, p, mask); got != inDomain[d] {
			t.Fatalf("domain %d pool %d: %d free, want %d", d, p, got, inDomain[d])
		}
		_, _, parent := x.c.Domain(d) // a parent has a lower number
		inDomain[parent] += inDomain[d]
	}
}

// checkPartial compares the search for a device in partial use.
func (x *machine) checkPartial(t *rapid.T, p PoolID, s ShelfID) {
	for _, need := range []int32{1, 250, 500, 999} {
		for _, memory := range []unit.Bytes{0, 20 * unit.GiB} {
			best, next := DeviceID(None), DeviceID(None)
			var bestFree int32
			for i := range x.m.nodes {
				n := &x.m.nodes[i]
				for _, d := range n.devices {
					if n.spec.Pool != p || !n.usable() || d.broken || d.typ != x.c.ShelfType(s) || d.cap != 1000 || d.free >= 1000 || d.free < need || max(0, d.memory) < memory {
						continue
					}
					if best == None || d.free < bestFree {
						best, bestFree = d.id, d.free
					}
					if next == None {
						next = d.id
					}
				}
			}
			if got := x.c.BestPartial(s, unit.Milli(need), memory); got != best {
				t.Fatalf("BestPartial(%d, %d, %v) = %d, want %d", s, need, memory, got, best)
			}
			if got := x.c.NextPartial(s, unit.Milli(need), memory, None); got != next {
				t.Fatalf("NextPartial(%d, %d, %v) = %d, want %d", s, need, memory, got, next)
			}
		}
	}
}

func (x *machine) checkRoom(t *rapid.T, p PoolID) {
	var got, want []NodeID
	for n := x.c.NextRoom(p, None); n != None; n = x.c.NextRoom(p, n) {
		got = append(got, n)
	}
	for i := range x.m.nodes {
		if n := &x.m.nodes[i]; n.spec.Pool == p && n.usable() && (n.spec.CPU == 0 || n.cpu > 0) {
			want = append(want, NodeID(i))
		}
	}
	if !slices.Equal(got, want) {
		t.Fatalf("pool %d: nodes with CPU left %v, want %v", p, got, want)
	}
}

// fingerprint writes down every count and index of the ledger.
func (c *Cluster) fingerprint() string {
	var b strings.Builder
	for i := range c.devices {
		fmt.Fprintf(&b, "device %d %+v\n", i, c.devices[i])
	}
	for i := range c.groups {
		fmt.Fprintf(&b, "group %d %+v\n", i, c.groups[i])
	}
	for i := range c.nodes {
		n := &c.nodes[i]
		fmt.Fprintf(&b, "node %d %v %v %d %d %d %v\n", i, n.health, n.power, n.shares, n.cpuFree, n.memFree, c.SlotsFree(NodeID(i)))
	}
	for i := range c.shelves {
		s := &c.shelves[i]
		fmt.Fprintf(&b, "shelf %d %d %d %d %v pooled %v partial %v\n", i, s.free, s.milli, s.total, s.domainFree, slices.Collect(s.pooled.All()), slices.Collect(s.partial.All()))
		for k := range s.byFree {
			fmt.Fprintf(&b, " free %d: %v\n", k, slices.Collect(s.byFree[k].All()))
		}
		for m := range s.partialBy {
			if s.partialBy[m].Len() > 0 {
				fmt.Fprintf(&b, " left %d: %v\n", m, slices.Collect(s.partialBy[m].All()))
			}
		}
	}
	for i := range c.pools {
		p := &c.pools[i]
		fmt.Fprintf(&b, "pool %d %d %d %d room %v\n", i, p.free, p.milli, p.total, slices.Collect(p.room.All()))
	}
	return b.String()
}

// TestLedgerAgainstModel drives the ledger of random heterogeneous clusters by
// random operations, nested what-ifs among them, beside a plain model.
func TestLedgerAgainstModel(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		x := newMachine(t)
		t.Repeat(map[string]func(*rapid.T){
			"":       x.check,
			"take":   x.take,
			"take2":  x.take, // as often as all the rest of a node's life
			"take3":  x.take,
			"free":   x.release,
			"mark":   x.mark,
			"undo":   x.undo,
			"keep":   func(t *rapid.T) { x.c.Keep(x.close(t).mark) },
			"domain": func(t *rapid.T) { x.outside(t); x.addDomain(t) },
			"node":   func(t *rapid.T) { x.outside(t); x.addNode(t) },
			"health": x.setHealth,
			"power":  x.setPower,
			"broken": x.setBroken,
			"others": x.setForeign,
		})
		for len(x.stack) > 0 {
			x.undo(t)
		}
		for _, a := range x.held {
			x.c.Release(a)
		}
		if got, want := x.c.emptied(), x.c.Empty().emptied(); got != want {
			t.Fatalf("after all is given back:\n%s\n--- an empty cluster has\n%s", got, want)
		}
	})
}

// emptied brings every node and device back into use and tells what is left.
func (c *Cluster) emptied() string {
	var b strings.Builder
	for i := range c.nodes {
		c.SetHealth(NodeID(i), Up)
		c.SetPower(NodeID(i), Awake)
	}
	for i := range c.devices {
		c.SetBroken(DeviceID(i), false)
		fmt.Fprintf(&b, "device %d %+v\n", i, c.devices[i])
	}
	for p := range PoolID(c.Pools()) {
		fmt.Fprintf(&b, "pool %d %d %d %d\n", p, c.FreeGPUs(p, 0), c.TotalGPUs(p, 0), c.FreeMilli(p, 0))
		for _, s := range c.Shelves(p) {
			fmt.Fprintf(&b, " type %d free %d\n", c.ShelfType(ShelfID(s)), c.ShelfFree(ShelfID(s)))
		}
	}
	for d := range DomainID(c.Domains()) {
		fmt.Fprintf(&b, "domain %d %d\n", d, c.DomainFree(d, 0, 0))
	}
	return b.String()
}
