package cluster

import (
	"math/bits"

	"github.com/norn-scheduler/norn/cluster/unit"
)

// ShelfID numbers the sets of usable groups of one pool and one GPU type.
type ShelfID int32

// None is the answer of a search that found nothing.
const None = -1

// Shelves are the shelves of a pool in order of GPU type. The slice must not
// be changed.
func (c *Cluster) Shelves(p PoolID) []int32 { return c.pool(p).shelves }

// ShelfType is the GPU type of a shelf.
func (c *Cluster) ShelfType(s ShelfID) TypeID { return c.shelves[s].typ }

// ShelfFree is the number of wholly free devices on a shelf.
func (c *Cluster) ShelfFree(s ShelfID) int { return int(c.shelves[s].free) }

// ShelfLevels is one more than the largest number of free devices that a group
// on the shelf can have; pooled groups aside.
func (c *Cluster) ShelfLevels(s ShelfID) int { return len(c.shelves[s].byFree) }

// NextGroup is the first group, numbered after the given one, with exactly that
// many whole free devices, or None.
func (c *Cluster) NextGroup(s ShelfID, free int, after GroupID) GroupID {
	sets := c.shelves[s].byFree
	if free >= len(sets) {
		return None
	}
	return GroupID(sets[free].Next(int(after) + 1))
}

// NextPooled is the first pooled group after the given one, or None.
func (c *Cluster) NextPooled(s ShelfID, after GroupID) GroupID {
	return GroupID(c.shelves[s].pooled.Next(int(after) + 1))
}

// BestPartial is the device in partial use with the least left that still has
// that much, and as much memory, lowest number first; or None.
func (c *Cluster) BestPartial(s ShelfID, need unit.Milli, memory unit.Bytes) DeviceID {
	sh := &c.shelves[s]
	for m := sh.partial.Next(int(need)); m >= 0; m = sh.partial.Next(m + 1) {
		set := &sh.partialBy[m]
		for d := set.Min(); d >= 0; d = set.Next(d + 1) {
			if max(0, c.devices[d].memFree) >= memory {
				return DeviceID(d)
			}
		}
	}
	return None
}

// NextPartial is the first device in partial use, numbered after the given
// one, with that much left and as much memory; or None. It looks at every
// device in partial use.
func (c *Cluster) NextPartial(s ShelfID, need unit.Milli, memory unit.Bytes, after DeviceID) DeviceID {
	sh := &c.shelves[s]
	best := None
	for m := sh.partial.Next(int(need)); m >= 0; m = sh.partial.Next(m + 1) {
		set := &sh.partialBy[m]
		for d := set.Next(int(after) + 1); d >= 0 && (best < 0 || d < best); d = set.Next(d + 1) {
			if max(0, c.devices[d].memFree) >= memory {
				best = d
			}
		}
	}
	return DeviceID(best)
}

// PartsFree is how many parts of that size, each with as much memory, the devices of a
// shelf have left; it stops counting at most.
func (c *Cluster) PartsFree(s ShelfID, part unit.Milli, memory unit.Bytes, most int) int {
	sh := &c.shelves[s]
	n := int(sh.free) * int(unit.One/part)
	for m := sh.partial.Next(int(part)); m >= 0 && n < most; m = sh.partial.Next(m + 1) {
		for d := range sh.partialBy[m].All() {
			parts := m / int(part)
			if memory > 0 {
				parts = min(parts, int(max(0, c.devices[d].memFree)/memory))
			}
			if n += parts; n >= most {
				break
			}
		}
	}
	return min(n, most)
}

// GroupNode is the node of a group.
func (c *Cluster) GroupNode(g GroupID) NodeID { return c.groups[g].node }

// GroupFree is the number of wholly free devices of a group.
func (c *Cluster) GroupFree(g GroupID) int { return int(c.groups[g].free) }

// GroupCount is the number of devices of a group.
func (c *Cluster) GroupCount(g GroupID) int { return int(c.groups[g].count) }

// GroupPooled tells whether a group counts its devices instead of telling them
// apart.
func (c *Cluster) GroupPooled(g GroupID) bool { return c.groups[g].pooled }

// GroupOf is the group of a device.
func (c *Cluster) GroupOf(d DeviceID) GroupID { return c.devices[d].group }

// NodeGroups are the groups of a node. The slice must not be changed.
func (c *Cluster) NodeGroups(id NodeID) []GroupID { return c.nodes[id].groups }

// GroupType is the GPU type of a group.
func (c *Cluster) GroupType(g GroupID) TypeID { return c.groups[g].typ }

// AppendWhole appends shares of n whole free devices of a group: the best
// linked ones where the links are known, else the lowest numbered. The group
// must have as many. Nothing is booked.
func (c *Cluster) AppendWhole(shares []Share, gid GroupID, n int, memory unit.Bytes) []Share {
	g := &c.groups[gid]
	if g.pooled {
		return append(shares, Share{Device: g.first, Milli: int32(n) * 1000, Memory: memory * unit.Bytes(n)})
	}
	mask := lowest(g.mask, n)
	if links := c.nodes[g.node].spec.Links; links != nil && n > 1 && n < int(g.free) {
		first, _ := c.DeviceRange(g.node)
		mask = links.best(g.mask, int(g.first-first), n)
	}
	for ; mask != 0; mask &= mask - 1 {
		shares = append(shares, Share{Device: g.first + DeviceID(bits.TrailingZeros64(mask)), Milli: 1000, Memory: memory})
	}
	return shares
}

// NextRoom is the first usable node of a pool, numbered after the given one,
// with any CPU left; or None.
func (c *Cluster) NextRoom(p PoolID, after NodeID) NodeID {
	return NodeID(c.pool(p).room.Next(int(after) + 1))
}

// best picks n of the free devices. From every start it grows a set by the
// device with the fastest links to those chosen. It takes the set with the
// largest sum of link speeds, and of equals the one with the lowest numbers.
// offset is the index in the node of bit zero.
func (l *Links) best(free uint64, offset, n int) uint64 {
	var best uint64
	bestSum := -1.0
	for starts := free; starts != 0; starts &= starts - 1 {
		chosen, sum := starts&-starts, 0.0
		for range n - 1 {
			next, gain := uint64(0), -1.0
			for rest := free &^ chosen; rest != 0; rest &= rest - 1 {
				g := l.speedTo(bits.TrailingZeros64(rest)+offset, chosen, offset)
				if g > gain {
					next, gain = rest&-rest, g
				}
			}
			chosen |= next
			sum += gain
		}
		if sum > bestSum {
			best, bestSum = chosen, sum
		}
	}
	return best
}

func (l *Links) speedTo(device int, chosen uint64, offset int) float64 {
	sum := 0.0
	for ; chosen != 0; chosen &= chosen - 1 {
		sum += l.Between(device, bits.TrailingZeros64(chosen)+offset).GBps
	}
	return sum
}

// FirstFree is the lowest numbered wholly free device of a group, or the one
// device that counts those of a pooled group. The group must have one.
func (c *Cluster) FirstFree(gid GroupID) DeviceID {
	g := &c.groups[gid]
	if g.pooled {
		return g.first
	}
	return g.first + DeviceID(bits.TrailingZeros64(g.mask))
}

// Sized is the number of groups of exactly so many devices on a shelf, whether
// their nodes are usable or not; pooled groups aside.
func (c *Cluster) Sized(s ShelfID, devices int) int { return at(c.shelves[s].sized, devices) }

// WhollyFree is the number of groups of exactly so many devices, all of which
// are free; pooled groups aside.
func (c *Cluster) WhollyFree(s ShelfID, devices int) int { return at(c.shelves[s].whole, devices) }

func at(counts []int32, i int) int {
	if i < len(counts) {
		return int(counts[i])
	}
	return 0
}

// Broken tells whether a device takes no new work: it is defect, or others use what
// jobs hold of it.
func (c *Cluster) Broken(d DeviceID) bool { return c.devices[d].broken || c.devices[d].free < 0 }

// Defect tells whether a device is out of use (SetBroken).
func (c *Cluster) Defect(d DeviceID) bool { return c.devices[d].broken }
