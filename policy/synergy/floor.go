package synergy

import (
	"cmp"
	"slices"

	"github.com/norn-scheduler/norn/cluster"
	"github.com/norn-scheduler/norn/cluster/unit"
	"github.com/norn-scheduler/norn/perf"
	"github.com/norn-scheduler/norn/sched"
)

// plenty is what a node has that does not account for its cores or its memory.
const plenty = 1 << 50

// floor is what is free of the nodes of a pool in the round.
type floor struct {
	servers []*server
	at      []*server  // by node; nil: it takes no new work, or is of another pool
	home    []*server  // by device, the same
	ran     []int32    // by device: 1 + the job that held it before the round
	free    int        // GPUs
	loose   unit.Milli // what is left of GPUs that are not wholly free
	gpus    int        // of all nodes, free or not
	total   amounts    // of all nodes
	largest *server    // with the most GPUs; nil: there is none
	order   []*server  // scratch
}

// shape is what equal nodes have in common.
type shape struct {
	gpus   int
	size   perf.Ration
	cores  bool // it accounts for cores
	memory bool
}

// server is a node.
type server struct {
	shape
	id      cluster.NodeID
	fair    perf.Ration // for each GPU
	left    perf.Ration
	free    int // GPUs
	types   cluster.TypeMask
	devices []device
	jobs    []*claim // that were placed here in this round
}

// device is a GPU, or several that are counted.
type device struct {
	id     cluster.DeviceID
	typ    cluster.TypeID
	free   unit.Milli
	memory unit.Bytes // that is free of its own
}

// whole is how many GPUs of it are wholly free.
func (d *device) whole() int { return int(d.free / unit.One) }

// part is what a job is dealt of a server.
type part struct {
	server  *server
	gpus    int
	each    perf.Ration
	devices []dealt
}

// dealt is how many GPUs a job is dealt of a device.
type dealt struct {
	id   cluster.DeviceID
	gpus int
}

// amounts are cores, in thousandths, and bytes of any number of nodes: more than a Ration
// can count where nodes do not account for them.
type amounts struct{ cpu, memory float64 }

func (a amounts) plus(r perf.Ration, gpus int) amounts {
	return amounts{a.cpu + float64(r.CPU)*float64(gpus), a.memory + float64(r.Memory)*float64(gpus)}
}

func (a amounts) within(b amounts) bool { return a.cpu <= b.cpu && a.memory <= b.memory }

// typical is what a job wants of the largest node, and its speed there with it.
func (f *floor) typical(c *claim) (perf.Ration, float64) {
	if f.largest == nil {
		return perf.Ration{}, 1
	}
	want := c.want(f.largest)
	return want, c.rate(f.largest, want)
}

// parts are the shares of the pool that a job wants: GPUs, cores, memory.
func (f *floor) parts(c *claim, want perf.Ration) (gpus, cores, memory float64) {
	n := float64(c.gpus)
	return n / float64(max(1, f.gpus)), n * float64(want.CPU) / max(1, f.total.cpu), n * float64(want.Memory) / max(1, f.total.memory)
}

// read takes down what is free.
func (f *floor) read(v *sched.View, pool cluster.PoolID) {
	c := v.Cluster()
	for len(f.at) < c.Nodes() {
		f.at = append(f.at, nil)
	}
	for len(f.ran) < c.Devices() {
		f.ran, f.home = append(f.ran, 0), append(f.home, nil)
	}
	clear(f.ran)
	clear(f.home)
	used := f.servers
	clear(f.at)
	f.servers, f.free, f.loose, f.total, f.gpus, f.largest = f.servers[:0], 0, 0, amounts{}, 0, nil
	for _, id := range c.PoolNodes(pool) {
		n := c.NodeGPUs(id)
		if !c.Usable(id) || n == 0 {
			continue
		}
		s := &server{}
		if len(f.servers) < len(used) {
			s = used[len(f.servers)]
		}
		f.servers = append(f.servers, s)
		s.read(c, id, n)
		f.at[id] = s
		for i := range s.devices {
			f.home[s.devices[i].id] = s
			f.loose += s.devices[i].free % unit.One
		}
		f.free += s.free
		f.gpus += n
		f.total = f.total.plus(s.size, 1)
		if f.largest == nil || s.gpus > f.largest.gpus {
			f.largest = s
		}
	}
}

func (s *server) read(c *cluster.Cluster, id cluster.NodeID, gpus int) {
	spec := c.Node(id)
	*s = server{id: id, shape: shape{gpus: gpus, size: perf.Ration{CPU: spec.CPU, Memory: spec.Memory}}, devices: s.devices[:0], jobs: s.jobs[:0]}
	s.left.CPU, s.cores = c.CPUFree(id)
	s.left.Memory, s.memory = c.MemoryFree(id)
	if !s.cores {
		s.size.CPU, s.left.CPU = plenty, plenty
	}
	if !s.memory {
		s.size.Memory, s.left.Memory = plenty, plenty
	}
	s.fair = perf.Ration{CPU: s.size.CPU / unit.Milli(gpus), Memory: s.size.Memory / unit.Bytes(gpus)}
	for _, g := range c.NodeGroups(id) {
		typ := c.GroupType(g)
		if c.Type(typ).Host {
			continue
		}
		s.types |= 1 << typ
		s.devicesOf(c, g, typ)
	}
}

// devicesOf takes down the wholly free devices of a group.
func (s *server) devicesOf(c *cluster.Cluster, g cluster.GroupID, typ cluster.TypeID) {
	first, n := c.DeviceRange(c.GroupNode(g))
	for d := first; d < first+cluster.DeviceID(n); d++ {
		if c.GroupOf(d) != g {
			continue
		}
		g := device{d, typ, c.DeviceFree(d), c.DeviceMemoryFree(d)}
		if c.Broken(d) {
			g.free = 0
		}
		s.devices = append(s.devices, g)
		s.free += g.whole()
	}
}

// room is how many free GPUs of some types a server has.
func (s *server) room(m cluster.TypeMask) int {
	if m == 0 || s.types&^m == 0 {
		return s.free
	}
	n := 0
	for i := range s.devices {
		if m.Has(s.devices[i].typ) {
			n += s.devices[i].whole()
		}
	}
	return n
}

// typeFor is a GPU type that a job accepts.
func (f *floor) typeFor(m cluster.TypeMask) cluster.TypeID {
	for _, s := range f.servers {
		for i := range s.devices {
			if t := s.devices[i].typ; m.Has(t) {
				return t
			}
		}
	}
	return 0
}

// room is how many free GPUs of some types there are.
func (f *floor) room(m cluster.TypeMask) int {
	if m == 0 {
		return f.free
	}
	n := 0
	for _, s := range f.servers {
		n += s.room(m)
	}
	return n
}

// release counts what a job holds as free, until it is dealt something.
func (f *floor) release(j *claim) {
	for i := range j.was.Shares {
		f.ran[j.was.Shares[i].Device] = int32(j.id) + 1
	}
	f.change(j.was, 1)
}

// change takes what an alloc holds of the nodes of the pool (-1), or gives it back (1).
func (f *floor) change(a *cluster.Alloc, sign int) {
	shares := a.Shares
	for i := range a.Pieces {
		p := &a.Pieces[i]
		if s := f.at[p.Node]; s != nil {
			s.left.CPU += p.CPU * unit.Milli(sign)
			s.left.Memory += p.Memory * unit.Bytes(sign)
			for _, share := range shares[:p.Shares] {
				f.changeDevice(s, share, sign)
			}
		}
		shares = shares[p.Shares:]
	}
}

func (f *floor) changeDevice(s *server, share cluster.Share, sign int) {
	d := s.device(share.Device)
	whole, loose := d.whole(), d.free%unit.One
	d.free += unit.Milli(share.Milli) * unit.Milli(sign)
	d.memory += share.Memory * unit.Bytes(sign)
	s.free += d.whole() - whole
	f.free += d.whole() - whole
	f.loose += d.free%unit.One - loose
}

// book takes what an alloc holds where all of it is free, on nodes of the pool alone;
// otherwise nothing.
func (f *floor) book(a *cluster.Alloc) bool {
	for i := range a.Pieces {
		if f.at[a.Pieces[i].Node] == nil {
			return false
		}
	}
	f.change(a, -1)
	ok := true
	for i := range a.Pieces {
		s := f.at[a.Pieces[i].Node]
		ok = ok && s.left.CPU >= 0 && s.left.Memory >= 0
	}
	for i := range a.Shares {
		d := f.nodeOf(a.Shares[i].Device).device(a.Shares[i].Device)
		ok = ok && d.free >= 0 && d.memory >= 0
	}
	if !ok {
		f.change(a, 1)
	}
	return ok
}

func (s *server) device(id cluster.DeviceID) *device {
	at, _ := slices.BinarySearchFunc(s.devices, id, func(d device, id cluster.DeviceID) int { return cmp.Compare(d.id, id) })
	return &s.devices[at]
}

// fits is how many GPUs of a server a job can have with a ration.
func (s *server) fits(c *claim, each perf.Ration, most int) int {
	n := min(most, s.room(c.mask))
	if each.CPU > 0 {
		n = min(n, int(max(0, s.left.CPU)/each.CPU))
	}
	if each.Memory > 0 {
		n = min(n, int(max(0, s.left.Memory)/each.Memory))
	}
	return n
}

// fewest lists the servers with free GPUs, those with the fewest first.
func (f *floor) fewest(m cluster.TypeMask) []*server {
	f.order = f.order[:0]
	for _, s := range f.servers {
		if s.room(m) > 0 {
			f.order = append(f.order, s)
		}
	}
	slices.SortFunc(f.order, func(a, b *server) int { return cmp.Or(cmp.Compare(a.free, b.free), cmp.Compare(a.id, b.id)) })
	return f.order
}

// take deals a job GPUs of a server, those it had before the round if it can be, and
// those that nobody had rather than those of others.
func (f *floor) take(c *claim, s *server, n int, each perf.Ration) {
	p := part{server: s, gpus: n, each: each}
	if len(c.parts) < cap(c.parts) {
		p.devices = c.parts[:len(c.parts)+1][len(c.parts)].devices[:0]
	}
	left := n
	for pass := range 3 {
		for i := range s.devices {
			d := &s.devices[i]
			had := f.ran[d.id]
			if left == 0 || d.whole() == 0 || !c.mask.Has(d.typ) || pass == 0 && had != int32(c.id)+1 || pass == 1 && had != 0 {
				continue
			}
			k := min(left, d.whole())
			d.free -= unit.Milli(k) * unit.One
			left -= k
			p.devices = append(p.devices, dealt{d.id, k})
		}
	}
	slices.SortFunc(p.devices, func(a, b dealt) int { return cmp.Compare(a.id, b.id) })
	s.free -= n
	f.free -= n
	s.left.CPU -= each.CPU * unit.Milli(n)
	s.left.Memory -= each.Memory * unit.Bytes(n)
	s.jobs = append(s.jobs, c)
	c.parts = append(c.parts, p)
}

// drop takes back what a job was dealt.
func (f *floor) drop(c *claim) {
	for i := range c.parts {
		p := &c.parts[i]
		for _, d := range p.devices {
			p.server.device(d.id).free += unit.Milli(d.gpus) * unit.One
		}
		p.server.free += p.gpus
		f.free += p.gpus
		p.server.left.CPU += p.each.CPU * unit.Milli(p.gpus)
		p.server.left.Memory += p.each.Memory * unit.Bytes(p.gpus)
		p.server.jobs = slices.DeleteFunc(p.server.jobs, func(o *claim) bool { return o == c })
	}
	c.parts, c.speed = c.parts[:0], 0
}

// write makes the alloc of what a job was dealt: on the devices that it had, in their
// order.
func (s *policy) write(c *claim) *cluster.Alloc {
	a := &s.alloc
	if c.stays() {
		a.CopyFrom(c.was)
		for i := range a.Pieces {
			a.Pieces[i].CPU, a.Pieces[i].Memory = c.part(a.Pieces[i].Node).amounts(int(a.Pieces[i].Tasks))
		}
		return a
	}
	a.Reset()
	slices.SortFunc(c.parts, func(x, y part) int { return cmp.Compare(x.server.id, y.server.id) })
	for i := range c.parts {
		p := &c.parts[i]
		piece := cluster.Piece{Node: p.server.id, Tasks: int32(p.gpus)}
		piece.CPU, piece.Memory = p.amounts(p.gpus)
		for _, d := range p.devices {
			a.Shares = append(a.Shares, cluster.Share{Device: d.id, Milli: int32(d.gpus) * int32(unit.One), Memory: c.memory * unit.Bytes(d.gpus)})
			piece.Shares++
		}
		a.Pieces = append(a.Pieces, piece)
	}
	return a
}

// amounts are the cores and the memory for so many GPUs, as they are booked.
func (p *part) amounts(gpus int) (cpu unit.Milli, memory unit.Bytes) {
	if p.server.cores {
		cpu = p.each.CPU * unit.Milli(gpus)
	}
	if p.server.memory {
		memory = p.each.Memory * unit.Bytes(gpus)
	}
	return cpu, memory
}

// part is what a job was dealt of a node.
func (c *claim) part(n cluster.NodeID) *part {
	for i := range c.parts {
		if c.parts[i].server.id == n {
			return &c.parts[i]
		}
	}
	return nil
}

// stays tells whether a job was dealt the very devices that it has.
func (c *claim) stays() bool {
	if c.was == nil {
		return false
	}
	gpus := 0
	for i := range c.parts {
		for _, d := range c.parts[i].devices {
			gpus += d.gpus
			if !slices.ContainsFunc(c.was.Shares, func(s cluster.Share) bool { return s.Device == d.id && int(s.Milli) == d.gpus*int(unit.One) }) {
				return false
			}
		}
	}
	return gpus == c.gpus
}

// nodeOf is the server of a device; nil when it is none of the pool's.
func (f *floor) nodeOf(d cluster.DeviceID) *server { return f.home[d] }
