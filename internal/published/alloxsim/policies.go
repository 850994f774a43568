package alloxsim

import (
	"cmp"
	"math"
	"slices"
)

// patience is how long jobs wait, in seconds, until AlloX+ takes them first.
const patience = 500

// measure starts runs that measure jobs: the first of every queue, the second of
// every queue, and so on, until neither CPUs nor a GPU could be had. It tells
// whether jobs may be started: not when it ended because of that.
func (s *scheduler) measure() bool {
	var active []*queue
	for _, q := range s.queues {
		if slices.ContainsFunc(q.waiting, measuring) {
			active = append(active, q)
		}
	}
	room := [sides]bool{true, true}
	most := 0
	for turn := 0; room[onCPUs] || room[onGPU]; {
		if len(active) == 0 {
			return true
		}
		round := turn / len(active)
		var waits []*task
		for _, t := range active[turn%len(active)].waiting {
			if t.measuring {
				waits = append(waits, t)
			}
		}
		if round < 1 {
			most = max(most, len(waits))
		}
		if round < len(waits) {
			if t := waits[round]; room[t.side] {
				room[t.side] = s.start(t, t.side)
			}
		}
		if turn++; turn%len(active) == 0 && turn/len(active) > most {
			return true
		}
	}
	return false
}

func measuring(t *task) bool { return t.measuring }

// option is a job on a side.
type option struct {
	t    *task
	side int
	time float64 // as told
	late bool
}

func shorter(a, b *option) int { return cmp.Compare(a.time, b.time) }

// nearlyShorter takes differences below a second for none.
func nearlyShorter(a, b *option) int {
	if a.late != b.late {
		if a.late {
			return -1
		}
		return 1
	}
	return cmp.Compare(int64(a.time-b.time), 0)
}

// options are all waiting jobs on both sides, queues with a small score first.
func (s *scheduler) options() []*option {
	queues := slices.Clone(s.queues)
	slices.SortStableFunc(queues, func(a, b *queue) int { return cmp.Compare(a.score, b.score) })
	var out []*option
	for _, q := range queues {
		for _, t := range q.waiting {
			for side := range sides {
				if !t.measuring {
					out = append(out, &option{t, side, t.told[side], s.now-t.arrives >= patience})
				}
			}
		}
	}
	return out
}

// shortest starts the first option that has room, until none has.
func (s *scheduler) shortest(order func(a, b *option) int) error {
	for _, q := range s.queues {
		if slices.ContainsFunc(q.waiting, func(t *task) bool { return !t.measuring }) {
			slices.SortStableFunc(q.waiting, func(a, b *task) int { return cmp.Compare(a.arrives, b.arrives) })
		}
	}
	for more := true; more && s.free != [sides]int{}; {
		options := s.options()
		if err := javaSort(options, order); err != nil {
			return err
		}
		more = false
		for _, o := range options {
			if s.start(o.t, o.side) {
				s.charge(o.t)
				more = true
				break
			}
		}
	}
	return nil
}

// srpt takes all jobs off and starts them anew, shortest time first: the time that
// was told at the beginning, not what is left of it.
func (s *scheduler) srpt() error {
	for _, t := range slices.Clone(s.busy) {
		if t.measuring {
			continue
		}
		left := 1 - float64(s.now-t.started)/t.time[t.side]
		t.time[onCPUs], t.time[onGPU] = left*t.time[onCPUs], left*t.time[onGPU]
		s.leave(t)
		t.phase = queued
		t.queue.waiting = append(t.queue.waiting, t)
		s.busy = without(s.busy, t)
	}
	options := s.options()
	if err := javaSort(options, shorter); err != nil {
		return err
	}
	for _, o := range options {
		if o.t.phase == queued && s.start(o.t, o.side) {
			s.charge(o.t)
		}
	}
	return nil
}

// charge adds a job to the score of its queue: the share of the cluster that it
// asks for on its faster side, less by as much as it is slower where it runs.
func (s *scheduler) charge(t *task) {
	best := onGPU
	if t.time[onCPUs] < t.time[onGPU] {
		best = onCPUs
	}
	t.fair = max(1/float64(s.mach.units[best]), t.memory[best]/s.mach.memory)
	if t.side != best {
		t.fair = t.time[best] / t.time[t.side] * t.fair
	}
	t.queue.score += t.fair
}

// drf starts the shortest job of the queue with the least dominant share, on the
// side on which it believes to be faster, until the next one has no room.
func (s *scheduler) drf() error {
	shares := make([]float64, len(s.queues))
	for i, q := range s.queues {
		slices.SortStableFunc(q.waiting, func(a, b *task) int {
			return cmp.Compare(min(a.told[onCPUs], a.told[onGPU]), min(b.told[onCPUs], b.told[onGPU]))
		})
		for _, share := range s.usage(q) {
			shares[i] = max(shares[i], math.Floor(share*1e6+0.5)/1e6)
		}
	}
	for {
		least := -1
		for i := range shares {
			if shares[i] < math.Inf(1) && (least < 0 || shares[i] < shares[least]) {
				least = i
			}
		}
		if least < 0 {
			return nil
		}
		q := s.queues[least]
		at := slices.IndexFunc(q.waiting, func(t *task) bool { return !t.measuring })
		if at < 0 {
			shares[least] = math.Inf(1)
			continue
		}
		t, side := q.waiting[at], onGPU
		if t.told[onCPUs] < t.told[onGPU] {
			side = onCPUs
		}
		if !s.start(t, side) {
			return nil
		}
		s.charge(t)
		usage := s.usage(q)
		shares[least] = slices.Max(usage[:])
	}
}

// usage is what a queue holds of CPUs, GPUs and memory, as shares of all.
func (s *scheduler) usage(q *queue) [sides + 1]float64 {
	var held [sides]float64
	memory := 0.0
	for _, t := range q.running {
		held[t.side]++
		memory += t.memory[t.side]
	}
	return [sides + 1]float64{held[onCPUs] / float64(s.mach.units[onCPUs]), held[onGPU] / float64(s.mach.units[onGPU]), memory / s.mach.memory}
}
