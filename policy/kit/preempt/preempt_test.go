package preempt

import (
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/norn-scheduler/norn/job"
)

// model is the walk done literally.
type model struct {
	capacity int
	jobs     map[job.ID]modelJob
}

type modelJob struct {
	size int
	key  Key // on the scale of chosen jobs at the current shift
}

func (m *model) walk() map[job.ID]bool {
	var order []job.ID
	for id := range m.jobs {
		order = append(order, id)
	}
	slices.SortFunc(order, func(a, b job.ID) int {
		x, y := m.jobs[a].key, m.jobs[b].key
		switch {
		case x.A != y.A:
			return int(x.A - y.A)
		case x.B != y.B:
			return int(x.B - y.B)
		}
		return int(a - b)
	})
	free, chosen := m.capacity, map[job.ID]bool{}
	for _, id := range order {
		if size := m.jobs[id].size; size <= free {
			free -= size
			chosen[id] = true
		}
	}
	return chosen
}

func TestSelectorAgainstWalk(t *testing.T) {
	for seed := range uint64(60) {
		r := rand.New(rand.NewPCG(seed, 4))
		var s Selector
		m := model{jobs: map[job.ID]modelJob{}}
		running := map[job.ID]bool{}
		keys := []int{3, 50, 100000}[seed%3]
		for step := range 400 {
			id := job.ID(r.IntN(40))
			switch op := r.IntN(10); {
			case op == 0:
				m.capacity = r.IntN(64)
				s.SetCapacity(m.capacity)
			case op < 3:
				_, had := m.jobs[id]
				if s.Remove(id) != had {
					t.Fatalf("seed %d step %d: Remove(%d) told the wrong thing", seed, step, id)
				}
				delete(m.jobs, id)
				delete(running, id)
			case op < 5 && s.Has(id):
				key := Key{int64(r.IntN(keys)), int64(r.IntN(3))}
				j := m.jobs[id]
				j.key = key
				m.jobs[id] = j
				s.Rekey(id, key)
			case !s.Has(id):
				j := modelJob{size: 1 << r.IntN(6), key: Key{int64(r.IntN(keys)), int64(r.IntN(3))}}
				m.jobs[id] = j
				s.Add(id, j.size, j.key)
			}
			if r.IntN(3) > 0 {
				continue // make several changes before looking at them
			}
			s.Changes(func(id job.ID, chosen bool) {
				if running[id] == chosen {
					t.Fatalf("seed %d step %d: told of job %d twice", seed, step, id)
				}
				running[id] = chosen
			})
			want := m.walk()
			for id := range m.jobs {
				if s.Chosen(id) != want[id] || running[id] != want[id] {
					t.Fatalf("seed %d step %d: job %d chosen %v, told %v, want %v", seed, step, id, s.Chosen(id), running[id], want[id])
				}
			}
			if s.Len() != len(m.jobs) || s.Waiting() != len(m.jobs)-len(want) {
				t.Fatalf("seed %d step %d: Len %d Waiting %d", seed, step, s.Len(), s.Waiting())
			}
		}
	}
}

// TestShift checks the two scales. Chosen jobs are ordered by their end and the
// others by their remaining time, as for shortest remaining time first.
func TestShift(t *testing.T) {
	for seed := range uint64(40) {
		r := rand.New(rand.NewPCG(seed, 5))
		var s Selector
		s.SetCapacity(16)
		type rem struct{ size, left int }
		jobs := map[job.ID]rem{}
		now := 0
		for step := range 300 {
			dt := r.IntN(20)
			for id, j := range jobs {
				if s.Chosen(id) {
					dt = min(dt, j.left)
				}
			}
			now += dt
			s.Shift(int64(now))
			for id, j := range jobs {
				if s.Chosen(id) {
					j.left -= dt
					jobs[id] = j
				}
			}
			for id, j := range jobs {
				if j.left == 0 && s.Chosen(id) {
					s.Remove(id)
					delete(jobs, id)
				}
			}
			id := job.ID(step)
			j := rem{1 << r.IntN(5), 1 + r.IntN(60)}
			jobs[id] = j
			s.Add(id, j.size, Key{A: int64(j.left)})
			s.Changes(func(job.ID, bool) {})
			m := model{capacity: 16, jobs: map[job.ID]modelJob{}}
			for id, j := range jobs {
				m.jobs[id] = modelJob{j.size, Key{A: int64(j.left)}}
			}
			want := m.walk()
			for id := range jobs {
				if s.Chosen(id) != want[id] {
					t.Fatalf("seed %d step %d: job %d chosen %v, want %v", seed, step, id, s.Chosen(id), want[id])
				}
			}
		}
	}
}
