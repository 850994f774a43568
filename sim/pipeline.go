package sim

import (
	"slices"
	"time"

	"github.com/norn-scheduler/norn/cluster"
	"github.com/norn-scheduler/norn/cluster/unit"
	"github.com/norn-scheduler/norn/job"
)

// pipelines is the simulator as those see it that follow pipelines on their devices.
type pipelines struct{ *Sim }

// leaves notes until when a pipeline that leaves at a moment writes its weights.
func (w pipelines) leaves(id job.ID, now time.Duration) {
	if len(w.cfg.Costs.Switch) == 0 { // nobody writes weights, as in most runs
		return
	}
	r := w.state.Record(id)
	save := w.cfg.Costs.Save(r.Job)
	a := w.state.Alloc(id)
	if save <= 0 || a == nil || r.Phase != job.Running || r.Profiling || r.ProgressAt(now) <= 0 {
		return
	}
	w.writing = slices.DeleteFunc(w.writing, func(l leaving) bool { return l.until <= now })
	for i := range a.Shares {
		w.writing = append(w.writing, leaving{a.Shares[i].Device, later(now, save)})
	}
}

// delay is how long it takes a job to begin on devices, on some of which a pipeline may still
// write its weights.
func (w pipelines) delay(r *job.Record, a *cluster.Alloc) time.Duration {
	begin := w.cfg.Costs.Begin(r.Job, int(a.Milli()/unit.One), r.Starts == 0, w.warm(r.Job, a))
	if len(w.writing) == 0 {
		return begin
	}
	rest, written := time.Duration(0), 0
	for i := range a.Shares {
		left := time.Duration(0)
		for _, l := range w.writing {
			if l.device == a.Shares[i].Device {
				left = max(left, l.until-w.state.Now)
			}
		}
		if left > 0 {
			rest, written = max(rest, left), written+1
		}
	}
	if r.Job.Pipelined() && written == len(a.Shares) && written > 0 {
		return w.cfg.Costs.Switch[r.Job.Backbone].Follow(begin, rest, len(a.Shares))
	}
	return rest + begin
}
