package ones

import (
	"fmt"
	"math/rand/v2"

	"github.com/norn-scheduler/norn/job"
	"github.com/norn-scheduler/norn/perf"
	"github.com/norn-scheduler/norn/perf/predict/loss"
)

// Believer makes what the scheduler believes of the progress of jobs from what they and jobs
// before them report.
func (c *Config) Believer(prior perf.Prior) perf.Believer {
	return &believer{Believer: loss.NewBeliever(prior), seed: uint64(c.Seed)}
}

// believer is what was measured of jobs, and the regression that was taught by those that have
// ended. It is taught anew when somebody asks.
type believer struct {
	*loss.Believer
	seed    uint64
	lessons []Lesson
	jobs    int // that have taught
	taught  *Regression
}

// Observe implements perf.Believer.
func (b *believer) Observe(j *job.Job, m *perf.Reading) {
	h := b.History(j)
	if m.When == perf.AtEnd && h != nil {
		if all, ok := m.Figure(perf.Samples); ok && all > 0 && h.EpochSize() > 0 {
			b.learn(h, all/h.EpochSize())
		}
	}
	b.Believer.Observe(j, m)
}

// learn takes in a job that has ended after so many epochs.
func (b *believer) learn(h *loss.History, epochs float64) {
	first, _, ok := h.Loss()
	if !ok {
		return
	}
	before, reports := len(b.lessons), 0
	for range h.Reports {
		reports++
	}
	n := 0
	for at := range h.Reports {
		// The reading at the end takes the place of the second one, which a scheduler that
		// starts again does not have.
		if n++; n == 2 && reports == perf.MostReadings {
			continue
		}
		if done := at.Epochs / epochs; at.Epochs >= 1 && done < 1 {
			b.lessons = append(b.lessons, Lesson{Row{h.EpochSize(), first, at.Epochs, at.Loss, at.Accuracy}, done})
		}
	}
	if len(b.lessons) > before {
		b.jobs, b.taught = b.jobs+1, nil
	}
}

// regression is what was learnt so far.
func (b *believer) regression() *Regression {
	if b.taught == nil {
		b.taught = Teach(b.lessons, rand.New(rand.NewPCG(b.seed, uint64(len(b.lessons)))))
	}
	return b.taught
}

// row is what is known of a job now; ok is false where it reports no loss.
func (b *believer) row(j *job.Job) (r Row, ok bool) {
	h := b.History(j)
	if h == nil {
		return r, false
	}
	first, last, ok := h.Loss()
	a, _ := h.Accuracy()
	return Row{h.EpochSize(), first, h.Epochs(), last, a}, ok
}

// Grounds implements perf.Telling.
func (b *believer) Grounds(j *job.Job) []string {
	r, ok := b.row(j)
	if !ok {
		return nil
	}
	alpha, beta := b.regression().Beta(&r)
	from := fmt.Sprintf("%d points of %d jobs that have ended", len(b.lessons), b.jobs)
	if len(b.lessons) == 0 {
		from = "nothing: no job has ended that reported its loss"
	}
	return append(b.Believer.Grounds(j), fmt.Sprintf("it is believed to have done %.0f %% of its work, from %s", 100*alpha/(alpha+beta), from))
}

var _ perf.Telling = (*believer)(nil)
