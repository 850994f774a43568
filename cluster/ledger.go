package cluster

import (
	"fmt"
	"math/bits"
	"slices"
	"time"

	"github.com/norn-scheduler/norn/cluster/unit"
)

// Alloc is what one job has: pieces, one for each node and role, and the
// device shares of all pieces in the order of the ranks of its tasks. Beat is when
// the job is told to begin its iterations.
type Alloc struct {
	Pieces []Piece
	Shares []Share
	Slots  []Slots // what each task has of the counted resources of its node, by role; nil: nothing; never changed
	Beat   Beat
}

// Beat is the moments at which a job is told to begin its iterations: Shift after the start of the run, and then once
// in each Period. The zero Beat lets it begin them when it likes.
type Beat struct{ Period, Shift time.Duration }

// Piece is the part of an Alloc that lies in one node and serves the tasks of
// one role. Its device shares are the next Shares entries of Alloc.Shares.
type Piece struct {
	Node   NodeID
	Role   uint8
	Tasks  int32
	Shares int32
	CPU    unit.Milli // for all its tasks together
	Memory unit.Bytes // for all its tasks together
}

// Share is a part of a device: Milli of its time and Memory of its memory. A
// packed guest has zero milli: it runs in the gaps of the other sharers.
// Throttle is for how many thousandths of the time the holder is kept from using
// the device, whatever it has: 0 never, 1000 it stands still there. Batch is how
// many samples at a time it is told to take through the device; 0: as many as its user
// wants.
type Share struct {
	Device   DeviceID
	Milli    int32
	Throttle int32
	Batch    int32
	Memory   unit.Bytes
}

// Reset empties an Alloc and keeps its memory.
func (a *Alloc) Reset() {
	a.Pieces, a.Shares, a.Slots = a.Pieces[:0], a.Shares[:0], nil
	a.Beat = Beat{}
}

// CopyFrom makes a equal to b without sharing memory with it, Slots aside.
func (a *Alloc) CopyFrom(b *Alloc) {
	a.Pieces = append(a.Pieces[:0], b.Pieces...)
	a.Shares = append(a.Shares[:0], b.Shares...)
	a.Slots, a.Beat = b.Slots, b.Beat
}

// Equal tells whether both have the same parts in the same order.
func (a *Alloc) Equal(b *Alloc) bool {
	if len(a.Pieces) != len(b.Pieces) || len(a.Shares) != len(b.Shares) || a.Beat != b.Beat || !slices.Equal(a.Slots, b.Slots) {
		return false
	}
	for i := range a.Pieces {
		if a.Pieces[i] != b.Pieces[i] {
			return false
		}
	}
	for i := range a.Shares {
		if a.Shares[i] != b.Shares[i] {
			return false
		}
	}
	return true
}

// SamePlaces tells whether both have parts of the same devices for the same tasks,
// however large the parts are, and whatever the beat.
func (a *Alloc) SamePlaces(b *Alloc) bool {
	if len(a.Pieces) != len(b.Pieces) || len(a.Shares) != len(b.Shares) {
		return false
	}
	for i := range a.Pieces {
		p, q := &a.Pieces[i], &b.Pieces[i]
		if p.Node != q.Node || p.Role != q.Role || p.Tasks != q.Tasks || p.Shares != q.Shares {
			return false
		}
	}
	for i := range a.Shares {
		if a.Shares[i].Device != b.Shares[i].Device {
			return false
		}
	}
	return true
}

// Meets tells whether some device has shares of both Allocs.
func (a *Alloc) Meets(b *Alloc) bool {
	for i := range a.Shares {
		if slices.ContainsFunc(b.Shares, func(s Share) bool { return s.Device == a.Shares[i].Device }) {
			return true
		}
	}
	return false
}

// Milli is the device time allocated, in thousandths of a device.
func (a *Alloc) Milli() unit.Milli {
	var sum unit.Milli
	for i := range a.Shares {
		sum += unit.Milli(a.Shares[i].Milli)
	}
	return sum
}

// Tasks is the number of tasks of a role.
func (a *Alloc) Tasks(role uint8) int {
	n := int32(0)
	for i := range a.Pieces {
		if a.Pieces[i].Role == role {
			n += a.Pieces[i].Tasks
		}
	}
	return int(n)
}

// Nodes is the number of different nodes.
func (a *Alloc) Nodes() int {
	n := 0
next:
	for i := range a.Pieces {
		for j := range a.Pieces[:i] {
			if a.Pieces[j].Node == a.Pieces[i].Node {
				continue next
			}
		}
		n++
	}
	return n
}

// Valid checks that an Alloc which comes from outside names nodes and devices
// that exist and has as many shares as its pieces say. Whether they are free is
// for Take to say.
func (c *Cluster) Valid(a *Alloc) error {
	shares := 0
	for i := range a.Pieces {
		p := &a.Pieces[i]
		if p.Node < 0 || int(p.Node) >= len(c.nodes) {
			return fmt.Errorf("node number %d is not known", p.Node)
		}
		if p.Tasks < 0 || p.Shares < 0 || p.CPU < 0 || p.Memory < 0 {
			return fmt.Errorf("a negative amount on node %s", c.nodes[p.Node].spec.Name)
		}
		shares += int(p.Shares)
	}
	if shares != len(a.Shares) {
		return fmt.Errorf("%d device shares where the pieces have %d", len(a.Shares), shares)
	}
	for i := range a.Shares {
		if d := a.Shares[i].Device; d < 0 || int(d) >= len(c.devices) {
			return fmt.Errorf("device number %d is not known", d)
		}
	}
	return nil
}

type journalEntry struct {
	alloc *Alloc
	taken bool
}

// Mark opens a what-if. Every Take and Release until the matching Undo or Keep
// is remembered; the Allocs given to them must not change meanwhile. What-ifs
// nest.
func (c *Cluster) Mark() int {
	c.depth++
	return len(c.journal)
}

// Undo closes the innermost what-if and restores the ledger as it was at Mark.
func (c *Cluster) Undo(mark int) {
	for i := len(c.journal) - 1; i >= mark; i-- {
		e := c.journal[i]
		if e.taken {
			giveBack(c, e.alloc)
		} else {
			c.mustTake(e.alloc)
		}
	}
	c.journal = c.journal[:mark]
	c.depth--
}

// Keep closes the innermost what-if and leaves the ledger as it is.
func (c *Cluster) Keep(mark int) {
	c.depth--
	if c.depth == 0 {
		c.journal = c.journal[:0]
	}
}

// Allocate books an Alloc. It fails, and changes nothing, when a device, a node's
// CPU, its memory or a counted resource (ShortError) would be over-committed, or when
// a node is not usable.
func (c *Cluster) Allocate(a *Alloc) error { return c.take(a, false) }

// Reallocate is Take for a job that has just released other parts of the very
// same devices. The job stays, so it does not matter whether nodes and devices
// take new work, nor what others use there.
func (c *Cluster) Reallocate(a *Alloc) error { return c.take(a, true) }

func (c *Cluster) take(a *Alloc, stays bool) error {
	if len(a.Slots) > 0 {
		if err := takeSlots(c, a, stays); err != nil {
			return err
		}
	}
	at := 0
	for i := range a.Pieces {
		p := &a.Pieces[i]
		if err := c.takePiece(p, a.Shares[at:at+int(p.Shares)], stays); err != nil {
			c.put(a, i)
			if len(a.Slots) > 0 {
				c.bookSlots(a, len(a.Pieces), -1)
			}
			return err
		}
		at += int(p.Shares)
	}
	if c.depth > 0 {
		c.journal = append(c.journal, journalEntry{a, true})
	}
	return nil
}

// Release gives back what Take booked.
func (c *Cluster) Release(a *Alloc) {
	giveBack(c, a)
	if c.depth > 0 {
		c.journal = append(c.journal, journalEntry{a, false})
	}
}

// mustTake books without the checks: it restores what was held before.
func (c *Cluster) mustTake(a *Alloc) {
	at := 0
	for i := range a.Pieces {
		p := &a.Pieces[i]
		c.bookPiece(p, a.Shares[at:at+int(p.Shares)], 1)
		at += int(p.Shares)
	}
	if len(a.Slots) > 0 {
		c.bookSlots(a, len(a.Pieces), 1)
	}
}

// giveBack gives back all of an Alloc.
func giveBack(c *Cluster, a *Alloc) {
	c.put(a, len(a.Pieces))
	if len(a.Slots) > 0 {
		c.bookSlots(a, len(a.Pieces), -1)
	}
}

// put gives the first n pieces back.
func (c *Cluster) put(a *Alloc, n int) {
	at := 0
	for i := range a.Pieces[:n] {
		p := &a.Pieces[i]
		c.bookPiece(p, a.Shares[at:at+int(p.Shares)], -1)
		at += int(p.Shares)
	}
}

func (c *Cluster) takePiece(p *Piece, shares []Share, stays bool) error {
	n := &c.nodes[p.Node]
	var regained Foreign
	if stays {
		regained = c.Foreign(p.Node)
	}
	switch {
	case !stays && !n.usable():
		return fmt.Errorf("node %s is %s and %s", n.spec.Name, n.health, n.power)
	case n.accountsC && p.CPU > max(0, n.cpuFree+regained.CPU):
		return fmt.Errorf("node %s has %v CPUs free, %v are needed", n.spec.Name, n.cpuFree, p.CPU)
	case n.accountsM && p.Memory > max(0, n.memFree+regained.Memory):
		return fmt.Errorf("node %s has %v of memory free, %v are needed", n.spec.Name, n.memFree, p.Memory)
	}
	for i := range shares {
		s := &shares[i]
		d := &c.devices[s.Device]
		free, memory := d.left(), max(0, d.memFree)
		if stays && d.foreign > 0 {
			free, memory = max(0, d.free+d.foreign), max(0, d.memFree+foreignMemory(&regained, s.Device))
		}
		var err error
		switch {
		case c.groups[d.group].node != p.Node:
			err = fmt.Errorf("device %d is not in node %s", s.Device, n.spec.Name)
		case !stays && d.broken:
			err = fmt.Errorf("%s is broken", c.DeviceName(s.Device))
		case s.Milli < 0 || s.Memory < 0:
			err = fmt.Errorf("%s: a share of %v and %v", c.DeviceName(s.Device), unit.Milli(s.Milli), s.Memory)
		case s.Throttle < 0 || s.Throttle > 1000:
			err = fmt.Errorf("%s: a holder cannot be throttled for %d thousandths of the time, but for 0 to 1000", c.DeviceName(s.Device), s.Throttle)
		case s.Batch < 0:
			err = fmt.Errorf("%s: a batch of %d samples", c.DeviceName(s.Device), s.Batch)
		case s.Milli > free:
			err = fmt.Errorf("%s has %v of a GPU free, %v is needed", c.DeviceName(s.Device), unit.Milli(free), unit.Milli(s.Milli))
		case s.Memory > memory:
			err = fmt.Errorf("%s has %v of GPU memory free, %v are needed", c.DeviceName(s.Device), memory, s.Memory)
		}
		if err != nil {
			for j := range shares[:i] {
				c.bookShare(&shares[j], -1)
			}
			return err
		}
		c.bookShare(s, 1)
	}
	c.bookNode(p, 1)
	return nil
}

// foreignMemory is the memory of a device that others use.
func foreignMemory(f *Foreign, d DeviceID) unit.Bytes {
	for i := range f.GPUs {
		if f.GPUs[i].Device == d {
			return f.GPUs[i].Memory
		}
	}
	return 0
}

func (c *Cluster) bookPiece(p *Piece, shares []Share, sign int32) {
	for i := range shares {
		c.bookShare(&shares[i], sign)
	}
	c.bookNode(p, sign)
}

func (c *Cluster) bookNode(p *Piece, sign int32) {
	n := &c.nodes[p.Node]
	if n.shares += sign; n.shares == max(0, sign) { // it was idle, or is so now
		c.busy += sign
	}
	n.memFree -= unit.Bytes(sign) * p.Memory
	if p.CPU == 0 {
		return
	}
	n.cpuFree -= unit.Milli(sign) * p.CPU
	if n.accountsC && n.usable() {
		c.showRoom(p.Node)
	}
}

// bookShare books (sign 1) or gives back (sign -1) one share and keeps every
// index true.
func (c *Cluster) bookShare(s *Share, sign int32) {
	d := &c.devices[s.Device]
	g := &c.groups[d.group]
	d.sharers += sign
	d.memFree -= unit.Bytes(sign) * s.Memory
	if s.Milli == 0 {
		return
	}
	sh := &c.shelves[g.shelf]
	was, over := d.left(), d.free < 0
	d.free -= sign * s.Milli
	if over != (d.free < 0) { // jobs and others no longer use more of it than there is, or do so now
		c.version++
		c.overs++
	}
	if g.listed && !d.broken {
		c.countMilli(sh, d, s.Device, was, d.left())
		for _, also := range g.also {
			c.countMilli(&c.shelves[also], d, s.Device, was, d.left())
		}
	}
	whole := d.left()/1000 - was/1000 // for a device told apart: 1, 0 or -1
	switch {
	case d.broken || whole == 0:
		return
	case g.pooled:
		g.free += whole // a pool stands on its shelf whatever is free
	default:
		g.mask ^= 1 << (s.Device - g.first)
		if g.listed {
			c.shelve(g, d.group, false)
		}
		g.free += whole
		if g.listed {
			c.shelve(g, d.group, true)
		}
	}
	if g.listed {
		c.countFree(sh, g, int64(whole))
		for _, also := range g.also {
			c.countFree(&c.shelves[also], g, int64(whole))
		}
	}
}

// shelve is shelveFree for all shelves of a group.
func (c *Cluster) shelve(g *group, id GroupID, in bool) {
	c.shelveFree(&c.shelves[g.shelf], g, id, in)
	for _, also := range g.also {
		c.shelveFree(&c.shelves[also], g, id, in)
	}
}

// DeviceName names a device for a reader: node/index.
func (c *Cluster) DeviceName(id DeviceID) string {
	g := &c.groups[c.devices[id].group]
	first, _ := c.DeviceRange(g.node)
	return fmt.Sprintf("GPU %d of node %s", id-first, c.nodes[g.node].spec.Name)
}

// Check verifies every count and index against the devices and nodes. It is
// slow and meant for tests.
func (c *Cluster) Check() error {
	for i := range c.shelves {
		if err := checkShelf(c, int32(i)); err != nil {
			return err
		}
	}
	for i := range c.nodes {
		n := &c.nodes[i]
		f := c.Foreign(NodeID(i))
		if cpu, memory := n.cpuFree+f.CPU, n.memFree+f.Memory; n.accountsC && (cpu < 0 || cpu > n.spec.CPU) || n.accountsM && (memory < 0 || memory > n.spec.Memory) {
			return fmt.Errorf("node %s: %v of %v CPUs and %v of %v memory free", n.spec.Name, n.cpuFree, n.spec.CPU, n.memFree, n.spec.Memory)
		}
		want := n.usable() && (!n.accountsC || n.cpuFree > 0)
		for _, p := range append([]PoolID{n.spec.Pool}, n.scopes...) {
			if inRoom := c.pool(p).room.Has(i); inRoom != want {
				return fmt.Errorf("node %s: in the index of nodes with CPU room of pool %d: %v, want %v", n.spec.Name, p, inRoom, want)
			}
		}
		for k, free := range c.SlotsFree(NodeID(i)) {
			if free += f.Slots[k]; free < 0 || free > n.spec.Slots[k] {
				return fmt.Errorf("node %s: %d of %d %s free", n.spec.Name, free, n.spec.Slots[k], c.slots[k])
			}
		}
	}
	if busy := int32(len(slices.DeleteFunc(slices.Clone(c.nodes), func(n node) bool { return n.shares == 0 }))); busy != c.busy {
		return fmt.Errorf("%d nodes count as busy, %d are", c.busy, busy)
	}
	return c.checkScopes()
}

func checkShelf(c *Cluster, id int32) error {
	s := &c.shelves[id]
	var free, milli, total int64
	domains := make([]int32, len(c.domains))
	sized, whole := make([]int32, len(s.sized)), make([]int32, len(s.whole))
	most := int32(0)
	for gid := range c.groups {
		g := &c.groups[gid]
		if g.shelf != id && !slices.Contains(g.also, id) {
			continue
		}
		if err := checkGroup(c, s, GroupID(gid)); err != nil {
			return err
		}
		most = max(most, g.count)
		if !g.pooled {
			sized[g.count]++
		}
		if !g.pooled && g.listed && g.free == g.count {
			whole[g.count]++
		}
		if !g.listed {
			continue
		}
		free += int64(g.free)
		total += c.works(g)
		domains[c.nodes[g.node].spec.Domain] += g.free
		for d := g.first; d < g.first+DeviceID(g.devices()); d++ {
			if !c.devices[d].broken {
				milli += int64(c.devices[d].left())
			}
		}
	}
	if free != s.free || milli != s.milli || total != s.total {
		return fmt.Errorf("shelf %d: counts %d free, %d milli, %d devices; the devices say %d, %d, %d", id, s.free, s.milli, s.total, free, milli, total)
	}
	if most != s.most || !slices.Equal(sized, s.sized) || !slices.Equal(whole, s.whole) {
		return fmt.Errorf("shelf %d: counts groups by size %v, wholly free %v, the largest of %d; has %v, %v, %d", id, s.sized, s.whole, s.most, sized, whole, most)
	}
	for d, n := range s.domainFree {
		if domains[d] != n {
			return fmt.Errorf("shelf %d domain %d: counts %d free devices, has %d", id, d, n, domains[d])
		}
	}
	return nil
}

func checkGroup(c *Cluster, s *shelf, gid GroupID) error {
	g := &c.groups[gid]
	var free int32
	var mask uint64
	for i := range g.devices() {
		d := &c.devices[g.first+DeviceID(i)]
		if free := d.free + d.foreign; free < 0 || free > d.cap || d.sharers < 0 {
			return fmt.Errorf("%s: %d of %d milli free, %d sharers", c.DeviceName(g.first+DeviceID(i)), d.free, d.cap, d.sharers)
		}
		if !d.broken {
			free += d.left() / 1000
			if d.free == 1000 {
				mask |= 1 << i
			}
		}
		partial := g.listed && !d.broken && d.cap == 1000 && d.free > 0 && d.free < 1000
		if d.free > 0 && d.free < 1000 && (s.partialBy != nil && s.partialBy[d.free].Has(int(g.first)+int(i))) != partial {
			return fmt.Errorf("%s: wrongly in or out of the index of partial devices", c.DeviceName(g.first+DeviceID(i)))
		}
	}
	if free != g.free || !g.pooled && (mask != g.mask || bits.OnesCount64(mask) != int(free)) {
		return fmt.Errorf("node %s: counts %d free devices, has %d", c.nodes[g.node].spec.Name, g.free, free)
	}
	for k := range s.byFree {
		if want := g.listed && !g.pooled && int(g.free) == k; s.byFree[k].Has(int(gid)) != want {
			return fmt.Errorf("node %s: in the index of %d free devices: %v, want %v", c.nodes[g.node].spec.Name, k, !want, want)
		}
	}
	return nil
}
