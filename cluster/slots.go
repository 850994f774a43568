package cluster

import (
	"fmt"
	"slices"
	"strings"
)

// MaxSlots is the largest number of counted resources of a cluster, and MostSlots
// the largest amount of one that a node has.
const (
	MaxSlots  = 6
	MostSlots = 1 << 50
)

// Slots are amounts of the counted resources of a cluster, by their numbers: what
// nodes have beside devices, cores and memory, such as pods, RDMA adapters or huge
// pages. A node has none of what it does not tell.
type Slots [MaxSlots]int64

// slotBook is the ledger of the counted resources.
type slotBook struct {
	slots     []string // names
	slotsFree []Slots  // by node, as far as any has some
}

// SlotNamed tells whether a counted resource can have a name.
func SlotNamed(name string) bool {
	odd := func(r rune) bool {
		return !(r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' || strings.ContainsRune("._-/", r))
	}
	return name != "" && len(name) <= 63 && strings.IndexFunc(name, odd) < 0
}

// AddSlot makes a counted resource known and returns its number; a name already
// known keeps its number. It fails on a name that is none, and beyond MaxSlots.
func (c *slotBook) AddSlot(name string) (int, error) {
	if id, known := c.SlotByName(name); known {
		return id, nil
	}
	switch {
	case !SlotNamed(name):
		return 0, fmt.Errorf("%q is no name of a counted resource: write letters, digits and ._-/, at most 63", name)
	case len(c.slots) == MaxSlots:
		return 0, fmt.Errorf("counted resource %s: a cluster has at most %d", name, MaxSlots)
	}
	c.slots = append(c.slots, name)
	return len(c.slots) - 1, nil
}

// SlotByName finds a counted resource.
func (c *slotBook) SlotByName(name string) (int, bool) {
	id := slices.Index(c.slots, name)
	return id, id >= 0
}

// SlotNames are the counted resources in the order of their numbers. The slice must
// not be changed.
func (c *slotBook) SlotNames() []string { return c.slots }

// SlotsFree is what is left of the counted resources of a node.
func (c *slotBook) SlotsFree(id NodeID) Slots {
	if int(id) >= len(c.slotsFree) {
		return Slots{}
	}
	return c.slotsFree[id]
}

// Tasks is for how many tasks that need each of these amounts all suffices. It
// stops counting at most.
func (s *Slots) Tasks(each *Slots, most int) int {
	for i, n := range each {
		if n > 0 {
			most = int(min(int64(most), max(0, s[i])/n))
		}
	}
	return most
}

// Add adds the amounts that tasks need each, as many times.
func (s *Slots) Add(times int64, each *Slots) {
	for i, n := range each {
		s[i] += times * n
	}
}

// checkSlots says what is wrong with the counted resources of a node.
func (c *slotBook) checkSlots(spec *NodeSpec) error {
	for i, n := range spec.Slots {
		switch {
		case n < 0 || n > MostSlots:
			return fmt.Errorf("node %q: %d of a counted resource; from 0 to 2^50 is allowed", spec.Name, n)
		case n > 0 && i >= len(c.slots):
			return fmt.Errorf("node %q: unknown counted resource %d", spec.Name, i)
		}
	}
	return nil
}

// addSlots gives a node more of the counted resources.
func (c *slotBook) addSlots(id NodeID, more Slots) {
	if more == (Slots{}) {
		return
	}
	for len(c.slotsFree) <= int(id) {
		c.slotsFree = append(c.slotsFree, Slots{})
	}
	c.slotsFree[id].Add(1, &more)
}

// takeSlots books the counted resources of an Alloc. It fails, and changes nothing,
// when a node has too little of one.
func takeSlots(c *Cluster, a *Alloc, stays bool) error {
	for i := range a.Pieces {
		p := &a.Pieces[i]
		free, each := c.SlotsFree(p.Node), &a.Slots[p.Role]
		if u, used := c.foreign[p.Node]; stays && used {
			free.Add(1, &u.now.Slots)
		}
		if int64(p.Tasks) > 0 && free.Tasks(each, int(p.Tasks)) < int(p.Tasks) {
			c.bookSlots(a, i, -1)
			return &ShortError{c.nodes[p.Node].spec.Name, c.short(&free, each, p.Tasks)}
		}
		c.bookPieceSlots(p, a, 1)
	}
	return nil
}

// ShortError is the error of an Alloc that needs more of a counted resource than is
// left.
type ShortError struct{ Node, Slot string }

func (e *ShortError) Error() string {
	return fmt.Sprintf("node %s has too little %s left", e.Node, e.Slot)
}

// short is the first resource of which too little is left for so many tasks.
func (c *slotBook) short(free, each *Slots, tasks int32) string {
	for i, n := range each {
		if n > 0 && max(0, free[i])/n < int64(tasks) {
			return c.slots[i]
		}
	}
	return ""
}

// bookSlots books (sign 1) or gives back (sign -1) the counted resources of the
// first n pieces of an Alloc.
func (c *slotBook) bookSlots(a *Alloc, n int, sign int64) {
	for i := range a.Pieces[:n] {
		c.bookPieceSlots(&a.Pieces[i], a, sign)
	}
}

func (c *slotBook) bookPieceSlots(p *Piece, a *Alloc, sign int64) {
	if int(p.Node) < len(c.slotsFree) {
		c.slotsFree[p.Node].Add(-sign*int64(p.Tasks), &a.Slots[p.Role])
	}
}
