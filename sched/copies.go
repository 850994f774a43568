package sched

import (
	"time"

	"github.com/norn-scheduler/norn/cluster"
	"github.com/norn-scheduler/norn/cluster/unit"
)

// DataLabel is the label of nodes that have a data set: that of imagenet is data/imagenet. Jobs that
// read it ask for nodes with the label (job.Demand.Where).
const DataLabel = "data/"

// Mover decides which data is copied where. It works beside any policy, as a Sleeper does.
type Mover interface {
	// Move appends what is to be copied to a place of the topology, and what is to be dropped there.
	// The nodes of the place have the data (DataLabel) once the copy has arrived.
	Move(v *View, out []CopyOrder) []CopyOrder
	// NextWake is the moment at which Move is to be called at the latest; unit.Never: only when
	// something happens. It must be later than v.Now.
	NextWake(v *View) time.Duration
}

// CopyOrder is a data set that is to be in a place, or not to be there any more.
type CopyOrder struct {
	Data string
	To   cluster.DomainID
	Size unit.Bytes
	Drop bool
}
