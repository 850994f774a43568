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

// Exact is a world that knows at every moment how fast each job runs: who is not told
// to run at another speed runs as it did, whoever came beside it. In others only what
// a Speed event tells was measured.
type Exact interface {
	KnowsSpeeds() bool
}

// Measuring is a world that must watch jobs for a while before it knows how fast they
// are with what they hold by now.
type Measuring interface {
	SpeedLag() time.Duration
}

// observer teaches the belief of a run how jobs slow each other down, where that is a
// perf.Learner. A job was seen to run at its speed over what the scheduler believes
// that it runs at alone with what it holds, and that is put down to the device on which
// it is believed to be slowed down most.
//
// It is seen when its speed is told; in an exact world also when time has moved on
// since it or a neighbour came, left, or was moved. Who is merged with another, or
// on whose devices anybody is throttled or works with another batch, teaches nothing: its
// speed has other causes.
//
// What is learnt is an event, and is kept by the state.
type observer struct {
	learner *perf.Learner // nil: nothing is learnt
	exact   bool
	unseen  dense.Set // jobs to be seen when time moves on

	running      []job.ID // scratch
	others, most []perf.Sharer
	lessons      []perf.Lesson
}

// observe makes the observer of a run, and the belief that it teaches.
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

// changed notes that something changes on the devices of a running job: those who run
// there beside others are to be seen, all but one.
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

// settled sees the jobs of which nothing more will be told of this moment.
func (e *Engine) settled() error {
	for id := e.seen.unseen.Next(0); id >= 0; id = e.seen.unseen.Next(id + 1) {
		if err := e.see(job.ID(id)); err != nil {
			return err
		}
	}
	e.seen.unseen.Clear()
	return nil
}

// see learns from the speed of a job.
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

// beside is who is on a device beside a job, and with which part of it; told is false
// where somebody is throttled or works with another batch, which has consequences of
// its own.
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

// alone is how fast the scheduler believes that a job runs with what it holds when
// nobody is beside it; 0 where that is not known.
func (e *Engine) alone(r *job.Record, a *cluster.Alloc) float64 {
	c := e.state.Cluster
	h := r.Job.Hints
	if len(a.Shares) == 0 || h == nil || !c.Type(c.TypeOf(a.Shares[0].Device)).Host {
		return e.cfg.Speeds.Speed(r.Job, c, a)
	}
	takes := cmp.Or(h.CPUEstimate, h.CPUTime)
	if takes <= 0 {
		return e.cfg.Speeds.Speed(r.Job, c, a)
	}
	return max(0, float64(r.Estimate)) / float64(takes)
}
