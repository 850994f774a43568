package queue

import (
	"cmp"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"github.com/norn-scheduler/norn/job"
)

// twin is the queue as a slice that is sorted anew for every question.
type twin []twinJob

type twinJob struct {
	id    job.ID
	class int32
	key   Key
}

func (w twin) sorted() twin {
	s := slices.Clone(w)
	slices.SortFunc(s, func(a, b twinJob) int {
		return cmp.Or(cmp.Compare(a.key.A, b.key.A), cmp.Compare(a.key.B, b.key.B), cmp.Compare(a.id, b.id))
	})
	return s
}

func (w twin) remove(id job.ID) twin {
	return slices.DeleteFunc(slices.Clone(w), func(j twinJob) bool { return j.id == id })
}

// visit is one answer of a walk.
type visit struct {
	id   job.ID
	step Step
}

// walk is the walk over the sorted slice.
func (w twin) walk(worth func(int32) bool, answer func(job.ID) Step) (visits []visit, left twin) {
	left = w
	skip := map[int32]bool{}
	for _, j := range w.sorted() {
		if skip[j.class] || worth != nil && !worth(j.class) {
			continue
		}
		step := answer(j.id)
		visits = append(visits, visit{j.id, step})
		switch step {
		case Took:
			left = left.remove(j.id)
		case SkipClass:
			skip[j.class] = true
		case Stop:
			return visits, left
		}
	}
	return visits, left
}

// TestAgainstSortedSlice drives a queue by random operations beside a slice that
// is sorted for every question.
func TestAgainstSortedSlice(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var q Queue
		var w twin
		id := func() job.ID { return job.ID(rapid.IntRange(0, 40).Draw(t, "job")) }
		t.Repeat(map[string]func(*rapid.T){
			"add": func(t *rapid.T) {
				j := twinJob{id(), rapid.Int32Range(0, 5).Draw(t, "class"), Key{rapid.Int64Range(-3, 3).Draw(t, "a"), rapid.Int64Range(0, 2).Draw(t, "b")}}
				q.Add(j.id, j.class, j.key)
				w = append(w.remove(j.id), j)
			},
			"remove": func(t *rapid.T) {
				i := id()
				had := len(w)
				w = w.remove(i)
				if q.Remove(i) != (len(w) < had) {
					t.Fatalf("Remove(%d) told the wrong thing", i)
				}
			},
			"walk": func(t *rapid.T) {
				answers := rapid.SliceOfN(rapid.SampledFrom([]Step{Took, SkipJob, SkipJob, SkipClass, Stop}), 41, 41).Draw(t, "answers")
				var worth func(int32) bool
				if rapid.Bool().Draw(t, "worth") {
					worth = func(c int32) bool { return c%2 == 0 }
				}
				answer := func(i job.ID) Step { return answers[i] }
				var got []visit
				q.Walk(worth, func(i job.ID) Step {
					got = append(got, visit{i, answer(i)})
					return answer(i)
				})
				want, left := w.walk(worth, answer)
				if !slices.Equal(got, want) {
					t.Fatalf("the walk goes %v, over a sorted slice %v", got, want)
				}
				w = left
			},
			"": func(t *rapid.T) {
				s := w.sorted()
				first, ok := q.First()
				if q.Len() != len(s) || ok != (len(s) > 0) || ok && first != s[0].id {
					t.Fatalf("%d jobs, the first is %d %v; want %v", q.Len(), first, ok, s)
				}
				for class := range int32(10) {
					at := slices.IndexFunc(s, func(j twinJob) bool { return j.class == class })
					id, key, ok := q.FirstOf(class)
					if ok != (at >= 0) || ok && (id != s[at].id || key != s[at].key) {
						t.Fatalf("the first of class %d is %d with %v, %v; want %v", class, id, key, ok, s)
					}
				}
				for i := range job.ID(41) {
					at := slices.IndexFunc(w, func(j twinJob) bool { return j.id == i })
					if q.Has(i) != (at >= 0) || at >= 0 && q.Key(i) != w[at].key {
						t.Fatalf("job %d: in the queue %v", i, q.Has(i))
					}
				}
			},
		})
	})
}

// TestNoAllocationOnceWarm: jobs come, are walked over and go at no cost.
func TestNoAllocationOnceWarm(t *testing.T) {
	var q Queue
	work := func() {
		for i := range job.ID(300) {
			q.Add(i, int32(i%7), Key{A: int64(i * 31 % 101)})
		}
		q.Walk(nil, func(i job.ID) Step {
			if i%3 == 0 {
				return Took
			}
			return SkipJob
		})
		for i := range job.ID(300) {
			q.Remove(i)
		}
	}
	work()
	if n := testing.AllocsPerRun(20, work); n != 0 {
		t.Errorf("%v allocations in a warm round", n)
	}
}
