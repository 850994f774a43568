package asrpt

import (
	"math"
	"time"

	"github.com/norn-scheduler/norn/job"
	"github.com/norn-scheduler/norn/policy/kit/queue"
)

// machine is the virtual machine: it works on one job at a time, always on the one with the least work
// left. A job that it works on keeps it on ties.
type machine struct {
	clock   time.Duration // up to here it has worked
	running job.ID        // job.None: it has nothing to do
	left    time.Duration // of the running job, at clock
	since   time.Duration // clock when the running job began to run
	began   time.Duration // left of the running job then
	rest    queue.Queue   // the other jobs, by what is left of them
}

func newMachine() *machine { return &machine{running: job.None} }

// has tells whether a job is on the machine.
func (m *machine) has(id job.ID) bool { return id == m.running || m.rest.Has(id) }

// of is what is left of a job on the machine, at clock.
func (m *machine) of(id job.ID) time.Duration {
	if id == m.running {
		return m.left
	}
	return time.Duration(m.rest.Key(id).A)
}

// add brings a job. changed is called for the job that it takes the machine from.
func (m *machine) add(id job.ID, left time.Duration, changed func(job.ID)) {
	switch was := m.running; {
	case was == job.None:
		m.run(id, left)
	case left < m.left:
		m.rest.Add(was, 0, queue.Key{A: int64(m.left)})
		m.run(id, left)
		changed(was)
	default:
		m.rest.Add(id, 0, queue.Key{A: int64(left)})
	}
}

func (m *machine) run(id job.ID, left time.Duration) {
	m.running, m.left, m.began, m.since = id, left, left, m.clock
}

// remove takes a job away that is not done. changed is called for the job that the machine turns to.
func (m *machine) remove(id job.ID, changed func(job.ID)) {
	if id == m.running {
		m.next(changed)
		return
	}
	m.rest.Remove(id)
}

// next turns to the job with the least work left.
func (m *machine) next(changed func(job.ID)) {
	m.running = job.None
	if id, ok := m.rest.First(); ok {
		left := time.Duration(m.rest.Key(id).A)
		m.rest.Remove(id)
		m.run(id, left)
		changed(id)
	}
}

// advance works up to a moment. done is called for each job that is done, with the moment, and changed
// for each job that the machine turns to.
func (m *machine) advance(to time.Duration, done func(job.ID, time.Duration), changed func(job.ID)) {
	for m.running != job.None && m.left <= to-m.clock {
		m.clock += m.left
		was := m.running
		m.next(changed)
		done(was, m.clock)
	}
	if m.running != job.None {
		m.left -= to - m.clock
	}
	m.clock = to
}

// completion is when the running job will be done, if nobody comes; ok is false where there is none.
func (m *machine) completion() (at time.Duration, ok bool) {
	if m.running == job.None || m.left > math.MaxInt64-m.clock {
		return 0, false
	}
	return m.clock + m.left, true
}
