package dense

// Item is a member of a List: a number with its place in the order (A, then B,
// then ID) and a weight.
type Item struct {
	A, B int64
	ID   int32
	W    int32
}

// Before tells whether a stands before b in the order.
func (a Item) Before(b Item) bool {
	if a.A != b.A {
		return a.A < b.A
	}
	if a.B != b.B {
		return a.B < b.B
	}
	return a.ID < b.ID
}

const blockSize = 64

// List is a sorted list of weighted items. Insert, Remove and the queries take
// O(log n + n/64) with a very small constant. The zero List is empty. It
// allocates only to grow beyond the largest size it has had.
type List struct {
	blocks []*block
	firsts []Item  // firsts[i] is the first item of blocks[i]
	sums   []int64 // sums[i] is the weight of blocks[i]
	spare  []*block
	n      int
	sum    int64
}

type block struct {
	n     int
	items [blockSize]Item
}

// Len is the number of items.
func (l *List) Len() int { return l.n }

// Sum is the weight of all items.
func (l *List) Sum() int64 { return l.sum }

// Insert adds an item. The list must not hold an item with the same place.
func (l *List) Insert(it Item) {
	l.n++
	l.sum += int64(it.W)
	if len(l.blocks) == 0 {
		l.insertBlock(0)
	}
	i := l.blockOf(it)
	b := l.blocks[i]
	if b.n == blockSize {
		l.split(i)
		if !it.Before(l.firsts[i+1]) {
			i++
		}
		b = l.blocks[i]
	}
	at := b.search(it)
	copy(b.items[at+1:b.n+1], b.items[at:b.n])
	b.items[at] = it
	b.n++
	l.sums[i] += int64(it.W)
	if at == 0 {
		l.firsts[i] = it
	}
}

// Remove takes the item at that place out and tells whether it was there. The
// weight given is not looked at.
func (l *List) Remove(it Item) bool {
	if l.n == 0 {
		return false
	}
	i := l.blockOf(it)
	b := l.blocks[i]
	at := b.search(it)
	if at == b.n || it.Before(b.items[at]) {
		return false
	}
	w := int64(b.items[at].W)
	copy(b.items[at:b.n-1], b.items[at+1:b.n])
	b.n--
	l.n--
	l.sum -= w
	l.sums[i] -= w
	switch {
	case b.n == 0:
		l.dropBlock(i)
	case at == 0:
		l.firsts[i] = b.items[0]
	}
	if i < len(l.blocks) {
		l.merge(i)
	}
	return true
}

// Has tells whether there is an item at that place.
func (l *List) Has(it Item) bool {
	if l.n == 0 {
		return false
	}
	b := l.blocks[l.blockOf(it)]
	at := b.search(it)
	return at < b.n && !it.Before(b.items[at])
}

// SumBefore is the weight of all items that stand before the place of it.
func (l *List) SumBefore(it Item) int64 {
	if l.n == 0 {
		return 0
	}
	if end := l.blocks[len(l.blocks)-1]; end.items[end.n-1].Before(it) {
		return l.sum
	}
	i := l.blockOf(it)
	sum := l.before(i)
	b := l.blocks[i]
	for j := range b.items[:b.search(it)] {
		sum += int64(b.items[j].W)
	}
	return sum
}

// before is the weight of the blocks before block i, summed from the nearer end.
func (l *List) before(i int) int64 {
	var sum int64
	if i <= len(l.sums)/2 {
		for _, s := range l.sums[:i] {
			sum += s
		}
		return sum
	}
	for _, s := range l.sums[i:] {
		sum += s
	}
	return l.sum - sum
}

// Min is the first item.
func (l *List) Min() (Item, bool) {
	if l.n == 0 {
		return Item{}, false
	}
	return l.firsts[0], true
}

// From is the first item that does not stand before the place of it.
func (l *List) From(it Item) (Item, bool) {
	if l.n == 0 {
		return Item{}, false
	}
	if !l.firsts[0].Before(it) {
		return l.firsts[0], true
	}
	i := l.blockOf(it)
	b := l.blocks[i]
	if at := b.search(it); at < b.n {
		return b.items[at], true
	}
	if i+1 < len(l.blocks) {
		return l.firsts[i+1], true
	}
	return Item{}, false
}

// FirstOver is the first item with which the running sum of weights exceeds
// limit, and the sum before it.
func (l *List) FirstOver(limit int64) (it Item, before int64, ok bool) {
	if l.sum <= limit {
		return Item{}, l.sum, false
	}
	i := len(l.sums) // where the running sum is mostly exceeded: near the end
	for before = l.sum; i > 0 && before > limit; {
		i--
		before -= l.sums[i]
	}
	b := l.blocks[i]
	for j := range b.items[:b.n] {
		if before+int64(b.items[j].W) > limit {
			return b.items[j], before, true
		}
		before += int64(b.items[j].W)
	}
	return Item{}, before, false
}

// Each calls f on the items in order until it returns false. f must not change
// the list.
func (l *List) Each(f func(Item) bool) {
	for _, b := range l.blocks {
		for j := range b.items[:b.n] {
			if !f(b.items[j]) {
				return
			}
		}
	}
}

// Clear empties the list and keeps its memory.
func (l *List) Clear() {
	l.spare = append(l.spare, l.blocks...)
	l.blocks, l.firsts, l.sums = l.blocks[:0], l.firsts[:0], l.sums[:0]
	l.n, l.sum = 0, 0
}

// blockOf is the block in which it stands or would stand.
func (l *List) blockOf(it Item) int {
	lo, hi := 0, len(l.firsts)
	for hi-lo > 1 {
		mid := int(uint(lo+hi) >> 1)
		if it.Before(l.firsts[mid]) {
			hi = mid
		} else {
			lo = mid
		}
	}
	return lo
}

// search is the first place in the block that does not stand before it.
func (b *block) search(it Item) int {
	lo, hi := 0, b.n
	for lo < hi {
		mid := int(uint(lo+hi) >> 1)
		if b.items[mid].Before(it) {
			lo = mid + 1
		} else {
			hi = mid
		}
	}
	return lo
}

func (l *List) insertBlock(i int) {
	var b *block
	if k := len(l.spare); k > 0 {
		b, l.spare = l.spare[k-1], l.spare[:k-1]
		b.n = 0
	} else {
		b = new(block)
	}
	l.blocks = append(l.blocks, nil)
	copy(l.blocks[i+1:], l.blocks[i:])
	l.blocks[i] = b
	l.firsts = append(l.firsts, Item{})
	copy(l.firsts[i+1:], l.firsts[i:])
	l.sums = append(l.sums, 0)
	copy(l.sums[i+1:], l.sums[i:])
	l.sums[i] = 0
}

func (l *List) dropBlock(i int) {
	l.spare = append(l.spare, l.blocks[i])
	l.blocks = append(l.blocks[:i], l.blocks[i+1:]...)
	l.firsts = append(l.firsts[:i], l.firsts[i+1:]...)
	l.sums = append(l.sums[:i], l.sums[i+1:]...)
}

// split moves the upper half of a full block into a new one behind it.
func (l *List) split(i int) {
	l.insertBlock(i + 1)
	b, c := l.blocks[i], l.blocks[i+1]
	const half = blockSize / 2
	copy(c.items[:], b.items[half:])
	b.n, c.n = half, blockSize-half
	var moved int64
	for j := range c.items[:c.n] {
		moved += int64(c.items[j].W)
	}
	l.sums[i] -= moved
	l.sums[i+1] = moved
	l.firsts[i+1] = c.items[0]
}

// merge joins block i with its successor when both together fill a quarter.
func (l *List) merge(i int) {
	if i+1 >= len(l.blocks) || l.blocks[i].n+l.blocks[i+1].n > blockSize/4 {
		return
	}
	b, c := l.blocks[i], l.blocks[i+1]
	copy(b.items[b.n:], c.items[:c.n])
	b.n += c.n
	l.sums[i] += l.sums[i+1]
	l.dropBlock(i + 1)
}
