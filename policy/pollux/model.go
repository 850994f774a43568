package pollux

import (
	"math/bits"

	"github.com/norn-scheduler/norn/cluster"
	"github.com/norn-scheduler/norn/perf"
	"github.com/norn-scheduler/norn/sched"
)

// note is what is remembered of a job: the sizes with which it has run, of which it
// has reported, and how often it was restarted.
type note struct {
	restarts int
	together uint32 // bit k-1: it has run with k tasks on one node; the last bit: or with more
	spread   uint64 // the same on several nodes
}

// NewNote is a note of this policy, for the table of policies.
func NewNote() sched.Note { return new(note) }

// Kind implements sched.Note.
func (m *note) Kind() string { return "pollux" }

// Fields implements sched.Note.
func (m *note) Fields(f *sched.Fields) {
	sched.Int(f, "restarts", &m.restarts)
	sched.Int(f, "together", &m.together)
	sched.Int(f, "spread", &m.spread)
}

func recall(j sched.Job) note {
	n, _ := sched.Recall[note](j)
	return n
}

// ran notes a size.
func (m *note) ran(tasks int, spread bool) {
	if spread {
		m.spread |= 1 << (min(tasks, 64) - 1)
	} else {
		m.together |= 1 << (min(tasks, 32) - 1)
	}
}

// largest is the largest size.
func (m *note) largest() int { return max(bits.Len32(m.together), bits.Len64(m.spread)) }

// each yields the sizes.
func (m *note) each(yield func(tasks int, spread bool)) {
	for set := m.together; set != 0; set &= set - 1 {
		yield(bits.TrailingZeros32(set)+1, false)
	}
	for set := m.spread; set != 0; set &= set - 1 {
		yield(bits.TrailingZeros64(set)+1, true)
	}
}

// model is the goodput of a job, fitted to what it has reported.
type model struct {
	of      note
	goodput perf.Goodput
	known   map[size]optimum
}

// optimum is the batch that is best for a size, and the goodput with it.
type optimum struct {
	batch perf.Batch
	value float64
}

type size struct {
	tasks  int
	spread bool
}

// model is what is believed of a job that reports; nil of one that has not, or does
// not.
func (r *round) model(c *claimant) *model {
	reporter, ok := r.v.Speeds.(perf.Reporter)
	if !ok {
		return nil
	}
	m := r.o.models[c.j.ID]
	of := c.note
	of.restarts = 0
	if m != nil && m.of == of {
		m.hears(c.j.Config().Reported.Noise)
		return m
	}
	var seen []perf.Measurement
	var last perf.Report
	of.each(func(tasks int, spread bool) {
		if report, ok := reporter.Report(c.j.Spec(), tasks, spread); ok {
			seen, last = append(seen, report.Measurement), report
		}
	})
	if len(seen) == 0 {
		return nil
	}
	m = &model{of, perf.Goodput{Time: perf.Fit(seen), Noise: last.Noise, Batches: last.Batches}, map[size]optimum{}}
	m.hears(c.j.Config().Reported.Noise)
	r.o.models[c.j.ID] = m
	return m
}

// hears takes in the gradient noise scale that the job has reported; 0: none.
func (m *model) hears(noise float64) {
	if g := m.goodput.At(noise); g.Noise != m.goodput.Noise {
		m.goodput = g
		clear(m.known)
	}
}

// at is the goodput with so many GPUs, and the batch with which the job has it.
func (m *model) at(gpus int, spread bool) optimum {
	s := size{gpus, spread}
	b, ok := m.known[s]
	if !ok {
		b.batch, b.value = m.goodput.Best(gpus, spread)
		m.known[s] = b
	}
	return b
}

// batch is how many samples each GPU of a job is to take for a step: those with the best
// goodput by what it has reported. Before it has reported, they are as few as it can begin
// with. For a job that never reports it is 0: as its user wants.
func (r *round) batch(c *claimant, tasks int, spread bool) int32 {
	gpus := tasks * int(c.each.GPUs)
	if m := r.model(c); m != nil {
		b := m.at(gpus, spread).batch
		return int32(b.Local * (b.Accum + 1))
	}
	reporter, ok := r.v.Speeds.(perf.Reporter)
	if !ok {
		return 0
	}
	report, ok := reporter.Report(c.j.Spec(), tasks, spread)
	if !ok {
		return 0
	}
	return int32(max((report.Batches.First+gpus-1)/gpus, report.Batches.LocalMin))
}

// speedup is the goodput of a job relative to that with its fair share on one node. A
// job that does not report has the speeds that the scheduler believes in; one that
// will, but has not run yet, is taken to gain from each replica as much as from the
// first.
func (r *round) speedup(c *claimant, fair int) func(tasks int, spread bool) float64 {
	goodput := func(tasks int, spread bool) float64 { return r.believed(c, tasks, spread) }
	if m := r.model(c); m != nil {
		goodput = func(tasks int, spread bool) float64 { return m.at(tasks*int(c.each.GPUs), spread).value }
	} else if reporter, ok := r.v.Speeds.(perf.Reporter); ok {
		if _, will := reporter.Report(c.j.Spec(), int(c.j.Spec().Demand.Roles[0].Tasks), false); will {
			return func(tasks int, _ bool) float64 { return float64(tasks) / float64(fair) }
		}
	}
	_, most := c.j.Spec().Demand.Roles[0].Range()
	base := goodput(max(c.least, min(fair, int(most))), false)
	if base <= 0 {
		base = max(goodput(c.least, false), goodput(c.least, c.least > 1))
	}
	return func(tasks int, spread bool) float64 {
		if base <= 0 {
			return 0
		}
		return goodput(tasks, spread) / base
	}
}

// believed is the best speed that a job is believed to have on any type of GPU.
func (r *round) believed(c *claimant, tasks int, spread bool) (best float64) {
	cl := r.v.Cluster()
	for t := range cluster.TypeID(cl.Types()) {
		if !cl.Type(t).Host {
			best = max(best, r.v.TypeSpeed(c.j, t, tasks, spread))
		}
	}
	return best
}
