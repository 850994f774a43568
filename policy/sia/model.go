package sia

import (
	"math"
	"slices"

	"github.com/norn-scheduler/norn/cluster"
	"github.com/norn-scheduler/norn/perf"
	"github.com/norn-scheduler/norn/policy/kit/resize"
	"github.com/norn-scheduler/norn/sched"
)

// note is what is remembered of a job: how often it was restarted, and the sizes with
// which it has run on each GPU type, of which it has reported.
type note struct {
	restarts int
	ran      []ran // in order of first runs
}

// ran is the sizes on one GPU type.
type ran struct {
	on string // name of the type
	resize.Sizes
}

// NewNote is a note of this policy, for the table of policies.
func NewNote() sched.Note { return new(note) }

// Kind implements sched.Note.
func (m *note) Kind() string { return "sia" }

// Fields implements sched.Note.
func (m *note) Fields(f *sched.Fields) {
	sched.Int(f, "restarts", &m.restarts)
	sched.List(f, "ran", &m.ran, func(r *ran, f *sched.Fields) {
		f.Text("on", &r.on)
		r.Sizes.Fields(f)
	})
}

func recall(j sched.Job) note {
	n, _ := sched.Recall[note](j)
	return n
}

// with is the note with a further size.
func (m note) with(on string, tasks int, spread bool) note {
	m.ran = slices.Clone(m.ran)
	i := slices.IndexFunc(m.ran, func(r ran) bool { return r.on == on })
	if i < 0 {
		i, m.ran = len(m.ran), append(m.ran, ran{on: on})
	}
	m.ran[i].Add(tasks, spread)
	return m
}

// largest is the largest size, on any type.
func (m *note) largest() (most int) {
	for i := range m.ran {
		most = max(most, m.ran[i].Largest())
	}
	return most
}

// model is the goodput of a job on each GPU type of which something is known.
type model struct {
	ran   []ran // to which it was fitted
	times int   // how often the job had been measured
	types []typed
}

// typed is the goodput of a job on one GPU type.
type typed struct {
	goodput resize.Goodput
	ok      bool // something is known
	several bool // it has run on several GPUs there, or everything is known
	node    int  // GPUs of the largest node
}

// model is what is believed of a claimant that reports how it fares on each GPU type, and
// that may have several sizes; nil of any other.
func (r *round) model(c *claimant) *model {
	reporter, ok := r.v.Speeds.(perf.TypeReporter)
	if !ok || c.rigid() {
		return nil
	}
	m, times := r.o.models[c.j.ID], 0
	if b, learns := reporter.(*believer); learns {
		times, _ = b.known(c.j.Spec())
	}
	if m == nil || m.times != times || !slices.Equal(m.ran, c.note.ran) {
		if m = r.fit(reporter, c); m == nil {
			return nil
		}
		m.times, r.o.models[c.j.ID] = times, m
	}
	m.hears(c.j.Config().Reported.Noise)
	return m
}

// fit makes the model anew; nil for a job that does not report.
func (r *round) fit(reporter perf.TypeReporter, c *claimant) *model {
	cl := r.v.Cluster()
	if _, reports := reporter.Report(c.j.Spec(), 1, false); !reports {
		return nil
	}
	m := &model{ran: c.note.ran, types: make([]typed, cl.Types())}
	for t := range cluster.TypeID(cl.Types()) {
		if cl.Type(t).Host {
			continue
		}
		seen, last := r.seen(reporter, c, t)
		if len(seen) == 0 {
			continue
		}
		m.types[t] = typed{
			goodput: resize.Goodput{Goodput: perf.Goodput{Time: perf.Fit(seen), Noise: last.Noise, Batches: last.Batches}}, ok: true,
			several: slices.ContainsFunc(seen, func(s perf.Measurement) bool { return s.Replicas > 1 }),
			node:    r.nodes[t],
		}
	}
	return m
}

// profiled is with how many batches a job is measured on each GPU type when it comes.
const profiled = 10

// seen is what was measured of a job on a GPU type, and the last report. Where the world
// measures jobs as they run that counts, and otherwise what they tell of each size with which
// they have run.
func (r *round) seen(reporter perf.TypeReporter, c *claimant, t cluster.TypeID) (seen []perf.Measurement, last perf.Report) {
	cl, spec := r.v.Cluster(), c.j.Spec()
	measure := func(tasks int, spread bool, local int) {
		if report, ok := reporter.ReportOn(spec, cl, t, tasks, spread, local); ok {
			seen, last = append(seen, report.Measurement), report
		}
	}
	if r.o.cfg.Profiles != Nothing {
		if first, ok := reporter.ReportOn(spec, cl, t, 1, false, 0); ok {
			least, most := float64(first.Batches.LocalMin), float64(first.Batches.LocalMost)
			for i := range profiled {
				measure(1, false, int(math.Round(least*math.Pow(most/least, float64(i)/(profiled-1)))))
			}
		}
	}
	if r.o.cfg.Profiles == Oracle {
		for tasks := 2; tasks <= c.most; tasks *= 2 {
			measure(tasks, false, 0)
			measure(tasks, true, 0)
		}
	}
	name := cl.Type(t).Name
	if b, ok := reporter.(*believer); ok {
		if of := b.seen(spec, name); len(of) > 0 {
			seen = append(seen, of...)
			if last.Batches == (perf.Batches{}) { // it declares them
				last, _ = reporter.ReportOn(spec, cl, t, 1, false, 0)
			}
		}
		return seen, last
	}
	for i := range c.note.ran {
		if of := &c.note.ran[i]; of.on == name {
			of.Each(func(tasks int, spread bool) { measure(tasks, spread, 0) })
		}
	}
	return seen, last
}

// hears takes in the gradient noise scale that the job has reported; 0: none.
func (m *model) hears(noise float64) {
	for i := range m.types {
		if t := &m.types[i]; t.ok {
			t.goodput.Hear(noise)
		}
	}
}

// at is the goodput with so many GPUs by what was seen on the type alone, and the batch
// with which the job has it. A fixed batch is that of all GPUs together; 0: the best one.
func (t *typed) at(gpus int, spread bool, fixed int) resize.Optimum {
	if fixed > 0 {
		return resize.Optimum{Value: t.goodput.Fixed(gpus, spread, fixed)}
	}
	return t.goodput.Optimum(gpus, spread)
}

// rate is the examples in a second of one replica with the largest batch.
func (t *typed) rate() float64 {
	most := max(1, t.goodput.Batches.LocalMost)
	return float64(most) / t.goodput.Time.Pass(most)
}

// value is the goodput of a job with so many GPUs of a type. Where it was not seen on
// several of them, it is carried over from the first type where it was, at the ratio of
// the rates of one replica. If there is no such type, the exchange of gradients is taken
// to cost nothing. It is Unknown on a type of which nothing is known.
func (m *model) value(t cluster.TypeID, gpus int, spread bool, fixed int) float64 {
	on := &m.types[t]
	if !on.ok {
		return Unknown
	}
	if !on.several {
		for i := range m.types {
			if from := &m.types[i]; from.several {
				return from.at(gpus, gpus > from.node, fixed).Value * Carry(on.rate(), from.rate())
			}
		}
	}
	return on.at(gpus, spread, fixed).Value
}

// Carry is the ratio by which goodputs are carried over from one GPU type to another: that of
// the throughputs of one replica on both.
func Carry(to, from float64) float64 {
	if from > 0 {
		return to / from
	}
	return 1
}
