package rmixer

import (
	"cmp"
	"slices"

	"github.com/norn-scheduler/norn/cluster/unit"
	"github.com/norn-scheduler/norn/job"
)

// list is jobs in order. It finds the first or last job that fits in a device
// without looking at most of those that do not. It is cut into blocks, each of
// which knows the least memory that any of its jobs of each class needs.
type list struct {
	blocks []block
	n      int
	items  []item // by job; need < 0: not in the list
}

type block struct {
	items []item
	least [classes]unit.Bytes
}

// item is a waiting job of a closed batch.
type item struct {
	key   key
	need  unit.Bytes // booked on a device; 0: not known
	class int8
	tail  bool  // it stands in the tail of the list
	host  bool  // it can run on processors
	gpu   may   // it can run on a GPU
	kind  int32 // class of its demand
}

// may is what is known of whether something can be.
type may uint8

const (
	unasked may = iota
	can
	cannot
)

// key is the place of a job in the list, least first.
type key struct {
	A, B int64
	ID   job.ID
}

func (k key) compare(o key) int {
	if k.A != o.A {
		return cmp.Compare(k.A, o.A)
	}
	if k.B != o.B {
		return cmp.Compare(k.B, o.B)
	}
	return cmp.Compare(k.ID, o.ID)
}

// classes is how many classes there are; those of jobs are from -1 to 1.
const classes = 3

const (
	full = 256
	none = unit.Bytes(1) << 60 // more than any device has
)

// has tells whether a job is in the list.
func (l *list) has(id job.ID) bool { return int(id) < len(l.items) && l.items[id].need >= 0 }

// reach makes room for a job by its number.
func (l *list) reach(id job.ID) {
	if n := int(id) + 1 - len(l.items); n > 0 {
		l.items = append(l.items, slices.Repeat([]item{{need: -1}}, max(n, full, len(l.items)/2))...)
	}
}

// add puts a job in, or changes what is known of it.
func (l *list) add(it item) {
	id := it.key.ID
	l.remove(id)
	l.reach(id)
	l.items[id] = it
	l.n++
	if len(l.blocks) == 0 {
		l.blocks = append(l.blocks, block{items: []item{it}})
		l.blocks[0].measure()
		return
	}
	b := l.block(it.key)
	at, _ := slices.BinarySearchFunc(l.blocks[b].items, it.key, func(x item, k key) int { return x.key.compare(k) })
	l.blocks[b].items = slices.Insert(l.blocks[b].items, at, it)
	if len(l.blocks[b].items) > full {
		half := slices.Clone(l.blocks[b].items[full/2:])
		l.blocks[b].items = l.blocks[b].items[:full/2]
		l.blocks = slices.Insert(l.blocks, b+1, block{items: half})
		l.blocks[b+1].measure()
	}
	l.blocks[b].measure()
}

// remove takes a job out and tells whether it was in.
func (l *list) remove(id job.ID) bool {
	if !l.has(id) {
		return false
	}
	k := l.items[id].key
	b := l.block(k)
	at, _ := slices.BinarySearchFunc(l.blocks[b].items, k, func(x item, k key) int { return x.key.compare(k) })
	l.blocks[b].items = slices.Delete(l.blocks[b].items, at, at+1)
	if len(l.blocks[b].items) == 0 {
		l.blocks = slices.Delete(l.blocks, b, b+1)
	} else {
		l.blocks[b].measure()
	}
	l.items[id].need = -1
	l.n--
	return true
}

// block is the block in which a key belongs.
func (l *list) block(k key) int {
	b, _ := slices.BinarySearchFunc(l.blocks, k, func(b block, k key) int { return b.items[len(b.items)-1].key.compare(k) })
	return min(b, len(l.blocks)-1)
}

// measure finds the least memory that jobs of each class need.
func (b *block) measure() {
	b.least = [classes]unit.Bytes{none, none, none}
	for i := range b.items {
		c := b.items[i].class + 1
		b.least[c] = min(b.least[c], b.items[i].need)
	}
}

// anyClass is a class that no job has.
const anyClass int8 = 2

// worth tells whether a job of a class other than not might need no more than room.
func (b *block) worth(not int8, room unit.Bytes) bool {
	for c, least := range b.least {
		if int8(c-1) != not && least <= room {
			return true
		}
	}
	return false
}

// fill makes the list anew of what was put in order.
func (l *list) fill(m *sorting) {
	l.each(func(it *item) { l.items[it.key.ID].need = -1 })
	l.blocks, l.n = l.blocks[:0], len(m.places)
	last := job.ID(0)
	for _, s := range m.places {
		last = max(last, job.ID(s.id))
	}
	l.reach(last)
	for part := range slices.Chunk(m.places, full/2) {
		b := block{items: make([]item, len(part), full+1)}
		for i, s := range part {
			b.items[i] = m.items[s.at]
			l.items[s.id] = b.items[i]
		}
		b.measure()
		l.blocks = append(l.blocks, b)
	}
}

// first is the first job of a class other than not that needs no more than room and
// for which fits holds.
func (l *list) first(not int8, room unit.Bytes, fits func(*item) bool) *item {
	for b := range l.blocks {
		if !l.blocks[b].worth(not, room) {
			continue
		}
		for i := range l.blocks[b].items {
			if it := &l.blocks[b].items[i]; it.class != not && it.need <= room && fits(it) {
				return it
			}
		}
	}
	return nil
}

// spread appends jobs from all over the list: it is cut into so many parts, and of each
// the first job for which fits holds is taken.
func (l *list) spread(out []*item, parts int, fits func(*item) bool) []*item {
	at, next := 0, 0 // place in the list, and where the next part begins
	for b := range l.blocks {
		items := l.blocks[b].items
		for i := max(0, next-at); i < len(items); i++ {
			if it := &items[i]; fits(it) {
				out = append(out, it)
				part := (at + i) * parts / l.n
				next = ((part+1)*l.n + parts - 1) / parts
				i = max(i, next-at-1)
			}
		}
		at += len(items)
	}
	return out
}

// last is the last job that needs no more than room and for which fits holds.
func (l *list) last(room unit.Bytes, fits func(*item) bool) *item {
	for b := len(l.blocks) - 1; b >= 0; b-- {
		if !l.blocks[b].worth(anyClass, room) {
			continue
		}
		for i := len(l.blocks[b].items) - 1; i >= 0; i-- {
			if it := &l.blocks[b].items[i]; it.need <= room && fits(it) {
				return it
			}
		}
	}
	return nil
}

// each calls f for all jobs in order.
func (l *list) each(f func(*item)) {
	for b := range l.blocks {
		for i := range l.blocks[b].items {
			f(&l.blocks[b].items[i])
		}
	}
}
