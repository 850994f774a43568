package sim

import (
	"time"

	"github.com/norn-scheduler/norn/cluster/unit"
	"github.com/norn-scheduler/norn/job"
	"github.com/norn-scheduler/norn/state/dense"
)

// Load is how what jobs demand changes with time, as that of services does by the
// hour.
type Load interface {
	// At is by what the demand of a job (job.Hints) is multiplied at a moment, above 0,
	// and when that changes next: a moment that comes later, or unit.Never.
	At(j *job.Job, now time.Duration) (times float64, until time.Duration)
}

// loads is what running jobs make of their demands.
type loads struct {
	part  []float64                // by job
	turns dense.Heap               // job -> when that changes next
	stall map[job.ID]time.Duration // jobs that stand still until a moment
}

// of is by what the demand of a job is multiplied; 0: by 1.
func (l *loads) of(id job.ID) float64 {
	if int(id) >= len(l.part) {
		return 0
	}
	return l.part[id]
}

// stalled tells whether a job stands still.
func (l *loads) stalled(id job.ID, now time.Duration) bool { return l.stall[id] > now }

// turn brings the load of a job up to date.
func (w *Sim) turn(id job.ID, now time.Duration) {
	until := w.loads.stall[id]
	if until <= now {
		delete(w.loads.stall, id)
		until = unit.Never
	}
	if w.cfg.Load != nil {
		for int(id) >= len(w.loads.part) {
			w.loads.part = append(w.loads.part, 0)
		}
		part, next := w.cfg.Load.At(w.state.Record(id).Job, now)
		w.loads.part[id] = part
		until = min(until, max(next, now+1))
	}
	if until == unit.Never {
		w.loads.turns.Remove(int32(id))
		return
	}
	w.loads.turns.Set(int32(id), int64(until))
}

// turns brings up to date who changes its load, or goes on, at this instant.
func (w *Sim) turns(now time.Duration) {
	for id, ok := due(&w.loads.turns, now); ok; id, ok = due(&w.loads.turns, now) {
		if w.state.Record(id).Phase == job.Running {
			w.turn(id, now)
			w.adjusts(w.state.Alloc(id))
		}
	}
}

// crash has a job that fails take down those it shares devices with, or not: they
// stand still for a while.
func (w *Sim) crash(id job.ID, now time.Duration) {
	if !w.shared.on || w.cfg.Crash <= 0 || w.rand.Float64() >= w.cfg.Crash {
		return
	}
	if w.loads.stall == nil {
		w.loads.stall = map[job.ID]time.Duration{}
	}
	for _, share := range w.state.Alloc(id).Shares {
		for _, other := range w.holders(share.Device) {
			if other != id {
				w.loads.stall[other] = now + w.cfg.Reset
				w.turn(other, now)
			}
		}
	}
}
