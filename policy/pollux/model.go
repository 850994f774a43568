package pollux

import (
	"github.com/norn-scheduler/norn/cluster"
	"github.com/norn-scheduler/norn/perf"
	"github.com/norn-scheduler/norn/policy/kit/resize"
	"github.com/norn-scheduler/norn/sched"
)

// note is what is remembered of a job: the sizes with which it has run, of which it
// has reported, and how often it was restarted.
type note struct {
	restarts int
	resize.Sizes
}

// NewNote is a note of this policy, for the table of policies.
func NewNote() sched.Note { return new(note) }

// Kind implements sched.Note.
func (m *note) Kind() string { return "pollux" }

// Fields implements sched.Note.
func (m *note) Fields(f *sched.Fields) {
	sched.Int(f, "restarts", &m.restarts)
	m.Sizes.Fields(f)
}

func recall(j sched.Job) note {
	n, _ := sched.Recall[note](j)
	return n
}

// model is the goodput of a job, fitted to what it has reported.
type model struct {
	of      resize.Sizes
	goodput resize.Goodput
}

// model is what is believed of a job that reports; nil of one that has not, or does
// not.
func (r *round) model(c *claimant) *model {
	reporter, ok := r.v.Speeds.(perf.Reporter)
	if !ok {
		return nil
	}
	m := r.o.models[c.j.ID]
	of := c.note.Sizes
	if m != nil && m.of == of {
		m.goodput.Hear(c.j.Config().Reported.Noise)
		return m
	}
	var seen []perf.Measurement
	var last perf.Report
	of.Each(func(tasks int, spread bool) {
		if report, ok := reporter.Report(c.j.Spec(), tasks, spread); ok {
			seen, last = append(seen, report.Measurement), report
		}
	})
	if len(seen) == 0 {
		return nil
	}
	m = &model{of, resize.Goodput{Goodput: perf.Goodput{Time: perf.Fit(seen), Noise: last.Noise, Batches: last.Batches}}}
	m.goodput.Hear(c.j.Config().Reported.Noise)
	r.o.models[c.j.ID] = m
	return m
}

// batch is how many samples each GPU of a job is to take for a step: those with the best
// goodput by what it has reported. Before it has reported, they are as few as it can begin
// with. For a job that never reports it is 0: as its user wants.
func (r *round) batch(c *claimant, tasks int, spread bool) int32 {
	gpus := tasks * int(c.each.GPUs)
	if m := r.model(c); m != nil {
		b := m.goodput.Optimum(gpus, spread).Batch
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
		goodput = func(tasks int, spread bool) float64 { return m.goodput.Optimum(tasks*int(c.each.GPUs), spread).Value }
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
