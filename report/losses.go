package report

import (
	"slices"
	"time"

	"github.com/norn-scheduler/norn/eventlog"
	"github.com/norn-scheduler/norn/job"
	"github.com/norn-scheduler/norn/perf"
	"github.com/norn-scheduler/norn/state"
)

// Losses is how fast the losses of jobs fell that reported them and did their work. The fall
// is from the first loss that a job reported to its last one.
type Losses struct {
	Jobs int   `json:"jobs"`
	To90 Stats `json:"to_90_percent_s"` // submission to 90 % of the fall
	To95 Stats `json:"to_95_percent_s"` // the same for 95 %
}

// falls follows the losses of jobs.
type falls struct {
	open       map[job.ID]*fall
	to90, to95 []time.Duration
}

// fall is how the loss of a job fell so far.
type fall struct {
	first float64
	at    []time.Duration
	loss  []float64 // the last of each report, at those moments
}

// event takes in a measurement. Losses between two reports are taken to fall evenly.
func (f *falls) event(ev *eventlog.Event, s *state.State) {
	series, r := ev.Measured.Series(perf.Loss), s.Record(ev.Job)
	l := f.open[ev.Job]
	if l == nil {
		if len(series) == 0 || ev.Measured.When == perf.InProfile {
			return
		}
		if f.open == nil {
			f.open = map[job.ID]*fall{}
		}
		l = &fall{first: series[0], at: []time.Duration{max(0, r.FirstStart)}, loss: []float64{series[0]}}
		f.open[ev.Job] = l
	}
	if n := len(series); n > 0 {
		l.at, l.loss = append(l.at, s.Now), append(l.loss, series[n-1])
	}
	if ev.Measured.When == perf.AtEnd {
		f.to90 = append(f.to90, l.until(0.9)-r.Job.Submit)
		f.to95 = append(f.to95, l.until(0.95)-r.Job.Submit)
		delete(f.open, ev.Job)
	}
}

// until is when the loss had fallen by a part of what it fell in all.
func (l *fall) until(part float64) time.Duration {
	last := l.loss[len(l.loss)-1]
	goal := l.first - part*(l.first-last)
	for i := 1; i < len(l.loss); i++ {
		if l.loss[i] > goal {
			continue
		}
		if from := l.loss[i-1]; from > goal {
			return l.at[i-1] + time.Duration(float64(l.at[i]-l.at[i-1])*(from-goal)/(from-l.loss[i]))
		}
		return l.at[i-1]
	}
	return l.at[len(l.at)-1]
}

// result is the figures; nil where no job reported.
func (f *falls) result() *Losses {
	if len(f.to90) == 0 {
		return nil
	}
	return &Losses{len(f.to90), describe(slices.Clone(f.to90)), describe(slices.Clone(f.to95))}
}
