package synergy

import (
	"cmp"
	"math"
	"slices"

	"github.com/norn-scheduler/norn/job"
)

// The figures of the simulator.
const (
	round   = 300.0         // seconds
	starves = 1000 * 3600.0 // seconds without GPUs after which a job goes first from then on
)

// vector is GPUs, cores, memory and the speed of the disk.
type vector [4]float64

func (v vector) times(f float64) vector {
	for i := range v {
		v[i] *= f
	}
	return v
}

// exceeds tells whether any part is larger than that of another vector.
func (v vector) exceeds(o vector) bool {
	for i := range v {
		if v[i] > o[i] {
			return true
		}
	}
	return false
}

// task is a job of the trace.
type task struct {
	id        job.ID
	key       string
	model     string
	gpus      int
	arrives   float64
	iteration float64 // seconds, in proportion
	total     float64 // iterations
	want      vector
	best      float64 // speed-up with what it wants

	speedup        float64 // as of the last round
	done, doneUpTo float64 // iterations; at the beginning of the round
	attained       float64 // seconds
	last           float64 // the end of its last lease; -1: none
	urgent         bool
	rank           float64 // in this round, smallest first

	parts []part // what it has in this round
}

// part is what a task has of a server.
type part struct {
	server *server
	gpus   []int // by number there
	has    vector
}

// run counts the round in.
func (t *task) run(fair bool) {
	iteration := t.iteration
	if !fair {
		iteration /= t.speedup
	}
	t.attained += round
	t.doneUpTo = t.done
	t.done = min(t.done+math.Floor(round/iteration), t.total)
}

// back takes the round out again.
func (t *task) back() {
	t.attained = max(0, t.attained-round)
	t.done = t.doneUpTo
}

// scheduler is the loop of the published simulator.
type scheduler struct {
	Policy
	machine
	servers  []*server
	queue    events
	now      float64
	runnable []*task // as they were sorted last
	running  []*task
	open     []*server // scratch
	over     bool
}

func newScheduler(p Policy, m machine, w *workload) *scheduler {
	s := &scheduler{Policy: p, machine: m}
	for i := range m.servers {
		s.servers = append(s.servers, &server{id: i})
	}
	inFile := w.inFile()
	for _, t := range inFile {
		s.queue.push(event{t.arrives, arrives, t})
	}
	first := math.Ceil(inFile[0].arrives/round) * round
	if w.static {
		first = 1
	}
	s.queue.push(event{first, roundBegins, nil})
	return s
}

// next goes on until a round has begun, at s.now; false when there is none any more.
func (s *scheduler) next() bool {
	for !s.over && len(s.queue) > 0 {
		e := s.queue.pop()
		s.now = e.at
		switch e.kind {
		case arrives:
			s.runnable = append(s.runnable, e.task)
		case leaseEnds:
			s.end(e.task)
		case roundBegins:
			s.serve()
			if s.over = len(s.runnable) == 0; !s.over { // jobs that are still to come never run
				s.queue.push(event{s.now + round, roundBegins, nil})
			}
			return true
		}
	}
	return false
}

// end is the end of a lease.
func (s *scheduler) end(t *task) {
	t.last = s.now
	t.parts = t.parts[:0]
	if t.done >= t.total {
		s.runnable = slices.DeleteFunc(s.runnable, func(o *task) bool { return o == t })
	}
}

// finished tells whether a task has done all its work by the end of the round.
func (t *task) finished() bool { return t.done >= t.total }

// serve begins a round.
func (s *scheduler) serve() {
	s.sort()
	for _, t := range s.runnable {
		t.speedup = t.best
	}
	s.running = s.running[:0]
	for _, v := range s.servers {
		v.clear(s.machine)
	}
	free := s.machine.servers * s.gpus
	serve := s.runnable
	if s.order == las {
		serve = s.fitting(free)
	}
	for _, t := range s.runnable {
		s.age(t)
	}
	for _, t := range serve {
		if t.gpus > free {
			continue
		}
		if s.allocate(t) {
			free -= t.gpus
			s.running = append(s.running, t)
			s.queue.push(event{s.now + round, leaseEnds, t})
		}
	}
}

// fitting are the tasks for which there are GPUs, in order, the largest first under
// tune: this order looks at no others.
func (s *scheduler) fitting(free int) []*task {
	var out []*task
	for _, t := range s.runnable {
		if t.gpus <= free {
			out = append(out, t)
			free -= t.gpus
		}
	}
	if s.share == tune {
		slices.SortStableFunc(out, func(a, b *task) int { return cmp.Compare(b.gpus, a.gpus) })
	}
	return out
}

// age notes who has been without GPUs for too long.
func (s *scheduler) age(t *task) {
	since := t.last
	if since == -1 {
		since = t.arrives
	}
	t.urgent = t.urgent || s.now-since > starves
}

// sort puts the runnable tasks in order.
func (s *scheduler) sort() {
	for _, t := range s.runnable {
		t.rank = s.key(t)
	}
	slices.SortStableFunc(s.runnable, func(a, b *task) int {
		if s.order == fifo {
			return cmp.Compare(a.arrives, b.arrives)
		}
		if a.urgent != b.urgent {
			if a.urgent {
				return -1
			}
			return 1
		}
		return cmp.Or(cmp.Compare(a.rank, b.rank), cmp.Compare(a.arrives, b.arrives))
	})
}

// key is what tasks are ordered by, smallest first, computed as published.
func (s *scheduler) key(t *task) float64 {
	left := t.iteration * (t.total - t.done)
	if s.share != fair {
		left /= t.speedup
	}
	gpus, cpus, memory := float64(len(s.servers)*s.gpus), float64(len(s.servers)*s.cpus), float64(len(s.servers)*s.memory)
	switch s.order {
	case srtf:
		return left
	case las:
		return t.attained * float64(t.gpus)
	case ftf:
		return (s.now - t.arrives + left) / (t.iteration * t.total)
	case drf:
		return max(t.want[0]/gpus, t.want[1]/cpus, t.want[2]/memory)
	case tetris:
		return float64(t.want[0]/gpus*left) + float64(t.want[1]/cpus*left) + float64(t.want[2]/memory*left) // rounded one by one
	}
	return 0
}
