package philly

import (
	"time"

	"github.com/norn-scheduler/norn/cluster/unit"
	"github.com/norn-scheduler/norn/job"
	"github.com/norn-scheduler/norn/place"
	"github.com/norn-scheduler/norn/policy/kit/queue"
	"github.com/norn-scheduler/norn/sched"
	"github.com/norn-scheduler/norn/state/dense"
)

// vc is a virtual cluster: its jobs, under numbers of its own.
type vc struct {
	jobs    []job.ID
	queue   queue.Queue // of jobs that ask for GPUs now, by kind
	running dense.Set
	kinds   []kind
	kindOf  map[kindKey]int32
	done    int // pass in which it has nothing left to start
}

// kindKey is what the jobs of a kind have in common: where one does not fit
// none does.
type kindKey struct {
	class int32
	level Level
	open  bool // an attempt of theirs is open already
}

// kind is a set of jobs of one VC that are tried alike.
type kind struct {
	kindKey
	where   place.Strategy
	final   bool       // there is no level to relax to
	refused int        // round in which it was
	apart   bool       // enough GPUs were free, but not near enough
	why     job.Reason // of that
}

// opens tells whether a refusal opens an attempt: from then on the job waits for
// GPUs nearer to each other than those that are free.
func (k *kind) opens() bool { return k.apart && !k.open && !k.final }

// request is how far a job has come in asking for its GPUs. It is also written on
// the job, as the attempts in vain and when the present one began, plus one.
type request struct {
	local  int32 // its number in its VC, plus one
	kind   int32 // of a job in the queue
	failed int64 // attempts in vain
	noted  bool  // something is written on the job
}

// first is the first job in the queue.
func (c *vc) first() job.ID {
	local, ok := c.queue.First()
	if !ok {
		return job.None
	}
	return c.jobs[local]
}

// runs notes that a job runs.
func (c *vc) runs(local int) { c.running.Add(local) }

// local is the number of a job in its VC.
func (s *policy) local(j sched.Job) int {
	r := &s.jobs[j.ID]
	if r.local == 0 {
		c := &s.vcs[j.Tenant()]
		c.jobs = append(c.jobs, j.ID)
		r.local = int32(len(c.jobs))
	}
	return int(r.local) - 1
}

// withdraw takes a job out of the queue and ends its attempt.
func (s *policy) withdraw(j sched.Job) {
	s.dequeue(j)
	s.closing.Remove(int32(j.ID))
	s.reopening.Remove(int32(j.ID))
}

func (s *policy) dequeue(j sched.Job) {
	c := &s.vcs[j.Tenant()]
	c.queue.Remove(job.ID(s.local(j)))
	if c.queue.Len() == 0 {
		s.waiting.Remove(int(j.Tenant()))
	}
}

// note is what is remembered of a waiting job that was refused for the sake of
// locality.
type note struct {
	failed int64         // attempts
	began  time.Duration // of the last attempt
}

// NewNote is a note of this policy, for the table of policies.
func NewNote() sched.Note { return &note{began: -1} }

// Kind implements sched.Note.
func (n *note) Kind() string { return "philly" }

// Fields implements sched.Note.
func (n *note) Fields(f *sched.Fields) {
	sched.Int(f, "failed", &n.failed)
	f.Moment("began", &n.began)
}

// wait lets a job ask for its GPUs, as far as it has come in that, or back off.
// A job that can never run is told so.
func (s *policy) wait(v *sched.View, p *sched.Plan, j sched.Job) {
	s.withdraw(j)
	s.vcs[j.Tenant()].running.Remove(s.local(j))
	if most := s.shares.most(v, j.Tenant(), s.cfg.Lend); v.Class(j.Class()).Amount.GPU > most {
		p.Wait(j.ID, job.Reason{Code: job.OverLimit, Need: int32(j.GPUs()), Have: gpus(most), Job: job.None})
		return
	}
	if why := p.Never(j.ID, where[s.cfg.Last]); why.Code != job.NoReason {
		p.Wait(j.ID, why)
		return
	}
	r := &s.jobs[j.ID]
	n, noted := sched.Recall[note](j)
	r.failed, r.noted = n.failed, noted
	open := false
	if noted && n.began >= 0 {
		switch close, next := s.attempt(n.began); {
		case v.Now >= next:
			r.failed++
		case v.Now >= close:
			s.reopening.Set(int32(j.ID), int64(next))
			return
		default:
			open = true
			s.closing.Set(int32(j.ID), int64(close))
			s.reopening.Set(int32(j.ID), int64(next))
		}
	}
	level, final := s.level(v, p, j, r.failed)
	s.enqueue(j, kindKey{j.Class(), level, open}, final)
}

// attempt is when an attempt closes that begins at a moment, and when the one after
// it begins.
func (s *policy) attempt(began time.Duration) (close, next time.Duration) {
	close = unit.Later(began, s.cfg.Acquire)
	return close, unit.Later(close, s.cfg.Backoff)
}

// level is what a job asks for after so many attempts in vain, and whether
// nothing laxer is left. Levels at which it would not fit even if nothing else
// ran are left out, and a single task cannot be spread.
func (s *policy) level(v *sched.View, p *sched.Plan, j sched.Job, failed int64) (at Level, final bool) {
	if at = s.cfg.First; gpuTasks(v.Class(j.Class()).Demand) < 2 {
		return s.cfg.Last, true
	}
	fits := func(l Level) bool { return l == s.cfg.Last || p.Never(j.ID, where[l]).Code == job.NoReason }
	for relax := failed / int64(s.cfg.Attempts); at < s.cfg.Last && (relax > 0 || !fits(at)); at++ {
		if fits(at) {
			relax--
		}
	}
	return at, at == s.cfg.Last
}

// gpuTasks is the number of tasks of a gang that use GPUs.
func gpuTasks(d *job.Demand) int32 {
	n := int32(0)
	for i := range d.Roles {
		if d.Roles[i].GPU > 0 {
			n += d.Roles[i].Tasks
		}
	}
	return n
}

func (s *policy) enqueue(j sched.Job, key kindKey, final bool) {
	c := &s.vcs[j.Tenant()]
	n, known := c.kindOf[key]
	if !known {
		if n = int32(len(c.kinds)); n == 0 {
			c.kindOf = map[kindKey]int32{}
		}
		c.kinds = append(c.kinds, kind{kindKey: key, where: where[key.level]})
		c.kindOf[key] = n
	}
	c.kinds[n].final = final
	s.jobs[j.ID].kind = n
	c.queue.Add(job.ID(s.local(j)), n, queue.Key{A: int64(j.ID)})
	s.waiting.Add(int(j.Tenant()))
}

// open begins an attempt of a job that was just refused for the sake of
// locality.
func (s *policy) open(v *sched.View, p *sched.Plan, id job.ID) {
	j, r := v.Job(id), &s.jobs[id]
	c := &s.vcs[j.Tenant()]
	was := c.kinds[r.kind]
	p.Remember(id, &note{failed: r.failed, began: v.Now})
	r.noted = true
	close, next := s.attempt(v.Now)
	s.closing.Set(int32(id), int64(close))
	s.reopening.Set(int32(id), int64(next))
	s.enqueue(j, kindKey{was.class, was.level, true}, was.final)
	now := &c.kinds[r.kind]
	now.refused, now.apart, now.why = was.refused, was.apart, was.why
}
