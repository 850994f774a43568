package synergy

import (
	"cmp"
	"math"
	"slices"
	"time"

	"github.com/norn-scheduler/norn/cluster"
	"github.com/norn-scheduler/norn/cluster/unit"
	"github.com/norn-scheduler/norn/job"
	"github.com/norn-scheduler/norn/perf"
	"github.com/norn-scheduler/norn/place"
	"github.com/norn-scheduler/norn/sched"
)

// where is where jobs run whose cores and memory are not divided.
var where = place.Consolidated

// claim is a job that may run in the round.
type claim struct {
	id     job.ID
	gpus   int
	milli  unit.Milli // of GPUs
	mask   cluster.TypeMask
	memory unit.Bytes // of each GPU

	grid  *perf.Grid  // nil: it is not sensitive
	asks  perf.Ration // for each GPU, without a grid
	limit perf.Ration // that it must not exceed; zero: none
	apart float64     // its speed on several nodes over that on one

	was    *cluster.Alloc // what it holds
	fixed  bool           // it keeps what it holds, or is placed as it asks
	rooted bool           // it keeps its devices
	pinned bool           // and must not be stopped

	urgent bool
	key    float64       // smallest first
	chosen bool          // there is room for it
	lacks  bool          // for its GPUs, but not for cores and memory
	early  bool          // it is dealt in order, before larger ones
	same   bool          // it has what it had
	asksIn perf.Ration   // what it asks for in all
	spot   cluster.Alloc // where one that is placed as it asks is going to run
	placed bool          // it has a spot

	on   shape   // of the nodes for which the next two are known
	most rations // that it may be dealt there

	wants perf.Ration // of the largest node
	fast  float64     // its speed there with that, over the speed with its proportional share
	cell  perf.Ration // what opt chose for it
	parts []part      // what it is dealt
	speed float64     // with that, the same
}

// gather lists the jobs of a pool in order, and counts what they hold as free.
func (s *policy) gather(v *sched.View, p *sched.Plan, pool cluster.PoolID) {
	s.queue(v, p, pool, math.MaxInt)
	for j := range v.Running() {
		a := v.Alloc(j.ID)
		if j.Pool() != pool || j.Phase() == job.Assigned || j.Profiling() || !v.Cluster().UsableAlloc(a) {
			continue
		}
		stop := j.Spec().Stop
		c := s.claim(v, j)
		c.was, c.pinned = a, stop == job.Pinned
		c.rooted = !stop.Keeps()
		if c.rooted && !s.mayChange(c) {
			s.claims = s.claims[:len(s.claims)-1]
			s.spare = append(s.spare, c)
			continue
		}
		if c.pinned {
			c.limit = c.held()
			c.on = shape{}
		}
		s.floor.release(c)
	}
	s.sort()
}

// mayChange tells whether a job that keeps its devices may be given another ration: it
// has whole devices, and no less than its least ration, so that it can always have that.
func (s *policy) mayChange(c *claim) bool {
	if c.fixed || c.was.Tasks(0) != c.gpus || c.was.Milli() != unit.Milli(c.gpus)*unit.One {
		return false
	}
	held := c.held()
	for i := range c.was.Pieces {
		if n := s.floor.at[c.was.Pieces[i].Node]; n == nil || !c.least(n).Within(held) {
			return false
		}
	}
	return true
}

// queue lists the waiting jobs of a pool in order, those of at most so many GPUs, or of
// parts of one.
func (s *policy) queue(v *sched.View, p *sched.Plan, pool cluster.PoolID, most int) {
	s.spare = append(s.spare, s.claims...)
	s.claims = s.claims[:0]
	for j := range v.Waiting() {
		if j.Pool() != pool || j.GPUs() > most && !inParts(j.Spec().Demand) {
			continue
		}
		if why := p.Never(j.ID, where); why.Code != job.NoReason {
			p.Wait(j.ID, why)
			continue
		}
		s.claim(v, j)
	}
	s.sort()
}

func (s *policy) sort() {
	slices.SortFunc(s.claims, func(a, b *claim) int {
		if a.urgent != b.urgent {
			if a.urgent {
				return -1
			}
			return 1
		}
		return cmp.Or(cmp.Compare(a.key, b.key), cmp.Compare(a.id, b.id))
	})
}

// claim adds a job.
func (s *policy) claim(v *sched.View, j sched.Job) *claim {
	c := &claim{}
	if n := len(s.spare); n > 0 {
		c, s.spare = s.spare[n-1], s.spare[:n-1]
	}
	class := v.Class(j.Class())
	d := class.Demand
	r := &d.Roles[0]
	*c = claim{
		id: j.ID, gpus: int(r.Tasks), milli: d.Milli(r.Tasks), mask: class.Mask, memory: r.GPUMemory, apart: 1, parts: c.parts[:0], spot: c.spot,
		asks: perf.Ration{CPU: r.CPU, Memory: r.Memory}, asksIn: perf.Ration{CPU: d.CPU(), Memory: d.Memory()},
	}
	if !divisible(j) || class.Scope != class.Pool || d.Within != "" {
		c.fixed, c.gpus = true, j.GPUs()
	}
	if m, ok := v.Speeds.(perf.Sensitive); ok {
		c.grid = m.Grid(j.Spec())
	}
	if t := s.floor.typeFor(c.mask); c.gpus > 1 && !c.fixed {
		if one := v.TypeSpeed(j, t, int(r.Tasks), false); one > 0 {
			c.apart = v.TypeSpeed(j, t, int(r.Tasks), true) / one
		}
	}
	c.wants, c.fast = s.floor.typical(c)
	c.urgent = starved(j) || s.waited(v, j) > s.cfg.Starves
	c.key = s.key(v, j, c)
	s.claims = append(s.claims, c)
	return c
}

// inParts tells whether a job needs no whole GPU that nobody has a part of.
func inParts(d *job.Demand) bool {
	for i := range d.Roles {
		if r := &d.Roles[i]; r.Tasks > 0 && r.GPU >= unit.One {
			return false
		}
	}
	return true
}

// divisible tells whether the cores and the memory of a job can be divided otherwise
// than it asks: a gang of tasks of one whole GPU each, whose memory stays nowhere.
func divisible(j sched.Job) bool {
	d := j.Spec().Demand
	return d.Roles[0].GPU == unit.One && d.Roles[1].Tasks == 0 && j.Spec().Stop != job.Freeze
}

// held is what a job has for each GPU, where it has least. One that must not be stopped
// can be left less, and nothing else.
func (c *claim) held() perf.Ration {
	least := perf.Ration{CPU: plenty, Memory: plenty}
	for i := range c.was.Pieces {
		if p := &c.was.Pieces[i]; p.Tasks > 0 {
			least = least.Least(perf.Ration{CPU: p.CPU / unit.Milli(p.Tasks), Memory: p.Memory / unit.Bytes(p.Tasks)})
		}
	}
	return least
}

// waited is for how long a job has been without GPUs.
func (s *policy) waited(v *sched.View, j sched.Job) time.Duration {
	switch _, ran := j.FirstStart(); {
	case j.Running():
		return 0
	case !ran:
		return v.Now - j.Submit()
	}
	return v.Now - j.Since()
}

// key is what a job is ordered by, the smallest first. One without an estimate goes
// last where remaining time counts.
func (s *policy) key(v *sched.View, j sched.Job, c *claim) float64 {
	left := math.Inf(1)
	if d, known := j.Remaining(); known {
		left = d.Seconds()
	}
	if s.cfg.Share != Proportional && c.fast > 0 {
		left /= c.fast
	}
	switch s.cfg.Order {
	case LAS:
		return j.RunTime().Seconds() * float64(j.GPUs())
	case SRTF:
		return left
	case FTF, LeastFTF:
		ideal, _ := j.Estimate()
		late := ((v.Now - j.Submit()).Seconds() + left) / max(ideal.Seconds(), 1e-9)
		if s.cfg.Order == LeastFTF || math.IsInf(left, 1) {
			return late
		}
		return -late
	case DRF:
		a, b, d := s.floor.parts(c, c.wants)
		return max(a, b, d)
	case Tetris:
		a, b, d := s.floor.parts(c, c.wants)
		return left * (a + b + d)
	}
	return 0
}
