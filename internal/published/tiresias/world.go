package tiresias

import (
	"slices"
	"time"

	"github.com/norn-scheduler/norn/cluster"
	"github.com/norn-scheduler/norn/cluster/unit"
	"github.com/norn-scheduler/norn/eventlog"
	"github.com/norn-scheduler/norn/internal/published/harness"
	"github.com/norn-scheduler/norn/job"
	"github.com/norn-scheduler/norn/sim"
	"github.com/norn-scheduler/norn/state"
)

// foretelling is the simulated world with an oversight of the published loop of
// dlas and gittins. When the next completion and the next arrival fall on the
// same second, the loop writes the jobs that end into the event of the arrival.
// If the policy has asked for an earlier moment, it turns to that one first and
// never takes the jobs out again: they end with that arrival, even if they were
// preempted meanwhile and have work left, or wait.
type foretelling struct {
	*sim.Sim
	state *state.State
	jobs  harness.Jobs
	work  []time.Duration // by job
	next  int             // the next arrival
	at    time.Duration   // when it is
	due   []job.ID        // running jobs that end at the next arrival
	told  []job.ID        // jobs written into its event
	last  time.Duration   // the moment before
	short []time.Duration // by job: how much of its wait the loop did not count
}

// Attach implements replay.World.
func (w *foretelling) Attach(s *state.State) error {
	w.state, w.short, w.work = s, make([]time.Duration, len(w.jobs)), make([]time.Duration, len(w.jobs))
	for i := range w.jobs {
		w.work[i] = w.jobs[i].Truth.Work
	}
	w.findNext(-1)
	return w.Sim.Attach(s)
}

// findNext goes on to the first arrival after a moment.
func (w *foretelling) findNext(after time.Duration) {
	for w.next < len(w.jobs) && w.jobs[w.next].Job.Submit <= after {
		w.next++
	}
	if w.at = unit.Never; w.next < len(w.jobs) {
		w.at = w.jobs[w.next].Job.Submit
	}
}

// end is when a running job ends.
func (w *foretelling) end(r *job.Record) time.Duration {
	return r.Ready + w.work[r.Job.ID] - r.Progress
}

// Next implements engine.World.
func (w *foretelling) Next(wake time.Duration, out []eventlog.Event) (time.Duration, []eventlog.Event, error) {
	if len(w.due) > 0 && wake < w.at && w.nothingBefore(w.at) {
		w.told = append(w.told[:0], w.due...)
	}
	due := len(w.due) > 0
	now, out, err := w.Sim.Next(wake, out)
	if err != nil {
		return now, out, err
	}
	if now == w.at {
		if !due {
			out = w.endTold(now, out)
		}
		w.findNext(now)
		w.told, w.due = w.told[:0], w.due[:0]
		w.findDue(out)
	}
	w.last = now
	return now, out, nil
}

// nothingBefore tells whether no running job ends before a moment.
func (w *foretelling) nothingBefore(at time.Duration) bool {
	for i := range w.state.Running(0).All() {
		if w.end(w.state.Record(job.ID(i))) < at {
			return false
		}
	}
	return true
}

// endTold ends the jobs that were written into the event of the arrival.
func (w *foretelling) endTold(now time.Duration, out []eventlog.Event) []eventlog.Event {
	for _, id := range w.told {
		ev := eventlog.Event{Time: now, Kind: eventlog.End, Job: id, Outcome: job.Done}
		if w.state.Record(id).Phase == job.Running {
			w.Sim.Stop(id)
		} else {
			ev.Kind = eventlog.Cancel
			w.short[id] = now - w.last
		}
		out = append(out, ev)
	}
	return out
}

// findDue finds the running jobs that end at the next arrival, other than those
// that end now.
func (w *foretelling) findDue(out []eventlog.Event) {
	for i := range w.state.Running(0).All() {
		id := job.ID(i)
		ends := slices.ContainsFunc(out, func(ev eventlog.Event) bool { return ev.Job == id && ev.Kind == eventlog.End })
		if w.end(w.state.Record(id)) == w.at && !ends {
			w.due = append(w.due, id)
		}
	}
}

// Start implements engine.World.
func (w *foretelling) Start(id job.ID, a *cluster.Alloc) (delay time.Duration, speed float64) {
	if w.state.Now+w.work[id]-w.state.Record(id).Progress == w.at {
		w.due = append(w.due, id)
	}
	return w.Sim.Start(id, a)
}

// Stop implements engine.World.
func (w *foretelling) Stop(id job.ID) (kept time.Duration, atOnce bool) {
	if i := slices.Index(w.due, id); i >= 0 {
		w.due = slices.Delete(w.due, i, i+1)
	}
	return w.Sim.Stop(id)
}
