package dense

import (
	"math/rand/v2"
	"slices"
	"testing"
)

// Each container is driven by random operations beside a naive twin.

func TestSetAgainstMap(t *testing.T) {
	for seed := range uint64(20) {
		r := rand.New(rand.NewPCG(seed, 1))
		span := []int{3, 64, 65, 5000, 300000}[seed%5]
		var s Set
		twin := map[int]bool{}
		for range 3000 {
			i := r.IntN(span)
			switch r.IntN(3) {
			case 0:
				if s.Add(i) == twin[i] {
					t.Fatalf("Add(%d) told the wrong thing", i)
				}
				twin[i] = true
			case 1:
				if s.Remove(i) != twin[i] {
					t.Fatalf("Remove(%d) told the wrong thing", i)
				}
				delete(twin, i)
			default:
				want := -1
				for m := range twin {
					if m >= i && (want < 0 || m < want) {
						want = m
					}
				}
				if got := s.Next(i); got != want {
					t.Fatalf("Next(%d) = %d, want %d", i, got, want)
				}
			}
		}
		var members []int
		for m := range twin {
			members = append(members, m)
		}
		slices.Sort(members)
		if got := slices.Collect(s.All()); !slices.Equal(got, members) || s.Len() != len(members) {
			t.Fatalf("All differs: %d members, want %d", len(got), len(members))
		}
		if len(members) > 0 && (s.Max() != members[len(members)-1] || s.Min() != members[0]) {
			t.Fatalf("Min %d Max %d, want %d %d", s.Min(), s.Max(), members[0], members[len(members)-1])
		}
		s.Clear()
		if s.Len() != 0 || s.Min() != -1 || s.Max() != -1 {
			t.Fatal("Clear left something")
		}
	}
}

func TestHeapAgainstSort(t *testing.T) {
	for seed := range uint64(10) {
		r := rand.New(rand.NewPCG(seed, 2))
		var h Heap
		twin := map[int32]int64{}
		for range 4000 {
			id := int32(r.IntN(200))
			if r.IntN(3) == 0 {
				_, had := twin[id]
				if h.Remove(id) != had {
					t.Fatalf("Remove(%d) told the wrong thing", id)
				}
				delete(twin, id)
			} else {
				twin[id] = int64(r.IntN(50))
				h.Set(id, twin[id])
			}
			if h.Len() != len(twin) {
				t.Fatalf("Len %d, want %d", h.Len(), len(twin))
			}
			if len(twin) == 0 {
				continue
			}
			best := int32(-1)
			for m, k := range twin {
				if best < 0 || k < twin[best] || k == twin[best] && m < best {
					best = m
				}
			}
			if id, key := h.Min(); id != best || key != twin[best] || h.Key(best) != key {
				t.Fatalf("Min = %d(%d), want %d(%d)", id, key, best, twin[best])
			}
		}
		last := int64(-1)
		for h.Len() > 0 {
			_, k := h.Pop()
			if k < last {
				t.Fatal("Pop out of order")
			}
			last = k
		}
	}
}

func TestListAgainstSlice(t *testing.T) {
	for seed := range uint64(12) {
		r := rand.New(rand.NewPCG(seed, 3))
		size := []int{5, 80, 1000, 4000}[seed%4]
		var l List
		var twin []Item
		for step := range 3 * size {
			it := Item{A: int64(r.IntN(size)), B: int64(r.IntN(3)), ID: int32(r.IntN(4)), W: int32(r.IntN(9))}
			at, had := slices.BinarySearchFunc(twin, it, func(a, b Item) int {
				if a.Before(b) {
					return -1
				} else if b.Before(a) {
					return 1
				}
				return 0
			})
			grow := step < 2*size
			switch {
			case had != l.Has(it):
				t.Fatalf("Has(%v) = %v", it, !had)
			case grow && !had:
				l.Insert(it)
				twin = slices.Insert(twin, at, it)
			case had:
				if !l.Remove(it) {
					t.Fatalf("Remove(%v) did not find it", it)
				}
				twin = slices.Delete(twin, at, at+1)
			case l.Remove(it):
				t.Fatalf("Remove(%v) found what is not there", it)
			}
			check(t, &l, twin, it, int64(r.IntN(5*size)))
		}
		var all []Item
		l.Each(func(it Item) bool { all = append(all, it); return true })
		if !slices.Equal(all, twin) {
			t.Fatal("Each differs")
		}
	}
}

func check(t *testing.T, l *List, twin []Item, probe Item, limit int64) {
	t.Helper()
	var sum, before int64
	next, over := -1, -1
	var beforeOver int64
	for i, it := range twin {
		if it.Before(probe) {
			before += int64(it.W)
		} else if next < 0 {
			next = i
		}
		if over < 0 && sum+int64(it.W) > limit {
			over, beforeOver = i, sum
		}
		sum += int64(it.W)
	}
	if l.Len() != len(twin) || l.Sum() != sum || l.SumBefore(probe) != before {
		t.Fatalf("Len %d Sum %d SumBefore %d, want %d %d %d", l.Len(), l.Sum(), l.SumBefore(probe), len(twin), sum, before)
	}
	if it, ok := l.From(probe); ok != (next >= 0) || ok && it != twin[next] {
		t.Fatalf("From(%v) = %v %v", probe, it, ok)
	}
	if it, b, ok := l.FirstOver(limit); ok != (over >= 0) || ok && (it != twin[over] || b != beforeOver) {
		t.Fatalf("FirstOver(%d) = %v %d %v", limit, it, b, ok)
	}
}

func TestNoAllocationOnceWarm(t *testing.T) {
	var s Set
	var h Heap
	var l List
	work := func() {
		for i := range 500 {
			s.Add(i * 7)
			h.Set(int32(i), int64(i*31%101))
			l.Insert(Item{A: int64(i * 31 % 101), ID: int32(i), W: 1})
		}
		for i := range 500 {
			s.Remove(i * 7)
			h.Remove(int32(i))
			l.Remove(Item{A: int64(i * 31 % 101), ID: int32(i)})
		}
	}
	work()
	if n := testing.AllocsPerRun(20, work); n != 0 {
		t.Errorf("%v allocations in a warm round", n)
	}
}

// TestRows: what was added stays where it was, whatever comes after it.
func TestRows(t *testing.T) {
	var r Rows[int]
	if len(r.Slice()) != 0 {
		t.Error("the empty list has entries")
	}
	first := r.Add()
	for i := range 3 * rowsOf {
		*r.Add() = i + 1
	}
	*first = -7
	all := r.Slice()
	if r.Len() != 3*rowsOf+1 || len(all) != r.Len() || *r.At(0) != -7 {
		t.Fatalf("%d entries, of which %d are listed; the first is %d", r.Len(), len(all), *r.At(0))
	}
	for i := 1; i < r.Len(); i++ {
		if *r.At(i) != i || all[i] != i {
			t.Fatalf("entry %d is %d, listed as %d", i, *r.At(i), all[i])
		}
	}
}
