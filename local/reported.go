package local

import (
	"math"

	"github.com/norn-scheduler/norn/api"
	"github.com/norn-scheduler/norn/eventlog"
	"github.com/norn-scheduler/norn/job"
)

// noiseMargin is by which part the noise of gradients must have changed to be news. Its
// estimates vary from step to step, and each event of the log has the policy decide.
const noiseMargin = 0.1

// listener is the daemon as it takes in what jobs report.
type listener struct{ *Daemon }

// trainsWith notes in the log what a job trains with, when that has changed by its
// reports: its global batch size; or, once in Defaults.SpeedFor at most, the noise of its
// gradients by more than a tenth. Pollux' agents report every 30 s.
func (d listener) trainsWith(l *entry, r *api.Report) {
	rec := d.State().Record(l.ID)
	now := job.Reported{Batch: int32(min(max(0, r.Batch), math.MaxInt32)), Noise: noiseOf(r), Epoch: int32(min(max(0, r.Epoch), math.MaxInt32))}
	was := rec.Config.Reported
	soon := was.Noise > 0 && d.Loop.Now() < l.noise+d.opt.Defaults.SpeedFor
	same := now.Batch == was.Batch && (soon || math.Abs(now.Noise-was.Noise) <= noiseMargin*was.Noise)
	if rec.Phase != job.Running || same || now.Check() != nil || d.Loop.Touch(l.ID) != nil {
		return
	}
	l.noise = d.Loop.Now()
	d.Loop.Emit(eventlog.Event{Kind: eventlog.Config, Job: l.ID, Reported: now})
}

// noiseOf is the gradient noise scale that a job reports, to three digits; 0: none.
func noiseOf(r *api.Report) float64 {
	noise := r.Noise
	if noise <= 0 && r.GradSqr > 0 {
		noise = r.GradVar / r.GradSqr
	}
	if !(noise > 0) || math.IsInf(noise, 1) {
		return 0
	}
	digits := math.Pow(10, math.Floor(math.Log10(noise))-2)
	return math.Round(noise/digits) * digits
}
