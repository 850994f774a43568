package beside

import (
	"github.com/norn-scheduler/norn/cluster"
	"github.com/norn-scheduler/norn/perf"
	"github.com/norn-scheduler/norn/sched"
)

// Sorts numbers jobs by their traits, so that what a Sharing says of one need not be asked
// again for all that are like it. The zero Sorts is empty.
type Sorts struct {
	of     map[perf.Traits]int32
	number []int32 // by job: its number + 1
}

// Of is the number of a job's sort, from 0.
func (s *Sorts) Of(j sched.Job) int32 {
	for int(j.ID) >= len(s.number) {
		s.number = append(s.number, make([]int32, max(256, int(j.ID)+1-len(s.number), len(s.number)))...)
	}
	if s.number[j.ID] == 0 {
		if s.of == nil {
			s.of = map[perf.Traits]int32{}
		}
		traits := perf.TraitsOf(j.Spec())
		if _, known := s.of[traits]; !known {
			s.of[traits] = int32(len(s.of)) + 1
		}
		s.number[j.ID] = s.of[traits]
	}
	return s.number[j.ID] - 1
}

// Known keeps a value for each sort of jobs on each GPU type.
type Known[V any] struct {
	types  int
	values []V
	known  []bool
}

// Forget begins anew.
func (k *Known[V]) Forget(c *cluster.Cluster) {
	k.types, k.values, k.known = c.Types(), k.values[:0], k.known[:0]
}

// Get is the value for a sort on a GPU type, which is made where it is not known yet.
func (k *Known[V]) Get(sort int32, t cluster.TypeID, make func() V) V {
	i := int(sort)*k.types + int(t)
	for i >= len(k.values) {
		var none V
		k.values, k.known = append(k.values, none), append(k.known, false)
	}
	if !k.known[i] {
		k.values[i], k.known[i] = make(), true
	}
	return k.values[i]
}
