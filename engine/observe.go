package engine

import (
	"cmp"
	"math"
	"slices"
	"time"

	"github.com/norn-scheduler/norn/cluster"
	"github.com/norn-scheduler/norn/eventlog"
	"github.com/norn-scheduler/norn/job"
	"github.com/norn-scheduler/norn/perf"
	"github.com/norn-scheduler/norn/state"
	"github.com/norn-scheduler/norn/state/dense"
)

// Exact is a world that knows the speed of each job at every moment. A job
// without a Speed event runs as before, whichever job came beside it. In other
// worlds only the speed in a Speed event was measured.
type Exact interface {
	KnowsSpeeds() bool
}

// Measuring is a world that must watch jobs for a while before it knows their
// speeds on a new allocation.
type Measuring interface {
	SpeedLag() time.Duration
}

// observer teaches the belief of a run how jobs slow each other down, if that
// belief is a perf.Learner. The factor of a job is its measured speed divided
// by the speed at which the scheduler believes that it runs alone on its
// allocation. The factor is attributed to the device on which the job is
// believed to be slowed down most.
//
// A job is observed when a Speed event tells its speed. In an exact world it is
// also observed when time has moved on since it or a neighbour came, left, or
// was moved. Merged jobs teach nothing, and neither do jobs on devices where a
// job is throttled or works with another batch: their speeds have other causes.
//
// Each lesson is an event, and is kept by the state.
type observer struct {
	learner *perf.Learner // nil: nothing is learnt
	exact   bool
	unseen  dense.Set // jobs to be observed when time moves on

	running      []job.ID // scratch
	others, most []perf.Sharer
	lessons      []perf.Lesson
}

// observe makes the observer of a run, with its own copy of the belief that it
// teaches.
func (e *Engine) observe() {
	first, learns := e.cfg.Sharing.(*perf.Learner)
	if !learns {
		return
	}
	own := *first
	own.Learnt = e.state.Learnt()
	e.cfg.Sharing = &own
	e.seen = observer{learner: &own}
	e.seen.exact = e.can.exact != nil && e.can.exact.KnowsSpeeds()
}

// runners are the jobs that run on a device, by number.
func (o *observer) runners(s *state.State, d cluster.DeviceID) []job.ID {
	o.running = o.running[:0]
	for _, id := range s.On(d) {
		if s.Record(id).Phase == job.Running {
			o.running = append(o.running, id)
		}
	}
	slices.Sort(o.running)
	return o.running
}

// changed notes that something changes on the devices of a running job. The
// jobs that run there beside others are to be observed, all except but.
func (o *observer) changed(s *state.State, id, but job.ID) {
	if !s.Known(id) || s.Record(id).Phase != job.Running {
		return
	}
	for _, share := range s.Alloc(id).Shares {
		on := o.runners(s, share.Device)
		on = slices.DeleteFunc(on, func(other job.ID) bool { return other == but })
		for i := 0; len(on) > 1 && i < len(on); i++ {
			o.unseen.Add(int(on[i]))
		}
	}
}

// watch takes in an event about a job that was folded in.
func (e *Engine) watch(ev *eventlog.Event) error {
	switch {
	case ev.Kind == eventlog.Measured:
		return e.measured(ev)
	case e.seen.learner == nil:
		return nil
	case e.seen.concerns(ev):
		e.seen.changed(e.state, ev.Job, job.None)
	case ev.Kind == eventlog.Speed:
		e.seen.unseen.Remove(int(ev.Job))
		return e.see(ev.Job)
	}
	return nil
}

// expect takes in an event that is about to be folded in.
func (e *Engine) expect(ev *eventlog.Event) {
	if e.seen.concerns(ev) {
		e.seen.changed(e.state, ev.Job, ev.Job)
	}
}

// concerns tells whether an event changes who is on a device, or how.
func (o *observer) concerns(ev *eventlog.Event) bool {
	switch ev.Kind {
	case eventlog.Start, eventlog.Preempt, eventlog.Evict, eventlog.Fail, eventlog.End, eventlog.Cancel,
		eventlog.Move, eventlog.Resize, eventlog.Merge:
		return o.exact
	}
	return false
}

// link has what is believed of the network follow what jobs hold.
func (e *Engine) link(ev *eventlog.Event) {
	switch ev.Kind {
	case eventlog.Start, eventlog.Move, eventlog.Resize:
		if a := e.state.Alloc(ev.Job); a != nil && e.state.Record(ev.Job).Phase == job.Running {
			e.cfg.Linked.Enter(e.state.Record(ev.Job).Job, e.state.Cluster, a)
		}
	case eventlog.Preempt, eventlog.Evict, eventlog.Fail, eventlog.End, eventlog.Cancel:
		e.cfg.Linked.Leave(ev.Job)
	}
}

// settled observes the jobs that are due, now that no more events of their
// moment can come.
func (e *Engine) settled() error {
	for id := e.seen.unseen.Next(0); id >= 0; id = e.seen.unseen.Next(id + 1) {
		if err := e.see(job.ID(id)); err != nil {
			return err
		}
	}
	e.seen.unseen.Clear()
	return nil
}

// see learns from the present speed of a job.
func (e *Engine) see(id job.ID) error {
	o, s := &e.seen, e.state
	r := s.Record(id)
	if r.Phase != job.Running || r.Profiling || r.Merged != job.Apart || r.Speed <= 0 {
		return nil
	}
	a := s.Alloc(id)
	alone := e.alone(r, a)
	if !(alone > 0) {
		return nil
	}
	worst, typ, own := math.Inf(1), cluster.GPUType{}, perf.Sharer{}
	for i := range a.Shares {
		d := a.Shares[i].Device
		others, told := o.beside(s, d, id)
		if !told || a.Shares[i].Throttle > 0 || a.Shares[i].Batch > 0 {
			return nil
		}
		t, me := s.Cluster.Type(s.Cluster.TypeOf(d)), perf.Sharer{Job: r.Job, Share: a.Shares[i]}
		if len(others) == 0 {
			continue
		}
		if expected := o.learner.Among(me, others, t); expected < worst {
			worst, typ, own = expected, t, me
			o.most = append(o.most[:0], others...)
		}
	}
	if own.Job == nil { // nobody is beside it
		return nil
	}
	o.lessons = o.learner.Lessons(o.lessons[:0], own, o.most, typ, r.Speed/alone)
	for _, x := range o.lessons {
		ev := eventlog.Event{Time: s.Now, Kind: eventlog.Learnt, Job: job.None, Pair: x.Pair, Speed: x.Factor}
		if err := e.apply(&ev); err != nil {
			return err
		}
	}
	return nil
}

// beside lists the jobs on a device beside a job, with their parts of it. told
// is false if any of them is throttled or works with another batch, since that
// changes speeds, too.
func (o *observer) beside(s *state.State, d cluster.DeviceID, id job.ID) (others []perf.Sharer, told bool) {
	o.others = o.others[:0]
	for _, other := range o.runners(s, d) {
		if other == id {
			continue
		}
		a := s.Alloc(other)
		at := slices.IndexFunc(a.Shares, func(x cluster.Share) bool { return x.Device == d })
		share := a.Shares[at]
		if share.Throttle > 0 || share.Batch > 0 {
			return nil, false
		}
		o.others = append(o.others, perf.Sharer{Job: s.Record(other).Job, Share: share})
	}
	return o.others, true
}

// alone is the speed at which the scheduler believes that a job runs on its
// allocation with no other job beside it. It is 0 if that is not known.
func (e *Engine) alone(r *job.Record, a *cluster.Alloc) float64 {
	c := e.state.Cluster
	h := r.Job.Hints
	if len(a.Shares) == 0 || h == nil || !c.Type(c.TypeOf(a.Shares[0].Device)).Host {
		return perf.With(e.cfg.Speeds, r.Job, c, a, r.Config) / e.variability().Slowest(r.Job, c, a) * e.cfg.Linked.Factor(r.Job, c, a)
	}
	takes := cmp.Or(h.CPUEstimate, h.CPUTime)
	if takes <= 0 {
		return perf.With(e.cfg.Speeds, r.Job, c, a, r.Config)
	}
	return max(0, float64(r.Estimate)) / float64(takes)
}
