package alloxsim

import (
	"cmp"
	"math"
	"slices"
	"strings"

	"github.com/norn-scheduler/norn/cluster"
	"github.com/norn-scheduler/norn/cluster/unit"
	"github.com/norn-scheduler/norn/internal/published/harness"
	"github.com/norn-scheduler/norn/job"
	"github.com/norn-scheduler/norn/sched"
)

// perJob is a job and the runs that measure it: 1 % and 2 % of its time on CPUs,
// and the same on a GPU.
const perJob = 5

// The figures of the simulator.
const (
	lastSecond      = 100_000
	measuredMemory  = 16.0 // GiB, on CPUs
	measuredMemory2 = 12.0 // GiB, on a GPU
)

type phase uint8

const (
	unready phase = iota // not in a queue: not there yet, or not measured
	queued
	running
	ended
)

// task is a job, or a run that measures it.
type task struct {
	id        job.ID
	queue     *queue
	arrives   int64
	measuring bool
	phase     phase
	side      int            // where it runs; of a run that measures, from the start
	time      [sides]float64 // that is left
	told      [sides]float64
	memory    [sides]float64
	order     int // in which it came to a queue for the first time
	started   int64
	ends      int64
	ran       float64
	fair      float64 // what it counts for its queue while it runs

	device cluster.DeviceID // that it holds in the ledger; -1: none
	on     int              // the side of that
}

// queue is a user.
type queue struct {
	name    string
	waiting []*task
	running []*task
	score   float64
}

// scheduler is the loop of the published simulator as a policy.
type scheduler struct {
	policy  Policy
	mach    machine
	clock   *harness.Clock
	jobs    []facts
	tasks   []task // perJob of each job
	queues  []*queue
	next    int     // the next job to arrive
	pending []int   // jobs that have arrived and are being measured
	busy    []*task // that run
	orders  int
	now     int64

	free   [sides]int
	memory float64                   // free
	idle   [sides][]cluster.DeviceID // in the ledger
	alloc  cluster.Alloc
}

func newScheduler(p Policy, m machine, jobs []facts, c *harness.Clock) *scheduler {
	s := &scheduler{policy: p, mach: m, clock: c, jobs: jobs, tasks: make([]task, len(jobs)*perJob), free: m.units, memory: m.memory}
	d := cluster.DeviceID(0)
	for side := range sides {
		for range m.units[side] {
			s.idle[side] = append(s.idle[side], d)
			d++
		}
	}
	named := map[string]*queue{}
	for i := range jobs {
		f := &jobs[i]
		q := named[f.queue]
		if q == nil {
			q = &queue{name: f.queue}
			named[f.queue] = q
			s.queues = append(s.queues, q)
		}
		s.describe(i, q)
	}
	slices.SortFunc(s.queues, func(a, b *queue) int { return strings.Compare(a.name, b.name) })
	return s
}

// describe makes the tasks of a job.
func (s *scheduler) describe(i int, q *queue) {
	f := &s.jobs[i]
	for part := range perJob {
		t := &s.tasks[i*perJob+part]
		*t = task{id: job.ID(i*perJob + part), queue: q, arrives: f.arrives, time: f.time, told: f.told, memory: f.memory, device: -1}
		if part == 0 {
			continue
		}
		t.measuring = true
		t.memory = [sides]float64{measuredMemory, measuredMemory2}
		if part > 2 {
			t.side = onGPU
		}
		scale := 0.01
		if part%2 == 0 {
			scale = 0.02
		}
		for side := range sides {
			t.time[side] = max(f.time[side]*scale, 1)
		}
		t.told = t.time
	}
}

// Decide implements sched.Policy.
func (s *scheduler) Decide(v *sched.View, p *sched.Plan) {
	s.now = int64(v.Now / harness.Seconds(1))
	if s.now >= lastSecond {
		if s.now == lastSecond {
			s.finish()
		}
		s.close(v, p)
		return
	}
	over, came := s.finish(), s.arrive()
	if over || came {
		if s.measure() {
			if err := s.policy.serve(s); err != nil {
				p.Invalidate(err)
				return
			}
		}
	}
	s.apply(v, p)
}

// close ends the run where the simulator stops: whatever is left is cancelled.
func (s *scheduler) close(v *sched.View, p *sched.Plan) {
	s.clock.Ends = s.clock.Ends[:0]
	for id := range job.ID(v.Jobs()) {
		if j := v.Job(id); !j.Phase().Over() {
			if j.Running() {
				p.Stop(id, job.Reason{Code: job.UsedShare, Job: job.None})
			}
			s.clock.Ends = append(s.clock.Ends, harness.End{Job: id, At: v.Now + 1, GivenUp: true})
		}
	}
}

// finish takes off the tasks that end now, in the order in which they came. It
// tells whether there were any.
func (s *scheduler) finish() bool {
	slices.SortFunc(s.busy, func(a, b *task) int { return cmp.Compare(a.order, b.order) })
	n := len(s.busy)
	s.busy = slices.DeleteFunc(s.busy, func(t *task) bool {
		if t.ends > s.now {
			return false
		}
		t.phase = ended
		s.leave(t)
		s.idle[t.on], t.device = append(s.idle[t.on], t.device), -1
		return true
	})
	return len(s.busy) < n
}

// leave gives back what a running task has.
func (s *scheduler) leave(t *task) {
	t.queue.running = without(t.queue.running, t)
	s.free[t.side]++
	s.memory += t.memory[t.side]
	t.ran += float64(s.now - t.started)
	if !t.measuring {
		t.queue.score -= t.fair
	}
}

func without(list []*task, t *task) []*task {
	return slices.DeleteFunc(list, func(other *task) bool { return other == t })
}

// arrive queues the runs that measure jobs which have come, and the jobs that have
// been measured: those that came at the same time together. It tells whether
// anything was queued.
func (s *scheduler) arrive() bool {
	ready := map[int64]bool{}
	for _, i := range s.pending {
		if _, seen := ready[s.jobs[i].arrives]; !seen {
			ready[s.jobs[i].arrives] = true
		}
		for part := 1; part < perJob; part++ {
			if s.tasks[i*perJob+part].phase != ended {
				ready[s.jobs[i].arrives] = false
			}
		}
	}
	n := len(s.pending)
	s.pending = slices.DeleteFunc(s.pending, func(i int) bool {
		if ready[s.jobs[i].arrives] {
			s.enqueue(&s.tasks[i*perJob])
			return true
		}
		return false
	})
	any := len(s.pending) < n
	for ; s.next < len(s.jobs) && s.jobs[s.next].arrives <= s.now; s.next++ {
		for part := 1; part < perJob; part++ {
			s.enqueue(&s.tasks[s.next*perJob+part])
		}
		s.pending, any = append(s.pending, s.next), true
	}
	return any
}

func (s *scheduler) enqueue(t *task) {
	s.orders++
	t.order, t.phase = s.orders, queued
	t.queue.waiting = append(t.queue.waiting, t)
}

// start starts a task on a side, if there is room.
func (s *scheduler) start(t *task, side int) bool {
	if s.free[side] < 1 || s.memory < t.memory[side] {
		return false
	}
	s.free[side]--
	s.memory -= t.memory[side]
	t.phase, t.side, t.started = running, side, s.now
	until := math.Floor((float64(s.now)+t.time[side])*1e6+0.5) / 1e6
	t.ends = max(s.now+1, int64(math.Ceil(until)))
	t.queue.waiting = without(t.queue.waiting, t)
	t.queue.running = append(t.queue.running, t)
	s.busy = append(s.busy, t)
	return true
}

// apply tells the engine and the clock what runs.
func (s *scheduler) apply(v *sched.View, p *sched.Plan) {
	for i := range s.clock.Ends {
		t := &s.tasks[s.clock.Ends[i].Job]
		if t.device >= 0 && (t.phase != running || t.side != t.on) {
			p.Stop(t.id, job.Reason{Code: job.UsedShare, Job: job.None})
			s.idle[t.on], t.device = append(s.idle[t.on], t.device), -1
		}
	}
	s.clock.Ends = s.clock.Ends[:0]
	for _, t := range s.busy {
		if t.device < 0 {
			last := len(s.idle[t.side]) - 1
			t.on, t.device = t.side, s.idle[t.side][last]
			s.idle[t.side] = s.idle[t.side][:last]
			s.alloc.Reset()
			s.alloc.Pieces = append(s.alloc.Pieces, cluster.Piece{Node: v.Cluster().NodeOf(t.device), Tasks: 1, Shares: 1})
			s.alloc.Shares = append(s.alloc.Shares, cluster.Share{Device: t.device, Milli: int32(unit.One)})
			p.StartOn(t.id, &s.alloc)
		}
		s.clock.Ends = append(s.clock.Ends, harness.End{Job: t.id, At: harness.Seconds(t.ends)})
	}
}
