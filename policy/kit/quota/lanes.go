package quota

import (
	"github.com/norn-scheduler/norn/job"
	"github.com/norn-scheduler/norn/policy/kit/queue"
	"github.com/norn-scheduler/norn/state/dense"
	"github.com/norn-scheduler/norn/tenant"
)

// LaneKey identifies a queue of like jobs. If one job of a class does not fit,
// no other one does. Account and Priority are for policies that order jobs by
// them, and 0 otherwise.
type LaneKey struct {
	Tenant   tenant.ID
	Class    int32
	Account  int32
	Priority int32
	Sort     int32 // of its policy
}

// Lanes keeps the waiting jobs, in one queue for each LaneKey. The zero Lanes
// is empty.
type Lanes struct {
	all    []Lane
	of     map[LaneKey]int32
	places []spot // by job
	n      int
}

// Lane is one queue.
type Lane struct {
	LaneKey
	Shut uint64 // the round in which the policy leaves it out
	list dense.List
}

type spot struct {
	key  queue.Key
	lane int32 // + 1; 0: not waiting
}

// Len is the number of waiting jobs.
func (l *Lanes) Len() int { return l.n }

// Has tells whether a job is in a lane.
func (l *Lanes) Has(id job.ID) bool { return int(id) < len(l.places) && l.places[id].lane != 0 }

// Count is the number of lanes so far.
func (l *Lanes) Count() int { return len(l.all) }

// At is a lane.
func (l *Lanes) At(lane int32) *Lane { return &l.all[lane] }

// Lane is the number of a lane, which it makes if there is none. isNew tells
// whether it did.
func (l *Lanes) Lane(key LaneKey) (lane int32, isNew bool) {
	lane, ok := l.of[key]
	if !ok {
		if l.of == nil {
			l.of = map[LaneKey]int32{}
		}
		lane = int32(len(l.all))
		l.of[key] = lane
		l.all = append(l.all, Lane{LaneKey: key})
	}
	return lane, !ok
}

// Add puts a job into a lane.
func (l *Lanes) Add(id job.ID, lane int32, key queue.Key) {
	l.Remove(id)
	for int(id) >= len(l.places) {
		l.places = append(l.places, make([]spot, max(256, int(id)+1-len(l.places), len(l.places)))...)
	}
	l.places[id] = spot{key, lane + 1}
	l.all[lane].list.Insert(item(id, key))
	l.n++
}

// Remove takes a job out of its lane, which it returns; ok is false when it was
// in none.
func (l *Lanes) Remove(id job.ID) (lane int32, ok bool) {
	if !l.Has(id) {
		return 0, false
	}
	at := &l.places[id]
	lane = at.lane - 1
	l.all[lane].list.Remove(item(id, at.key))
	at.lane = 0
	l.n--
	return lane, true
}

// Key is the place of a waiting job in its lane.
func (l *Lanes) Key(id job.ID) queue.Key { return l.places[id].key }

// Head is the first job of a lane.
func (l *Lanes) Head(lane int32) (id job.ID, ok bool) {
	it, ok := l.all[lane].list.Min()
	return job.ID(it.ID), ok
}

// After is the next job of a lane.
func (l *Lanes) After(lane int32, id job.ID) (next job.ID, ok bool) {
	at := item(id, l.places[id].key)
	at.ID++
	it, ok := l.all[lane].list.From(at)
	return job.ID(it.ID), ok
}

// Before tells whether a waiting job stands before another by their keys, ties
// by number.
func (l *Lanes) Before(a, b job.ID) bool {
	return item(a, l.places[a].key).Before(item(b, l.places[b].key))
}

func item(id job.ID, key queue.Key) dense.Item {
	return dense.Item{A: key.A, B: key.B, ID: int32(id)}
}
