package quota

import (
	"fmt"
	"math"
	"time"

	"github.com/norn-scheduler/norn/place"
	"github.com/norn-scheduler/norn/policy/kit/queue"
	"github.com/norn-scheduler/norn/policy/need"
	"github.com/norn-scheduler/norn/policy/param"
	"github.com/norn-scheduler/norn/sched"
)

// Order says which job of a tenant goes first.
type Order uint8

// The orders within a tenant. Ties go by submission.
const (
	FIFO     Order = iota // first submitted
	SJF                   // shortest estimate; those without one last
	Priority              // largest priority class
)

// Reclaim says what a tenant may take back from others that have borrowed GPUs.
type Reclaim uint8

// The kinds of reclaim.
const (
	Nothing   Reclaim = iota
	Guarantee         // up to what it is guaranteed
	Share             // also up to its share, from nodes above theirs
)

// Victims says which job of a borrowing tenant is stopped first. Jobs that
// would lose their work come after those that keep it.
type Victims uint8

// The orders of victims. Ties go to the last started, then to the last
// submitted.
const (
	LowestPriority Victims = iota // lowest priority class first
	Newest                        // last started first
	LeastService                  // the fewest GPU-seconds since its start first
	LeastLost                     // the fewest GPU-seconds to be done again first
)

// Settings are what policies that fill and reclaim have in common.
type Settings struct {
	Order   Order
	Block   bool // a job that does not fit blocks those of its tenant behind it
	Reclaim Reclaim
	Grace   time.Duration // time that a job waits before borrowed GPUs are taken back for it
	MinRun  time.Duration // time after its start for which a job is no victim
	Victims Victims
	Place   place.Strategy
}

// Params binds the settings. shares tells whether the policy computes shares,
// so that they can be reclaimed.
func (s *Settings) Params(shares bool) param.Set {
	reclaim := []param.Option[Reclaim]{{Name: "none", Value: Nothing}, {Name: "guarantee", Value: Guarantee}}
	doc := "what a tenant takes back from those that borrow: nothing, or GPUs up to its guarantee"
	if shares {
		reclaim = append(reclaim, param.Option[Reclaim]{Name: "share", Value: Share})
		doc += ", or also up to its share"
	}
	return param.Set{
		param.Choice("order", &s.Order, []param.Option[Order]{{Name: "fifo", Value: FIFO}, {Name: "sjf", Value: SJF}, {Name: "priority", Value: Priority}},
			"which job of a tenant goes first: the first submitted, the one with the shortest estimate, or the one of the largest priority class"),
		param.Bool("block", &s.Block, "a job that does not fit blocks those of its tenant behind it instead of being skipped"),
		param.Choice("reclaim", &s.Reclaim, reclaim, doc),
		param.Duration("grace", &s.Grace, "how long a job waits before borrowed GPUs are taken back for it"),
		param.Duration("minrun", &s.MinRun, "for how long after its start a job is not stopped to give GPUs back"),
		param.Choice("victims", &s.Victims, []param.Option[Victims]{{Name: "priority", Value: LowestPriority}, {Name: "newest", Value: Newest}, {Name: "service", Value: LeastService}, {Name: "checkpoint", Value: LeastLost}},
			"which job gives borrowed GPUs back first: that of the lowest priority class, the last started, the one with the fewest GPU-seconds since its start, or the one that has done least since its last checkpoint"),
		place.Param(&s.Place),
	}
}

// Needs says what a policy of these settings lives on, under its own name.
func (s *Settings) Needs(name string) need.List {
	return need.List(nil).
		And(need.Of(need.Tenants), "but for limits it acts as "+s.alone()).
		If(s.Reclaim == Guarantee, need.Of(need.Quotas), "it acts as "+name+"(reclaim=none)").
		If(s.Order == SJF, need.Of(need.RunTimes), "it acts as "+name+"(order=fifo)").
		If(s.Order == Priority, need.Of(need.Priorities), "it acts as "+name+"(order=fifo)")
}

// alone is the policy that serves a single tenant in the same way.
func (s *Settings) alone() string {
	mode := "mode=skip"
	if s.Block {
		mode = "mode=strict"
	}
	switch s.Order {
	case SJF:
		return fmt.Sprintf("sjf(block=%t)", s.Block)
	case Priority:
		return "fifo(" + mode + ",priority=true)"
	}
	return "fifo(" + mode + ")"
}

// key is the place of a job among those of its tenant.
func (o Order) key(j sched.Job) queue.Key {
	switch o {
	case SJF:
		if left, ok := j.Remaining(); ok {
			return queue.Key{A: int64(left)}
		}
		return queue.Key{A: math.MaxInt64}
	case Priority:
		return queue.Key{A: -int64(j.Spec().Priority)}
	}
	return queue.Key{}
}
