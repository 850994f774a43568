// Package preempt keeps, event by event, the jobs that a walk from the top of a
// priority order would choose. The walk chooses each job that fits what the
// jobs above it have left, and skips those that do not. Preemptive schedulers
// (SRTF, LAS, Tiresias) define which jobs run in this way. Done literally, it
// means sorting and walking all jobs at every event.
//
// Nouns: a Selector keeps active jobs, each of which is chosen or not. The
// choice is unique for an order and a capacity, so it can be repaired after a
// change instead of being made again. A repair takes O(log n) for each job
// whose choice flips, multiplied by the number of classes of equal size.
//
// The place of a job in the order is a Key. A chosen job may have its key on
// another scale than a waiting one. For example, a chosen job whose remaining
// time shrinks keeps one key, its end, and a waiting job keeps its remaining
// time. Shift, the current time, brings the second scale onto the first.
package preempt

import (
	"github.com/norn-scheduler/norn/job"
	"github.com/norn-scheduler/norn/state/dense"
)

// Key is a place in the order, least first: A, then B, then the job's number.
type Key struct{ A, B int64 }

// Selector chooses jobs. The zero Selector is empty and has no capacity.
type Selector struct {
	capacity int64
	shift    int64
	chosen   dense.List
	sizes    []sizeClass
	jobs     []entry
	touched  []job.ID
	waiting  int
}

// sizeClass holds the jobs of one size that are not chosen.
type sizeClass struct {
	size int64
	list dense.List
}

type entry struct {
	key     Key
	size    int32
	class   int16
	state   uint8 // absent, passed over, chosen
	before  uint8 // state when the changes began
	touched bool
}

const (
	absent uint8 = iota
	passed
	chosen
)

// Len is the number of active jobs.
func (s *Selector) Len() int { return s.chosen.Len() + s.waiting }

// Waiting is the number of jobs that are not chosen.
func (s *Selector) Waiting() int { return s.waiting }

// Capacity is the capacity that the chosen jobs share, in the unit of their
// sizes.
func (s *Selector) Capacity() int { return int(s.capacity) }

// Has tells whether a job is active.
func (s *Selector) Has(id job.ID) bool { return int(id) < len(s.jobs) && s.jobs[id].state != absent }

// Chosen tells whether a job is chosen.
func (s *Selector) Chosen(id job.ID) bool {
	return int(id) < len(s.jobs) && s.jobs[id].state == chosen
}

// Key is the place of an active job, on the scale of its state.
func (s *Selector) Key(id job.ID) Key { return s.jobs[id].key }

// Shift sets the difference between the scale of waiting jobs and that of
// chosen jobs. It must be set before the changes of a moment.
func (s *Selector) Shift(shift int64) { s.shift = shift }

// SetCapacity changes the capacity that the chosen jobs share.
func (s *Selector) SetCapacity(n int) {
	d := int64(n) - s.capacity
	s.capacity = int64(n)
	s.repair(dense.Item{A: minKey, B: minKey, ID: -1}, d)
}

const minKey = -1 << 63

// Add makes a job active with the given key on the scale of waiting jobs.
func (s *Selector) Add(id job.ID, size int, key Key) {
	e := s.entry(id)
	e.key, e.size, e.class = key, int32(size), s.class(int64(size))
	s.touch(id, e)
	e.state = passed
	at := s.place(id, e)
	if s.chosen.SumBefore(at)+int64(size) <= s.capacity {
		s.insertChosen(e, at)
		s.repair(at, -int64(size))
		return
	}
	s.insertPassed(id, e)
}

// AddChosen makes a job active that is known to be chosen, with its key on the
// scale of chosen jobs. A policy that starts anew calls it for each running
// job.
func (s *Selector) AddChosen(id job.ID, size int, key Key) {
	e := s.entry(id)
	e.key, e.size, e.class = key, int32(size), s.class(int64(size))
	s.touch(id, e)
	at := dense.Item{A: key.A, B: key.B, ID: int32(id), W: int32(size)}
	e.state, e.before = chosen, chosen
	s.chosen.Insert(at)
	s.repair(dense.Item{A: minKey, B: minKey, ID: -1}, -int64(size))
}

// Remove makes a job inactive, and tells whether it was active. A job that is
// added again later counts as one that was not chosen before.
func (s *Selector) Remove(id job.ID) bool {
	if !s.Has(id) {
		return false
	}
	e := &s.jobs[id]
	s.remove(id, e)
	e.before = absent
	return true
}

func (s *Selector) remove(id job.ID, e *entry) {
	s.touch(id, e)
	if e.state == passed {
		s.removePassed(id, e)
		e.state = absent
		return
	}
	at := s.item(id, e)
	s.chosen.Remove(at)
	e.state = absent
	s.repair(at, int64(e.size))
}

// Rekey changes the place of an active job, on the scale of its state.
func (s *Selector) Rekey(id job.ID, key Key) {
	e := &s.jobs[id]
	if e.key == key {
		return
	}
	size, was := int(e.size), e.state
	s.remove(id, e)
	if was == chosen {
		key.A -= s.shift
	}
	s.Add(id, size, key)
}

// Changes calls f for each job whose choice has changed since the last call of
// Changes. Jobs that are no longer chosen come first, then those that now are,
// each in the order in which they were touched. Jobs that became inactive are
// left out.
func (s *Selector) Changes(f func(id job.ID, chosen bool)) {
	for _, id := range s.touched {
		if e := &s.jobs[id]; e.before == chosen && e.state == passed {
			f(id, false)
		}
	}
	for _, id := range s.touched {
		e := &s.jobs[id]
		if e.before != chosen && e.state == chosen {
			f(id, true)
		}
		e.touched = false
	}
	s.touched = s.touched[:0]
}

// repair makes the choice correct again for all places from at on, where the
// capacity left has grown by d, which may be negative.
func (s *Selector) repair(at dense.Item, d int64) {
	for d != 0 {
		if d < 0 {
			it, _, ok := s.chosen.FirstOver(s.capacity)
			if !ok {
				return
			}
			id := job.ID(it.ID)
			e := &s.jobs[id]
			s.touch(id, e)
			s.chosen.Remove(it)
			e.key.A -= s.shift
			s.insertPassed(id, e)
			at, d = it, d+int64(e.size)
			continue
		}
		id, next, ok := s.firstThatFits(at, d)
		if !ok {
			return
		}
		e := &s.jobs[id]
		s.touch(id, e)
		s.removePassed(id, e)
		s.insertChosen(e, next)
		at, d = next, d-int64(e.size)
	}
}

// firstThatFits is the first job after a place that is not chosen and fits.
func (s *Selector) firstThatFits(after dense.Item, d int64) (id job.ID, at dense.Item, ok bool) {
	from := after
	if from.A != minKey {
		from.A -= s.shift
	}
	from.ID++
	for c := range s.sizes {
		it, has := s.sizes[c].list.From(from)
		if !has {
			continue
		}
		e := &s.jobs[it.ID]
		place := s.place(job.ID(it.ID), e)
		if ok && at.Before(place) {
			continue
		}
		if s.chosen.SumBefore(place)+s.sizes[c].size <= s.capacity {
			id, at, ok = job.ID(it.ID), place, true
		}
	}
	return id, at, ok
}

// place is the place of a waiting job on the scale of chosen jobs.
func (s *Selector) place(id job.ID, e *entry) dense.Item {
	return dense.Item{A: e.key.A + s.shift, B: e.key.B, ID: int32(id), W: e.size}
}

func (s *Selector) item(id job.ID, e *entry) dense.Item {
	return dense.Item{A: e.key.A, B: e.key.B, ID: int32(id), W: e.size}
}

func (s *Selector) insertChosen(e *entry, at dense.Item) {
	e.key.A = at.A
	e.state = chosen
	s.chosen.Insert(at)
}

func (s *Selector) insertPassed(id job.ID, e *entry) {
	e.state = passed
	s.sizes[e.class].list.Insert(s.item(id, e))
	s.waiting++
}

func (s *Selector) removePassed(id job.ID, e *entry) {
	s.sizes[e.class].list.Remove(s.item(id, e))
	s.waiting--
}

func (s *Selector) touch(id job.ID, e *entry) {
	if !e.touched {
		e.touched, e.before = true, e.state
		s.touched = append(s.touched, id)
	}
}

func (s *Selector) entry(id job.ID) *entry {
	for int(id) >= len(s.jobs) {
		s.jobs = append(s.jobs, make([]entry, max(256, int(id)+1-len(s.jobs), len(s.jobs)))...)
	}
	return &s.jobs[id]
}

func (s *Selector) class(size int64) int16 {
	for i := range s.sizes {
		if s.sizes[i].size == size {
			return int16(i)
		}
	}
	s.sizes = append(s.sizes, sizeClass{size: size})
	return int16(len(s.sizes) - 1)
}
