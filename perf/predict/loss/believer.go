package loss

import (
	"fmt"

	"github.com/norn-scheduler/norn/job"
	"github.com/norn-scheduler/norn/perf"
)

// Believer is what was measured of the training of all jobs. Of speeds it believes the prior.
// It implements perf.Believer, perf.Typed and perf.Telling.
type Believer struct {
	perf.Typed
	jobs map[int64]*History // by perf.SerialOf
}

// NewBeliever makes a believer that has observed nothing.
func NewBeliever(prior perf.Prior) *Believer {
	b := &Believer{Typed: prior.Speeds, jobs: map[int64]*History{}}
	if b.Typed == nil {
		b.Typed = perf.Analytic{Scaling: 1, Spread: 1}
	}
	return b
}

// Observe implements perf.Believer.
func (b *Believer) Observe(j *job.Job, m *perf.Reading) {
	if m.When == perf.InProfile {
		return
	}
	if m.When == perf.AtEnd {
		delete(b.jobs, perf.SerialOf(j))
		return
	}
	h := b.jobs[perf.SerialOf(j)]
	if h == nil {
		h = &History{}
		b.jobs[perf.SerialOf(j)] = h
	}
	h.add(m)
}

// Recorder is a believer that keeps what was measured of jobs.
type Recorder interface{ History(*job.Job) *History }

// History is what was measured of a job; nil: nothing, or it has ended.
func (b *Believer) History(j *job.Job) *History { return b.jobs[perf.SerialOf(j)] }

// Grounds implements perf.Telling.
func (b *Believer) Grounds(j *job.Job) []string {
	h := b.History(j)
	if h == nil {
		return nil
	}
	_, now, ok := h.Loss()
	if !ok {
		return nil
	}
	text := fmt.Sprintf("its loss is %.4g after %.4g epochs", now, h.Epochs())
	if h.EpochSize() == 0 {
		text = fmt.Sprintf("its loss is %.4g after %.0f samples", now, h.Epochs())
	}
	if f := h.Form(); f != nil {
		text += fmt.Sprintf(", and is foretold to be %.4g after as many more", f.Loss(2*h.Epochs()))
	}
	return []string{text}
}

// GainGrounds implements perf.Telling.
func (b *Believer) GainGrounds(*job.Job, *job.Job) string { return "" }

var _ perf.Telling = (*Believer)(nil)
