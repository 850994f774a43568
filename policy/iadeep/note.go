package iadeep

import "github.com/norn-scheduler/norn/sched"

// note is what is remembered of a job. On the one that came last to a GPU it says what
// its tuning has measured so far, and later what the interference was when it came and
// beside whom. So a policy that starts anew goes on with both.
type note struct {
	jobs   int       // of a tuning: on the GPU; 0: the job does not own one
	joint  bool      // of a tuning: the two that share the GPU are tuned at once
	values []float64 // of a tuning: the sums of PDs, of each trial

	sum  float64  // the interference that was measured
	with []string // the sorts of the others then; none: none was

	evicted bool // the memory of its GPU ran out when it shared one: it shares no more
}

// NewNote is a note of this policy, for the table of policies.
func NewNote() sched.Note { return new(note) }

// Kind implements sched.Note.
func (n *note) Kind() string { return "iadeep" }

// Fields implements sched.Note.
func (n *note) Fields(f *sched.Fields) {
	sched.Int(f, "jobs", &n.jobs)
	f.Bool("joint", &n.joint)
	f.Floats("values", &n.values)
	f.Float("sum", &n.sum)
	sched.List(f, "with", &n.with, func(sort *string, f *sched.Fields) { f.Text("sort", sort) })
	f.Bool("evicted", &n.evicted)
}

// owns tells whether a job owns a tuning.
func owns(j sched.Job) bool {
	n, _ := sched.Recall[note](j)
	return n.jobs > 0
}
