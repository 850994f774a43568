package muri

import (
	"math"
	"slices"
	"time"

	"github.com/norn-scheduler/norn/internal/published/backlog"
	"github.com/norn-scheduler/norn/internal/published/yarn"
	"github.com/norn-scheduler/norn/job"
	"github.com/norn-scheduler/norn/sched"
)

// outranked is why jobs are preempted, and why they wait then.
var outranked = job.Reason{Code: job.Outranked, Job: job.None}

// shortest is shortest and shortest-gpu: at every arrival and completion all
// runnable jobs are sorted by what remains and placed from scratch, whoever
// fits; running jobs that are not placed are preempted.
type shortest struct {
	clock   *clock
	gpuTime bool
	place   *yarn.Packing
	hold    yarn.Holdings
	list    backlog.List
}

func newShortest(s yarn.Spec, c *clock, gpuTime bool) *shortest {
	return &shortest{clock: c, gpuTime: gpuTime, place: yarn.New(s)}
}

func (s *shortest) key(id int32) int64 {
	left := s.clock.remaining(id)
	if s.gpuTime {
		left *= float64(s.clock.work.facts[id].gpus)
	}
	return backlog.FloatKey(left)
}

// Decide implements sched.Policy.
func (s *shortest) Decide(v *sched.View, p *sched.Plan) {
	for _, ch := range v.Changes() {
		if ch.Kind == sched.Ended {
			s.list.Remove(int32(ch.Job))
		}
	}
	// Running jobs come down before those that arrive now join, behind equals.
	s.list.Rekey(s.list.Running(), s.key)
	for _, ch := range v.Changes() {
		if ch.Kind == sched.Arrived {
			s.list.Add(int32(ch.Job), v.Job(ch.Job).GPUs(), s.key(int32(ch.Job)), s.list.Back())
		}
	}
	s.place.Empty()
	stops, starts := s.list.Scan(func(_ int32, gpus int) bool { return s.place.Fit(gpus) })
	for _, id := range stops {
		s.list.Stop(id)
		p.Stop(job.ID(id), outranked)
	}
	for _, id := range starts {
		s.list.Start(id)
		s.clock.started(id)
		p.StartOn(job.ID(id), s.hold.Of(int(s.list.GPUs(id))))
	}
	s.clock.foresee(s.list.Running(), isNear)
}

// NextWake implements sched.Waker.
func (s *shortest) NextWake(v *sched.View) time.Duration {
	return s.clock.nextEvent(math.Inf(1), v.Now)
}

// dlas is dlas-gpu: the queues of the simulator of Tiresias, with service in
// GPU time and the moment at which a job sinks computed without its error.
type dlas struct {
	clock  *clock
	total  int64
	hold   yarn.Holdings
	queues backlog.Queues
	moved  []int32
	order  []int32 // running jobs by number
	jump   float64
}

// limits is the service at which a job leaves the first and the second of the
// three queues.
var limits = [backlog.NumQueues - 1]float64{3250, 7200}

func newDlas(s yarn.Spec, c *clock) *dlas { return &dlas{clock: c, total: int64(s.Total())} }

// Decide implements sched.Policy.
func (d *dlas) Decide(v *sched.View, p *sched.Plan) {
	for _, ch := range v.Changes() {
		switch ch.Kind {
		case sched.Ended:
			d.queues.Remove(int32(ch.Job))
		case sched.Arrived:
			d.queues.Arrive(int32(ch.Job), v.Job(ch.Job).GPUs())
		}
	}
	d.sink()
	stops, starts := d.queues.Walk(d.total, func(id int32, _ int, starts bool) (mark, due int64) {
		if starts {
			d.clock.started(id)
		}
		return 0, math.MaxInt64
	})
	for _, id := range stops {
		p.Stop(job.ID(id), outranked)
	}
	for _, id := range starts {
		p.StartOn(job.ID(id), d.hold.Of(d.queues.GPUs(id)))
	}
	d.foresee()
}

// sink moves the running jobs whose service has reached the limit of their
// queue by one queue.
func (d *dlas) sink() {
	d.moved = d.moved[:0]
	for q, limit := range limits {
		for _, r := range d.queues.Runners(q) {
			if d.clock.jobs[r.ID].executed*float64(r.GPUs) >= limit {
				d.moved = append(d.moved, r.ID)
			}
		}
	}
	slices.Sort(d.moved)
	for _, id := range d.moved {
		d.queues.Leave(id)
		d.queues.Sink(id)
	}
}

// foresee finds the next completion and the next moment at which a job sinks.
func (d *dlas) foresee() {
	d.jump, d.order = math.Inf(1), d.order[:0]
	for q := range backlog.NumQueues {
		for _, r := range d.queues.Runners(q) {
			d.order = append(d.order, r.ID)
			if q < len(limits) {
				d.jump = min(d.jump, math.Ceil(limits[q]/float64(r.GPUs))-d.clock.jobs[r.ID].executed+d.clock.now)
			}
		}
	}
	slices.Sort(d.order)
	d.clock.foresee(d.order, func(a, b float64) bool { return a == b })
}

// NextWake implements sched.Waker.
func (d *dlas) NextWake(v *sched.View) time.Duration { return d.clock.nextEvent(d.jump, v.Now) }
