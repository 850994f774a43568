package state

import (
	"fmt"
	"iter"
	"time"

	"github.com/norn-scheduler/norn/cluster"
	"github.com/norn-scheduler/norn/cluster/unit"
	"github.com/norn-scheduler/norn/job"
	"github.com/norn-scheduler/norn/state/dense"
)

// Lists are orders of the jobs and devices of a State that few policies ask for. Each is made when
// somebody asks for it, and follows the events from then on.
type Lists struct {
	state *State

	endings []dense.List    // of each pool; nil: nobody has asked
	at      []time.Duration // by job: its place in endings; unit.Never: it is in no list

	placed []job.ID // nil: nobody has asked

	measured *dense.List // devices by the moment of their latest measurement; nil: nobody has asked
}

// Lists are the lists of the jobs.
func (s *State) Lists() *Lists { return &s.lists }

// Endings are the jobs of a pool that run and are expected to end before unit.Never. A of
// an Item is when (job.Record.ExpectedEnd), and ties go by number. The list must not be
// changed.
func (l *Lists) Endings(p cluster.PoolID) *dense.List {
	made := l.endings != nil
	for len(l.endings) < len(l.state.pools) {
		l.endings = append(l.endings, dense.List{})
	}
	for id := job.ID(0); !made && int(id) < l.state.Jobs(); id++ {
		l.Reckon(id)
	}
	return &l.endings[p]
}

// Reckon notes that an event may have changed when a job is expected to end.
func (l *Lists) Reckon(id job.ID) {
	if l.endings == nil {
		return
	}
	for int(id) >= len(l.at) {
		l.at = append(l.at, unit.Never)
	}
	r, at := l.state.Record(id), unit.Never
	if end, ok := r.ExpectedEnd(); ok && end < unit.Never {
		at = end
	}
	if at == l.at[id] {
		return
	}
	list := l.Endings(r.Pool)
	if was := l.at[id]; was < unit.Never {
		list.Remove(dense.Item{A: int64(was), ID: int32(id)})
	}
	if l.at[id] = at; at < unit.Never {
		list.Insert(dense.Item{A: int64(at), ID: int32(id)})
	}
}

// Placed lists the jobs that began or were assigned devices, and those whose allocation
// was changed, in the order in which it happened: job.Record.Since became another. The list
// only grows. It begins with the first call, and must not be changed.
func (l *Lists) Placed() []job.ID {
	if l.placed == nil {
		l.placed = []job.ID{}
	}
	return l.placed
}

// place notes that a job was placed.
func (l *Lists) place(id job.ID) {
	if l.placed != nil {
		l.placed = append(l.placed, id)
	}
}

// Measured yields the devices of which the latest measurement was made at a moment or after
// it, in the order of these moments. It must not be kept beyond the next event.
func (l *Lists) Measured(since time.Duration) iter.Seq[cluster.DeviceID] {
	if l.measured == nil {
		l.measured = &dense.List{}
		for d, samples := range l.state.windows {
			if n := len(samples); n > 0 {
				l.measured.Insert(dense.Item{A: int64(samples[n-1].at), ID: int32(d)})
			}
		}
	}
	return func(yield func(cluster.DeviceID) bool) {
		at, ok := l.measured.From(dense.Item{A: int64(since)})
		for ok && yield(cluster.DeviceID(at.ID)) {
			at.ID++
			at, ok = l.measured.From(at)
		}
	}
}

// measure notes that a device is measured that had these samples before.
func (l *Lists) measure(d cluster.DeviceID, before []sample, now time.Duration) {
	if l.measured == nil {
		return
	}
	if n := len(before); n > 0 {
		l.measured.Remove(dense.Item{A: int64(before[n-1].at), ID: int32(d)})
	}
	l.measured.Insert(dense.Item{A: int64(now), ID: int32(d)})
}

// check verifies the lists of endings, and has them kept from the first time on.
func (l *Lists) check() error {
	listed := 0
	for id := range job.ID(l.state.Jobs()) {
		r := l.state.Record(id)
		at, ok := r.ExpectedEnd()
		ok = ok && at < unit.Never
		if l.Endings(r.Pool).Has(dense.Item{A: int64(at), ID: int32(id)}) != ok {
			return fmt.Errorf("job %s is expected to end at %v (%v), and stands elsewhere in the list", r.Job.Key, at, ok)
		}
		if ok {
			listed++
		}
	}
	for p := range l.endings {
		listed -= l.endings[p].Len()
	}
	if listed != 0 {
		return fmt.Errorf("%d jobs too few are listed by their expected ends", listed)
	}
	return nil
}
