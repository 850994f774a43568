package replay

import (
	"time"

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
	start, checkpoint, restore, migrate, resize mean
	left                                        map[job.ID]time.Duration // since when they are leaving
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
		switch again := s.Record(ev.Job).Starts > 1; {
		case ev.Delay > 0 && again:
			m.restore.add(ev.Delay)
		case ev.Delay > 0:
			m.start.add(ev.Delay)
		}
	case eventlog.Move:
		if ev.Delay > 0 {
			m.migrate.add(ev.Delay)
		}
	case eventlog.Resize:
		if ev.Delay > 0 {
			m.resize.add(ev.Delay)
		}
	case eventlog.Preempt:
		if s.Record(ev.Job).Phase == job.Stopping {
			m.left[ev.Job] = ev.Time
		}
	case eventlog.Gone:
		if since, ok := m.left[ev.Job]; ok {
			m.checkpoint.add(ev.Time - since)
		}
		delete(m.left, ev.Job)
	case eventlog.Evict, eventlog.End, eventlog.Cancel:
		delete(m.left, ev.Job)
	}
}

func (m *measured) means() Costs {
	return Costs{
		Cost: perf.Cost{
			Start: m.start.value(), Checkpoint: m.checkpoint.value(), Restore: m.restore.value(), Migrate: m.migrate.value(), Resize: m.resize.value(),
		},
		Starts: m.start.n, Checkpoints: m.checkpoint.n, Restores: m.restore.n, Migrations: m.migrate.n, Resizes: m.resize.n,
	}
}
