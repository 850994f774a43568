package engine

import (
	"slices"

	"github.com/norn-scheduler/norn/cluster"
	"github.com/norn-scheduler/norn/cluster/unit"
	"github.com/norn-scheduler/norn/job"
)

// drains keeps which jobs are still leaving what they had, and which jobs wait
// for that. It is empty wherever leaving takes no time, and allocates nothing
// once warm.
//
// The ledger has booked the newcomers, and no leaver any more. A newcomer waits
// for every leaver of a device that is told apart. For what is only counted (CPU,
// memory and counted resources of a node, devices of a pooled group) it waits while leavers use
// more of it than is free, or booked for newcomers that have not begun.
type drains struct {
	leaving []leaver
	waiting []waiter
	ready   []job.ID // scratch of left

	nodes  []counted // by node, as far as any was needed
	groups []counted // by device, of pooled groups alone, as far as any was needed

	spareAllocs []*cluster.Alloc
	spareJobs   [][]job.ID
}

type leaver struct {
	id    job.ID
	alloc *cluster.Alloc // empty where it is not known any more
}

type waiter struct {
	id    job.ID
	alloc *cluster.Alloc
	on    []job.ID // the leavers of its devices
}

// counted is how much leavers still use of a node or of a pooled group, and how
// much of it is booked for newcomers that have not begun.
type counted struct{ leaving, booked amounts }

// amounts are cores, main memory and counted resources of a node, or device time and
// device memory of a pooled group.
type amounts struct {
	time   unit.Milli
	memory unit.Bytes
	slots  cluster.Slots
}

func (a *amounts) add(times int64, each *amounts) {
	a.time += unit.Milli(times) * each.time
	a.memory += unit.Bytes(times) * each.memory
	a.slots.Add(times, &each.slots)
}

// short tells whether leavers still use some of what somebody asks for, when so
// much is free in the ledger.
func (k *counted) short(asks, free *amounts) bool {
	for i, n := range asks.slots {
		if lacks(n, free.slots[i], k.leaving.slots[i], k.booked.slots[i]) {
			return true
		}
	}
	return lacks(asks.time, free.time, k.leaving.time, k.booked.time) || lacks(asks.memory, free.memory, k.leaving.memory, k.booked.memory)
}

func lacks[T ~int64](asks, free, leaving, booked T) bool {
	return asks > 0 && leaving > 0 && leaving > free+booked
}

// endless is what is free where nothing is accounted.
const endless = 1 << 60

// pop takes an empty slice that was used before, or nil.
func pop[T any](spare *[][]T) []T {
	n := len(*spare)
	if n == 0 {
		return nil
	}
	s := (*spare)[n-1][:0]
	*spare = (*spare)[:n-1]
	return s
}

// copied is a copy of an Alloc, which may be nil.
func (d *drains) copied(a *cluster.Alloc) *cluster.Alloc {
	var own *cluster.Alloc
	if n := len(d.spareAllocs); n > 0 {
		own = d.spareAllocs[n-1]
		d.spareAllocs = d.spareAllocs[:n-1]
		own.Reset()
	} else {
		own = &cluster.Alloc{Pieces: make([]cluster.Piece, 0, 4), Shares: make([]cluster.Share, 0, 8)}
	}
	if a != nil {
		own.CopyFrom(a)
	}
	return own
}

// at is the count of a node or device, for which it makes room.
func at[T ~int32](all *[]counted, i T) *counted {
	if int(i) >= len(*all) {
		*all = append(*all, make([]counted, int(i)+1-len(*all))...)
	}
	return &(*all)[i]
}

// count adds an Alloc to what is in use of nodes and pooled groups, or takes it
// away: that of a leaver, or that of a newcomer which has not begun.
func (d *drains) count(c *cluster.Cluster, a *cluster.Alloc, sign int64, leaver bool) {
	side := func(k *counted) *amounts {
		if leaver {
			return &k.leaving
		}
		return &k.booked
	}
	for i := range a.Pieces {
		if asks, some := asked(a, i); some {
			side(at(&d.nodes, a.Pieces[i].Node)).add(sign, &asks)
		}
	}
	for i := range a.Shares {
		if s := &a.Shares[i]; c.GroupPooled(c.GroupOf(s.Device)) {
			side(at(&d.groups, s.Device)).add(sign, &amounts{time: unit.Milli(s.Milli), memory: s.Memory})
		}
	}
}

// asked is what a piece of an Alloc has of its node beside devices, if anything.
func asked(a *cluster.Alloc, i int) (asks amounts, some bool) {
	p := &a.Pieces[i]
	if p.CPU == 0 && p.Memory == 0 && len(a.Slots) == 0 {
		return asks, false
	}
	asks.time, asks.memory = p.CPU, p.Memory
	if len(a.Slots) > 0 {
		asks.slots.Add(int64(p.Tasks), &a.Slots[p.Role])
	}
	return asks, true
}

// short tells whether leavers still use some of what an Alloc counts.
func (d *drains) short(c *cluster.Cluster, a *cluster.Alloc) bool {
	for i := range a.Pieces {
		node := a.Pieces[i].Node
		asks, some := asked(a, i)
		if !some {
			continue
		}
		free := amounts{endless, endless, c.SlotsFree(node)}
		if cpu, accounted := c.CPUFree(node); accounted {
			free.time = cpu
		}
		if memory, accounted := c.MemoryFree(node); accounted {
			free.memory = memory
		}
		over := c.Overbooked(node) // what is free is then less than nothing
		free.time, free.memory = free.time-over.CPU, free.memory-over.Memory
		if at(&d.nodes, node).short(&asks, &free) {
			return true
		}
	}
	for i := range a.Shares {
		s := &a.Shares[i]
		if !c.GroupPooled(c.GroupOf(s.Device)) {
			continue
		}
		asks := amounts{time: unit.Milli(s.Milli), memory: s.Memory}
		free := amounts{time: c.DeviceFree(s.Device), memory: c.DeviceMemoryFree(s.Device)}
		if at(&d.groups, s.Device).short(&asks, &free) {
			return true
		}
	}
	return false
}

// leave notes that a job is leaving what it had; nil: it is not known any more.
func (d *drains) leave(c *cluster.Cluster, id job.ID, alloc *cluster.Alloc) {
	own := d.copied(alloc)
	d.leaving = append(d.leaving, leaver{id, own})
	d.count(c, own, 1, true)
}

// expect notes that newcomers are booked, of which blocks will be asked next, in
// the same order.
func (d *drains) expect(c *cluster.Cluster, a *cluster.Alloc) {
	if len(d.leaving) > 0 {
		d.count(c, a, 1, false)
	}
}

// blocks tells whether a newcomer that was expected must wait until others have
// left, and if so notes that.
func (d *drains) blocks(c *cluster.Cluster, id job.ID, a *cluster.Alloc) bool {
	if len(d.leaving) == 0 {
		return false
	}
	on := pop(&d.spareJobs)
	for _, l := range d.leaving {
		if d.meet(c, a, l.alloc) {
			on = append(on, l.id)
		}
	}
	d.count(c, a, -1, false)
	if len(on) == 0 && !d.short(c, a) {
		d.spareJobs = append(d.spareJobs, on)
		return false
	}
	d.wait(c, id, a, on)
	return true
}

// meet tells whether two Allocs have a device in common that is told apart.
func (d *drains) meet(c *cluster.Cluster, a, b *cluster.Alloc) bool {
	for i := range a.Shares {
		device := a.Shares[i].Device
		for j := range b.Shares {
			if b.Shares[j].Device == device && !c.GroupPooled(c.GroupOf(device)) {
				return true
			}
		}
	}
	return false
}

// wait notes that a job waits until others have left.
func (d *drains) wait(c *cluster.Cluster, id job.ID, a *cluster.Alloc, on []job.ID) {
	own := d.copied(a)
	d.waiting = append(d.waiting, waiter{id, own, on})
	d.count(c, own, 1, false)
}

// resume notes that a job was assigned devices before a restart. It is no
// longer known which leaving jobs it waits for, so it waits for all of them.
func (d *drains) resume(c *cluster.Cluster, id job.ID, a *cluster.Alloc) {
	on := pop(&d.spareJobs)
	for _, l := range d.leaving {
		on = append(on, l.id)
	}
	d.wait(c, id, a, on)
}

// forget notes that a job no longer waits.
func (d *drains) forget(c *cluster.Cluster, id job.ID) {
	for i, w := range d.waiting {
		if w.id == id {
			d.count(c, w.alloc, -1, false)
			d.spare(w)
			d.waiting = slices.Delete(d.waiting, i, i+1)
			return
		}
	}
}

func (d *drains) spare(w waiter) {
	d.spareJobs, d.spareAllocs = append(d.spareJobs, w.on), append(d.spareAllocs, w.alloc)
}

// left notes that a job has left, and returns the jobs that may begin, in the
// order in which they were assigned what they wait for. With no job it looks only
// whether others have made room. The slice is valid until the next call.
func (d *drains) left(c *cluster.Cluster, id job.ID) (ready []job.ID) {
	d.ready = d.ready[:0]
	if i := slices.IndexFunc(d.leaving, func(l leaver) bool { return l.id == id }); i >= 0 {
		alloc := d.leaving[i].alloc
		d.count(c, alloc, -1, true)
		d.spareAllocs = append(d.spareAllocs, alloc)
		d.leaving = slices.Delete(d.leaving, i, i+1)
	}
	kept := d.waiting[:0]
	for _, w := range d.waiting {
		if i := slices.Index(w.on, id); i >= 0 {
			w.on = slices.Delete(w.on, i, i+1)
		}
		if len(w.on) == 0 && d.begins(c, w.alloc) {
			d.ready = append(d.ready, w.id)
			d.spare(w)
		} else {
			kept = append(kept, w)
		}
	}
	d.waiting = kept
	return d.ready
}

// begins tells whether a newcomer that waited may begin. It then counts as one
// that has.
func (d *drains) begins(c *cluster.Cluster, a *cluster.Alloc) bool {
	d.count(c, a, -1, false)
	if d.short(c, a) {
		d.count(c, a, 1, false)
		return false
	}
	return true
}
