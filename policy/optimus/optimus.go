// Package optimus divides GPUs among elastic jobs by marginal gain: every job gets
// the least it can run with, in order of submission, and then one GPU after the
// other goes to the job whose remaining time it shortens most.
//
// Nouns: the remaining time of a job at a size is what it is believed to have left
// over how fast it is believed to run there; the gain of a GPU is by how much it
// shortens that. This is the form for workers alone, without parameter servers, in
// which later papers compare themselves with Optimus (Sia, Ymir).
//
// Source: Peng et al., "Optimus: An Efficient Dynamic Resource Scheduler for Deep
// Learning Clusters", EuroSys 2018.
package optimus

import (
	"cmp"
	"container/heap"
	"errors"
	"math"
	"slices"
	"time"

	"github.com/norn-scheduler/norn/cluster"
	"github.com/norn-scheduler/norn/cluster/unit"
	"github.com/norn-scheduler/norn/job"
	"github.com/norn-scheduler/norn/place"
	"github.com/norn-scheduler/norn/policy/need"
	"github.com/norn-scheduler/norn/policy/param"
	"github.com/norn-scheduler/norn/sched"
)

// Config is the settings of the policy.
type Config struct {
	Interval time.Duration
	Place    place.Strategy
}

// NewConfig returns the defaults: rounds of a minute, as where this form was made.
func NewConfig() *Config { return &Config{Interval: time.Minute, Place: place.Pack} }

// Params binds the settings.
func (c *Config) Params() param.Set {
	return param.Set{
		param.Duration("interval", &c.Interval, "how often GPUs are divided anew; nothing is decided in between"),
		place.Param(&c.Place),
	}
}

// Needs says what the policy lives on.
func (c *Config) Needs() need.List {
	return need.List(nil).
		And(need.Of(need.Elastic), "jobs go by submission, with the numbers of GPUs that they ask for").
		And(need.Of(need.RunTimes), "every job is taken to have an hour left")
}

// Policy makes the policy.
func (c *Config) Policy() (sched.Policy, error) {
	if c.Interval <= 0 || c.Interval == unit.Never {
		return nil, errors.New("interval must be above 0, and some time")
	}
	return &policy{cfg: *c}, nil
}

type policy struct{ cfg Config }

// claim is a job that wants GPUs.
type claim struct {
	j           sched.Job
	left        float64 // seconds at speed 1
	least, most int
	each        int // GPUs of a task, rounded up
	tasks       int
	gain        float64 // of one task more, for each GPU
}

// Decide implements sched.Policy.
func (o *policy) Decide(v *sched.View, p *sched.Plan) {
	if v.Now%o.cfg.Interval != 0 {
		for j := range v.Waiting() {
			c := j.Reason().Code
			again := v.NodesChanged() && j.Reason().Never() && p.Never(j.ID, o.cfg.Place).Code == job.NoReason
			if c == job.NoReason || c > job.Because || again {
				p.Wait(j.ID, job.Reason{Code: job.NotYet, At: (v.Now/o.cfg.Interval + 1) * o.cfg.Interval, Job: job.None})
			}
		}
		return
	}
	first, last := v.Pool, v.Pool
	if v.All {
		first, last = 0, cluster.PoolID(v.Pools()-1)
	}
	for pool := first; pool <= last; pool++ {
		claims, gpus := o.gather(v, pool)
		o.divide(v, claims, gpus)
		o.carryOut(p, claims)
	}
}

// NextWake implements sched.Waker.
func (o *policy) NextWake(v *sched.View) time.Duration {
	for j := range v.Waiting() {
		if !j.Reason().Never() { // it is reconsidered when nodes come or go
			return (v.Now/o.cfg.Interval + 1) * o.cfg.Interval
		}
	}
	for range v.Running() {
		return (v.Now/o.cfg.Interval + 1) * o.cfg.Interval
	}
	return unit.Never
}

// gather lists the jobs of a pool that may be stopped and started, by number, and
// the GPUs that they share.
func (o *policy) gather(v *sched.View, pool cluster.PoolID) (claims []*claim, gpus int) {
	gpus = v.Cluster().TotalGPUs(pool, 0)
	add := func(j sched.Job) {
		least, most := j.Spec().Demand.Roles[0].Range()
		left, known := j.Remaining()
		if !known {
			left = time.Hour
		}
		each := int((j.Spec().Demand.Roles[0].GPU + unit.One - 1) / unit.One)
		claims = append(claims, &claim{j: j, left: max(1, left.Seconds()), least: int(least), most: int(most), each: each})
	}
	for j := range v.Waiting() {
		if j.Pool() == pool {
			add(j)
		}
	}
	for j := range v.Running() {
		switch {
		case j.Pool() != pool:
		case o.stays(v, j):
			gpus -= v.Cluster().UsableDevices(v.Alloc(j.ID))
		default:
			add(j)
		}
	}
	slices.SortFunc(claims, func(a, b *claim) int { return cmp.Compare(a.j.ID, b.j.ID) })
	return claims, max(0, gpus)
}

// stays tells whether a running job keeps what it has: one that must not be
// stopped, that has not begun, or that runs where nobody else may.
func (o *policy) stays(v *sched.View, j sched.Job) bool {
	a := v.Alloc(j.ID)
	return j.Spec().Stop == job.Pinned || j.Phase() != job.Running || v.Cluster().UsableDevices(a) < len(a.Shares)
}

// divide settles the number of tasks of each job.
func (o *policy) divide(v *sched.View, claims []*claim, gpus int) {
	var h claimHeap
	for _, c := range claims {
		if need := c.j.Spec().Demand.GPUs(); c.least == c.most && need <= gpus {
			c.tasks, gpus = c.least, gpus-need
		} else if need := c.least * c.each; c.least < c.most && need <= gpus {
			c.tasks, gpus = c.least, gpus-need
			if o.weigh(v, c) {
				h = append(h, c)
			}
		}
	}
	heap.Init(&h)
	for len(h) > 0 && gpus > 0 {
		c := h[0]
		if c.gain <= 0 || c.each > gpus { // as the prototype does: no other job is tried
			return
		}
		c.tasks, gpus = c.tasks+1, gpus-c.each
		if o.weigh(v, c) {
			heap.Fix(&h, 0)
		} else {
			heap.Pop(&h)
		}
	}
}

// weigh finds the gain of one task more, and tells whether there can be one.
func (o *policy) weigh(v *sched.View, c *claim) bool {
	if c.tasks >= c.most {
		return false
	}
	now, more := o.time(v, c, c.tasks), o.time(v, c, c.tasks+1)
	c.gain = (now - more) / float64(max(1, c.each))
	return !math.IsNaN(c.gain)
}

// time is the remaining time of a job at a size.
func (o *policy) time(v *sched.View, c *claim, tasks int) float64 {
	best, most := 0.0, 1
	cl := v.Cluster()
	for _, n := range cl.PoolNodes(v.Scope(c.j)) {
		most = max(most, cl.NodeGPUs(n))
	}
	for t := range cluster.TypeID(cl.Types()) {
		if !cl.Type(t).Host {
			best = max(best, v.TypeSpeed(c.j, t, tasks, tasks*c.each > most))
		}
	}
	return c.left / best
}

// carryOut plans the difference: who keeps its size keeps its GPUs, the others
// leave, and the smallest of them are placed first.
func (o *policy) carryOut(p *sched.Plan, claims []*claim) {
	var change []*claim
	for _, c := range claims {
		switch {
		case c.j.Running() && c.j.Tasks() == c.tasks:
			continue
		case c.j.Running() && c.tasks == 0:
			p.Stop(c.j.ID, job.Reason{Code: job.MakesRoom, Job: job.None})
		case c.j.Running():
			p.Stop(c.j.ID, job.Reason{Code: job.Resized, Need: int32(c.tasks), Job: job.None})
		}
		change = append(change, c)
	}
	size := func(c *claim) int { // who is to wait comes last
		if c.tasks == 0 {
			return math.MaxInt
		}
		return c.tasks
	}
	slices.SortStableFunc(change, func(a, b *claim) int { return cmp.Or(cmp.Compare(size(a), size(b)), cmp.Compare(a.j.ID, b.j.ID)) })
	for _, c := range change {
		for n := max(c.tasks, c.least); n >= c.least; n-- { // who is to wait is told why, or finds room after all
			if p.StartSize(c.j.ID, n, o.cfg.Place) {
				break
			}
		}
	}
}

// claimHeap has the largest gain on top, of equal ones the job that was submitted
// first.
type claimHeap []*claim

// Len, Less, Swap, Push and Pop make it a heap.
func (h claimHeap) Len() int { return len(h) }
func (h claimHeap) Less(a, b int) bool {
	if h[a].gain != h[b].gain {
		return h[a].gain > h[b].gain
	}
	return h[a].j.ID < h[b].j.ID
}
func (h claimHeap) Swap(a, b int) { h[a], h[b] = h[b], h[a] }

// Push adds a claim at the end.
func (h *claimHeap) Push(x any) { *h = append(*h, x.(*claim)) }

// Pop takes the last one off.
func (h *claimHeap) Pop() any {
	last := (*h)[len(*h)-1]
	*h = (*h)[:len(*h)-1]
	return last
}
