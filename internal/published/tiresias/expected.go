package tiresias

import (
	"slices"
	"time"

	"github.com/norn-scheduler/norn/cluster/unit"
	"github.com/norn-scheduler/norn/internal/published/backlog"
	"github.com/norn-scheduler/norn/internal/published/harness"
	"github.com/norn-scheduler/norn/internal/published/yarn"
	"github.com/norn-scheduler/norn/job"
	"github.com/norn-scheduler/norn/sched"
)

// ranked is what expected and gittins share: a list of runnable jobs by a key
// that they compute, from which whoever fits runs.
type ranked struct {
	history *history
	hold    yarn.Holdings
	list    backlog.List
	jobs    []rankedJob
}

// rankedJob is how long a job has run, in seconds: up to since when it runs.
type rankedJob struct{ ran, since int64 }

func (r *ranked) arrive(id int32, gpus int, key int64) {
	for int(id) >= len(r.jobs) {
		r.jobs = append(r.jobs, make([]rankedJob, max(256, len(r.jobs)))...)
	}
	r.jobs[id] = rankedJob{}
	r.list.Add(id, gpus, key, r.list.Back())
}

func (r *ranked) ended(v *sched.View) {
	for _, ch := range v.Changes() {
		if ch.Kind == sched.Ended {
			r.list.Remove(int32(ch.Job))
		}
	}
}

// ran is how long a running job has run.
func (r *ranked) ran(id int32, now int64) int64 { return r.jobs[id].ran + now - r.jobs[id].since }

// carryOut lets whoever fits run. It returns who was preempted.
func (r *ranked) carryOut(now int64, p *sched.Plan, fit func(int) bool) (stops []int32) {
	stops, starts := r.list.Scan(func(_ int32, gpus int) bool { return fit(gpus) })
	for _, id := range stops {
		r.list.Stop(id)
		r.jobs[id].ran = r.ran(id, now)
		p.Stop(job.ID(id), outranked)
	}
	for _, id := range starts {
		r.list.Start(id)
		r.jobs[id].since = now
		p.StartOn(job.ID(id), r.hold.Of(int(r.list.GPUs(id))))
	}
	return stops
}

// expected is shortest-expected: jobs are sorted by the run time that the
// history expects of them. Every job gets the expectation of a new job. At each
// event it is computed again for every running job, but the result goes to the
// job that came last, so that in the end that one has the expectation of the
// last running job in the list.
type expected struct {
	ranked
	place scheme
	last  int32 // the job that came last
}

func newExpected(s scheme) *expected {
	return &expected{ranked: ranked{history: learn()}, place: s, last: -1}
}

// Decide implements sched.Policy.
func (e *expected) Decide(v *sched.View, p *sched.Plan) {
	now := int64(v.Now / time.Second)
	e.ended(v)
	came := false
	for _, ch := range v.Changes() {
		if ch.Kind == sched.Arrived {
			came, e.last = true, int32(ch.Job)
			e.arrive(e.last, v.Job(ch.Job).GPUs(), backlog.FloatKey(e.history.expected(0)))
		}
	}
	if running := e.list.Running(); len(running) > 0 && e.last >= 0 && e.list.Has(e.last) {
		key := backlog.FloatKey(e.history.expected(e.ran(running[len(running)-1], now)))
		if came {
			e.list.Set(e.last, key, e.list.Back())
		} else {
			e.list.Rekey([]int32{e.last}, func(int32) int64 { return key })
		}
	}
	e.place.Empty()
	e.carryOut(now, p, e.place.Fit)
}

// gittins is the schedule of that name, once the line is repaired for want of
// which it crashes: jobs sorted by Gittins index, the smallest first, which is
// the wrong way round. A running job has the index of its GPU time, a pending
// one that of its run time.
type gittins struct {
	ranked
	total int64
	fresh []int32 // preempted at the last event: they still have the index of a running job
	wake  int64   // seconds
}

func newGittins(spec yarn.Spec) *gittins {
	return &gittins{ranked: ranked{history: learn()}, total: int64(spec.Total()), wake: quantum}
}

// Decide implements sched.Policy.
func (g *gittins) Decide(v *sched.View, p *sched.Plan) {
	now := int64(v.Now / time.Second)
	g.ended(v)
	g.fresh = slices.DeleteFunc(g.fresh, func(id int32) bool { return !g.list.Has(id) })
	g.fresh = append(g.fresh, g.list.Running()...)
	running := map[int32]bool{}
	for _, id := range g.list.Running() {
		running[id] = true
	}
	g.list.Rekey(g.fresh, func(id int32) int64 {
		if running[id] {
			return g.key(g.ran(id, now) * g.list.GPUs(id))
		}
		return g.key(g.jobs[id].ran)
	})
	for _, ch := range v.Changes() {
		if ch.Kind == sched.Arrived {
			g.arrive(int32(ch.Job), v.Job(ch.Job).GPUs(), g.key(0))
		}
	}
	free := g.total
	stops := g.carryOut(now, p, func(gpus int) bool {
		if int64(gpus) > free {
			return false
		}
		free -= int64(gpus)
		return true
	})
	g.fresh = append(g.fresh[:0], stops...)
	g.wake += now
}

func (g *gittins) key(service int64) int64 { return -g.history.rankOf(service) }

// NextWake implements sched.Waker. The published code means to look at the
// indexes every quantum, but adds the time of each event to its next moment
// instead, so that these moments soon lie far apart.
func (g *gittins) NextWake(*sched.View) time.Duration {
	if g.wake > harness.MaxSeconds {
		return unit.Never
	}
	return harness.Seconds(g.wake)
}
