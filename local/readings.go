package local

import (
	"slices"
	"time"

	"github.com/norn-scheduler/norn/api"
	"github.com/norn-scheduler/norn/cluster"
	"github.com/norn-scheduler/norn/eventlog"
	"github.com/norn-scheduler/norn/job"
	"github.com/norn-scheduler/norn/perf"
)

// readings is the daemon as it tells the engine what jobs report of their training: for policies that
// learn from it, and to find devices that are slower than others.
type readings struct{ *Daemon }

// series is what a job has reported that the engine has not been told of.
type series struct {
	run       int
	began     time.Duration // of the stretch that is not told yet
	told      time.Duration // how long the one before was
	from      float64       // samples at its beginning
	last      float64       // samples at the last report
	since, at time.Duration // when samples stood so, by the clock of reports
	own       bool          // that is the task's own
	epoch     float64       // samples of the data set; 0: not known
	loss      []float64
	points    []float64 // samples at which losses are
	embedding []float64
	accuracy  float64
	rated     bool // accuracy was reported
}

const (
	firstReading = 5 * time.Second // after which a run is told of first; then whenever that has doubled
	mostPoints   = 32              // of a loss trace; every second one is dropped when there are more
)

// report takes in a report of rank 0.
func (d readings) report(l *entry, r *api.Report) {
	rec := d.State().Record(l.ID)
	if rec.Phase != job.Running || d.State().Alloc(l.ID) == nil {
		return
	}
	s := &l.series
	at, own := d.Loop.Now(), r.At > 0
	if own {
		at = r.At.Duration()
	}
	if s.run != l.Run || r.Samples > 0 && (float64(r.Samples) < s.last || own != s.own || at < s.at) {
		*s = series{run: l.Run, began: d.Loop.Now(), from: float64(r.Samples), since: at, own: own, epoch: s.epoch}
	}
	if r.Samples > 0 {
		if s.last == 0 { // it may go on from where an earlier run has stopped
			s.from, s.since = float64(r.Samples), at
		}
		s.last, s.at = float64(r.Samples), at
		if r.Epoch > 0 {
			s.epoch = float64(r.Samples) / r.Epoch
		}
		if r.Loss > 0 {
			s.point(r.Loss)
		}
	}
	if len(r.Embedding) > 0 && len(r.Embedding) <= perf.MaxSeries {
		s.embedding = slices.Clone(r.Embedding)
	}
	if a, ok := r.Quality[perf.Accuracy]; ok {
		s.accuracy, s.rated = a, true
	}
	if since := d.Loop.Now() - s.began; since >= max(firstReading, 2*s.told) {
		d.tell(l, perf.InRun)
	}
}

// point adds a loss at the samples of the last report.
func (s *series) point(loss float64) {
	if n := len(s.points); n > 0 && s.points[n-1] == s.last {
		s.loss[n-1] = loss
		return
	}
	s.loss, s.points = append(s.loss, loss), append(s.points, s.last)
	if len(s.points) <= mostPoints {
		return
	}
	n := 0
	for i := 0; i < len(s.points); i += 2 {
		s.loss[n], s.points[n] = s.loss[i], s.points[i]
		n++
	}
	s.loss, s.points = s.loss[:n], s.points[:n]
}

// ended tells what is left of a run that is over. done says that the job has done its work.
func (d readings) ended(l *entry, done bool) {
	if s := &l.series; s.run == l.Run && s.last > 0 {
		when := perf.InRun
		if done {
			when = perf.AtEnd
		}
		d.tell(l, when)
		l.series = series{}
	}
}

// tell has the engine told of a stretch, and begins the next one.
func (d readings) tell(l *entry, when perf.When) {
	s, a, rec := &l.series, d.State().Alloc(l.ID), d.State().Record(l.ID)
	if a == nil || when == perf.InRun && d.Loop.Touch(l.ID) != nil {
		return
	}
	m := &perf.Reading{When: when, Setup: perf.SetupOf(d.State().Cluster, a)}
	m.Setup.Seats = perf.SeatsOf(d.State().Cluster, a)
	if with := rec.With; rec.Merged != job.Apart && d.State().Known(with) {
		m.Setup.How, m.Setup.With = rec.Merged, perf.TaskOf(d.State().Record(with).Job)
	}
	gauges(d).eachBeside(l, a, func(id job.ID, _ *cluster.Alloc) {
		if id != rec.With && len(m.Setup.Beside) < perf.MaxValues {
			m.Setup.Beside = append(m.Setup.Beside, perf.SortOf(d.State().Record(id).Job))
		}
	})
	span := d.Loop.Now() - s.began
	if len(s.points) > 0 {
		m.Add(perf.Loss, s.loss...)
		m.Add(perf.Samples, s.points...)
	} else if s.last > 0 {
		m.Add(perf.Samples, s.last)
	}
	if rate := (s.last - s.from) / (s.at - s.since).Seconds(); s.at > s.since && rate > 0 {
		m.Add(perf.Rate, rate)
	}
	if s.epoch > 0 {
		m.Add(perf.EpochSize, s.epoch)
	}
	if s.embedding != nil {
		m.Add(perf.Embedding, s.embedding...)
	}
	if s.rated {
		m.Add(perf.Accuracy, s.accuracy)
	}
	*s = series{run: s.run, began: d.Loop.Now(), told: span, from: s.last, last: s.last, since: s.at, at: s.at, own: s.own, epoch: s.epoch}
	if len(m.Values) > 0 && m.Check() == nil {
		d.Loop.Emit(eventlog.Event{Kind: eventlog.Measured, Job: l.ID, Measured: m})
	}
}
