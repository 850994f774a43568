package loss

import (
	"math"
	"slices"

	"github.com/norn-scheduler/norn/perf"
)

// History is what was measured of the training of one job. It follows from the readings that
// a state keeps (perf.MostReadings), so that it is the same after a restart. Steps are epochs,
// or samples where the size of an epoch was never told.
type History struct {
	parts []part
	epoch float64 // samples

	form   Form // nil: none was found
	fitted bool // form is that of all parts
}

// part is one reading.
type part struct {
	setup      perf.Setup
	done       float64  // samples that the job had gone through
	rate       float64  // samples in a second; 0: not told
	accuracy   float64  // -1: not told
	points     []Sample // K in samples, in order
	first, end Sample   // of the points
}

// add takes a reading in.
func (h *History) add(m *perf.Reading) {
	loss, at := m.Series(perf.Loss), m.Series(perf.Samples)
	p := part{setup: m.Setup, accuracy: -1}
	if size, ok := m.Figure(perf.EpochSize); ok && size > 0 {
		h.epoch = size
	}
	if rate, ok := m.Figure(perf.Rate); ok && rate > 0 && len(m.Setup.Beside) == 0 {
		p.rate = rate
	}
	if a, ok := m.Figure(perf.Accuracy); ok {
		p.accuracy = a
	}
	if done, ok := m.Figure(perf.Samples); ok {
		p.done = done
	} else if len(h.parts) > 0 {
		p.done = h.parts[len(h.parts)-1].done
	}
	for i := range loss {
		if i < len(at) && (len(p.points) == 0 || at[i] > p.points[len(p.points)-1].K) && at[i] >= 0 {
			p.points = append(p.points, Sample{at[i], loss[i]})
		}
	}
	if n := len(p.points); n > 0 {
		p.first, p.end = p.points[0], p.points[n-1]
	}
	if h.parts = append(h.parts, p); len(h.parts) > perf.MostReadings {
		h.parts = slices.Delete(h.parts, 1, 2)
	}
	h.fitted = false
}

// step is the samples of a step.
func (h *History) step() float64 {
	if h.epoch > 0 {
		return h.epoch
	}
	return 1
}

// last is the last part for which something holds, nil for none.
func (h *History) last(holds func(*part) bool) *part {
	for i := len(h.parts) - 1; i >= 0; i-- {
		if holds(&h.parts[i]) {
			return &h.parts[i]
		}
	}
	return nil
}

func (p *part) lost() bool { return len(p.points) > 0 }

// Epochs is how many steps the job had done when it was measured last.
func (h *History) Epochs() float64 {
	if n := len(h.parts); n > 0 {
		return h.parts[n-1].done / h.step()
	}
	return 0
}

// EpochSize is the samples of an epoch; 0: it was never told.
func (h *History) EpochSize() float64 { return h.epoch }

// Loss is the first and the last loss that was reported. ok is false where none was.
func (h *History) Loss() (first, last float64, ok bool) {
	l := h.last((*part).lost)
	if l == nil {
		return 0, 0, false
	}
	i := slices.IndexFunc(h.parts, func(p part) bool { return p.lost() })
	return h.parts[i].first.Loss, l.end.Loss, true
}

// Accuracy is that on validation data which was reported last.
func (h *History) Accuracy() (a float64, ok bool) {
	if p := h.last(func(p *part) bool { return p.accuracy >= 0 }); p != nil {
		return p.accuracy, true
	}
	return 0, false
}

// Rate is the steps in a second that were measured last, and on what.
func (h *History) Rate() (rate float64, on perf.Setup, ok bool) {
	if p := h.last(func(p *part) bool { return p.rate > 0 }); p != nil {
		return p.rate / h.step(), p.setup, true
	}
	return 0, perf.Setup{}, false
}

// Rates yields for each reading with a rate the steps in a second and by how many tasks, the
// latest first.
func (h *History) Rates(yield func(rate float64, tasks int) bool) {
	for i := len(h.parts) - 1; i >= 0; i-- {
		if p := &h.parts[i]; p.rate > 0 && !yield(p.rate/h.step(), p.setup.Tasks) {
			return
		}
	}
}

// Report is what a job reported at one time.
type Report struct{ Epochs, Loss, Accuracy float64 } // the accuracy is 0 where it was not told

// Reports yields what was reported, in order. Reports without a loss are left out.
func (h *History) Reports(yield func(Report) bool) {
	for i := range h.parts {
		if p := &h.parts[i]; p.lost() && !yield(Report{p.end.K / h.step(), p.end.Loss, max(0, p.accuracy)}) {
			return
		}
	}
}

// Samples are the last losses, at most so many, in order of steps. A job that was set back
// has no losses behind where it went on.
func (h *History) Samples(most int) []Sample {
	var back []Sample
	lowest := math.Inf(1)
	for i := len(h.parts) - 1; i >= 0 && len(back) < most; i-- {
		points := h.parts[i].points
		for k := len(points) - 1; k >= 0 && len(back) < most; k-- {
			if s := points[k]; s.K < lowest {
				lowest = s.K
				back = append(back, Sample{s.K / h.step(), s.Loss})
			}
		}
	}
	slices.Reverse(back)
	return back
}

// Steepest is the largest change of the loss within a step that was seen, between losses
// that were reported one after the other; 0: fewer than two were.
func (h *History) Steepest() float64 {
	most := 0.0
	var was *Sample
	for i := range h.parts {
		for k := range h.parts[i].points {
			s := &h.parts[i].points[k]
			if was != nil && s.K > was.K {
				most = max(most, math.Abs(was.Loss-s.Loss)/(s.K-was.K)*h.step())
			}
			was = s
		}
	}
	return most
}

// window is how many losses a form is fitted to. By their weights earlier ones count nothing.
const window = 48

// decay is how much less each loss counts than the next one.
const decay = 0.9

// Form is what the losses follow; nil: too few are known.
func (h *History) Form() Form {
	if !h.fitted {
		h.fitted, h.form = true, nil
		samples := h.Samples(window)
		if f, err := Foretell(samples, Decay(len(samples), decay)); err == nil {
			h.form = f
		}
	}
	return h.form
}

// Fall is by how much the loss is foretold to fall in so many steps from where the job was
// measured last. While no form is known it falls as it did last.
func (h *History) Fall(steps float64) float64 {
	if steps <= 0 {
		return 0
	}
	if f := h.Form(); f != nil {
		k := h.Epochs()
		return max(0, f.Loss(k)-f.Loss(k+steps))
	}
	two := h.Samples(2)
	if len(two) < 2 {
		return 0
	}
	return max(0, (two[0].Loss-two[1].Loss)/(two[1].K-two[0].K)*steps)
}
