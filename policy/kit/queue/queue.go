// Package queue keeps waiting jobs in an order of priority and walks them from
// the top without looking at jobs that cannot fit. Jobs of equal demand form a
// class. When one of a class does not fit, no other does. A walk takes time in
// the number of classes and of jobs taken, not in the length of the queue.
package queue

import (
	"github.com/norn-scheduler/norn/job"
	"github.com/norn-scheduler/norn/state/dense"
)

// Key is a priority, least first: A, then B, then the job's number.
type Key struct{ A, B int64 }

// Queue is an ordered set of waiting jobs. The zero Queue is empty.
type Queue struct {
	classes []dense.List
	entries []entry // by job
	n       int
	heads   []head // scratch of a walk: a heap
	active  dense.Set
}

type entry struct {
	key   Key
	class int32 // + 1; 0: not in the queue
}

type head struct {
	rank  int64
	item  dense.Item
	class int32
}

func (a head) before(b head) bool {
	return a.rank < b.rank || a.rank == b.rank && a.item.Before(b.item)
}

// Step is what a walk does after a job.
type Step uint8

// The steps of a walk.
const (
	Took      Step = iota // it was taken: it leaves the queue
	SkipJob               // go on with the next job, even of the same class
	SkipClass             // go on with the next job of another class
	Stop                  // end the walk
)

// Len is the number of jobs.
func (q *Queue) Len() int { return q.n }

// Has tells whether a job is in the queue.
func (q *Queue) Has(id job.ID) bool { return int(id) < len(q.entries) && q.entries[id].class != 0 }

// Key is the priority of a job in the queue.
func (q *Queue) Key(id job.ID) Key { return q.entries[id].key }

// Add puts a job into the queue, or changes its place in it.
func (q *Queue) Add(id job.ID, class int32, key Key) {
	q.Remove(id)
	for int(id) >= len(q.entries) {
		q.entries = append(q.entries, make([]entry, max(256, int(id)+1-len(q.entries), len(q.entries)))...)
	}
	for int(class) >= len(q.classes) {
		q.classes = append(q.classes, dense.List{})
	}
	q.entries[id] = entry{key, class + 1}
	q.classes[class].Insert(dense.Item{A: key.A, B: key.B, ID: int32(id)})
	q.active.Add(int(class))
	q.n++
}

// Remove takes a job out and tells whether it was in.
func (q *Queue) Remove(id job.ID) bool {
	if !q.Has(id) {
		return false
	}
	e := q.entries[id]
	l := &q.classes[e.class-1]
	l.Remove(dense.Item{A: e.key.A, B: e.key.B, ID: int32(id)})
	if l.Len() == 0 {
		q.active.Remove(int(e.class - 1))
	}
	q.entries[id].class = 0
	q.n--
	return true
}

// First is the job at the top; ok is false when the queue is empty.
func (q *Queue) First() (id job.ID, ok bool) {
	best := dense.Item{}
	for c := q.active.Min(); c >= 0; c = q.active.Next(c + 1) {
		if it, _ := q.classes[c].Min(); !ok || it.Before(best) {
			best, ok = it, true
		}
	}
	return job.ID(best.ID), ok
}

// FirstOf is the first job of a class and its priority; ok is false when the
// queue holds none of that class.
func (q *Queue) FirstOf(class int32) (id job.ID, key Key, ok bool) {
	if int(class) >= len(q.classes) {
		return job.None, Key{}, false
	}
	it, ok := q.classes[class].Min()
	return job.ID(it.ID), Key{it.A, it.B}, ok
}

// Walk visits jobs in order. worth is asked once for each class and may be nil:
// a class for which it is false is left out. visit says how to go on; it must
// not change the queue other than by answering Took.
func (q *Queue) Walk(worth func(class int32) bool, visit func(id job.ID) Step) {
	q.heads = q.heads[:0]
	for c := q.active.Min(); c >= 0; c = q.active.Next(c + 1) {
		if worth == nil || worth(int32(c)) {
			it, _ := q.classes[c].Min()
			q.heads = append(q.heads, head{item: it, class: int32(c)})
		}
	}
	q.walk(visit)
}

// WalkRanked is Walk over all classes, of which those of the least rank go first. Jobs of
// equal rank are in order of priority.
func (q *Queue) WalkRanked(rank func(class int32) int64, visit func(id job.ID) Step) {
	q.heads = q.heads[:0]
	for c := q.active.Min(); c >= 0; c = q.active.Next(c + 1) {
		it, _ := q.classes[c].Min()
		q.heads = append(q.heads, head{rank(int32(c)), it, int32(c)})
	}
	q.walk(visit)
}

// walk visits the jobs of the heads in order.
func (q *Queue) walk(visit func(id job.ID) Step) {
	for i := len(q.heads)/2 - 1; i >= 0; i-- {
		q.sift(i)
	}
	for len(q.heads) > 0 {
		top := q.heads[0]
		step := visit(job.ID(top.item.ID))
		if step == Stop {
			return
		}
		more := false
		if step != SkipClass {
			after := top.item
			after.ID++
			top.item, more = q.classes[top.class].From(after)
		}
		if step == Took {
			q.Remove(job.ID(q.heads[0].item.ID))
		}
		if more {
			q.heads[0] = top
		} else {
			q.heads[0] = q.heads[len(q.heads)-1]
			q.heads = q.heads[:len(q.heads)-1]
		}
		q.sift(0)
	}
}

// sift moves the head at i down to its place in the heap.
func (q *Queue) sift(i int) {
	for {
		least := i
		for c := 2*i + 1; c <= 2*i+2 && c < len(q.heads); c++ {
			if q.heads[c].before(q.heads[least]) {
				least = c
			}
		}
		if least == i {
			return
		}
		q.heads[i], q.heads[least] = q.heads[least], q.heads[i]
		i = least
	}
}
