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
	"container/heap"
	"errors"
	"math"
	"time"

	"github.com/norn-scheduler/norn/cluster/unit"
	"github.com/norn-scheduler/norn/job"
	"github.com/norn-scheduler/norn/perf"
	"github.com/norn-scheduler/norn/perf/predict/loss"
	"github.com/norn-scheduler/norn/place"
	"github.com/norn-scheduler/norn/policy/kit/resize"
	"github.com/norn-scheduler/norn/policy/need"
	"github.com/norn-scheduler/norn/policy/param"
	"github.com/norn-scheduler/norn/sched"
)

// Learn says where remaining times come from.
type Learn uint8

// The values of Learn.
const (
	Told   Learn = iota // what the run believes of run times and speeds
	Losses              // losses and speeds that jobs report, to which curves are fitted
)

// Config is the settings of the policy.
type Config struct {
	Interval time.Duration
	Learn    Learn
	Place    place.Strategy
}

// NewConfig returns the defaults: rounds of a minute, as where this form was made.
func NewConfig() *Config { return &Config{Interval: time.Minute, Place: place.Pack} }

// Params binds the settings.
func (c *Config) Params() param.Set {
	return param.Set{
		param.Duration("interval", &c.Interval, "how often GPUs are divided anew; nothing is decided in between"),
		param.Choice("learn", &c.Learn, []param.Option[Learn]{{Name: "told", Value: Told}, {Name: "losses", Value: Losses}},
			"where remaining times come from: what the run believes of run times and speeds, or curves that are fitted to the losses and speeds that jobs report"),
		place.Param(&c.Place),
	}
}

// Needs says what the policy lives on.
func (c *Config) Needs() need.List {
	return need.List(nil).
		And(need.Of(need.Elastic), "jobs go by submission, with the numbers of GPUs that they ask for").
		If(c.Learn == Told, need.Of(need.RunTimes), "every job is taken to have an hour left").
		If(c.Learn == Losses, need.Of(need.Losses), "every job is taken to have an hour left")
}

// Believer makes what the scheduler believes from the losses and speeds that jobs report; nil
// where it goes by what the run believes.
func (c *Config) Believer(prior perf.Prior) perf.Believer {
	if c.Learn != Losses {
		return nil
	}
	return loss.NewBeliever(prior)
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
	*resize.Claim
	gain  float64                 // of one task more, for each GPU
	after func(tasks int) float64 // the time in seconds that it has left with so many tasks
}

// Decide implements sched.Policy.
func (o *policy) Decide(v *sched.View, p *sched.Plan) {
	if !o.rounds().Begin(v, p) {
		return
	}
	for pool := range v.EachPool() {
		claims, gpus := resize.Claims(v, pool, func(j sched.Job) bool { return o.stays(v, j) })
		o.divide(v, claims, gpus)
		resize.CarryOut(p, claims, o.cfg.Place)
	}
}

// rounds are the moments at which GPUs are divided.
func (o *policy) rounds() resize.Rounds {
	return resize.Rounds{Interval: o.cfg.Interval, Place: o.cfg.Place}
}

// NextWake implements sched.Waker.
func (o *policy) NextWake(v *sched.View) time.Duration { return o.rounds().Wake(v) }

// stays tells whether a running job keeps what it has: one that must not be
// stopped, that has not begun, or that runs where nobody else may.
func (o *policy) stays(v *sched.View, j sched.Job) bool {
	a := v.Alloc(j.ID)
	return j.Spec().Stop == job.Pinned || j.Phase() != job.Running || v.Cluster().UsableDevices(a) < len(a.Shares)
}

// divide settles the number of tasks of each job.
func (o *policy) divide(v *sched.View, claims []*resize.Claim, gpus int) {
	var h claimHeap
	for _, c := range claims {
		need := c.GPUs()
		if need > gpus {
			continue
		}
		c.Tasks, gpus = c.Least, gpus-need
		if grows := o.newClaim(v, c); !c.Rigid() && grows.weigh() {
			h = append(h, grows)
		}
	}
	heap.Init(&h)
	for len(h) > 0 && gpus > 0 {
		c := h[0]
		if c.gain <= 0 || c.Each > gpus { // as the prototype does: no other job is tried
			return
		}
		c.Tasks, gpus = c.Tasks+1, gpus-c.Each
		if c.weigh() {
			heap.Fix(&h, 0)
		} else {
			heap.Pop(&h)
		}
	}
}

// newClaim is a claim with what its job is believed to have left.
func (o *policy) newClaim(v *sched.View, c *resize.Claim) *claim {
	x := &claim{Claim: c}
	largest := resize.LargestNode(v, c.Job)
	speed := func(tasks int) float64 { return resize.BestSpeed(v, c.Job, tasks, largest) }
	if b, learns := v.Speeds.(loss.Recorder); learns && o.cfg.Learn == Losses {
		if h := b.History(c.Job.Spec()); h != nil {
			if _, _, told := h.Loss(); told {
				rate := newRates(h, speed)
				epochs := remaining(h)
				x.after = func(tasks int) float64 { return epochs / rate.at(tasks) }
				return x
			}
		}
	}
	left, known := c.Job.Remaining()
	if !known || o.cfg.Learn == Losses {
		left = time.Hour
	}
	seconds := max(1, left.Seconds())
	x.after = func(tasks int) float64 { return seconds / speed(tasks) }
	return x
}

// weigh finds the gain of one task more, and tells whether there can be one.
func (c *claim) weigh() bool {
	if c.Tasks >= c.Most {
		return false
	}
	now, more := c.after(c.Tasks), c.after(c.Tasks+1)
	c.gain = (now - more) / float64(max(1, c.Each))
	return !math.IsNaN(c.gain)
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
	return h[a].Job.ID < h[b].Job.ID
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
