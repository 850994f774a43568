package elasticflow

import "container/heap"

// Share is a job among which GPUs that nobody needs now are divided.
type Share struct {
	Work
	Size int             // place in Sizes of what it has; -1: nothing
	Slow bool            // it stays at its size
	May  func(Size) bool // it may have this size now; nil: any
	Wins func(Size) bool // the larger size is worth what the change costs; nil: always
}

// cost is the GPU-seconds of the rest of the job's work at a size.
func (w *Work) cost(s Size) float64 { return w.Left / s.Speed * float64(s.GPUs) }

// next is the next size of a share, and what its rest costs less there, for each GPU more. A job
// with no GPUs comes before all that have some.
func (s *Share) next() (to Size, gain float64, ok bool) {
	for i := s.Size + 1; i < len(s.Sizes) && !s.Slow; i++ {
		to = s.Sizes[i]
		if s.May != nil && !s.May(to) || s.Wins != nil && !s.Wins(to) {
			if s.Size < 0 {
				return to, 0, false
			}
			continue
		}
		if s.Size < 0 {
			return to, 0, true
		}
		now := s.Sizes[s.Size]
		return to, (s.cost(now) - s.cost(to)) / float64(to.GPUs-now.GPUs), true
	}
	return to, 0, false
}

// Divide gives the free GPUs to jobs, one step to the next size after the other, where each GPU
// saves most of GPU time, or costs least of it. Jobs with no GPUs come first, in the order of the
// list, and are passed over where their least size does not fit.
func Divide(free int, all []*Share) {
	for _, s := range all {
		if s.Size >= 0 {
			continue
		}
		if to, _, ok := s.next(); ok && to.GPUs <= free {
			s.Size, free = 0, free-to.GPUs
		}
	}
	var h steps
	for i, s := range all {
		if s.Size >= 0 {
			h.add(i, s)
		}
	}
	heap.Init(&h)
	for len(h) > 0 && free > 0 {
		best := h[0]
		s := all[best.place]
		heap.Pop(&h)
		if more := best.to.GPUs - s.Sizes[s.Size].GPUs; more <= free {
			free -= more
			for s.Sizes[s.Size].Tasks != best.to.Tasks {
				s.Size++
			}
			if h.add(best.place, s) {
				heap.Fix(&h, len(h)-1)
			}
		}
	}
}

// larger is a step of a job to a larger size.
type larger struct {
	place int // of the job in the list
	to    Size
	gain  float64
}

// steps has the step of the largest gain on top, of equal ones that of the first job.
type steps []larger

// add adds the next step of a job at the end, if there is one.
func (h *steps) add(place int, s *Share) bool {
	to, gain, ok := s.next()
	if ok {
		*h = append(*h, larger{place, to, gain})
	}
	return ok
}

// Len, Less, Swap, Push and Pop make it a heap.
func (h steps) Len() int { return len(h) }
func (h steps) Less(a, b int) bool {
	if h[a].gain != h[b].gain {
		return h[a].gain > h[b].gain
	}
	return h[a].place < h[b].place
}
func (h steps) Swap(a, b int) { h[a], h[b] = h[b], h[a] }

// Push adds a step at the end.
func (h *steps) Push(x any) { *h = append(*h, x.(larger)) }

// Pop takes the last one off.
func (h *steps) Pop() any {
	last := (*h)[len(*h)-1]
	*h = (*h)[:len(*h)-1]
	return last
}
