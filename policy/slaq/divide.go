package slaq

import (
	"cmp"
	"container/heap"
	"math"
	"slices"
)

// Claim is a job that wants units. Claims stand in order of submission.
type Claim struct {
	Least, Most int               // units
	Each        int               // GPUs of a unit, at least 1
	First       int               // GPUs of the least
	Gain        func(int) float64 // by units; nil: nothing is foretold of it
	Units       int               // the answer; 0: it waits

	gains []float64 // from Least on
}

// gain is the gain with so many units, at least Least.
func (c *Claim) gain(units int) float64 {
	if c.Gain == nil {
		return 0
	}
	for len(c.gains) <= units-c.Least {
		c.gains = append(c.gains, c.Gain(c.Least+len(c.gains)))
	}
	return c.gains[units-c.Least]
}

// Divide shares GPUs out, and sets Units. Every claim gets its least, those with the largest gains
// where there are not enough GPUs for all. Then units go one after the other to the claim to whose
// gain they add most, for each GPU; of equal ones to the first. Units that add to no gain are
// shared equally. Where gains are concave there is no better division.
func Divide(claims []Claim, gpus int) {
	in, gpus := admit(claims, gpus)
	grow(in, &gpus, (*Claim).improve)
	grow(in, &gpus, (*Claim).catchUp)
}

// grow gives units to the claim whose step is worth most, of equal ones to the first, as long
// as there are GPUs and a step.
func grow(in []*Claim, gpus *int, next func(c *Claim, gpus int) step) {
	var h stepHeap
	for i, c := range in {
		if s := next(c, *gpus); s.units > 0 {
			s.of, s.order = c, i
			h = append(h, s)
		}
	}
	heap.Init(&h)
	for len(h) > 0 {
		s := &h[0]
		if s.units*s.of.Each <= *gpus {
			s.of.Units, *gpus = s.of.Units+s.units, *gpus-s.units*s.of.Each
		}
		again := next(s.of, *gpus)
		if s.units, s.worth = again.units, again.worth; s.units > 0 {
			heap.Fix(&h, 0)
		} else {
			heap.Pop(&h)
		}
	}
}

// admit gives claims their least, and returns those that got it and the GPUs that are left.
func admit(claims []Claim, gpus int) (in []*Claim, left int) {
	need := 0
	for i := range claims {
		in, need = append(in, &claims[i]), need+claims[i].First
	}
	if need > gpus {
		slices.SortStableFunc(in, func(a, b *Claim) int {
			return cmp.Compare(b.gain(b.Least)/float64(max(1, b.First)), a.gain(a.Least)/float64(max(1, a.First)))
		})
	}
	in = slices.DeleteFunc(in, func(c *Claim) bool {
		if c.First > gpus {
			return true
		}
		c.Units, gpus = c.Least, gpus-c.First
		return false
	})
	return in, gpus
}

// step is some units more for a claim.
type step struct {
	of    *Claim
	order int // of the claim
	units int // 0: there is none
	worth float64
}

// same is how little gains differ that count as equal.
const same = 1e-12

// improve is the step that adds most to the gain, for each GPU, of those for which there are
// GPUs: one unit where gains are concave.
func (c *Claim) improve(gpus int) (best step) {
	if c.Gain == nil {
		return best
	}
	now := c.gain(c.Units)
	for d := 1; c.Units+d <= c.Most && d*c.Each <= gpus; d++ {
		more := math.Round((c.gain(c.Units+d)-now)/float64(d*c.Each)/same) * same
		if more > best.worth {
			best.units, best.worth = d, more
		}
	}
	return best
}

// catchUp is a step to an equal share: the fewer GPUs a claim has, the more a unit is worth.
func (c *Claim) catchUp(gpus int) (one step) {
	if c.Units < c.Most && c.Each <= gpus {
		one.units, one.worth = 1, -float64(c.Units*c.Each)
	}
	return one
}

// stepHeap has the step on top that is worth most, of equal ones that of the first claim.
type stepHeap []step

// Len, Less, Swap, Push and Pop make it a heap.
func (h stepHeap) Len() int { return len(h) }
func (h stepHeap) Less(a, b int) bool {
	if h[a].worth != h[b].worth {
		return h[a].worth > h[b].worth
	}
	return h[a].order < h[b].order
}
func (h stepHeap) Swap(a, b int) { h[a], h[b] = h[b], h[a] }

// Push adds a step at the end.
func (h *stepHeap) Push(x any) { *h = append(*h, x.(step)) }

// Pop takes the last one off.
func (h *stepHeap) Pop() any {
	last := (*h)[len(*h)-1]
	*h = (*h)[:len(*h)-1]
	return last
}
