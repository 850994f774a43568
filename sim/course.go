package sim

import (
	"math"
	"slices"
	"time"

	"github.com/norn-scheduler/norn/cluster"
	"github.com/norn-scheduler/norn/eventlog"
	"github.com/norn-scheduler/norn/job"
	"github.com/norn-scheduler/norn/perf"
	"github.com/norn-scheduler/norn/state/dense"
)

// courses is how far jobs have come in what they train with (trace.Truth.Course). A job
// changes its batch, or its gradients get noisier, when it has done so much work. It
// reports that in the same instant, and what lies ahead stays in here.
type courses struct {
	next dense.Heap // running job -> moment of its next turn
	news []job.ID   // jobs that began otherwise than they have reported
}

// begins finds the turn that a job is in when it begins with so much work done.
func (w *Sim) begins(id job.ID, done time.Duration) {
	t := w.truth.of(id)
	if len(t.Course) == 0 {
		return
	}
	t.turn = 0
	for t.turn+1 < len(t.Course) && t.Course[t.turn+1].From <= done {
		t.turn++
	}
	if w.state.Record(id).Config.Reported != w.reported(id) {
		w.courses.news = append(w.courses.news, id)
	}
}

// reported is what a job would report now. A job that trains as its user asked has
// nothing to say until it has said otherwise.
func (w *Sim) reported(id job.ID) job.Reported {
	r, t := w.state.Record(id), w.truth.of(id)
	if len(t.Course) == 0 {
		return r.Config.Reported
	}
	now := t.Course[t.turn].Reported
	if r.Config.Reported == (job.Reported{}) && now == (job.Reported{Batch: int32(r.Job.Batch), Pace: 1}) {
		return job.Reported{}
	}
	return now
}

// alone is how fast a job really runs on devices with nobody beside it.
func (w *Sim) alone(id job.ID, a *cluster.Alloc) float64 {
	cfg := job.Config{Reported: w.reported(id)}
	if len(a.Shares) > 0 {
		cfg.Chosen.Batch = a.Shares[0].Batch
	}
	j, c := w.state.Record(id).Job, w.state.Cluster
	return perf.With(w.cfg.Model, j, c, a, cfg) / w.cfg.Variability.Slowest(j, c, a) * w.cfg.Linked.Factor(j, c, a)
}

// await notes when a running job comes to its next turn, from ready on.
func (w *Sim) await(id job.ID, ready, progress time.Duration, speed float64) {
	t := w.truth.of(id)
	if len(t.Course) == 0 {
		return
	}
	if t.turn+1 >= len(t.Course) || !(speed > 0) {
		w.courses.next.Remove(int32(id))
		return
	}
	left := max(0, t.Course[t.turn+1].From-progress)
	w.courses.next.Set(int32(id), int64(later(ready, time.Duration(min(math.Ceil(float64(left)/speed), math.MaxInt64/2)))))
}

// change tells of the jobs that come to a turn at this instant: what they train with
// from now on, and how fast they run with it.
func (w *Sim) change(now time.Duration, out []eventlog.Event) []eventlog.Event {
	for id, ok := due(&w.courses.next, now); ok; id, ok = due(&w.courses.next, now) {
		r := w.state.Record(id)
		w.truth.of(id).turn++
		out = append(out, eventlog.Event{Time: now, Kind: eventlog.Config, Job: id, Reported: w.reported(id)})
		speed := w.speed(id, w.state.Alloc(id))
		w.schedule(id, max(now, r.Ready), r.ProgressAt(now), speed)
		if speed != r.Speed {
			out = append(out, eventlog.Event{Time: now, Kind: eventlog.Speed, Job: id, Speed: speed})
		}
	}
	return out
}

// report tells what jobs train with that have just begun.
func (w *Sim) report(now time.Duration, out []eventlog.Event) []eventlog.Event {
	slices.Sort(w.courses.news)
	for _, id := range slices.Compact(w.courses.news) {
		if w.phase(id) == job.Running && w.state.Record(id).Config.Reported != w.reported(id) {
			out = append(out, eventlog.Event{Time: now, Kind: eventlog.Config, Job: id, Reported: w.reported(id)})
		}
	}
	w.courses.news = w.courses.news[:0]
	return out
}
