package state

import (
	"fmt"
	"time"

	"github.com/norn-scheduler/norn/cluster"
	"github.com/norn-scheduler/norn/cluster/unit"
	"github.com/norn-scheduler/norn/job"
	"github.com/norn-scheduler/norn/state/dense"
)

// endings lists the jobs of each pool that run and are expected to end, the first to
// end first. It is made when somebody asks for it, and follows the events from then on.
type endings struct {
	kept  bool
	pools []dense.List
	at    []time.Duration // by job: when it is expected to end; unit.Never: it is in no list
}

// Endings are the jobs of a pool that run and are expected to end before unit.Never. A of
// an Item is when (job.Record.ExpectedEnd), and ties go by number. The list must not be
// changed.
func (s *State) Endings(p cluster.PoolID) *dense.List {
	for len(s.endings.pools) < len(s.pools) {
		s.endings.pools = append(s.endings.pools, dense.List{})
	}
	if !s.endings.kept {
		s.endings.kept = true
		for id := range job.ID(s.n) {
			s.Reckon(id)
		}
	}
	return &s.endings.pools[p]
}

// placings lists the jobs that were placed, from when somebody first asked.
type placings struct {
	kept bool
	ids  []job.ID
}

// Placed lists the jobs that began or were assigned devices, and those whose allocation
// was changed, in the order in which it happened: job.Record.Since became another. The list
// only grows. It begins with the first call, and must not be changed.
func (s *State) Placed() []job.ID {
	s.placings.kept = true
	return s.placings.ids
}

// place notes that a job was placed.
func (s *State) place(id job.ID) {
	if s.placings.kept {
		s.placings.ids = append(s.placings.ids, id)
	}
}

// Reckon notes that an event may have changed when a job is expected to end.
func (s *State) Reckon(id job.ID) {
	e := &s.endings
	if !e.kept {
		return
	}
	for int(id) >= len(e.at) {
		e.at = append(e.at, unit.Never)
	}
	r, at := s.Record(id), unit.Never
	if end, ok := r.ExpectedEnd(); ok && end < unit.Never {
		at = end
	}
	if at == e.at[id] {
		return
	}
	for len(e.pools) < len(s.pools) {
		e.pools = append(e.pools, dense.List{})
	}
	list := &e.pools[r.Pool]
	if was := e.at[id]; was < unit.Never {
		list.Remove(dense.Item{A: int64(was), ID: int32(id)})
	}
	if e.at[id] = at; at < unit.Never {
		list.Insert(dense.Item{A: int64(at), ID: int32(id)})
	}
}

// checkEndings verifies the lists of endings, and has them kept from the first time on.
func checkEndings(s *State) error {
	for p := range s.pools {
		s.Endings(cluster.PoolID(p))
	}
	listed := 0
	for id := range job.ID(s.n) {
		r := s.Record(id)
		at, ok := r.ExpectedEnd()
		ok = ok && at < unit.Never
		if s.endings.pools[r.Pool].Has(dense.Item{A: int64(at), ID: int32(id)}) != ok {
			return fmt.Errorf("job %s is expected to end at %v (%v), and stands elsewhere in the list", r.Job.Key, at, ok)
		}
		if ok {
			listed++
		}
	}
	for p := range s.endings.pools {
		listed -= s.endings.pools[p].Len()
	}
	if listed != 0 {
		return fmt.Errorf("%d jobs too few are listed by their expected ends", listed)
	}
	return nil
}
