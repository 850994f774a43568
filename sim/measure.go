package sim

import (
	"slices"
	"time"

	"github.com/norn-scheduler/norn/eventlog"
	"github.com/norn-scheduler/norn/job"
	"github.com/norn-scheduler/norn/perf"
	"github.com/norn-scheduler/norn/state/dense"
	"github.com/norn-scheduler/norn/trace"
)

// Meter makes measurements from the truth of the simulated world, with the errors that
// such measurements have. Equal calls must make equal measurements.
type Meter interface {
	// Measure adds to a reading what is measured of a job. The occasion and the setup are
	// filled in. A reading without values is not told.
	Measure(l *Look, to *perf.Reading)
}

// Reporter is a Meter of jobs that report by themselves, more often than they would be looked
// at otherwise.
type Reporter interface {
	Meter
	// Every is how often a job reports: first after that time on an allocation, later also
	// whenever an eighth of the time that it has been there has passed.
	Every(j *job.Job) time.Duration
}

// Look is what there is to be measured of one job, as it truly is.
type Look struct {
	Job   *job.Job
	Truth *trace.Truth
	With  *Look // the job with which it is merged, without With; nil: with none

	Number   int                // of this look at the job, from 0
	Work     time.Duration      // of the present attempt
	Progress time.Duration      // of that
	Gone     time.Duration      // the same as if without gains from other jobs
	Gain     float64            // at present: Progress over Gone
	Speed    float64            // progress per second
	Factor   float64            // Speed over that alone on the same devices; 0: others have just come there or left
	Own      perf.Sharer        // the job with its part of its first device
	Beside   []perf.Sharer      // the others there, in order of arrival; valid until Measure returns
	Ran      time.Duration      // since it began to make progress, or to be measured, here
	Seats    func() []perf.Seat // its devices
}

// meter is what the world keeps in order to measure.
type meter struct {
	due     dense.Heap // running jobs -> when they are looked at next
	looked  map[job.ID]int
	pending []eventlog.Event // readings that the engine has not been told of
}

// meters is the world as it measures.
type meters struct{ *Sim }

// firstLook is after how long a job is looked at first on a new allocation, with those who
// are beside it. It is then looked at when it has been there for twice as long, and so on, and
// when it leaves. A Reporter may say otherwise.
const firstLook = time.Minute

// first is after how long a job is looked at first.
func (w meters) first(id job.ID) time.Duration {
	if r, ok := w.cfg.Meter.(Reporter); ok {
		return max(time.Millisecond, r.Every(w.state.Record(id).Job))
	}
	return firstLook
}

// again is after how long a job that has been there for so long is looked at again.
func (w meters) again(id job.ID, ran time.Duration) time.Duration {
	if _, ok := w.cfg.Meter.(Reporter); ok {
		return max(w.first(id), ran/8)
	}
	return ran
}

// lookAfter has a job looked at that makes progress from ready on.
func (w meters) lookAfter(id job.ID, ready time.Duration) {
	if w.truth.of(id).began = ready; w.cfg.Meter != nil {
		w.meter.due.Set(int32(id), int64(later(ready, w.first(id))))
	}
}

// looks looks at the running jobs that are due.
func (w meters) looks(now time.Duration, out []eventlog.Event) []eventlog.Event {
	for id, ok := due(&w.meter.due, now); ok; id, ok = due(&w.meter.due, now) {
		r := w.state.Record(id)
		if r.Phase != job.Running || w.phase(id) != job.Running || r.Profiling {
			continue
		}
		out = w.reading(id, now, perf.InRun, out)
		if now-w.truth.of(id).began == w.first(id) {
			out = w.lookBeside(id, now, out)
		}
		w.meter.due.Set(int32(id), int64(later(now, w.again(id, now-w.truth.of(id).began))))
	}
	return out
}

// lookBeside looks at those who were on the first device of a running job before it.
func (w meters) lookBeside(id job.ID, now time.Duration, out []eventlog.Event) []eventlog.Event {
	a := w.state.Alloc(id)
	if a == nil || len(a.Shares) == 0 {
		return out
	}
	for _, o := range slices.Clone(w.holders(a.Shares[0].Device)) {
		r := w.state.Record(o)
		if o != id && o != r.With && w.phase(o) == job.Running && !r.Profiling && now-w.truth.of(o).began > firstLook {
			out = w.reading(o, now, perf.InRun, out)
		}
	}
	return out
}

// look looks at a running job that is about to leave what it has or to change it.
func (w meters) look(id job.ID) {
	r := w.state.Record(id)
	if w.cfg.Meter == nil || r.Phase != job.Running || w.state.Now <= w.truth.of(id).began {
		return
	}
	when := perf.InRun
	if r.Profiling {
		when = perf.InProfile
	}
	w.meter.pending = w.reading(id, w.state.Now, when, w.meter.pending)
}

// finished looks at a job that has done its work.
func (w meters) finished(id job.ID, now time.Duration, out []eventlog.Event) []eventlog.Event {
	if w.cfg.Meter == nil || w.truth.of(id).Outcome != trace.Passed {
		return out
	}
	return w.reading(id, now, perf.AtEnd, out)
}

// readings tells of those that were made when jobs left or changed what they had.
func (w meters) readings(out []eventlog.Event) []eventlog.Event {
	for _, ev := range w.meter.pending {
		if !w.state.Record(ev.Job).Phase.Over() {
			out = append(out, ev)
		}
	}
	w.meter.pending = w.meter.pending[:0]
	return out
}

// reading measures a job.
func (w meters) reading(id job.ID, now time.Duration, when perf.When, out []eventlog.Event) []eventlog.Event {
	r, a := w.state.Record(id), w.state.Alloc(id)
	if a == nil {
		return out
	}
	if w.meter.looked == nil {
		w.meter.looked = map[job.ID]int{}
	}
	m := &perf.Reading{When: when, Setup: perf.SetupOf(w.state.Cluster, a)}
	l := w.seen(id, now)
	l.Seats = func() []perf.Seat { return perf.SeatsOf(w.state.Cluster, a) }
	l.Ran, l.Number = now-w.truth.of(id).began, w.meter.looked[id]
	w.meter.looked[id]++
	if m.Setup.How = r.Merged; r.Merged != job.Apart {
		if w.state.Known(r.With) {
			l.With = w.seen(r.With, now)
			m.Setup.With = perf.TaskOf(l.With.Job)
		} else if m.Setup.How == job.Together {
			m.Setup.How = job.Apart
		}
	}
	l.Factor, l.Own = 1, perf.Sharer{Job: r.Job}
	if alone := w.alone(id, a); alone > 0 {
		l.Factor = l.Speed / alone
	}
	if len(a.Shares) > 0 {
		if slices.Contains(w.shared.dirty, a.Shares[0].Device) {
			l.Factor = 0
		}
		l.Own = w.sharer(id, a.Shares[0].Device)
		l.Beside = w.beside(a.Shares[0].Device, id, r.With)
		for _, o := range l.Beside {
			m.Setup.Beside = append(m.Setup.Beside, perf.SortOf(o.Job))
		}
	}
	if w.cfg.Meter.Measure(l, m); len(m.Values) == 0 {
		return out
	}
	return append(out, eventlog.Event{Time: now, Kind: eventlog.Measured, Job: id, Measured: m})
}

// seen is how a job truly stands.
func (w meters) seen(id job.ID, now time.Duration) *Look {
	w.mark(id, now)
	t, r := w.truth.of(id), w.state.Record(id)
	l := &Look{Job: r.Job, Truth: &t.Truth, Work: t.work(), Progress: t.marked, Gone: t.gone, Gain: t.gain, Speed: r.Speed}
	if l.Gain == 0 {
		l.Gain = 1
	}
	return l
}

// mark counts what a job has done since it was marked last, with the gain that it had.
func (w meters) mark(id job.ID, now time.Duration) {
	if w.cfg.Meter == nil {
		return
	}
	t, progress := w.truth.of(id), w.state.Record(id).ProgressAt(now)
	switch {
	case progress >= t.marked && t.gain > 0:
		t.gone += time.Duration(float64(progress-t.marked) / t.gain)
	case progress >= t.marked:
		t.gone += progress - t.marked
	default: // it was set back
		t.gone = time.Duration(float64(t.gone) * float64(progress) / float64(t.marked))
	}
	t.marked = progress
}
