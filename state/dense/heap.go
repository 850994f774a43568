package dense

// Heap is a priority queue of numbered members, least key first, ties by
// number. A member can be moved or removed by its number. Push, Update and
// Remove take O(log n); Min takes O(1). The zero Heap is empty.
type Heap struct {
	items []heapItem
	pos   []int32 // member -> place in items + 1, 0 when absent
}

type heapItem struct {
	key int64
	id  int32
}

func (a heapItem) less(b heapItem) bool {
	return a.key < b.key || a.key == b.key && a.id < b.id
}

// Len is the number of members.
func (h *Heap) Len() int { return len(h.items) }

// Has tells whether id is a member.
func (h *Heap) Has(id int32) bool { return int(id) < len(h.pos) && h.pos[id] != 0 }

// Key is the key of a member.
func (h *Heap) Key(id int32) int64 { return h.items[h.pos[id]-1].key }

// Min is the member with the least key. It must not be called on an empty heap.
func (h *Heap) Min() (id int32, key int64) { return h.items[0].id, h.items[0].key }

// Set makes id a member with the given key, or gives a member a new key.
func (h *Heap) Set(id int32, key int64) {
	for int(id) >= len(h.pos) {
		h.pos = append(h.pos, make([]int32, max(64, int(id)+1-len(h.pos), len(h.pos)))...)
	}
	if p := h.pos[id]; p != 0 {
		old := h.items[p-1]
		h.items[p-1].key = key
		if key < old.key {
			h.up(int(p - 1))
		} else {
			h.down(int(p - 1))
		}
		return
	}
	h.items = append(h.items, heapItem{key, id})
	h.up(len(h.items) - 1)
}

// Remove takes id out and tells whether it was a member.
func (h *Heap) Remove(id int32) bool {
	if !h.Has(id) {
		return false
	}
	i := int(h.pos[id] - 1)
	h.pos[id] = 0
	last := len(h.items) - 1
	moved := h.items[last]
	h.items = h.items[:last]
	if i < last {
		h.items[i] = moved
		if i > 0 && moved.less(h.items[(i-1)/4]) {
			h.up(i)
		} else {
			h.down(i)
		}
	}
	return true
}

// Clear takes out all members.
func (h *Heap) Clear() {
	for _, it := range h.items {
		h.pos[it.id] = 0
	}
	h.items = h.items[:0]
}

// Pop removes and returns the member with the least key.
func (h *Heap) Pop() (id int32, key int64) {
	id, key = h.Min()
	h.Remove(id)
	return id, key
}

func (h *Heap) up(i int) {
	it := h.items[i]
	for i > 0 {
		parent := (i - 1) / 4
		if !it.less(h.items[parent]) {
			break
		}
		h.items[i] = h.items[parent]
		h.pos[h.items[i].id] = int32(i + 1)
		i = parent
	}
	h.items[i] = it
	h.pos[it.id] = int32(i + 1)
}

func (h *Heap) down(i int) {
	it := h.items[i]
	for {
		child := 4*i + 1
		if child >= len(h.items) {
			break
		}
		least := child
		for c := child + 1; c < min(child+4, len(h.items)); c++ {
			if h.items[c].less(h.items[least]) {
				least = c
			}
		}
		if !h.items[least].less(it) {
			break
		}
		h.items[i] = h.items[least]
		h.pos[h.items[i].id] = int32(i + 1)
		i = least
	}
	h.items[i] = it
	h.pos[it.id] = int32(i + 1)
}
