package rmixer

import (
	"slices"
	"testing"

	"pgregory.net/rapid"

	"github.com/norn-scheduler/norn/cluster/unit"
	"github.com/norn-scheduler/norn/job"
)

// The list answers as a sorted slice does, whatever is put in and taken out.
func TestListAgainstSlice(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var l list
		twin := map[job.ID]item{}
		draw := func(id job.ID) item {
			return item{
				key:   key{A: rapid.Int64Range(-3, 3).Draw(t, "a"), B: rapid.Int64Range(0, 2).Draw(t, "b"), ID: id},
				need:  unit.Bytes(rapid.IntRange(0, 20).Draw(t, "need")),
				class: int8(rapid.IntRange(-1, 1).Draw(t, "class")), tail: rapid.Bool().Draw(t, "tail"),
			}
		}
		if rapid.Bool().Draw(t, "filled") {
			var m sorting
			for id := range job.ID(rapid.IntRange(0, 700).Draw(t, "filling")) {
				it := item{key: key{A: int64(id * 7919 % 13), ID: id}, need: unit.Bytes(id % 21), class: int8(id%3) - 1, tail: id%2 == 0}
				m.add(it, standing{})
				twin[id] = it
			}
			m.sort()
			l.fill(&m)
		}
		for range rapid.IntRange(0, 60).Draw(t, "steps") {
			id := job.ID(rapid.IntRange(0, 800).Draw(t, "id"))
			if rapid.IntRange(0, 2).Draw(t, "what") == 0 {
				_, was := twin[id]
				if l.remove(id) != was {
					t.Fatalf("job %d was in: %v", id, was)
				}
				delete(twin, id)
			} else {
				it := draw(id)
				l.add(it)
				twin[id] = it
			}
			agree(t, &l, twin)
		}
	})
}

// agree compares a list with what is in it.
func agree(t *rapid.T, l *list, twin map[job.ID]item) {
	var want, got []item
	for _, it := range twin {
		want = append(want, it)
	}
	slices.SortFunc(want, func(a, b item) int { return a.key.compare(b.key) })
	l.each(func(it *item) { got = append(got, *it) })
	if !slices.Equal(got, want) || l.n != len(want) {
		t.Fatalf("the list holds %v, want %v", got, want)
	}
	not, room := int8(rapid.IntRange(-1, 2).Draw(t, "not")), unit.Bytes(rapid.IntRange(-1, 21).Draw(t, "room"))
	fits := func(it *item) bool { return it.tail }
	first, last := -1, -1
	for i := range want {
		if want[i].tail && want[i].need <= room {
			last = i
			if first < 0 && want[i].class != not {
				first = i
			}
		}
	}
	if it := l.first(not, room, fits); (it == nil) != (first < 0) || it != nil && *it != want[first] {
		t.Fatalf("first of a class other than %d within %d: %v, want number %d of %v", not, room, it, first, want)
	}
	parts := rapid.IntRange(1, 9).Draw(t, "parts")
	if some := l.spread(nil, parts, fits); len(some) > parts || (len(some) == 0) != !slices.ContainsFunc(want, func(it item) bool { return it.tail }) {
		t.Fatalf("%d of %d jobs in %d parts", len(some), len(want), parts)
	} else {
		for p := range parts { // of each part of the list its first that fits
			part := want[(p*len(want)+parts-1)/parts : ((p+1)*len(want)+parts-1)/parts]
			at := slices.IndexFunc(part, func(it item) bool { return it.tail })
			if at >= 0 && !slices.ContainsFunc(some, func(it *item) bool { return *it == part[at] }) {
				t.Fatalf("job %v is the first of part %d of %d that fits, and was not taken", part[at], p, parts)
			}
		}
	}
	if it := l.last(room, fits); (it == nil) != (last < 0) || it != nil && *it != want[last] {
		t.Fatalf("last within %d: %v, want number %d of %v", room, it, last, want)
	}
}
