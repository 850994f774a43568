package gandiva

import (
	"time"

	"github.com/norn-scheduler/norn/cluster"
	"github.com/norn-scheduler/norn/job"
	"github.com/norn-scheduler/norn/sched"
)

// link is what a job has to do with another one.
type link uint8

const (
	apart  link = iota
	failed      // packing them did not help: the next to be tried is the one behind it
	trying      // they are packed and being measured
	paired      // they are packed
)

// note is what is remembered of a job.
type note struct {
	home  cluster.NodeID // the first node of the server it lives on; None: nowhere
	parts bool           // it lies on parts of several nodes
	link  link
	with  job.ID        // the other one; None also when it is not known any more
	vain  bool          // more GPUs did not make it faster
	stamp time.Duration // when it went to the end of the list of its server; -1: not yet
	rate  float64       // measured when it had its GPUs for itself; 0: not yet
	used  bool          // use was measured then
	use   float64       // of the GPUs
}

// NewNote is a note of this policy, for the table of policies.
func NewNote() sched.Note { return new(note) }

// Kind implements sched.Note.
func (n *note) Kind() string { return "gandiva" }

// Fields implements sched.Note.
func (n *note) Fields(f *sched.Fields) {
	f.Node("home", &n.home)
	f.Bool("parts", &n.parts)
	sched.Int(f, "link", &n.link)
	f.Ref("with", &n.with)
	f.Bool("vain", &n.vain)
	f.Moment("stamp", &n.stamp)
	f.Float("rate", &n.rate)
	f.Bool("used", &n.used)
	f.Float("use", &n.use)
}

// noise is a gain too small to be told from none: rates are measured, and quotients of
// them are not exact.
const noise = 1e-3
