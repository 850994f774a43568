package replay

import (
	"slices"
	"time"

	"github.com/norn-scheduler/norn/cluster"
	"github.com/norn-scheduler/norn/eventlog"
	"github.com/norn-scheduler/norn/job"
	"github.com/norn-scheduler/norn/perf"
	"github.com/norn-scheduler/norn/state"
)

// Costs is what transitions took, on average, and how many of them a log tells
// of.
type Costs struct {
	perf.Cost
	Starts, Checkpoints, Restores, Migrations, Resizes int
}

// measured follows the transitions in a log.
type measured struct {
	start, checkpoint, restore mean
	migrate, resize            reshaped
	left                       map[job.ID]time.Duration   // since when they are leaving
	on                         map[job.ID][]cluster.Share // of jobs that have devices or are leaving them
	waits                      []wait
}

// reshaped is what it took jobs to go on with other devices.
type reshaped struct {
	free   mean // that nobody was leaving
	vacant mean // others, from the moment on at which all had left them
}

// best is the mean that counts: live, what a job is expected to take is without its waiting.
func (r *reshaped) best() *mean {
	if r.free.n > 0 {
		return &r.free
	}
	return &r.vacant
}

// wait is a job that goes on with devices which others are still leaving.
type wait struct {
	resized bool
	since   time.Duration
	delay   time.Duration // until it makes progress
	leavers []job.ID      // who have not left yet
}

// mean is a mean of durations.
type mean struct {
	sum time.Duration
	n   int
}

func (m *mean) add(d time.Duration) {
	m.sum += d
	m.n++
}

func (m *mean) value() time.Duration {
	if m.n == 0 {
		return 0
	}
	return m.sum / time.Duration(m.n)
}

// event measures. A start without a delay is one that was not measured: a live
// world knows what to expect only after the first.
func (m *measured) event(ev *eventlog.Event, s *state.State) {
	switch ev.Kind {
	case eventlog.Start:
		m.on[ev.Job] = slices.Clone(s.Alloc(ev.Job).Shares)
		switch again := s.Record(ev.Job).Starts > 1; {
		case ev.Delay > 0 && again:
			m.restore.add(ev.Delay)
		case ev.Delay > 0:
			m.start.add(ev.Delay)
		}
	case eventlog.Move, eventlog.Resize:
		m.reshapes(ev, s)
	case eventlog.Preempt:
		if s.Record(ev.Job).Phase == job.Stopping {
			m.left[ev.Job] = ev.Time
		}
	case eventlog.Gone:
		if since, ok := m.left[ev.Job]; ok {
			m.checkpoint.add(ev.Time - since)
		}
		m.gone(ev)
	case eventlog.Evict, eventlog.End, eventlog.Cancel:
		m.gone(ev)
	}
}

// reshapes measures what it takes a job to go on with other devices.
func (m *measured) reshapes(ev *eventlog.Event, s *state.State) {
	now := s.Alloc(ev.Job).Shares
	m.on[ev.Job] = slices.Clone(now)
	if ev.Delay <= 0 {
		return
	}
	w := wait{resized: ev.Kind == eventlog.Resize, since: ev.Time, delay: ev.Delay}
	for id := range m.left {
		if overlap(m.on[id], now) {
			w.leavers = append(w.leavers, id)
		}
	}
	if len(w.leavers) > 0 {
		m.waits = append(m.waits, w)
	} else {
		m.of(w.resized).free.add(ev.Delay)
	}
}

// of is what is known of resizes, or of moves.
func (m *measured) of(resized bool) *reshaped {
	if resized {
		return &m.resize
	}
	return &m.migrate
}

// gone notes that a job has left its devices, for which others may have waited.
func (m *measured) gone(ev *eventlog.Event) {
	delete(m.left, ev.Job)
	delete(m.on, ev.Job)
	for i := range m.waits {
		w := &m.waits[i]
		if at := slices.Index(w.leavers, ev.Job); at >= 0 {
			w.leavers = slices.Delete(w.leavers, at, at+1)
			if len(w.leavers) == 0 {
				m.of(w.resized).vacant.add(max(0, w.since+w.delay-ev.Time))
			}
		}
	}
	m.waits = slices.DeleteFunc(m.waits, func(w wait) bool { return len(w.leavers) == 0 })
}
func (m *measured) means() Costs {
	return Costs{
		Cost: perf.Cost{
			Start: m.start.value(), Checkpoint: m.checkpoint.value(), Restore: m.restore.value(), Migrate: m.migrate.best().value(), Resize: m.resize.best().value(),
		},
		Starts: m.start.n, Checkpoints: m.checkpoint.n, Restores: m.restore.n, Migrations: m.migrate.best().n, Resizes: m.resize.best().n,
	}
}
