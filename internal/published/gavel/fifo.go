package gavel

import (
	"slices"

	policies "github.com/norn-scheduler/norn/policy/gavel"
)

// fifo is FIFO of the published code. Jobs in the order of their numbers get a type
// for themselves; behind one that fits nowhere everybody waits.
//
// With anyType a job keeps its type until it ends. One is drawn for it from those
// with room, but what it gets is the last of all that have any GPU left; the one
// that was drawn is struck off the list when nothing is left of the other.
type fifo struct {
	s      *scheduler
	mode   fifoMode
	random *python
	given  map[int]int // job -> type
}

func newFIFO(mode fifoMode, s *scheduler) *fifo {
	return &fifo{s: s, mode: mode, random: newPython(seed), given: map[int]int{}}
}

// allocate gives each active job all of one type, or nothing.
func (f *fifo) allocate() policies.Allocation {
	free := make([]int, len(f.s.mach.types))
	for t := range free {
		free[t] = f.s.mach.types[t].gpus
	}
	if f.mode == bestType {
		clear(f.given)
	}
	var queue []int
	for _, id := range f.s.active {
		if _, ok := f.given[id]; !ok {
			queue = append(queue, id)
		}
	}
	queue = f.replace(queue, free)
	f.serve(queue, free)
	a := make(policies.Allocation, len(f.s.active))
	for i, id := range f.s.active {
		a[i] = make([]float64, len(free))
		if t, ok := f.given[id]; ok {
			a[i][t] = 1
		}
	}
	return a
}

// replace gives the types of jobs that have ended to the first of the queue, where
// what was seen to be free so far suffices, and takes what the others hold off what
// is free.
func (f *fifo) replace(queue, free []int) []int {
	var held []int
	for id := range f.given {
		held = append(held, id)
	}
	slices.Sort(held)
	for _, id := range held {
		t := f.given[id]
		if slices.Contains(f.s.active, id) {
			free[t] -= f.gpus(id)
			continue
		}
		if len(queue) > 0 && f.gpus(queue[0]) <= free[t] && f.speed(queue[0], t) > 0 {
			f.given[queue[0]] = t
			free[t] -= f.gpus(queue[0])
			queue = queue[1:]
		}
		delete(f.given, id)
	}
	return queue
}

// serve gives out what is free.
func (f *fifo) serve(queue, free []int) {
	var types []int
	for t, n := range free {
		if n > 0 {
			types = append(types, t)
		}
	}
	for len(queue) > 0 && len(types) > 0 {
		id := queue[0]
		queue = queue[1:]
		var fit, at []int
		for i, t := range types {
			if free[t] >= f.gpus(id) {
				fit, at = append(fit, t), append(at, i)
			}
		}
		if len(fit) == 0 {
			return
		}
		t, drawn := types[len(types)-1], 0
		if f.mode == anyType {
			drawn = f.random.below(len(fit))
		} else {
			for i := range fit {
				if f.speed(id, fit[i]) > f.speed(id, fit[drawn]) {
					drawn = i
				}
			}
			t = fit[drawn]
		}
		if f.speed(id, t) <= 0 {
			continue
		}
		f.given[id] = t
		if free[t] -= f.gpus(id); free[t] == 0 {
			types = slices.Delete(types, at[drawn], at[drawn]+1)
		}
	}
}

func (f *fifo) gpus(id int) int { return f.s.work.facts[id].gpus }

func (f *fifo) speed(id, t int) float64 { return f.s.work.facts[id].speed[t] }
