package crius

import (
	"cmp"
	"slices"

	"github.com/norn-scheduler/norn/cluster"
)

// cell is so many tasks on GPUs of one type.
type cell struct {
	typ   cluster.TypeID
	tasks int
}

// hold is where a job has its cell. It does not change once it is made.
type hold struct {
	cell
	spots []spot // in order of nodes
}

// spot is so many tasks on a node.
type spot struct{ node, tasks int }

// node is the GPUs of one type on a node of the cluster.
type node struct {
	id         cluster.NodeID
	group      cluster.GroupID
	typ        cluster.TypeID
	size, free int // GPUs
}

// ledger is who has which GPUs, in search of something better. What is done to it can be undone.
type ledger struct {
	nodes []node
	kinds []kind // by type
	each  []int  // GPUs of a task, by member
	holds []*hold
	log   []change
}

// kind is the nodes of a GPU type.
type kind struct {
	nodes []int
	size  int // GPUs of the largest of them
	free  int // GPUs of all of them
}

// change is what a member has, or had before.
type change struct {
	member int
	hold   *hold
}

// set gives a member a hold; nil: nothing.
func (l *ledger) set(i int, h *hold) {
	l.log = append(l.log, change{i, l.holds[i]})
	l.put(i, h)
}

func (l *ledger) put(i int, h *hold) {
	l.book(i, l.holds[i], 1)
	l.book(i, h, -1)
	l.holds[i] = h
}

// book gives back the GPUs of a hold, or takes them.
func (l *ledger) book(i int, h *hold, sign int) {
	if h == nil {
		return
	}
	for _, s := range h.spots {
		n := &l.nodes[s.node]
		n.free += sign * s.tasks * l.each[i]
		l.kinds[n.typ].free += sign * s.tasks * l.each[i]
	}
}

// undo takes back all that was done since the log had a length.
func (l *ledger) undo(mark int) {
	for len(l.log) > mark {
		last := l.log[len(l.log)-1]
		l.log = l.log[:len(l.log)-1]
		l.put(last.member, last.hold)
	}
}

// changed are the members that have something else since the log had a length, with what they had
// then, by number.
func (l *ledger) changed(mark int) (all []change) {
	for _, c := range l.log[mark:] {
		if !slices.ContainsFunc(all, func(o change) bool { return o.member == c.member }) {
			all = append(all, c)
		}
	}
	slices.SortFunc(all, func(a, b change) int { return cmp.Compare(a.member, b.member) })
	return slices.DeleteFunc(all, func(c change) bool { return l.holds[c.member] == c.hold })
}

// room is how many tasks of a member have room on the largest nodes of a type; 0: not one.
func (l *ledger) room(i int, t cluster.TypeID) int { return l.kinds[t].size / l.each[i] }

// fewest is on how many nodes a member has a cell together.
func (l *ledger) fewest(i int, c cell) int {
	room := max(1, l.room(i, c.typ))
	return (c.tasks + room - 1) / room
}

// fits tells whether a hold is free.
func (l *ledger) fits(i int, h *hold) bool {
	return !slices.ContainsFunc(h.spots, func(s spot) bool { return l.nodes[s.node].free < s.tasks*l.each[i] })
}

// within tells whether a member may be on a node.
type within func(n *node) bool

// together finds a hold on as few nodes as possible: idle nodes first, and of the others one that has
// most free GPUs. nil: there is none.
func (l *ledger) together(i int, c cell, may within) *hold {
	k, each := &l.kinds[c.typ], l.each[i]
	room := l.room(i, c.typ)
	if room == 0 || k.free < c.tasks*each {
		return nil
	}
	h := &hold{cell: c}
	left := c.tasks
	for _, n := range k.nodes { // idle ones that are filled, or suffice
		if m := &l.nodes[n]; left > 0 && m.free == m.size && m.size/each >= min(left, room) && may(m) {
			h.spots = append(h.spots, spot{n, min(left, room)})
			left -= min(left, room)
		}
	}
	if left == 0 {
		return h
	}
	if left >= room {
		return nil
	}
	best := -1
	for _, n := range k.nodes {
		if m := &l.nodes[n]; m.free/each >= left && (best < 0 || m.free > l.nodes[best].free) && may(m) && !slices.ContainsFunc(h.spots, func(s spot) bool { return s.node == n }) {
			best = n
		}
	}
	if best < 0 {
		return nil
	}
	h.spots = append(h.spots, spot{best, left})
	slices.SortFunc(h.spots, func(a, b spot) int { return cmp.Compare(a.node, b.node) })
	return h
}

// apart finds a hold with so many tasks on each of its nodes, but for the last one: those first that
// have most free GPUs. With 0 tasks it takes all that is free of each node. nil: there is none.
func (l *ledger) apart(i int, c cell, per int, may within) *hold {
	var some []int
	for _, n := range l.kinds[c.typ].nodes {
		if m := &l.nodes[n]; m.free/l.each[i] >= max(per, 1) && may(m) {
			some = append(some, n)
		}
	}
	slices.SortStableFunc(some, func(a, b int) int { return cmp.Compare(l.nodes[b].free, l.nodes[a].free) })
	h := &hold{cell: c}
	left := c.tasks
	for _, n := range some {
		if take := min(left, cmp.Or(per, l.nodes[n].free/l.each[i])); take > 0 {
			h.spots, left = append(h.spots, spot{n, take}), left-take
		}
	}
	if left > 0 {
		return nil
	}
	slices.SortFunc(h.spots, func(a, b spot) int { return cmp.Compare(a.node, b.node) })
	return h
}

// compact has jobs of a type move together, in one round. The nodes of which some GPUs are free are
// paired, that which has most free ones with that which has fewest, and so on. The jobs of each pair
// fill one of the two as far as they can. may tells which member may be where. It is
// false if nobody moved.
func (l *ledger) compact(t cluster.TypeID, may func(member int, n *node) bool) bool {
	on := map[int][]int{} // members by node
	for i, h := range l.holds {
		if h != nil && h.typ == t {
			for _, s := range h.spots {
				on[s.node] = append(on[s.node], i)
			}
		}
	}
	var some []int
	for _, n := range l.kinds[t].nodes {
		if m := &l.nodes[n]; m.free > 0 && m.free < m.size {
			some = append(some, n)
		}
	}
	slices.SortStableFunc(some, func(a, b int) int { return cmp.Compare(l.nodes[b].free, l.nodes[a].free) })
	moved := false
	for len(some) > 1 {
		half := len(some) / 2
		for k := range half {
			moved = l.merge(some[k], some[len(some)-1-k], on, may) || moved
		}
		some = some[:half]
	}
	return moved
}

// merge has the jobs of two nodes fill one of them: those of the emptier one join the others if they
// all find room there, and else the largest come first. It does nothing where one of them is on
// other nodes, too, or may not be where it would, or where it would make nothing better.
func (l *ledger) merge(emptier, fuller int, on map[int][]int, may func(int, *node) bool) bool {
	a, b := &l.nodes[emptier], &l.nodes[fuller]
	if a.free < b.free {
		emptier, fuller, a, b = fuller, emptier, b, a
	}
	all := append(slices.Clone(on[emptier]), on[fuller]...)
	if len(on[emptier]) == 0 || slices.ContainsFunc(all, func(i int) bool { return len(l.holds[i].spots) > 1 }) || a.size != b.size {
		return false
	}
	gpus := func(i int) int { return l.holds[i].tasks * l.each[i] }
	mark, most := len(l.log), max(a.free, b.free)
	var leave []int
	if used := a.size - a.free; used <= b.free {
		leave = on[emptier]
	} else {
		slices.SortStableFunc(all, func(x, y int) int { return cmp.Compare(gpus(y), gpus(x)) })
		leave = all
	}
	at := map[int]*hold{}
	for _, i := range leave {
		at[i] = l.holds[i]
		l.set(i, nil)
	}
	for _, i := range leave {
		to := fuller
		if l.nodes[to].free < at[i].tasks*l.each[i] {
			to = emptier
		}
		if l.nodes[to].free < at[i].tasks*l.each[i] || !may(i, &l.nodes[to]) {
			l.undo(mark)
			return false
		}
		h := at[i]
		if h.spots[0].node != to {
			h = &hold{cell: h.cell, spots: []spot{{to, h.tasks}}}
		}
		l.set(i, h)
	}
	if max(a.free, b.free) <= most {
		l.undo(mark)
		return false
	}
	on[emptier], on[fuller] = nil, nil
	for _, i := range all {
		n := l.holds[i].spots[0].node
		on[n] = append(on[n], i)
	}
	return true
}
