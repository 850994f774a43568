package engine

import (
	"time"

	"github.com/norn-scheduler/norn/eventlog"
	"github.com/norn-scheduler/norn/job"
	"github.com/norn-scheduler/norn/perf"
)

// beliefs are what a run believes from what was measured. The believer follows the
// measurements of the state, so that it is the same after a restart.
type beliefs struct {
	prior perf.Prior // of the configuration
	of    perf.Believer
	times perf.RunTimes // nil: it foretells none
	vary  perf.Varied   // nil: it learns nothing of devices
}

// variability is how far devices are believed to differ by now.
func (e *Engine) variability() *perf.Variability {
	if e.beliefs.vary != nil {
		return e.beliefs.vary.Variability()
	}
	return e.cfg.Variability
}

// believe makes the beliefs of a run, from what was measured in it so far. Policies see them
// instead of those of the configuration.
func (e *Engine) believe() {
	if e.cfg.Believe == nil {
		e.observe()
		return
	}
	if e.beliefs.of == nil {
		e.beliefs.prior = perf.Prior{Speeds: e.cfg.Speeds, Sharing: e.cfg.Sharing, Transfer: e.cfg.Transfer, Told: true}
	}
	prior := e.beliefs.prior
	e.cfg.Speeds, e.cfg.Sharing, e.cfg.Transfer = prior.Speeds, prior.Sharing, prior.Transfer
	e.observe()
	prior.Sharing = e.cfg.Sharing // which goes on to learn, also below a believer
	of := e.cfg.Believe(prior)
	if speeds, ok := of.(perf.Typed); ok {
		e.cfg.Speeds = speeds
	}
	if sharing, ok := of.(perf.Sharing); ok {
		e.cfg.Sharing = sharing
	}
	if transfer, ok := of.(perf.Transfer); ok {
		e.cfg.Transfer = transfer
	}
	e.beliefs.of = of
	e.beliefs.times, _ = of.(perf.RunTimes)
	e.beliefs.vary, _ = of.(perf.Varied)
	for _, m := range e.state.Readings.All() {
		of.Observe(e.state.Record(m.Job).Job, m.Reading)
	}
	e.state.Believe(e.cfg.Speeds)
}

// estimate is the run time that a job is believed to need when it is submitted or starts
// anew. ok is false when nothing is known.
func (e *Engine) estimate(j *job.Job) (d time.Duration, ok bool) {
	if e.beliefs.times != nil {
		if left, _, mine := e.beliefs.times.RunTime(j); mine && left >= 0 {
			return left, true
		}
	}
	return e.cfg.Estimator.Estimate(j)
}

// measured takes in a measurement of a job. If the believed run time of the job changes
// by it, that is an event.
func (e *Engine) measured(ev *eventlog.Event) error {
	if e.beliefs.of == nil {
		return nil
	}
	r := e.state.Record(ev.Job)
	e.beliefs.of.Observe(r.Job, ev.Measured)
	if e.beliefs.times == nil || r.Phase.Over() || ev.Measured.When == perf.AtEnd {
		return nil
	}
	left, why, mine := e.beliefs.times.RunTime(r.Job)
	if !mine || left < 0 {
		return nil
	}
	d := r.ProgressAt(e.state.Now) + left.Round(time.Millisecond)
	if d > horizon {
		d = horizon
	}
	if d == r.Estimate {
		return nil
	}
	revised := eventlog.Event{Time: e.state.Now, Kind: eventlog.Estimate, Job: ev.Job, Estimate: d, Reason: job.Reason{Code: job.Because, Job: job.None, Text: why}}
	return e.apply(&revised)
}

// Grounds are clauses about what is believed of a job and from what that was learnt, none
// where nothing is.
func (e *Engine) Grounds(id job.ID) []string {
	if t, ok := e.beliefs.of.(perf.Telling); ok && e.state.Known(id) {
		return t.Grounds(e.state.Record(id).Job)
	}
	return nil
}
