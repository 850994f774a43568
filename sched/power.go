package sched

import (
	"time"

	"github.com/norn-scheduler/norn/cluster"
)

// Sleeper decides which nodes sleep while nobody needs them. It works beside any policy: it is asked
// after each decision of the policy, when that has been carried out. Like a policy it has no clock
// and no randomness but v.Rand. What it keeps it could make again from the course of the run.
type Sleeper interface {
	// Power appends what nodes are to do. Only a node that is awake and idle can be sent to sleep,
	// and only one that is asleep can be woken; it is awake when its boot has ended.
	Power(v *View, out []PowerOrder) []PowerOrder
	// NextWake is the moment at which Power is to be called at the latest; unit.Never: only when
	// something happens. It must be later than v.Now.
	NextWake(v *View) time.Duration
}

// PowerOrder is what a node is to do: sleep, or wake up.
type PowerOrder struct {
	Node  cluster.NodeID
	Sleep bool
}
