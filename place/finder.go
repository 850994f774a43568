package place

import (
	"slices"

	"github.com/norn-scheduler/norn/cluster"
	"github.com/norn-scheduler/norn/cluster/unit"
	"github.com/norn-scheduler/norn/job"
)

// order is in which order groups of devices are tried.
type order uint8

const (
	fewestFirst order = iota // fewest free devices first
	mostFirst
	byNumber
	shuffled
)

// give appends n whole devices of a group to the Alloc as single-device tasks
// of the first role.
func (r *Request) give(g cluster.GroupID, n int) {
	before := len(r.Out.Shares)
	r.Out.Shares = r.Cluster.AppendWhole(r.Out.Shares, g, n, r.Demand.Roles[0].GPUMemory)
	r.Out.Pieces = append(r.Out.Pieces, cluster.Piece{Node: r.Cluster.GroupNode(g), Tasks: int32(n), Shares: int32(len(r.Out.Shares) - before)})
}

// inNode finds devices in one node, on one shelf.
func (r *Request) inNode(need int) bool {
	r.Out.Reset()
	g := r.bestFit(r.shelves[0], need)
	if g != cluster.None {
		r.give(g, need)
	}
	return g != cluster.None
}

// consolidate finds devices on as few nodes as can be, on one shelf. Of wholly
// free nodes it takes the largest first, lowest numbers first, until one node
// has room for the rest.
func (r *Request) consolidate(need int) bool {
	if r.inNode(need) {
		return true
	}
	shelf := r.shelves[0]
	r.countSizes(shelf)
	most := len(r.sizes) - 1
	nodes := r.fewest(need)
	if need <= most || nodes == 0 {
		return false
	}
	last := cluster.GroupID(cluster.None)
	for size := most; size > 0 && nodes > 0 && (nodes-1)*size+most >= need; {
		if last = r.nextWhole(shelf, size, last); last == cluster.None {
			size--
			continue
		}
		r.give(last, size)
		need, nodes = need-size, nodes-1
		if need == 0 || nodes > 0 && need < most && r.rest(shelf, need, size, last) {
			return true
		}
	}
	r.Out.Reset()
	return false
}

// countSizes counts the groups of a shelf by their size.
func (r *Request) countSizes(shelf cluster.ShelfID) {
	r.sizes = r.sizes[:0]
	for k := range r.Cluster.ShelfLevels(shelf) {
		r.sizes = append(r.sizes, int32(r.Cluster.Sized(shelf, k)))
	}
}

// fewest is the smallest number of groups, of the sizes that were counted, that
// could hold a gang if nothing else ran; 0: all of them could not.
func (r *Request) fewest(need int) int {
	groups := 0
	for size := len(r.sizes) - 1; size > 0 && need > 0; size-- {
		n := min(int(r.sizes[size]), (need+size-1)/size)
		groups += n
		need -= n * size
	}
	if need > 0 {
		return 0
	}
	return groups
}

// nextWhole is the next group of a size, after the given one, that is wholly
// free; or None.
func (r *Request) nextWhole(shelf cluster.ShelfID, size int, after cluster.GroupID) cluster.GroupID {
	if r.Cluster.WhollyFree(shelf, size) == 0 {
		return cluster.None
	}
	g := r.Cluster.NextGroup(shelf, size, after)
	for g != cluster.None && r.Cluster.GroupCount(g) > size { // a larger one, partly in use
		g = r.Cluster.NextGroup(shelf, size, g)
	}
	return g
}

// rest gives what is left of a gang from the group with the fewest free devices
// that suffice. The wholly free groups down to the given size, and of that size
// up to the last one, have been given already.
func (r *Request) rest(shelf cluster.ShelfID, need, size int, last cluster.GroupID) bool {
	for k := need; k < r.Cluster.ShelfLevels(shelf); k++ {
		for g := r.Cluster.NextGroup(shelf, k, cluster.None); g != cluster.None; g = r.Cluster.NextGroup(shelf, k, g) {
			given := r.Cluster.GroupCount(g) == k && (k > size || k == size && g <= last)
			if !given {
				r.give(g, need)
				return true
			}
		}
	}
	return false
}

// bestFit is the group with the fewest free devices that has enough, or None.
// Pooled groups are the last resort.
func (r *Request) bestFit(shelf cluster.ShelfID, need int) cluster.GroupID {
	for k := need; k < r.Cluster.ShelfLevels(shelf); k++ {
		if g := r.Cluster.NextGroup(shelf, k, cluster.None); g != cluster.None {
			return g
		}
	}
	best := cluster.GroupID(cluster.None)
	for g := r.Cluster.NextPooled(shelf, cluster.None); g != cluster.None; g = r.Cluster.NextPooled(shelf, g) {
		if free := r.Cluster.GroupFree(g); free >= need && (best == cluster.None || free < r.Cluster.GroupFree(best)) {
			best = g
		}
	}
	return best
}

// anywhere takes devices from group after group in the order of the search.
func (r *Request) anywhere(need int) bool {
	r.Out.Reset()
	r.eachGroup(func(g cluster.GroupID) bool {
		n := min(need, r.Cluster.GroupFree(g))
		if n > 0 {
			r.give(g, n)
			need -= n
		}
		return need > 0
	})
	if need > 0 {
		r.Out.Reset()
	}
	return need == 0
}

// eachGroup calls visit on every group with a free device, in the order of the
// search, until it returns false.
func (r *Request) eachGroup(visit func(cluster.GroupID) bool) {
	switch r.order {
	case byNumber:
		for g := r.nextByNumber(cluster.None); g != cluster.None && visit(g); g = r.nextByNumber(g) {
		}
		return
	case shuffled:
		r.groups = r.groups[:0]
		for g := r.nextByNumber(cluster.None); g != cluster.None; g = r.nextByNumber(g) {
			r.groups = append(r.groups, g)
		}
		r.Rand.Shuffle(len(r.groups), func(i, j int) { r.groups[i], r.groups[j] = r.groups[j], r.groups[i] })
		for _, g := range r.groups {
			if !visit(g) {
				return
			}
		}
		return
	}
	levels := 0
	for _, s := range r.shelves {
		levels = max(levels, r.Cluster.ShelfLevels(s))
	}
	for i := 1; i < levels; i++ {
		k := i
		if r.order == mostFirst {
			k = levels - i
		}
		for _, s := range r.shelves {
			for g := r.Cluster.NextGroup(s, k, cluster.None); g != cluster.None; g = r.Cluster.NextGroup(s, k, g) {
				if !visit(g) {
					return
				}
			}
		}
	}
	for _, s := range r.shelves {
		for g := r.Cluster.NextPooled(s, cluster.None); g != cluster.None; g = r.Cluster.NextPooled(s, g) {
			if r.Cluster.GroupFree(g) > 0 && !visit(g) {
				return
			}
		}
	}
}

// nextByNumber is the next group with a free device, over all shelves of the
// search.
func (r *Request) nextByNumber(after cluster.GroupID) cluster.GroupID {
	best := cluster.GroupID(cluster.None)
	for _, s := range r.shelves {
		for k := 1; k < r.Cluster.ShelfLevels(s); k++ {
			if g := r.Cluster.NextGroup(s, k, after); g != cluster.None && (best == cluster.None || g < best) {
				best = g
			}
		}
		for g := r.Cluster.NextPooled(s, after); g != cluster.None; g = r.Cluster.NextPooled(s, g) {
			if r.Cluster.GroupFree(g) > 0 {
				if best == cluster.None || g < best {
					best = g
				}
				break
			}
		}
	}
	return best
}

// roomy is a rack and its free devices.
type roomy struct {
	rack cluster.DomainID
	free int
}

// byRoom lists the racks with at least so many free devices of the types of the
// search, fewest first.
func (r *Request) byRoom(least int) {
	r.racks = r.racks[:0]
	var mask cluster.TypeMask
	for _, s := range r.shelves {
		mask |= 1 << r.Cluster.ShelfType(s)
	}
	for d := range cluster.DomainID(r.Cluster.Domains()) {
		if free := r.Cluster.DomainOwnFree(d, r.Pool, mask); free >= least && len(r.Cluster.DomainNodes(d)) > 0 {
			r.racks = append(r.racks, roomy{d, free})
		}
	}
	slices.SortStableFunc(r.racks, func(a, b roomy) int { return a.free - b.free })
}

// inRack finds devices on as few nodes as possible in the rack with the fewest
// free ones that suffice. Nodes with the most free devices come first, and the
// rest goes to the best fit.
func (r *Request) inRack(need int) bool {
	r.Out.Reset()
	r.byRoom(need)
	if len(r.racks) == 0 {
		return false
	}
	typ := r.Cluster.ShelfType(r.shelves[0])
	r.groups = r.groups[:0]
	for _, node := range r.Cluster.DomainNodes(r.racks[0].rack) {
		if !r.Cluster.In(node, r.Pool) || !r.Cluster.Usable(node) {
			continue
		}
		for _, g := range r.Cluster.NodeGroups(node) {
			if r.Cluster.GroupType(g) == typ && r.Cluster.GroupFree(g) > 0 {
				r.groups = append(r.groups, g)
			}
		}
	}
	slices.SortStableFunc(r.groups, func(a, b cluster.GroupID) int {
		return r.Cluster.GroupFree(b) - r.Cluster.GroupFree(a)
	})
	for i, g := range r.groups {
		if r.Cluster.GroupFree(g) < need {
			r.give(g, r.Cluster.GroupFree(g))
			need -= r.Cluster.GroupFree(g)
			continue
		}
		for _, next := range r.groups[i+1:] {
			if free := r.Cluster.GroupFree(next); free >= need && free < r.Cluster.GroupFree(g) {
				g = next
			}
		}
		r.give(g, need)
		return true
	}
	r.Out.Reset()
	return false
}

// general places gangs of any shape, role by role and task by task.
func (r *Request) general() bool {
	switch r.style {
	case together:
		return r.roles(true)
	case packed:
		return r.roles(true) || r.roles(false)
	case racked:
		return r.generalRack()
	}
	return r.roles(false)
}

// generalRack places a gang of any shape in one rack, or else together.
func (r *Request) generalRack() bool {
	least := r.GPUs()
	if r.Demand.Roles[0].GPU < unit.One {
		least = 0 // parts of devices may do
	}
	r.byRoom(least)
	defer func() { r.rack = cluster.None }()
	for _, oneNode := range []bool{true, false} {
		for i := range r.racks {
			if r.rack = r.racks[i].rack; r.roles(oneNode) && (!oneNode || r.Out.Nodes() == 1) {
				return true
			}
		}
	}
	r.rack = cluster.None
	return r.roles(true)
}

// roles places role after role. It books devices as it finds them, so that
// later tasks see that, and gives them back at the end.
func (r *Request) roles(close bool) bool {
	r.Out.Reset()
	r.used = 0
	mark := r.Cluster.Mark()
	defer r.Cluster.Undo(mark)
	for i := range r.Demand.Roles {
		role := &r.Demand.Roles[i]
		tasks := int(role.Tasks)
		if i == 0 {
			tasks = int(r.Tasks)
		}
		if tasks > 0 && !r.role(uint8(i), role, tasks, close) {
			r.Out.Reset()
			return false
		}
	}
	return true
}

// inside tells whether a node is where the gang must stay.
func (r *Request) inside(node cluster.NodeID) bool {
	return r.rack == cluster.None || r.Cluster.Node(node).Domain == r.rack
}

// part is an empty Alloc that lives until the gang is placed.
func (r *Request) part() *cluster.Alloc {
	if r.used == len(r.parts) {
		r.parts = append(r.parts, new(cluster.Alloc))
	}
	a := r.parts[r.used]
	r.used++
	a.Reset()
	return a
}

// book books a part and appends it to the answer, joined with the last piece
// when both serve the same role in the same node.
func (r *Request) book(a *cluster.Alloc) bool {
	a.Slots = r.Slots
	if r.Cluster.Allocate(a) != nil {
		return false
	}
	p := a.Pieces[0]
	r.Out.Shares = append(r.Out.Shares, a.Shares...)
	if n := len(r.Out.Pieces); n > 0 && r.Out.Pieces[n-1].Node == p.Node && r.Out.Pieces[n-1].Role == p.Role {
		last := &r.Out.Pieces[n-1]
		last.Tasks += p.Tasks
		last.Shares += p.Shares
		last.CPU += p.CPU
		last.Memory += p.Memory
		return true
	}
	r.Out.Pieces = append(r.Out.Pieces, p)
	return true
}

// role places the tasks of one role; close says on as few nodes as can be.
func (r *Request) role(index uint8, role *job.Role, tasks int, close bool) bool {
	if r.slots = nil; len(r.Slots) > 0 {
		r.slots = &r.Slots[index]
	}
	switch {
	case role.GPU == 0:
		return r.cpuTasks(index, role, tasks)
	case role.GPU < unit.One:
		for range tasks {
			if !r.partTask(index, role) {
				return false
			}
		}
		return true
	}
	per := int(role.GPU / unit.One)
	if close {
		return r.closeTasks(index, role, tasks, per)
	}
	r.eachGroup(func(g cluster.GroupID) bool {
		if n := min(tasks, r.fits(role, g, per)); n > 0 && r.wholeTasks(index, role, g, n, per) {
			tasks -= n
		}
		return tasks > 0
	})
	return tasks == 0
}

// closeTasks places tasks in one node, the fullest that has room, or else on as
// few nodes as possible. For the latter it fills nodes that have room for as
// many tasks as if nothing else ran. Those that hold most come first, then
// those with the lowest numbers. It stops when the rest fits into one node.
func (r *Request) closeTasks(index uint8, role *job.Role, tasks, per int) bool {
	if r.oneNode(index, role, tasks, per) {
		return true
	}
	if tasks == 1 {
		return false // it cannot be spread
	}
	r.countRooms(role, tasks, per)
	most := len(r.sizes) - 1
	nodes := r.fewest(tasks)
	if most == tasks || nodes == 0 {
		return false // one node could hold it, or all could not
	}
	placed := false
	saved := r.order
	r.order = byNumber
	for size := most; size > 0 && nodes > 0 && (nodes-1)*size+most >= tasks && !placed; size-- {
		if r.sizes[size] == 0 {
			continue
		}
		r.eachGroup(func(g cluster.GroupID) bool {
			if r.room(role, g, per) != size || r.fits(role, g, per) < size || !r.wholeTasks(index, role, g, size, per) {
				return true
			}
			tasks, nodes = tasks-size, nodes-1
			placed = tasks == 0 || nodes > 0 && tasks < most && r.oneNode(index, role, tasks, per)
			return !placed && nodes > 0
		})
	}
	r.order = saved
	return placed
}

// oneNode places tasks in one node, the fullest that has room.
func (r *Request) oneNode(index uint8, role *job.Role, tasks, per int) bool {
	g := r.fullest(role, tasks, per)
	return g != cluster.None && r.wholeTasks(index, role, g, tasks, per)
}

// countRooms counts the groups with devices of the types of the search by the
// number of tasks that they could hold if nothing else ran, at most all.
func (r *Request) countRooms(role *job.Role, tasks, per int) {
	r.sizes = r.sizes[:0]
	for _, id := range r.Cluster.PoolNodes(r.Pool) {
		for _, g := range r.Cluster.NodeGroups(id) {
			if !r.onShelf(r.Cluster.GroupType(g)) {
				continue
			}
			n := min(tasks, r.room(role, g, per))
			for n >= len(r.sizes) {
				r.sizes = append(r.sizes, 0)
			}
			r.sizes[n]++
		}
	}
}

// room is the number of tasks that a group and its node could hold if nothing
// else ran.
func (r *Request) room(role *job.Role, g cluster.GroupID, per int) int {
	n := r.Cluster.GroupCount(g) / per
	node := r.Cluster.Node(r.Cluster.GroupNode(g))
	if node.CPU > 0 && role.CPU > 0 {
		n = min(n, int(node.CPU/role.CPU))
	}
	if node.Memory > 0 && role.Memory > 0 {
		n = min(n, int(node.Memory/role.Memory))
	}
	if r.slots != nil {
		n = node.Slots.Tasks(r.slots, n)
	}
	return n
}

// onShelf tells whether the search is for devices of a type.
func (r *Request) onShelf(t cluster.TypeID) bool {
	return slices.ContainsFunc(r.shelves, func(s cluster.ShelfID) bool { return r.Cluster.ShelfType(s) == t })
}

// fullest is the group with the fewest free devices that can hold all tasks;
// groups that count their devices are the last resort.
func (r *Request) fullest(role *job.Role, tasks, per int) cluster.GroupID {
	saved := r.order
	r.order = fewestFirst
	best := cluster.GroupID(cluster.None)
	r.eachGroup(func(g cluster.GroupID) bool {
		if r.fits(role, g, per) >= tasks && (best == cluster.None || r.Cluster.GroupFree(g) < r.Cluster.GroupFree(best)) {
			best = g
		}
		// Of groups that are told apart the first is the fullest, the others come
		// in the order of their numbers.
		return best == cluster.None || r.Cluster.GroupPooled(best)
	})
	r.order = saved
	return best
}

// fits is the number of tasks that a group and its node have room for.
func (r *Request) fits(role *job.Role, g cluster.GroupID, per int) int {
	node := r.Cluster.GroupNode(g)
	if !r.inside(node) {
		return 0
	}
	return r.beside(node, role, r.Cluster.GroupFree(g)/per)
}

// beside is the number of tasks for which a node has CPU, memory and counted
// resources left, at most so many.
func (r *Request) beside(node cluster.NodeID, role *job.Role, most int) int {
	n := r.Cluster.TasksBeside(node, role.CPU, role.Memory, most)
	if r.slots != nil {
		free := r.Cluster.SlotsFree(node)
		n = free.Tasks(r.slots, n)
	}
	return n
}

// wholeTasks books n tasks of per whole devices each in one group.
func (r *Request) wholeTasks(index uint8, role *job.Role, g cluster.GroupID, n, per int) bool {
	a := r.part()
	a.Shares = r.Cluster.AppendWhole(a.Shares, g, n*per, role.GPUMemory)
	a.Pieces = append(a.Pieces, cluster.Piece{
		Node: r.Cluster.GroupNode(g), Role: index, Tasks: int32(n), Shares: int32(len(a.Shares)),
		CPU: role.CPU * unit.Milli(n), Memory: role.Memory * unit.Bytes(n),
	})
	return r.book(a)
}

// partTask books one task that needs a part of a device: the device in partial
// use with the least left that suffices, or else a whole one.
func (r *Request) partTask(index uint8, role *job.Role) bool {
	c := r.Cluster
	for _, s := range r.shelves {
		if d := c.BestPartial(s, role.GPU, role.GPUMemory); d != cluster.None && r.bookPart(index, role, d) {
			return true
		}
	}
	done := false
	r.eachGroup(func(g cluster.GroupID) bool {
		done = r.fits(role, g, 1) > 0 && r.bookPart(index, role, c.FirstFree(g))
		return !done
	})
	if done {
		return true
	}
	// The best device in partial use may sit in a node that is short of CPU,
	// and a pooled group with less than a whole device left is not in order.
	for _, s := range r.shelves {
		for d := c.NextPartial(s, role.GPU, role.GPUMemory, cluster.None); d != cluster.None; d = c.NextPartial(s, role.GPU, role.GPUMemory, d) {
			if r.bookPart(index, role, d) {
				return true
			}
		}
		for g := c.NextPooled(s, cluster.None); g != cluster.None; g = c.NextPooled(s, g) {
			if d := c.FirstFree(g); c.DeviceFree(d) >= role.GPU && r.bookPart(index, role, d) {
				return true
			}
		}
	}
	return false
}

func (r *Request) bookPart(index uint8, role *job.Role, d cluster.DeviceID) bool {
	node := r.Cluster.NodeOf(d)
	if !r.inside(node) || r.beside(node, role, 1) < 1 {
		return false
	}
	a := r.part()
	a.Shares = append(a.Shares, cluster.Share{Device: d, Milli: int32(role.GPU), Memory: role.GPUMemory})
	a.Pieces = append(a.Pieces, cluster.Piece{
		Node: node, Role: index, Tasks: 1, Shares: 1, CPU: role.CPU, Memory: role.Memory,
	})
	return r.book(a)
}

// cpuTasks books tasks that need no device, on the lowest numbered nodes with
// room.
func (r *Request) cpuTasks(index uint8, role *job.Role, tasks int) bool {
	c := r.Cluster
	for node := c.NextRoom(r.Pool, cluster.None); node != cluster.None && tasks > 0; node = c.NextRoom(r.Pool, node) {
		n := r.beside(node, role, tasks)
		if n <= 0 || !r.inside(node) {
			continue
		}
		a := r.part()
		a.Pieces = append(a.Pieces, cluster.Piece{
			Node: node, Role: index, Tasks: int32(n),
			CPU: role.CPU * unit.Milli(n), Memory: role.Memory * unit.Bytes(n),
		})
		if r.book(a) {
			tasks -= n
		}
	}
	return tasks == 0
}
