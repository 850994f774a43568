package bsbf

import (
	"cmp"
	"slices"

	"github.com/norn-scheduler/norn/cluster"
	"github.com/norn-scheduler/norn/cluster/unit"
	"github.com/norn-scheduler/norn/job"
	"github.com/norn-scheduler/norn/policy/kit/beside"
	"github.com/norn-scheduler/norn/sched"
)

// board is how the GPUs of a pool stand as the plan does: who could be joined there. It is
// made once for a decision, and follows what the plan starts.
type board struct {
	made    bool
	pool    cluster.PoolID
	devices []standing                // by device
	hosts   []host                    // by number of their jobs
	free    map[cluster.DeviceID]bool // devices that nobody has
	load    []int                     // by node: how many jobs run there
	at      []int                     // by node: its place in the pool
	pairs   [64]int                   // by GPU type: devices that two jobs share
	alone   [64]int                   // too: those of jobs that nobody joins
	kinds   map[kind]int32
	rates   map[kind]*beside.Known[slowdown] // of jobs that look, by their kinds
	widest  int                              // GPUs of the largest node
}

// standing is how a device stands.
type standing struct {
	what what
	host int32      // if it is open
	room unit.Bytes // what is free of its memory
}

// what a device is for a job that looks for some.
type what uint8

const (
	out    what = iota // it takes no new work
	empty              // nobody has it
	open               // a job that could be joined has it
	paired             // two jobs share it
	closed             // who is there is not joined
)

// host is a running job that could be joined.
type host struct {
	id          job.ID
	kind        int32
	left        float64 // see left
	batch       int32   // that it has, and how fast it is alone with that over its own one
	fast        float64
	devices     []cluster.DeviceID
	nodes       []share        // of its devices
	least, most unit.Bytes     // room on its devices
	typ         cluster.TypeID // of its first device
	mixed       bool           // others are of another type
	joined      bool
}

// share is how many devices of a node a host has.
type share struct {
	node    cluster.NodeID
	devices int
}

// kind is what hosts have in common that are alike to a job that looks for partners.
type kind struct{ sort, batch int32 }

// see makes the board where the decision has none yet.
func (f *policy) see(v *sched.View, p *sched.Plan, pool cluster.PoolID) *board {
	b := &f.board
	if b.made && b.pool == pool {
		return b
	}
	c := v.Cluster()
	*b = board{
		made: true, pool: pool, hosts: b.hosts[:0], free: map[cluster.DeviceID]bool{}, kinds: map[kind]int32{}, rates: map[kind]*beside.Known[slowdown]{},
		devices: slices.Grow(b.devices[:0], c.Devices())[:c.Devices()], load: slices.Grow(b.load[:0], c.Nodes())[:c.Nodes()], at: slices.Grow(b.at[:0], c.Nodes())[:c.Nodes()],
	}
	clear(b.devices)
	of := map[job.ID]int32{}
	for j := range v.Running() {
		if j.Pool() == pool && f.partner(v, p, j.ID) {
			of[j.ID] = int32(len(b.hosts))
			b.hosts = append(b.hosts, f.newHost(v, p, j))
		}
	}
	for i, n := range c.PoolNodes(pool) {
		b.at[n] = i
		first, count := c.DeviceRange(n)
		for d := first; d < first+cluster.DeviceID(count); d++ {
			b.devices[d].host = -1
			if on := p.On(d); len(on) == 1 {
				if h, ok := of[on[0]]; ok {
					b.devices[d].host = h
				}
			}
		}
		b.widest = max(b.widest, count)
		b.stand(v, p, n)
	}
	for i := range b.hosts {
		b.hosts[i].measure(b)
	}
	return b
}

// newHost describes a job that could be joined.
func (f *policy) newHost(v *sched.View, p *sched.Plan, j sched.Job) host {
	a, c := p.Alloc(j.ID), v.Cluster()
	k := kind{f.sorts.Of(j), a.Shares[0].Batch}
	if _, known := f.board.kinds[k]; !known {
		f.board.kinds[k] = int32(len(f.board.kinds))
	}
	h := host{id: j.ID, kind: f.board.kinds[k], left: left(j), batch: k.batch, fast: alone(v, j.ID, k.batch), typ: c.TypeOf(a.Shares[0].Device)}
	h.devices = make([]cluster.DeviceID, 0, len(a.Shares))
	for _, s := range a.Shares {
		if n, last := c.NodeOf(s.Device), len(h.nodes)-1; last < 0 || h.nodes[last].node != n {
			h.nodes = append(h.nodes, share{n, 1})
		} else {
			h.nodes[last].devices++
		}
		h.devices = append(h.devices, s.Device)
		h.mixed = h.mixed || c.TypeOf(s.Device) != h.typ
	}
	return h
}

// measure notes what room there is on the devices of a host.
func (h *host) measure(b *board) {
	for i, d := range h.devices {
		room := b.devices[d].room
		if i == 0 {
			h.least, h.most = room, room
		}
		h.least, h.most = min(h.least, room), max(h.most, room)
	}
}

// stand finds out how the devices of a node stand.
func (b *board) stand(v *sched.View, p *sched.Plan, n cluster.NodeID) {
	c := v.Cluster()
	usable := c.Usable(n) && !c.Node(n).Pooled
	first, count := c.DeviceRange(n)
	var jobs []job.ID
	for d := first; d < first+cluster.DeviceID(count); d++ {
		on, s, t := p.On(d), &b.devices[d], c.TypeOf(d)
		for _, id := range on {
			if !slices.Contains(jobs, id) {
				jobs = append(jobs, id)
			}
		}
		b.count(s, t, -1)
		delete(b.free, d)
		s.room = c.DeviceMemoryFree(d)
		switch {
		case !usable || c.Broken(d):
			s.what = out
		case len(on) == 0 && c.DeviceFree(d) == unit.One:
			s.what = empty
			b.free[d] = true
		case len(on) == 2:
			s.what = paired
		case len(on) == 1 && s.host >= 0 && !b.hosts[s.host].joined:
			s.what = open
			if left, told := beside.MemoryLeft(v, p, d); told {
				s.room = min(s.room, left)
			}
		default:
			s.what = closed
		}
		b.count(s, t, 1)
	}
	b.load[n] = len(jobs)
}

// count counts a device among those that are not open.
func (b *board) count(s *standing, t cluster.TypeID, n int) {
	switch s.what {
	case paired:
		b.pairs[t] += n
	case closed:
		b.alone[t] += n
	}
}

// started notes what the plan has started.
func (b *board) started(v *sched.View, p *sched.Plan, id job.ID) {
	if !b.made {
		return
	}
	var nodes []cluster.NodeID
	for _, s := range p.Alloc(id).Shares {
		nodes = append(nodes, v.Cluster().NodeOf(s.Device))
		if h := b.devices[s.Device].host; b.devices[s.Device].what == open {
			b.hosts[h].joined = true
			for _, d := range b.hosts[h].devices {
				nodes = append(nodes, v.Cluster().NodeOf(d))
			}
		}
	}
	slices.Sort(nodes)
	for _, n := range slices.Compact(nodes) {
		b.stand(v, p, n)
	}
}

// before orders nodes: those on which fewer jobs run come first.
func (b *board) before(x, y cluster.NodeID) int {
	if b.load[x] != b.load[y] {
		return cmp.Compare(b.load[x], b.load[y])
	}
	return cmp.Compare(b.at[x], b.at[y])
}

// inOrder puts devices in the order of their nodes.
func (b *board) inOrder(c *cluster.Cluster, devices []cluster.DeviceID) []cluster.DeviceID {
	slices.SortFunc(devices, func(x, y cluster.DeviceID) int {
		return cmp.Or(b.before(c.NodeOf(x), c.NodeOf(y)), cmp.Compare(x, y))
	})
	return devices
}
