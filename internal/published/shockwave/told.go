package shockwave

import (
	"slices"

	"github.com/norn-scheduler/norn/internal/regime"
)

// gns is the batch size of each epoch under GNS. The last epoch goes back to the
// first batch size where there is a second doubling at all, as the published loop
// ends before it.
func gns(s regime.Shape, epochs int) []int {
	out := slices.Repeat([]int{s.Batch}, epochs)
	at := s.Doublings()
	if len(at) == 0 || epochs <= at[0] {
		return out
	}
	for k, from := range at {
		to := epochs
		if k+1 < len(at) {
			to = min(to, at[k+1])
		}
		for e := from; e < to; e++ {
			if k > 0 && e+1 >= epochs {
				break
			}
			out[e] = min(s.Batch<<(k+1), regime.Largest(s.Model))
		}
	}
	return out
}

// accordion is the batch size of each epoch under Accordion, as the scheduler is told
// it beforehand. The job itself does not keep to the least part of its epochs.
func accordion(s regime.Shape, epochs int) []int {
	out := make([]int, epochs)
	for e := range out {
		out[e] = s.Accordion(e, epochs)
	}
	return out
}
