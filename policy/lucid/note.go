package lucid

import (
	"time"

	"github.com/norn-scheduler/norn/cluster"
	"github.com/norn-scheduler/norn/sched"
)

// note is what is remembered of a job.
type note struct {
	measured time.Duration  // when it came to be measured, which counts if it did begin then; -1: it is not, or no more
	lent     cluster.NodeID // the node that was lent for it; cluster.None: none
	apart    bool           // it was taken from a pair that used more than it told: it shares no more
}

// NewNote is a note of this policy, for the table of policies.
func NewNote() sched.Note { return new(note) }

// Kind implements sched.Note.
func (n *note) Kind() string { return "lucid" }

// Fields implements sched.Note.
func (n *note) Fields(f *sched.Fields) {
	f.Moment("measured", &n.measured)
	f.Node("lent", &n.lent)
	f.Bool("apart", &n.apart)
}
