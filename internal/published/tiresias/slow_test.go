package tiresias

import (
	"fmt"
	"math"
	"slices"
	"sort"

	"github.com/norn-scheduler/norn/internal/published/yarn"
)

// This file is the published simulator once more, slow and plain: every event
// looks at every job. The policies of this package are held against it.

type slowStatus uint8

const (
	slowPending slowStatus = iota
	slowRunning
	slowEnded
)

type slowJob struct {
	id, gpus                 int
	submit, duration         int64
	start, end               int64
	checked                  int64 // the last event that looked at it
	total, executed          int64 // run time in all, and since it last rose
	pending, lastPending     int64
	remaining                int64
	expected                 float64
	rank                     float64
	preempt, resume, promote int
	queue                    int
	status                   slowStatus
	reachedEnd               bool
}

// slowEvent is the arrival of jobs. ends are jobs that were to end at the same
// moment when it was last looked at.
type slowEvent struct {
	at     int64
	starts []*slowJob
	ends   []*slowJob
}

// slowPlace places jobs.
type slowPlace interface {
	empty()
	place(j *slowJob) bool
	release(j *slowJob)
	free() int
}

type slowCount struct{ total, left int }

func (c *slowCount) empty()             { c.left = c.total }
func (c *slowCount) free() int          { return c.left }
func (c *slowCount) release(j *slowJob) { c.left += j.gpus }
func (c *slowCount) place(j *slowJob) bool {
	if j.gpus > c.left {
		return false
	}
	c.left -= j.gpus
	return true
}

type slowNode struct {
	gpus, cpus int
	memory     float64
}

type slowYarn struct {
	spec     yarn.Spec
	switches [][]slowNode
	held     map[*slowJob][]func()
}

func (y *slowYarn) empty() {
	y.held = map[*slowJob][]func(){}
	y.switches = make([][]slowNode, y.spec.Switches)
	for s := range y.switches {
		for range y.spec.Nodes {
			y.switches[s] = append(y.switches[s], slowNode{y.spec.GPUs, y.spec.CPUs, float64(y.spec.Memory)})
		}
	}
}

func (y *slowYarn) free() int {
	n := 0
	for _, s := range y.switches {
		for _, node := range s {
			n += node.gpus
		}
	}
	return n
}

func (y *slowYarn) release(j *slowJob) {
	for _, undo := range y.held[j] {
		undo()
	}
	delete(y.held, j)
}

func (y *slowYarn) take(j *slowJob, n *slowNode, gpus, cpus int, memory float64) {
	n.gpus, n.cpus, n.memory = n.gpus-gpus, n.cpus-cpus, n.memory-memory
	y.held[j] = append(y.held[j], func() { n.gpus, n.cpus, n.memory = n.gpus+gpus, n.cpus+cpus, n.memory+memory })
}

func (y *slowYarn) place(j *slowJob) bool {
	for s := range y.switches {
		if j.gpus <= y.spec.GPUs && y.single(j, y.switches[s]) || j.gpus > y.spec.GPUs && y.several(j, y.switches[s]) {
			return true
		}
	}
	return false
}

func (y *slowYarn) single(j *slowJob, nodes []slowNode) bool {
	cpus := 6 * j.gpus
	if j.gpus == 1 {
		cpus = 2
	}
	for i := range nodes {
		if n := &nodes[i]; n.gpus >= j.gpus && n.cpus >= cpus && n.memory >= 5 {
			y.take(j, n, j.gpus, cpus, 5)
			return true
		}
	}
	return false
}

func (y *slowYarn) several(j *slowJob, nodes []slowNode) bool {
	size := y.spec.GPUs
	each := 6 + float64(j.gpus)*0.1 + 5
	var whole []*slowNode
	for i := range nodes {
		if n := &nodes[i]; len(whole) < j.gpus/size && n.gpus == size && n.cpus >= 6*size && n.memory >= each*float64(size) {
			whole = append(whole, n)
		}
	}
	if len(whole) < j.gpus/size {
		return false
	}
	rest := j.gpus % size
	var last *slowNode
	for i := range nodes {
		if n := &nodes[i]; rest > 0 && last == nil && !slices.Contains(whole, n) && n.gpus >= rest && n.cpus >= 6*rest && n.memory >= each*float64(rest) {
			last = n
		}
	}
	if rest > 0 && last == nil {
		return false
	}
	for _, n := range whole {
		y.take(j, n, size, 6*size, each*float64(size))
	}
	if last != nil {
		y.take(j, last, rest, 6*rest, each*float64(rest))
	}
	return true
}

// slowSim is a run.
type slowSim struct {
	events   []*slowEvent
	runnable []*slowJob
	place    slowPlace
	total    int
}

func newSlowSim(jobs []*slowJob, spec yarn.Spec, tellNodes bool) *slowSim {
	s := &slowSim{total: spec.Total(), place: &slowCount{total: spec.Total()}}
	if tellNodes {
		s.place = &slowYarn{spec: spec}
	}
	s.place.empty()
	sorted := slices.Clone(jobs)
	sort.SliceStable(sorted, func(i, j int) bool { return sorted[i].submit < sorted[j].submit })
	for _, j := range sorted {
		j.start, j.remaining, j.rank = -1, j.duration, math.MaxInt64
		if n := len(s.events); n == 0 || s.events[n-1].at != j.submit {
			s.events = append(s.events, &slowEvent{at: j.submit})
		}
		last := s.events[len(s.events)-1]
		last.starts = append(last.starts, j)
	}
	return s
}

func (j *slowJob) finish(at int64) {
	j.end, j.status, j.reachedEnd = at, slowEnded, true
}

// waiting is fifo, fjf and lpjf. Completions become events when a job starts;
// one at the same moment is lost.
func (s *slowSim) waiting(mode string) {
	type event struct{ starts, ends []*slowJob }
	events := map[int64]*event{}
	at := func(t int64) *event {
		if events[t] == nil {
			events[t] = &event{}
		}
		return events[t]
	}
	for _, e := range s.events {
		at(e.at).starts = e.starts
	}
	var pending []*slowJob
	for len(events) > 0 {
		now := int64(math.MaxInt64)
		for t := range events {
			now = min(now, t)
		}
		e := events[now]
		for _, j := range e.ends {
			s.place.release(j)
			j.finish(now)
		}
		pending = append(pending, e.starts...)
		for i := 0; i < len(pending); i++ {
			j := pending[i]
			if mode != "lpjf" && s.place.free() <= 0 {
				break
			}
			if !s.place.place(j) {
				if mode == "fjf" {
					continue
				}
				break
			}
			j.start, j.pending = now, now-j.submit
			at(now + j.duration).ends = append(at(now+j.duration).ends, j)
			pending = slices.Delete(pending, i, i+1)
			if mode != "lpjf" { // which looks at the next place, not at the next job
				i--
			}
		}
		delete(events, now)
	}
}

// next is the next event: an arrival, a completion, or both.
func (s *slowSim) next(ends []*slowJob, endAt int64) (at int64, arrival *slowEvent, ended []*slowJob) {
	at = endAt
	if len(s.events) > 0 && s.events[0].at <= at {
		at, arrival = s.events[0].at, s.events[0]
	}
	if at == endAt {
		ended = ends
	}
	if arrival != nil && ended != nil {
		arrival.ends = ended
	}
	if arrival != nil {
		ended = arrival.ends
	}
	return at, arrival, ended
}

func (s *slowSim) leave(ended []*slowJob, now int64) {
	for _, j := range ended {
		j.finish(now)
		s.runnable = slices.DeleteFunc(s.runnable, func(r *slowJob) bool { return r == j })
	}
}

// nextEnd is when the next of the running jobs ends, and which do.
func (s *slowSim) nextEnd(now int64) (ends []*slowJob, at int64) {
	at = math.MaxInt64
	for _, j := range s.runnable {
		if j.status == slowRunning {
			at = min(at, now+j.duration-j.total)
		}
	}
	for _, j := range s.runnable {
		if j.status == slowRunning && now+j.duration-j.total == at {
			ends = append(ends, j)
		}
	}
	return ends, at
}

func (j *slowJob) look(now int64) {
	if j.status == slowRunning {
		j.total += now - j.checked
		j.executed += now - j.checked
		j.remaining = j.duration - j.total
	} else {
		j.pending += now - j.checked
		if j.executed > 0 {
			j.lastPending += now - j.checked
		}
	}
	j.checked = now
}

// switchOver preempts and starts jobs, given who is to run.
func switchOver(jobs []*slowJob, chosen map[*slowJob]bool, now int64) {
	for _, j := range jobs {
		switch {
		case j.status == slowRunning && !chosen[j]:
			j.status = slowPending
			j.preempt++
		case j.status == slowPending && chosen[j]:
			j.status = slowRunning
			j.resume++
			if j.start < 0 {
				j.start = now
			}
		}
	}
}

// sorting is sjf, shortest, shortest-gpu and shortest-expected.
func (s *slowSim) sorting(policy string, h *history) {
	var ends []*slowJob
	endAt := int64(math.MaxInt64)
	var last *slowJob
	for len(s.events) > 0 || len(ends) > 0 {
		now, arrival, ended := s.next(ends, endAt)
		s.leave(ended, now)
		if arrival != nil {
			s.events = s.events[1:]
			for _, j := range arrival.starts {
				j.checked, j.expected = j.submit, h.expected(0)
				s.runnable = append(s.runnable, j)
				last = j
			}
		}
		for _, j := range s.runnable {
			j.look(now)
			if j.status == slowRunning {
				last.expected = h.expected(j.total)
			}
		}
		sort.SliceStable(s.runnable, func(a, b int) bool {
			x, y := s.runnable[a], s.runnable[b]
			switch policy {
			case "sjf":
				return x.gpus < y.gpus
			case "shortest":
				return x.remaining < y.remaining
			case "shortest-gpu":
				return x.remaining*int64(x.gpus) < y.remaining*int64(y.gpus)
			}
			return x.expected < y.expected
		})
		s.place.empty()
		chosen := map[*slowJob]bool{}
		for _, j := range s.runnable {
			chosen[j] = s.place.place(j)
		}
		switchOver(s.runnable, chosen, now)
		ends, endAt = s.nextEnd(now)
	}
}

// greedy picks who fits, in order.
func greedy(jobs []*slowJob, free *int, chosen map[*slowJob]bool) {
	for _, j := range jobs {
		if j.gpus <= *free {
			*free -= j.gpus
			chosen[j] = true
		}
	}
}

// queued is dlas and its kin.
func (s *slowSim) queued(gpuTime bool, knob float64, h *history) {
	limit := []int64{3250, 7200}
	queues := make([][]*slowJob, 3)
	var ends []*slowJob
	endAt, jump := int64(math.MaxInt64), int64(math.MaxInt64)
	move := func(j *slowJob, to int) {
		queues[j.queue] = slices.DeleteFunc(queues[j.queue], func(r *slowJob) bool { return r == j })
		j.queue = to
		queues[to] = append(queues[to], j)
	}
	service := func(j *slowJob) int64 {
		if gpuTime {
			return j.executed * int64(j.gpus)
		}
		return j.executed
	}
	for len(s.events) > 0 || len(ends) > 0 {
		now, arrival, ended := s.next(ends, endAt)
		if now > jump {
			now, arrival, ended = jump, nil, nil
		}
		s.leave(ended, now)
		for _, j := range ended {
			queues[j.queue] = slices.DeleteFunc(queues[j.queue], func(r *slowJob) bool { return r == j })
		}
		if arrival != nil {
			s.events = s.events[1:]
			for _, j := range arrival.starts {
				j.checked = j.submit
				s.runnable = append(s.runnable, j)
				queues[0] = append(queues[0], j)
			}
		}
		for _, j := range s.runnable {
			j.look(now)
			switch {
			case j.status == slowRunning && j.queue < 2 && service(j) >= limit[j.queue]:
				move(j, j.queue+1)
			case j.status == slowPending && knob > 0 && j.queue > 0 && j.executed > 0 && j.lastPending >= int64(float64(j.executed)*knob):
				j.executed, j.lastPending = 0, 0
				j.promote++
				move(j, 0)
			}
			if h != nil {
				j.rank = slowIndex(h, service(j))
			}
		}
		free, chosen := s.total, map[*slowJob]bool{}
		for _, q := range queues {
			if h != nil {
				sort.SliceStable(q, func(a, b int) bool {
					return q[a].rank > q[b].rank || q[a].rank == q[b].rank && q[a].submit < q[b].submit
				})
			}
			greedy(q, &free, chosen)
		}
		switchOver(s.runnable, chosen, now)
		for _, q := range queues {
			sort.SliceStable(q, func(a, b int) bool { return q[a].status == slowRunning && q[b].status != slowRunning })
		}
		ends, endAt = s.nextEnd(now)
		jump = math.MaxInt64
		for _, j := range s.runnable {
			switch {
			case j.status == slowRunning && j.queue < 2 && gpuTime:
				jump = min(jump, now+(limit[j.queue]-j.executed)/int64(j.gpus))
			case j.status == slowRunning && j.queue < 2:
				jump = min(jump, now+limit[j.queue]-j.executed)
			case j.status == slowPending && knob > 0 && j.queue > 0 && j.executed > 0:
				if left := int64(float64(j.executed)*knob - float64(j.lastPending)); left > 0 {
					jump = min(jump, now+left)
				}
			}
		}
	}
}

// slowIndex is the Gittins index of a service.
func slowIndex(h *history, service int64) float64 {
	for i, v := range h.values {
		if v > service {
			return h.index[i]
		}
	}
	return 0
}

// backwards is gittins.
func (s *slowSim) backwards(h *history) {
	var ends []*slowJob
	endAt, unit := int64(math.MaxInt64), int64(quantum)
	for len(s.events) > 0 || len(ends) > 0 {
		now, arrival, ended := s.next(ends, endAt)
		if now > unit {
			now, arrival, ended = unit, nil, nil
		}
		s.leave(ended, now)
		if arrival != nil {
			s.events = s.events[1:]
			for _, j := range arrival.starts {
				j.checked = j.submit
				s.runnable = append(s.runnable, j)
			}
		}
		for _, j := range s.runnable {
			j.look(now)
			j.rank = slowIndex(h, j.executed)
			if j.status == slowRunning {
				j.rank = slowIndex(h, j.executed*int64(j.gpus))
			}
		}
		sort.SliceStable(s.runnable, func(a, b int) bool { return s.runnable[a].rank < s.runnable[b].rank })
		free, chosen := s.total, map[*slowJob]bool{}
		greedy(s.runnable, &free, chosen)
		switchOver(s.runnable, chosen, now)
		ends, endAt = s.nextEnd(now)
		unit += now
	}
}

// slowRun runs a policy by the name of its schedule.
func slowRun(schedule string, jobs []*slowJob, spec yarn.Spec, tellNodes bool) error {
	s := newSlowSim(jobs, spec, tellNodes)
	switch schedule {
	case "fifo", "fjf", "lpjf":
		s.waiting(schedule)
	case "sjf", "shortest", "shortest-gpu", "shortest-expected":
		s.sorting(schedule, learn())
	case "gittins":
		s.backwards(learn())
	case "dlas":
		s.queued(false, 0, nil)
	case "dlas-gpu", "dlas-gpu-pack":
		s.queued(true, 0, nil)
	case "dlas-gpu-gittins":
		s.queued(true, 0, learn())
	default:
		knobs := map[string]float64{"05": 0.5, "1": 1, "2": 2, "4": 4, "8": 8, "10": 10, "100": 100, "1000": 1000}
		var name string
		for k := range knobs {
			if schedule == "dlas-gpu-"+k || schedule == "dlas-gpu-gittins-"+k {
				name = k
			}
		}
		if name == "" {
			return fmt.Errorf("no slow version of %s", schedule)
		}
		s.queued(true, knobs[name], nil)
	}
	return nil
}
