package live

import "github.com/norn-scheduler/norn/api"

// Recent are the jobs that ended last, oldest first, as many as are kept in
// memory. The others are found in the history file.
type Recent struct {
	Most int
	jobs []api.Job // a ring, full when it has most of them
	next int
	all  bool // none has been dropped
}

// Add adds the job that ended last.
func (h *Recent) Add(j api.Job) {
	if h.Most <= 0 {
		return
	}
	if len(h.jobs) < h.Most {
		h.jobs = append(h.jobs, j)
		h.all = true
		return
	}
	h.jobs[h.next] = j
	h.next = (h.next + 1) % h.Most
	h.all = false
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
func (h *Recent) Whole() bool { return h.all }

// Drop notes that there were others before.
func (h *Recent) Drop() { h.all = false }

// Len is how many there are.
func (h *Recent) Len() int { return len(h.jobs) }
