package gavel

import (
	"cmp"
	"math"
	"slices"
	"time"

	"github.com/norn-scheduler/norn/cluster"
	"github.com/norn-scheduler/norn/cluster/unit"
	"github.com/norn-scheduler/norn/internal/published/harness"
	"github.com/norn-scheduler/norn/job"
	policies "github.com/norn-scheduler/norn/policy/gavel"
	"github.com/norn-scheduler/norn/policy/kit/rounds"
	"github.com/norn-scheduler/norn/sched"
)

// The figures of the simulator.
const (
	roundLength = 360.0  // seconds
	resetAfter  = 1920.0 // seconds
	maxFailures = 5
	seed        = 0
)

// scheduler is the loop of the published simulator as a policy: it looks at the
// world when a round ends or, if nothing runs, when a job arrives.
type scheduler struct {
	policy Policy
	work   *workload
	mach   *machine
	clock  *harness.Clock
	order  []int // of the types, before it is shuffled: v100, p100, k80, others
	random *python
	fifo   *fifo

	jobs    []progress
	active  []int // by number, which is the order in which they came
	next    int   // the next to arrive
	running []lease

	now                  float64
	roundStart, roundEnd float64
	rounds               bool // a round has ended
	lastReset            float64
	dirty                bool // jobs came, went or failed since the last reset
	worked               []float64
	alone                map[int]isolation // finish-time fairness: of the last reset

	alloc cluster.Alloc
}

// progress is what is known of a job that has arrived.
type progress struct {
	done     int64 // steps
	latest   float64
	failures int
	shared   bool      // it is in the allocation
	target   []float64 // by type: the allocation
	received []float64 // seconds since the last reset, half a round more
	deficit  []float64

	isolated float64 // finish-time fairness: accumulated isolated time
}

// lease is a job in a round.
type lease struct {
	id, t  int
	steps  int64
	finish float64
}

func newScheduler(p Policy, m *machine, w *workload, c *harness.Clock) *scheduler {
	s := &scheduler{policy: p, work: w, mach: m, clock: c, jobs: make([]progress, len(w.facts)), worked: make([]float64, len(m.types)), alone: map[int]isolation{}}
	s.random = newPython(seed + 5)
	if p.fifo != noFIFO {
		s.fifo = newFIFO(p.fifo, s)
	}
	first := []string{"v100", "p100", "k80"}
	for t := range m.types {
		s.order = append(s.order, t)
	}
	slices.SortStableFunc(s.order, func(a, b int) int {
		x, y := slices.Index(first, m.types[a].name), slices.Index(first, m.types[b].name)
		return cmp.Compare(uint(x), uint(y)) // -1 is last
	})
	return s
}

// Decide implements sched.Policy.
func (s *scheduler) Decide(v *sched.View, p *sched.Plan) {
	if !s.begins(v, len(s.running) > 0, s.end()) {
		return
	}
	s.settle(v, p)
	s.arrive()
	s.lease(p)
}

// begins goes on to the next round if it is due: when the one at hand ends, or, where
// nothing runs, when the next job comes.
func (s *scheduler) begins(v *sched.View, running bool, end float64) bool {
	if !running {
		if s.next == len(s.jobs) || nanos(s.work.facts[s.next].arrives) > v.Now {
			return false
		}
		s.now = s.work.facts[s.next].arrives
		return true
	}
	if v.Now < nanos(end) {
		return false
	}
	s.now = end
	if s.roundStart = s.roundEnd; !s.rounds {
		s.roundStart = 0
	}
	s.roundEnd, s.rounds = s.now, true
	return true
}

// end is when the longest job of the round ends.
func (s *scheduler) end() float64 {
	end := 0.0
	for _, l := range s.running {
		end = max(end, l.finish)
	}
	return end
}

// NextWake implements sched.Waker.
func (s *scheduler) NextWake(v *sched.View) time.Duration {
	if len(s.running) == 0 {
		return unit.Never
	}
	return max(nanos(s.end()), v.Now+1)
}

// settle counts what the jobs of the round have done.
func (s *scheduler) settle(v *sched.View, p *sched.Plan) {
	slices.SortFunc(s.running, func(a, b lease) int { return cmp.Or(cmp.Compare(b.finish, a.finish), cmp.Compare(a.id, b.id)) })
	for _, l := range s.running {
		j, f := &s.jobs[l.id], &s.work.facts[l.id]
		took := l.finish - s.roundStart
		j.latest = l.finish
		over := false
		if !s.succeeds(l) || took <= 0 {
			s.dirty = true
			j.failures++
			if over = j.failures >= maxFailures; over {
				s.clock.Ends = append(s.clock.Ends, harness.End{Job: job.ID(l.id), At: v.Now, GivenUp: true})
			}
		} else {
			j.failures = 0
			j.done += l.steps
			over = j.done >= f.steps
			j.received[l.t] += took
			s.worked[l.t] += took
		}
		if over {
			s.active = slices.DeleteFunc(s.active, func(id int) bool { return id == l.id })
			s.dirty = true
		}
		if v.Job(job.ID(l.id)).Running() {
			p.Stop(job.ID(l.id), job.Reason{Code: job.UsedShare, Job: job.None})
		}
	}
	s.running = s.running[:0]
}

// succeeds tells whether a lease gives each worker of a job a step: they are divided
// between them, and one without any has failed.
func (s *scheduler) succeeds(l lease) bool { return l.steps >= int64(s.work.facts[l.id].gpus) }

// arrive takes in who has come by now.
func (s *scheduler) arrive() {
	for ; s.next < len(s.jobs) && s.work.facts[s.next].arrives <= s.now; s.next++ {
		n := len(s.mach.types)
		j := progress{received: make([]float64, n), deficit: make([]float64, n), target: make([]float64, n)}
		for t := range j.received {
			j.received[t] = roundLength / 2
		}
		s.jobs[s.next] = j
		s.active = append(s.active, s.next)
		s.dirty = true
	}
}

// reset begins a new allocation.
func (s *scheduler) reset() {
	elapsed := s.now - s.lastReset
	for t := range s.worked {
		s.worked[t] = 0
		for _, id := range s.active {
			j := &s.jobs[id]
			should := 0.0
			if j.shared {
				should = j.target[t] * elapsed
			}
			j.deficit[t] += should - (j.received[t] - roundLength/2)
			j.received[t] = roundLength / 2
			s.worked[t] += j.received[t]
		}
	}
	s.lastReset = s.now
	s.dirty = false
	targets := s.allocate()
	for i, id := range s.active {
		s.jobs[id].shared = true
		copy(s.jobs[id].target, targets[i])
	}
}

// priority is how urgent a job is on a type.
func (s *scheduler) priority(id, t int) float64 {
	j := &s.jobs[id]
	x := j.target[t]
	switch {
	case !j.shared || x == 0 || s.work.facts[id].speed[t] == 0:
		return 0
	case s.worked[t] == 0 || j.received[t]/s.worked[t] == 0:
		return x * 1e9
	}
	return x / (j.received[t] / s.worked[t])
}

// lease finds who runs in the next round.
func (s *scheduler) lease(p *sched.Plan) {
	if s.dirty && (s.now-s.lastReset >= resetAfter || s.lastReset == 0) {
		s.reset()
	}
	order := slices.Clone(s.order)
	if s.policy.shuffled {
		shuffle(s.random, order)
	}
	taken := map[int]bool{}
	for _, t := range order {
		left := s.mach.types[t].gpus
		var bids []rounds.Bid
		for _, id := range s.active {
			j := &s.jobs[id]
			b := rounds.Bid{Job: job.ID(id), Priority: s.priority(id, t), Deficit: j.deficit[t]}
			if j.shared {
				b.Target = j.target[t]
			}
			bids = append(bids, b)
		}
		rounds.Sort(bids)
		for _, b := range bids {
			id := int(b.Job)
			f := &s.work.facts[id]
			if taken[id] || f.speed[t] <= 0 || s.fifo != nil && b.Priority <= 0 || f.gpus > left {
				continue
			}
			taken[id] = true
			left -= f.gpus
			if s.jobs[id].shared { // otherwise it is counted, but not placed
				s.dispatch(p, id, t)
			}
		}
	}
	if len(s.running) == 0 && s.next == len(s.jobs) && len(s.active) > 0 && s.dirty {
		s.lastReset = 0 // nobody runs or will come: the loop looks again at once
		s.lease(p)
	}
}

// dispatch lets a job run in the next round.
func (s *scheduler) dispatch(p *sched.Plan, id, t int) {
	f := &s.work.facts[id]
	l := lease{id: id, t: t, steps: min(int64(f.speed[t]*roundLength), f.steps-s.jobs[id].done)}
	l.finish = s.now + float64(l.steps)/f.speed[t]
	s.running = append(s.running, l)
	if s.succeeds(l) && s.jobs[id].done+l.steps >= f.steps {
		s.clock.Ends = append(s.clock.Ends, harness.End{Job: job.ID(id), At: nanos(l.finish)})
	}
	s.alloc.Reset()
	s.alloc.Pieces = append(s.alloc.Pieces, cluster.Piece{Node: cluster.NodeID(t), Tasks: int32(f.gpus), Shares: 1})
	s.alloc.Shares = append(s.alloc.Shares, cluster.Share{Device: cluster.DeviceID(t), Milli: int32(f.gpus) * 1000})
	p.StartOn(job.ID(id), &s.alloc)
}

// isolation is what finish-time fairness remembers of a job from the last reset.
type isolation struct {
	left  float64 // steps to go
	share float64 // steps per second with an equal share
}

// problem is what is to be shared, with the speeds that the policy believes in.
func (s *scheduler) problem() *policies.Problem {
	p := &policies.Problem{Traces: true}
	v100 := slices.IndexFunc(s.mach.types, func(t gpuType) bool { return t.name == "v100" })
	for _, t := range s.mach.types {
		p.Capacity = append(p.Capacity, float64(t.gpus))
	}
	for _, id := range s.active {
		f := &s.work.facts[id]
		j := policies.Job{Size: float64(f.gpus), Speed: slices.Clone(f.speed), Weight: f.weight, Left: float64(f.steps - s.jobs[id].done), Age: s.now - f.arrives}
		for t := range j.Speed {
			switch {
			case s.policy.speeds == ones:
				j.Speed[t] = 1
			case s.policy.speeds == likeV100 && v100 >= 0:
				j.Speed[t] = f.speed[v100]
			}
		}
		p.Jobs = append(p.Jobs, j)
	}
	return p
}

// allocate finds the allocation of the active jobs.
func (s *scheduler) allocate() policies.Allocation {
	if s.fifo != nil {
		return s.fifo.allocate()
	}
	p := s.problem()
	was := s.alone
	s.alone = map[int]isolation{}
	for i, id := range s.active {
		j := &p.Jobs[i]
		if last, ok := was[id]; ok {
			s.jobs[id].isolated += (last.left - j.Left) / last.share
		}
		j.Isolated = s.jobs[id].isolated
		share := 0.0
		for t, x := range p.Share(j, len(p.Jobs)) {
			share += j.Speed[t] * x
		}
		s.alone[id] = isolation{j.Left, share}
	}
	var a policies.Allocation
	var err error
	if s.policy.halfway {
		a, err = Halfway(p)
	} else {
		a, err = s.policy.program(p)
	}
	if err != nil {
		a, _ = isolated(p)
	}
	return a
}

// isolated gives every job an equal share of each type, whether it can run there or
// not.
func isolated(p *policies.Problem) (policies.Allocation, error) {
	a := make(policies.Allocation, len(p.Jobs))
	for i := range a {
		a[i] = make([]float64, len(p.Capacity))
		sum := 0.0
		for t, w := range p.Capacity {
			a[i][t] = w / float64(len(p.Jobs)) / p.Jobs[i].Size
			sum += a[i][t]
		}
		for t := range a[i] {
			a[i][t] /= max(sum, 1)
		}
	}
	return a, nil
}

// Halfway is the makespan as the published code looks for it: by halving an
// interval until its ends are within 5 per cent. The result is the middle of
// all allocations with which every job ends within a time that is up to so much
// longer.
func Halfway(p *policies.Problem) (policies.Allocation, error) {
	best, err := policies.Makespan(p)
	if err != nil {
		return nil, err
	}
	shortest := 0.0
	for i := range p.Jobs {
		j := &p.Jobs[i]
		speed := 0.0
		for t, x := range best[i] {
			speed += j.Speed[t] * x
		}
		if speed > 0 {
			shortest = max(shortest, j.Left/speed)
		}
	}
	low, high, found := 100.0, 1e6, math.Inf(1)
	for last := high; math.IsInf(found, 1) && last < 1e18; {
		for 1.05*low < high {
			if mid := (low + high) / 2; mid >= shortest {
				high, found = mid, mid
			} else {
				low = mid
			}
		}
		low, high = last, last*10
		last *= 10
	}
	a, err := within(p, found)
	if err != nil {
		return best, nil
	}
	return a, nil
}
