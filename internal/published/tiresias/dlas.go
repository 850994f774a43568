package tiresias

import (
	"time"

	"github.com/norn-scheduler/norn/cluster/unit"
	"github.com/norn-scheduler/norn/internal/published/backlog"
	"github.com/norn-scheduler/norn/internal/published/harness"
	"github.com/norn-scheduler/norn/internal/published/yarn"
	"github.com/norn-scheduler/norn/job"
	"github.com/norn-scheduler/norn/sched"
)

// limits is the service at which a job leaves the first and the second of the
// three queues. A third limit of the published code, 18000, is never looked at.
var limits = [2]int64{3250, 7200}

const lastQueue = backlog.NumQueues - 1

// never is later than any event, in seconds.
const never = int64(1) << 60

// dlas is dlas, dlas-gpu and dlas-gpu-K: three queues, in which a job sinks as
// its service grows. At every event the queues are walked from the first on and
// whoever fits runs, counted in GPUs alone whatever the scheme.
//
// With a knob K a job that has run, sank and now waits goes back to the first
// queue once it has waited K times as long as it has run.
type dlas struct {
	gpuTime bool // service is run time x GPUs
	knob    float64
	total   int64
	hold    yarn.Holdings
	jobs    []dlasJob
	queues  backlog.Queues

	up    agenda
	moved []int32 // at this event
	wake  int64
}

type dlasJob struct {
	ran    int64 // seconds since it was last in the first queue, while it does not run
	since  int64 // when it started, stopped or came
	waited int64 // seconds, after it first ran and since it last went up
	up     int64 // pending: when it goes back up, 0 not known
	ups    int32
}

func newDlas(spec yarn.Spec, gpuTime bool, knob float64) *dlas {
	return &dlas{gpuTime: gpuTime, knob: knob, total: int64(spec.Total())}
}

func (d *dlas) promotions(id int32) int32 { return d.jobs[id].ups }

// Decide implements sched.Policy.
func (d *dlas) Decide(v *sched.View, p *sched.Plan) {
	now := int64(v.Now / time.Second)
	for _, ch := range v.Changes() {
		switch ch.Kind {
		case sched.Ended:
			d.end(int32(ch.Job))
		case sched.Arrived:
			d.arrive(now, int32(ch.Job), v.Job(ch.Job).GPUs())
		}
	}
	d.move(now)
	stops, starts := d.queues.Walk(d.total, func(id int32, queue int, starts bool) (mark, due int64) {
		return d.enter(now, id, queue, starts)
	})
	for _, id := range stops {
		d.stop(now, id, p)
	}
	for _, id := range starts {
		p.StartOn(job.ID(id), d.hold.Of(d.queues.GPUs(id)))
	}
	d.wake = d.nextJump(now)
}

// NextWake implements sched.Waker.
func (d *dlas) NextWake(*sched.View) time.Duration {
	if d.wake == never {
		return unit.Never
	}
	return harness.Seconds(d.wake)
}

// enter notes that a job runs in a queue from now on. It tells since when it
// would have run without a break, and when its service will have reached the
// limit of the queue.
func (d *dlas) enter(now int64, id int32, queue int, starts bool) (mark, due int64) {
	j := &d.jobs[id]
	if starts {
		if j.ran > 0 {
			j.waited += now - j.since
		}
		j.since = now
		d.stay(id)
	}
	mark = j.since - j.ran
	if queue == lastQueue {
		return mark, never
	}
	need := limits[queue]
	if d.gpuTime {
		gpus := int64(d.queues.GPUs(id))
		need = (need + gpus - 1) / gpus
	}
	return mark, mark + need
}

func (d *dlas) arrive(now int64, id int32, gpus int) {
	for int(id) >= len(d.jobs) {
		d.jobs = append(d.jobs, make([]dlasJob, max(256, len(d.jobs)))...)
	}
	d.jobs[id] = dlasJob{since: now}
	d.queues.Arrive(id, gpus)
}

// end takes a job out. It may be one that waits: see foretelling.
func (d *dlas) end(id int32) {
	d.queues.Remove(id)
	d.stay(id)
}

// stay forgets when a job goes back up.
func (d *dlas) stay(id int32) {
	if j := &d.jobs[id]; j.up > 0 {
		d.up.remove(id, j.up)
		j.up = 0
	}
}

// move puts the running jobs that sink and the pending ones that rise behind
// all others of their new queues, in the order in which they were submitted.
// However much service it has, a job sinks by one queue at one event.
func (d *dlas) move(now int64) {
	d.moved = d.up.take(now, d.moved[:0])
	for q := range lastQueue {
		d.moved = d.queues.LeaveDue(q, now, d.moved)
	}
	sortFew(d.moved)
	for _, id := range d.moved {
		if !d.queues.Waits(id) {
			d.queues.Sink(id)
			continue
		}
		d.queues.Rise(id)
		d.jobs[id] = dlasJob{since: now, ups: d.jobs[id].ups + 1}
	}
}

// sortFew sorts a few numbers.
func sortFew(ids []int32) {
	for i := 1; i < len(ids); i++ {
		for k := i; k > 0 && ids[k] < ids[k-1]; k-- {
			ids[k], ids[k-1] = ids[k-1], ids[k]
		}
	}
}

func (d *dlas) stop(now int64, id int32, p *sched.Plan) {
	j := &d.jobs[id]
	j.ran += now - j.since
	j.since, j.up = now, 0
	p.Stop(job.ID(id), outranked)
	if d.knob == 0 || j.ran == 0 || d.queues.Queue(id) == 0 {
		return
	}
	// The published code cuts to whole seconds. Since the job is not back up
	// already, at least one is left.
	j.up = now + max(1, int64(float64(j.ran)*d.knob-float64(j.waited)))
	d.up.add(id, j.up)
}

// outranked is why jobs are preempted, and why they wait then.
var outranked = job.Reason{Code: job.Outranked, Job: job.None}

// nextJump is the next moment at which the published code looks for jobs that
// sink or rise, or never. For service in GPU time it divides the missing
// seconds by the number of GPUs. That is too late for every job of several GPUs
// that has run already: such a job sinks at some event after its due time.
func (d *dlas) nextJump(now int64) int64 {
	wait := never - now
	for q := range lastQueue {
		for _, r := range d.queues.Runners(q) {
			left := limits[q] - (now - r.Mark)
			gpus := int64(1)
			if d.gpuTime {
				gpus = r.GPUs
			}
			if left < wait*gpus || wait > 1<<32 {
				wait = min(wait, left/gpus)
			}
		}
	}
	jump := now + wait
	if d.knob > 0 {
		jump = min(jump, d.up.next())
	}
	return max(jump, now+1)
}
