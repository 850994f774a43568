package live

import (
	"hash/maphash"

	"github.com/norn-scheduler/norn/api"
)

// Recent are the jobs that ended last, oldest first, as many as are kept in
// memory. The others are found in the history file.
type Recent struct {
	Most int
	jobs []api.Job // a ring, full when it has most of them
	next int
	some bool            // have been dropped
	old  map[uint64]bool // hashes of the names of those that were dropped; of numbers there is no need
	seed maphash.Seed
}

// Add adds the job that ended last.
func (h *Recent) Add(j api.Job) {
	if h.Most <= 0 {
		h.Drop(j.ID)
		return
	}
	if len(h.jobs) < h.Most {
		h.jobs = append(h.jobs, j)
		return
	}
	h.Drop(h.jobs[h.next].ID)
	h.jobs[h.next] = j
	h.next = (h.next + 1) % h.Most
}

// Each visits the jobs, the last one first, until visit returns false.
func (h *Recent) Each(visit func(*api.Job) bool) {
	for i := range len(h.jobs) {
		if !visit(&h.jobs[(h.next-1-i+2*len(h.jobs))%len(h.jobs)]) {
			return
		}
	}
}

// Whole tells whether none has been dropped.
func (h *Recent) Whole() bool { return !h.some }

// Drop notes that there was another one before.
func (h *Recent) Drop(key string) {
	h.some = true
	if !named(key) {
		return
	}
	if h.old == nil {
		h.old, h.seed = map[uint64]bool{}, maphash.MakeSeed()
	}
	h.old[maphash.String(h.seed, key)] = true
}

// Dropped tells whether a job with a name was dropped. Very rarely it says so of one that
// never was.
func (h *Recent) Dropped(name string) bool {
	return len(h.old) > 0 && h.old[maphash.String(h.seed, name)]
}

// Len is how many there are.
func (h *Recent) Len() int { return len(h.jobs) }
