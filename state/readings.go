package state

import (
	"github.com/norn-scheduler/norn/job"
	"github.com/norn-scheduler/norn/perf"
)

// Readings is what was measured of jobs, in order.
type Readings struct {
	all []Measured
	of  map[job.ID]int // how often each job was measured
}

// Measured is a reading of a job, which may be kept.
type Measured struct {
	Job job.ID
	*perf.Reading
}

// mostReadings bounds the readings of a job that are kept, but for that of its end.
const mostReadings = 64

// All are the readings so far. The list only grows, and must not be changed.
func (r *Readings) All() []Measured { return r.all }

// Add adds a reading of a job, which must not be changed any more. A job keeps its first
// ones, and that of its end. It fails on a reading that cannot be.
func (r *Readings) Add(id job.ID, m *perf.Reading) error {
	if err := m.Check(); err != nil {
		return err
	}
	if r.of == nil {
		r.of = map[job.ID]int{}
	}
	if r.of[id]++; r.of[id] <= mostReadings || m.When == perf.AtEnd {
		r.all = append(r.all, Measured{id, m})
	}
	return nil
}
