package elasticflow

import (
	"slices"
	"sort"
	"time"

	"github.com/norn-scheduler/norn/cluster/unit"
)

// Profile is how many GPUs are free from now on, as plans for them are made. It begins at one
// moment and never ends.
type Profile struct {
	steps []step // in order of time; the last one lasts for ever
}

// step is a number of free GPUs from a moment to that of the next step.
type step struct {
	from time.Duration
	free int
}

// NewProfile is a number of GPUs, free from a moment on.
func NewProfile(now time.Duration, gpus int) *Profile { return &Profile{[]step{{now, gpus}}} }

// at is the step in which a moment lies; a moment before the beginning is in the first.
func (p *Profile) at(t time.Duration) int {
	return max(0, sort.Search(len(p.steps), func(i int) bool { return p.steps[i].from > t })-1)
}

// until is the end of a step.
func (p *Profile) until(i int) time.Duration {
	if i+1 < len(p.steps) {
		return p.steps[i+1].from
	}
	return unit.Never
}

// Free is the GPUs that are free at a moment.
func (p *Profile) Free(t time.Duration) int { return p.steps[p.at(t)].free }

// Least is the fewest GPUs that are free at any moment from one to another.
func (p *Profile) Least(from, to time.Duration) int {
	i := p.at(from)
	least := p.steps[i].free
	for i++; i < len(p.steps) && p.steps[i].from < to; i++ {
		least = min(least, p.steps[i].free)
	}
	return least
}

// cut has a step begin at a moment, and returns its place.
func (p *Profile) cut(t time.Duration) int {
	i := p.at(t)
	if t <= p.steps[i].from {
		return i
	}
	p.steps = slices.Insert(p.steps, i+1, step{t, p.steps[i].free})
	return i + 1
}

// Take uses GPUs from one moment to another; a negative number gives them back.
func (p *Profile) Take(from, to time.Duration, gpus int) {
	if to <= from || gpus == 0 {
		return
	}
	i := p.cut(from)
	j := len(p.steps)
	if to < unit.Never {
		j = p.cut(to)
	}
	for ; i < j; i++ {
		p.steps[i].free -= gpus
	}
}

// Clone is a copy.
func (p *Profile) Clone() *Profile { return &Profile{slices.Clone(p.steps)} }
