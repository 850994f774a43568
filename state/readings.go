package state

import (
	"slices"

	"github.com/norn-scheduler/norn/job"
	"github.com/norn-scheduler/norn/perf"
)

// Readings is what was measured of jobs, in order.
type Readings struct {
	all  []Measured
	of   map[job.ID][]int // places in all of the readings that are kept of a job
	dead int              // readings in all that are not kept
}

// Measured is a reading of a job, which may be kept.
type Measured struct {
	Job job.ID
	*perf.Reading
}

// All are the readings that are kept. The list must not be changed.
func (r *Readings) All() []Measured {
	if r.dead == 0 {
		return r.all
	}
	return slices.DeleteFunc(slices.Clone(r.all), func(m Measured) bool { return m.Reading == nil })
}

// Add adds a reading of a job, which must not be changed any more. A job keeps its first one
// and its latest ones, perf.MostReadings in all. It fails on a reading that cannot be.
func (r *Readings) Add(id job.ID, m *perf.Reading) error {
	if err := m.Check(); err != nil {
		return err
	}
	if r.of == nil {
		r.of = map[job.ID][]int{}
	}
	places := append(r.of[id], len(r.all))
	r.all = append(r.all, Measured{id, m})
	if len(places) > perf.MostReadings {
		r.all[places[1]].Reading = nil
		places = slices.Delete(places, 1, 2)
		r.dead++
	}
	r.of[id] = places
	if r.dead > len(r.all)/2 {
		r.all, r.dead = r.All(), 0
		clear(r.of)
		for i, m := range r.all {
			r.of[m.Job] = append(r.of[m.Job], i)
		}
	}
	return nil
}
