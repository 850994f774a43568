package alloxsim

import "errors"

// The comparison that published AlloX+ sorts by is no order: differences below
// a second are ties, and ties are not transitive. The result depends on the
// sort, so this package repeats that of Java step by step (TimSort: Peters
// 2002; its Java version by Bloch).

const (
	minMerge    = 32
	firstGallop = 7
)

var errDisorder = errors.New("the sort of the published code gives up here: its comparison is no order")

type run struct{ base, len int }

// timSort sorts as Java's Collections.sort does.
type timSort[T any] struct {
	a      []T
	cmp    func(x, y T) int
	gallop int
	runs   []run
	tmp    []T
	failed bool
}

func javaSort[T any](a []T, cmp func(x, y T) int) error {
	t := &timSort[T]{a: a, cmp: cmp, gallop: firstGallop}
	left := len(a)
	if left < 2 {
		return nil
	}
	if left < minMerge {
		t.binary(0, left, t.count(0, left))
		return nil
	}
	shortest, lo := minRun(left), 0
	for left > 0 {
		n := t.count(lo, len(a))
		if n < shortest {
			force := min(left, shortest)
			t.binary(lo, lo+force, lo+n)
			n = force
		}
		t.runs = append(t.runs, run{lo, n})
		t.collapse()
		lo, left = lo+n, left-n
	}
	for len(t.runs) > 1 {
		n := len(t.runs) - 2
		if n > 0 && t.runs[n-1].len < t.runs[n+1].len {
			n--
		}
		t.mergeAt(n)
	}
	if t.failed {
		return errDisorder
	}
	return nil
}

func minRun(n int) int {
	odd := 0
	for n >= minMerge {
		odd |= n & 1
		n >>= 1
	}
	return n + odd
}

// count is how long the run at lo is; one that falls is turned round.
func (t *timSort[T]) count(lo, hi int) int {
	end := lo + 1
	if end == hi {
		return 1
	}
	falls := t.cmp(t.a[end], t.a[lo]) < 0
	for end++; end < hi && t.cmp(t.a[end], t.a[end-1]) < 0 == falls; end++ {
	}
	if falls {
		for i, j := lo, end-1; i < j; i, j = i+1, j-1 {
			t.a[i], t.a[j] = t.a[j], t.a[i]
		}
	}
	return end - lo
}

// binary sorts by insertion what is between start and hi into what is before it.
func (t *timSort[T]) binary(lo, hi, start int) {
	if start == lo {
		start++
	}
	for ; start < hi; start++ {
		pivot := t.a[start]
		left, right := lo, start
		for left < right {
			mid := (left + right) / 2
			if t.cmp(pivot, t.a[mid]) < 0 {
				right = mid
			} else {
				left = mid + 1
			}
		}
		copy(t.a[left+1:start+1], t.a[left:start])
		t.a[left] = pivot
	}
}

func (t *timSort[T]) collapse() {
	for len(t.runs) > 1 {
		r, n := t.runs, len(t.runs)-2
		switch {
		case n > 0 && r[n-1].len <= r[n].len+r[n+1].len || n > 1 && r[n-2].len <= r[n].len+r[n-1].len:
			if r[n-1].len < r[n+1].len {
				n--
			}
		case r[n].len > r[n+1].len:
			return
		}
		t.mergeAt(n)
	}
}

func (t *timSort[T]) mergeAt(i int) {
	x, y := t.runs[i], t.runs[i+1]
	t.runs[i].len = x.len + y.len
	t.runs = append(t.runs[:i+1], t.runs[i+2:]...)
	k := t.gallopRight(t.a[y.base], t.a[x.base:x.base+x.len], 0)
	x.base, x.len = x.base+k, x.len-k
	if x.len == 0 {
		return
	}
	y.len = t.gallopLeft(t.a[x.base+x.len-1], t.a[y.base:y.base+y.len], y.len-1)
	switch {
	case y.len == 0:
	case x.len <= y.len:
		t.mergeLow(x, y)
	default:
		t.mergeHigh(x, y)
	}
}

// gallopLeft is where a key belongs in a sorted run, before what is equal to it.
func (t *timSort[T]) gallopLeft(key T, a []T, hint int) int {
	return t.search(a, hint, func(v T) bool { return t.cmp(key, v) > 0 })
}

// gallopRight is where a key belongs in a sorted run, behind what is equal to it.
func (t *timSort[T]) gallopRight(key T, a []T, hint int) int {
	return t.search(a, hint, func(v T) bool { return t.cmp(key, v) >= 0 })
}

// search finds the first place whose value is not below, leaping from hint.
func (t *timSort[T]) search(a []T, hint int, below func(T) bool) int {
	last, ofs := 0, 1
	if below(a[hint]) {
		most := len(a) - hint
		for ofs < most && below(a[hint+ofs]) {
			last, ofs = ofs, 2*ofs+1
		}
		ofs = min(ofs, most)
		last, ofs = last+hint, ofs+hint
	} else {
		most := hint + 1
		for ofs < most && !below(a[hint-ofs]) {
			last, ofs = ofs, 2*ofs+1
		}
		ofs = min(ofs, most)
		last, ofs = hint-ofs, hint-last
	}
	for last++; last < ofs; {
		mid := last + (ofs-last)/2
		if below(a[mid]) {
			last = mid + 1
		} else {
			ofs = mid
		}
	}
	return ofs
}

// mergeLow merges from the front; x is copied aside.
func (t *timSort[T]) mergeLow(x, y run) {
	a := t.a
	t.tmp = append(t.tmp[:0], a[x.base:x.base+x.len]...)
	tmp, c1, c2, dest, n1, n2 := t.tmp, 0, y.base, x.base, x.len, y.len
	second := func() { a[dest] = a[c2]; dest, c2, n2 = dest+1, c2+1, n2-1 }
	first := func() { a[dest] = tmp[c1]; dest, c1, n1 = dest+1, c1+1, n1-1 }
	over := func() bool { return n2 == 0 || n1 <= 1 }
	second()
	for !over() {
		won1, won2 := 0, 0
		for !over() && won1|won2 < t.gallop {
			if t.cmp(a[c2], tmp[c1]) < 0 {
				second()
				won1, won2 = 0, won2+1
			} else {
				first()
				won1, won2 = won1+1, 0
			}
		}
		for more := true; more && !over(); {
			won1 = t.gallopRight(a[c2], tmp[c1:c1+n1], 0)
			copy(a[dest:], tmp[c1:c1+won1])
			dest, c1, n1 = dest+won1, c1+won1, n1-won1
			if n1 <= 1 {
				break
			}
			if second(); n2 == 0 {
				break
			}
			won2 = t.gallopLeft(tmp[c1], a[c2:c2+n2], 0)
			copy(a[dest:], a[c2:c2+won2])
			dest, c2, n2 = dest+won2, c2+won2, n2-won2
			if n2 == 0 {
				break
			}
			if first(); n1 == 1 {
				break
			}
			t.gallop--
			more = won1 >= firstGallop || won2 >= firstGallop
		}
		if !over() {
			t.gallop = max(t.gallop, 0) + 2
		}
	}
	t.gallop = max(t.gallop, 1)
	t.failed = t.failed || n1 == 0
	copy(a[dest:], a[c2:c2+n2])
	copy(a[dest+n2:], tmp[c1:c1+n1])
}

// mergeHigh merges from the back; y is copied aside.
func (t *timSort[T]) mergeHigh(x, y run) {
	a := t.a
	t.tmp = append(t.tmp[:0], a[y.base:y.base+y.len]...)
	tmp, n1, n2, dest := t.tmp, x.len, y.len, y.base+y.len
	first := func() { a[dest-1] = a[x.base+n1-1]; dest, n1 = dest-1, n1-1 }
	second := func() { a[dest-1] = tmp[n2-1]; dest, n2 = dest-1, n2-1 }
	over := func() bool { return n1 == 0 || n2 <= 1 }
	first()
	for !over() {
		won1, won2 := 0, 0
		for !over() && won1|won2 < t.gallop {
			if t.cmp(tmp[n2-1], a[x.base+n1-1]) < 0 {
				first()
				won1, won2 = won1+1, 0
			} else {
				second()
				won1, won2 = 0, won2+1
			}
		}
		for more := true; more && !over(); {
			won1 = n1 - t.gallopRight(tmp[n2-1], a[x.base:x.base+n1], n1-1)
			copy(a[dest-won1:dest], a[x.base+n1-won1:x.base+n1])
			dest, n1 = dest-won1, n1-won1
			if n1 == 0 {
				break
			}
			if second(); n2 == 1 {
				break
			}
			won2 = n2 - t.gallopLeft(a[x.base+n1-1], tmp[:n2], n2-1)
			copy(a[dest-won2:dest], tmp[n2-won2:n2])
			dest, n2 = dest-won2, n2-won2
			if n2 <= 1 {
				break
			}
			if first(); n1 == 0 {
				break
			}
			t.gallop--
			more = won1 >= firstGallop || won2 >= firstGallop
		}
		if !over() {
			t.gallop = max(t.gallop, 0) + 2
		}
	}
	t.gallop = max(t.gallop, 1)
	t.failed = t.failed || n2 == 0
	copy(a[dest-n1:dest], a[x.base:x.base+n1]) // nothing moves where n2 is 0
	copy(a[dest-n1-n2:], tmp[:n2])
}
