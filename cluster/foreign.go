package cluster

import (
	"fmt"
	"slices"

	"github.com/norn-scheduler/norn/cluster/unit"
)

// Foreign is what others use of a node: whoever runs there without being a job of
// this scheduler. The ledger has as much less to give. Others need not ask, so they
// may use what jobs have; Overbooked tells how much.
type Foreign struct {
	CPU    unit.Milli
	Memory unit.Bytes
	Slots  Slots
	GPUs   []Share // each device at most once; of a pooled group any part of it
}

// use is what others use of a node.
type use struct {
	now   Foreign
	least Foreign // of all since Settle
}

// least is the least of two uses, amount by amount.
func least(f, g *Foreign) Foreign {
	out := Foreign{CPU: min(f.CPU, g.CPU), Memory: min(f.Memory, g.Memory)}
	for i := range out.Slots {
		out.Slots[i] = min(f.Slots[i], g.Slots[i])
	}
	for _, s := range f.GPUs {
		for _, t := range g.GPUs {
			if s.Device == t.Device {
				out.GPUs = append(out.GPUs, Share{Device: s.Device, Milli: min(s.Milli, t.Milli), Memory: min(s.Memory, t.Memory)})
			}
		}
	}
	return out
}

// None tells whether others use nothing.
func (f *Foreign) None() bool {
	return f.CPU == 0 && f.Memory == 0 && f.Slots == (Slots{}) && len(f.GPUs) == 0
}

// Equal tells whether both are the same use.
func (f *Foreign) Equal(g *Foreign) bool {
	return f.CPU == g.CPU && f.Memory == g.Memory && f.Slots == g.Slots && slices.Equal(f.GPUs, g.GPUs)
}

// Foreign is what others use of a node. It must not be changed.
func (c *Cluster) Foreign(id NodeID) Foreign { return c.foreign[id].now }

// Settle says that the first job has come. Others who come to a node later do not change what can
// ever fit (Empty); those who leave do.
func Settle(c *Cluster) { c.settled = true }

// SetForeign says what others use of a node from now on, in place of what was said
// before. It fails, and changes nothing, on amounts that no node has and on devices of
// other nodes. Jobs keep what they have there.
func (c *Cluster) SetForeign(id NodeID, f Foreign) error {
	if err := checkForeign(c, id, &f); err != nil {
		return err
	}
	was := c.Foreign(id)
	if was.Equal(&f) {
		return nil
	}
	usable := c.nodes[id].usable()
	if usable {
		c.unlist(id)
	}
	useForeign(c, id, &was, -1)
	useForeign(c, id, &f, 1)
	if usable {
		c.list(id)
	}
	f.GPUs = slices.Clone(f.GPUs)
	if c.foreign == nil {
		c.foreign = map[NodeID]use{}
	}
	before := c.foreign[id].least
	if !c.settled {
		before = f
	}
	if c.foreign[id] = (use{f, least(&before, &f)}); f.None() {
		delete(c.foreign, id)
	}
	c.version++
	return nil
}

func checkForeign(c *Cluster, id NodeID, f *Foreign) error {
	n := &c.nodes[id]
	bad := func(format string, args ...any) error {
		return fmt.Errorf("use of node %s by others: %s", n.spec.Name, fmt.Sprintf(format, args...))
	}
	if f.CPU < 0 || f.CPU > 1<<40 || f.Memory < 0 || f.Memory > 1<<50 {
		return bad("%v cores and %v of memory", f.CPU, f.Memory)
	}
	for i, amount := range f.Slots {
		if amount < 0 || amount > MostSlots || amount > 0 && i >= len(c.slots) {
			return bad("%d of counted resource %d", amount, i)
		}
	}
	for i, s := range f.GPUs {
		if s.Device < 0 || int(s.Device) >= len(c.devices) || c.NodeOf(s.Device) != id {
			return bad("device number %d is not there", s.Device)
		}
		again := slices.ContainsFunc(f.GPUs[:i], func(x Share) bool { return x.Device == s.Device })
		if s.Milli < 0 || s.Milli > c.devices[s.Device].cap || s.Memory < 0 || s.Memory > unaccounted || again {
			return bad("%v and %v of memory of %s", unit.Milli(s.Milli), s.Memory, c.DeviceName(s.Device))
		}
	}
	return nil
}

// useForeign takes (sign 1) what others use of a node that is in no index, or gives
// it back (sign -1).
func useForeign(c *Cluster, id NodeID, f *Foreign, sign int32) {
	n := &c.nodes[id]
	n.cpuFree -= unit.Milli(sign) * f.CPU
	n.memFree -= unit.Bytes(sign) * f.Memory
	var less Slots
	less.Add(-int64(sign), &f.Slots)
	c.addSlots(id, less)
	for i := range f.GPUs {
		s := &f.GPUs[i]
		d := &c.devices[s.Device]
		g := &c.groups[d.group]
		was := d.left() / 1000
		d.foreign += sign * s.Milli
		d.free -= sign * s.Milli
		d.memFree -= unit.Bytes(sign) * s.Memory
		if whole := d.left()/1000 - was; !d.broken && whole != 0 {
			if g.free += whole; !g.pooled {
				g.mask ^= 1 << (s.Device - g.first)
			}
		}
	}
}

// left is what is left of a device, in milli: none where jobs have what others use.
func (d *device) left() int32 { return max(0, d.free) }

// Overbooked is how much more of a node is in use, by jobs and by others together,
// than it has. Nobody is to blame but those others; jobs go on.
func (c *Cluster) Overbooked(id NodeID) (over Foreign) {
	u, used := c.foreign[id]
	if !used {
		return over
	}
	f := &u.now
	n := &c.nodes[id]
	if n.accountsC {
		over.CPU = max(0, -n.cpuFree)
	}
	if n.accountsM {
		over.Memory = max(0, -n.memFree)
	}
	for i, free := range c.SlotsFree(id) {
		over.Slots[i] = max(0, -free)
	}
	for _, s := range f.GPUs {
		if d := &c.devices[s.Device]; d.free < 0 || d.memFree < 0 {
			over.GPUs = append(over.GPUs, Share{Device: s.Device, Milli: max(0, -d.free), Memory: max(0, -d.memFree)})
		}
	}
	return over
}
