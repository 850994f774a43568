package singularity

import (
	"cmp"
	"slices"

	"github.com/norn-scheduler/norn/cluster/unit"
	"github.com/norn-scheduler/norn/job"
	"github.com/norn-scheduler/norn/policy/kit/resize"
	"github.com/norn-scheduler/norn/sched"
)

// Claim is a job as the division sees it. Claims are in order of submission.
type Claim struct {
	Tier     job.Tier
	Fraction float64   // that it has had, 0 to 1
	Age      float64   // seconds since its submission
	Sizes    []int     // tasks that it may have, from the smallest; at least one
	Rate     []float64 // speed by Sizes
	Each     int       // GPUs of a task, above 0
	Has      int       // tasks that it has, 0: none
	Held     bool      // it has changed a short while ago
	Window   float64   // seconds for which its promise is looked at

	Size int // the choice: one of Sizes, or 0
}

// Need is the smallest size with which the job keeps its promise until the window ends, or the largest
// if there is none. It is 0 for a job that is promised nothing.
func (c *Claim) Need() int {
	if c.Tier.Promise() == 0 {
		return 0
	}
	for i, n := range c.Sizes {
		if c.Fraction*c.Age+c.Rate[i]*c.Window >= c.Tier.Promise()*(c.Age+c.Window) {
			return n
		}
	}
	return c.Sizes[len(c.Sizes)-1]
}

// largest is the largest size of at most so many tasks, 0 if there is none.
func (c *Claim) largest(tasks int) (best int) {
	for _, n := range c.Sizes {
		if n <= tasks {
			best = n
		}
	}
	return best
}

// Divide settles the sizes of jobs within so many GPUs. In order of tiers, and in a tier by how far
// they are behind their promises, jobs get what they need, or as much as there is. What is left goes to
// those who are promised something, up to all that they ask for; then one size after the other to the
// others, and they grow in turn.
func Divide(all []*Claim, gpus int) {
	order := slices.Clone(all)
	behind := func(c *Claim) float64 { return c.Fraction - c.Tier.Promise() }
	slices.SortStableFunc(order, func(a, b *Claim) int {
		if a.Tier != b.Tier {
			return cmp.Compare(b.Tier, a.Tier)
		}
		if first, also := a.Held && a.Has > 0, b.Held && b.Has > 0; first != also {
			if first {
				return -1
			}
			return 1
		}
		return cmp.Compare(behind(a), behind(b))
	})
	give := func(c *Claim, tasks int) {
		if n := c.largest(min(tasks, c.Size+gpus/c.Each)); n > c.Size {
			gpus -= (n - c.Size) * c.Each
			c.Size = n
		}
	}
	grow := func(promised bool) {
		for _, c := range order {
			most := c.Sizes[len(c.Sizes)-1]
			if c.Held && c.Has > 0 && behind(c) >= 0 {
				most = min(most, max(c.Has, c.Size))
			}
			if (c.Tier.Promise() > 0) == promised {
				give(c, most)
			}
		}
	}
	for _, c := range order {
		give(c, c.Need())
	}
	grow(true)
	for _, c := range order {
		if c.Size == 0 {
			give(c, c.Sizes[0])
		}
	}
	grow(false)
}

// holder is a Claim with the job that makes it.
type holder struct {
	Claim
	claim *resize.Claim
}

// view is the Claims of holders.
func view(all []*holder) []*Claim {
	out := make([]*Claim, len(all))
	for i, h := range all {
		out[i] = &h.Claim
	}
	return out
}

// holder tells what may become of a job.
func (o *policy) holder(v *sched.View, c *resize.Claim, largest int) *holder {
	j, role := c.Job, &c.Job.Spec().Demand.Roles[0]
	workers := int(role.Tasks)
	h := &holder{claim: c, Claim: Claim{Tier: j.Spec().Tier, Age: (v.Now - j.Submit()).Seconds(), Fraction: 1, Each: max(1, c.Each), Window: o.cfg.Window.Seconds()}}
	if h.Age > 0 {
		h.Fraction = j.Progress().Seconds() / h.Age
	}
	if j.Running() {
		h.Has, h.Held = j.Tasks(), j.Ready()+o.cfg.Hold > v.Now
	}
	whole := resize.Whole(j.Spec().Demand)
	for n := c.Least; n <= min(c.Most, workers) && o.cfg.Splice && j.Spec().Resize == job.TimeSliced && whole; n++ {
		if workers%n == 0 {
			h.Sizes = append(h.Sizes, n)
		}
	}
	if len(h.Sizes) == 0 {
		h.Sizes = []int{workers}
	}
	if !whole { // several roles, or parts of GPUs: one task stands for all
		h.Each = max(1, (j.GPUs()+workers-1)/max(1, workers))
	}
	for _, n := range h.Sizes {
		h.Rate = append(h.Rate, resize.BestSpeed(v, j, n, largest))
	}
	c.Sizes, c.Least, c.Most = h.Sizes, h.Sizes[0], h.Sizes[len(h.Sizes)-1]
	return h
}

// stays tells whether a running job keeps its devices whatever is divided: it would lose work if it
// were stopped, or must not be, or has made no progress yet on what it has.
func stays(v *sched.View, j sched.Job) bool {
	a, stop := v.Alloc(j.ID), j.Spec().Stop
	return j.Phase() != job.Running || j.Profiling() || j.Ready() >= v.Now || a.Milli() != j.Spec().Demand.Milli(int32(a.Tasks(0))) ||
		stop != job.Checkpoint && (stop != job.LastSave || j.Unsaved()) || v.Cluster().UsableDevices(a) < len(a.Shares) || a.Milli() < unit.One
}
