package rmixer

import (
	"math"

	"github.com/norn-scheduler/norn/cluster/unit"
	"github.com/norn-scheduler/norn/job"
	"github.com/norn-scheduler/norn/perf"
	"github.com/norn-scheduler/norn/policy/rmixer/memory"
	"github.com/norn-scheduler/norn/sched"
)

// standing is what the policy remembers about a job.
type standing struct {
	closed   bool  // its batch is closed
	class    int8  // -1 as long as it is not
	tail     bool  // it stood in the tail when the list was last put in order
	front    bool  // it was taken from the front of the list
	whole    bool  // it was given all memory of a device as large as there is
	hopeless bool  // its memory ran out even so
	ooms     uint8 // how often its memory ran out
	evicted  int   // how often it had been evicted when that was last counted
	use      int32 // in thousandths of a percent, when the list was last put in order
	tracked  int32 // measured use in thousandths of a percent
	samples  uint8 // behind tracked
}

// NewNote is a note of this policy, for the table of policies.
func NewNote() sched.Note { return new(standing) }

// Kind implements sched.Note.
func (s *standing) Kind() string { return "rmixer" }

// Fields implements sched.Note.
func (s *standing) Fields(f *sched.Fields) {
	f.Bool("closed", &s.closed)
	sched.Int(f, "class", &s.class)
	f.Bool("tail", &s.tail)
	f.Bool("front", &s.front)
	f.Bool("whole", &s.whole)
	f.Bool("hopeless", &s.hopeless)
	sched.Int(f, "ooms", &s.ooms)
	sched.Int(f, "evicted", &s.evicted)
	sched.Int(f, "use", &s.use)
	sched.Int(f, "tracked", &s.tracked)
	sched.Int(f, "samples", &s.samples)
}

// recall is what was remembered about a job before this plan.
func recall(j sched.Job) standing {
	s, _ := sched.Recall[standing](j)
	if !s.closed {
		s.class = -1
	}
	return s
}

// single tells whether a job is of the model of the paper: one task on one GPU or
// a part of one.
func single(j *job.Job) bool {
	d := j.Demand
	r := &d.Roles[0]
	return r.Tasks == 1 && r.GPU > 0 && r.GPU <= unit.One && d.Roles[1].Tasks == 0
}

// model finds a job's model among those of the authors, or nil.
func (r *policy) model(j *job.Job) *memory.Model {
	if m, ok := r.byName[j.Model]; ok {
		return m
	}
	m, _ := memory.Find(r.models, j.Model)
	r.byName[j.Model] = m
	return m
}

// memory is the peak GPU memory that the scheduler believes a job has: as it asks,
// as its source tells, as estimated from its shape, or as that of its model; 0 when
// nothing is known.
func (r *policy) memory(j *job.Job) unit.Bytes {
	m, _ := r.believed(j)
	return m
}

// believed is the memory of a job, and where that figure comes from.
func (r *policy) believed(j *job.Job) (m unit.Bytes, from string) {
	context := unit.Bytes(r.cfg.Context) * unit.MiB
	if j.Hints != nil && j.Hints.Shape != nil && j.Demand.Roles[0].GPUMemory == 0 && j.Hints.GPUMemory == 0 {
		return perf.PeakOf(j.Hints.Shape, int64(j.Batch), context).Total(), fromShape
	}
	if m := perf.MemoryOf(j); m > 0 {
		return m, ownWord
	}
	if m := r.model(j); m != nil {
		return m.Peak(int64(j.Batch), context), "what was measured of " + m.Name
	}
	return 0, ""
}

// The sources of memory that are not what was measured of a model.
const (
	ownWord   = "its own word"             // of the job or its trace
	fromShape = "the shapes of its layers" // that the job tells
)

// booked is the memory that is booked for a job, in bytes. It doubles each time
// that the job runs out of memory. If nothing is known of the job, it is 0 at
// first, and all of a device once the job has run out.
func (r *policy) booked(j *job.Job, s standing) unit.Bytes {
	m, from := r.believed(j)
	if s.ooms > 0 && m == 0 {
		return none
	}
	need := float64(m) * r.factor(from)
	if s.ooms > 0 {
		need *= math.Exp2(float64(s.ooms))
	}
	return unit.Bytes(min(float64(none), math.Ceil(need)))
}

// factor is booked over believed memory, by where that comes from.
func (r *policy) factor(from string) float64 {
	if from == fromShape {
		return r.cfg.ShapeFactor
	}
	return r.cfg.Factor
}

// use is how much of a GPU a job keeps busy when alone, in thousandths of a
// percent. It comes from the job's source, from the table of models, or from
// measurements of the job or of jobs of its model that ended before. Otherwise
// it is the value that is taken for unknown jobs.
func (r *policy) use(j sched.Job, s standing) int32 {
	spec := j.Spec()
	switch m := r.model(spec); {
	case spec.Hints != nil && spec.Hints.GPUUse > 0:
		return thousandths(100 * spec.Hints.GPUUse)
	case m != nil:
		return thousandths(m.Use)
	case s.samples > 0:
		return s.tracked
	}
	if u, ok := r.learnt[spec.Model]; ok && spec.Model != "" {
		return u
	}
	return thousandths(r.cfg.Unknown)
}

func thousandths(percent float64) int32 {
	return int32(math.Round(1000 * min(100, max(0, percent))))
}

// classify is the class of a job: that of its model, and else by its use, and by
// whether it takes more memory, or bandwidth, than most of its batch.
func (r *policy) classify(v *sched.View, j *job.Job, use int32, m *median) int8 {
	switch known := r.model(j); {
	case known != nil:
		return int8(known.Class)
	case use >= thousandths(intensive):
		return 1
	}
	if m.find(r, v); r.memory(j) > m.memory || j.Hints != nil && j.Hints.MemoryUse > m.bandwidth {
		return 0
	}
	return -1
}
