package philly

import (
	"time"

	"github.com/norn-scheduler/norn/cluster"
	"github.com/norn-scheduler/norn/cluster/unit"
	"github.com/norn-scheduler/norn/job"
	"github.com/norn-scheduler/norn/policy/kit/queue"
	"github.com/norn-scheduler/norn/sched"
	"github.com/norn-scheduler/norn/state/dense"
	"github.com/norn-scheduler/norn/tenant"
)

type policy struct {
	cfg       Config
	shares    shares
	vcs       []vc      // by tenant
	waiting   dense.Set // VCs with jobs in their queues
	jobs      []request
	closing   dense.Heap // open attempts: when they close
	reopening dense.Heap // open attempts and jobs that back off: when the next attempt begins
	round     int        // of trying every kind of job once
	pass      int        // of serving every VC
	lending   bool       // jobs beyond the quotas are served

	borrowed borrowed
	apart    []job.ID // scratch: jobs whose attempt is to be opened
}

// Decide implements sched.Policy. Jobs within the quotas go first, then what is
// still idle is lent. The VC that holds the least of its quota goes first; in a VC
// whoever fits goes in order of submission.
func (s *policy) Decide(v *sched.View, p *sched.Plan) {
	s.follow(v, p, s.shares.settle(v))
	s.round++
	s.borrowed.known = false
	for _, s.lending = range []bool{false, true} {
		s.pass++
		for t, ok := s.neediest(v); ok; t, ok = s.neediest(v) {
			if !s.serve(v, p, t) {
				s.vcs[t].done = s.pass
			}
		}
	}
	s.shares.forget()
}

// follow takes in what happened since the last decision.
func (s *policy) follow(v *sched.View, p *sched.Plan, newQuotas bool) {
	for len(s.vcs) < v.Tenants().Len() {
		s.vcs = append(s.vcs, vc{})
	}
	for len(s.jobs) < v.Jobs() {
		s.jobs = append(s.jobs, make([]request, max(256, v.Jobs()-len(s.jobs), len(s.jobs)))...)
	}
	if !v.First && (v.NodesChanged() || newQuotas && !s.cfg.Lend) { // what can ever fit may have changed
		for j := range v.Waiting() {
			s.wait(v, p, j)
		}
	}
	for _, ch := range v.Changes() {
		j := v.Job(ch.Job)
		switch ch.Kind {
		case sched.Arrived, sched.Stopped:
			s.wait(v, p, j)
		case sched.Runs:
			s.vcs[j.Tenant()].runs(s.local(j))
		case sched.Ended:
			s.withdraw(j)
			s.vcs[j.Tenant()].running.Remove(s.local(j))
		}
	}
	for id, due := expired(&s.closing, v.Now); due; id, due = expired(&s.closing, v.Now) {
		s.dequeue(v.Job(id))
	}
	for id, due := expired(&s.reopening, v.Now); due; id, due = expired(&s.reopening, v.Now) {
		j := v.Job(id)
		p.Wait(id, s.shares.refused(v, j)) // unless it is refused for locality again
		s.wait(v, p, j)
	}
}

// expired takes out the first job whose moment has come.
func expired(h *dense.Heap, now time.Duration) (job.ID, bool) {
	if h.Len() == 0 {
		return job.None, false
	}
	if _, at := h.Min(); at > int64(now) {
		return job.None, false
	}
	id, _ := h.Pop()
	return job.ID(id), true
}

// neediest is the VC with jobs to try that holds the least of its quota; of
// equal ones that whose first job came first.
func (s *policy) neediest(v *sched.View) (best tenant.ID, ok bool) {
	least := 0.0
	for i := range s.waiting.All() {
		t := tenant.ID(i)
		if s.vcs[t].done == s.pass {
			continue
		}
		load := s.shares.load(v, t)
		if !ok || load < least || load == least && s.vcs[t].first() < s.vcs[best].first() {
			best, least, ok = t, load, true
		}
	}
	return best, ok
}

// serve starts the first job of a VC that can be started, and tells whether
// there was one.
func (s *policy) serve(v *sched.View, p *sched.Plan, t tenant.ID) bool {
	c := &s.vcs[t]
	started := false
	s.apart = s.apart[:0]
	worth := func(n int32) bool {
		k := &c.kinds[n]
		return (k.refused != s.round || k.opens()) && (s.lending || s.shares.within(v, t, v.Class(k.class).Amount.GPU))
	}
	c.queue.Walk(worth, func(local job.ID) queue.Step {
		id := c.jobs[local]
		k := &c.kinds[s.jobs[id].kind]
		switch {
		case started:
			return queue.Stop
		case k.refused == s.round:
			p.Wait(id, k.why)
		case s.try(v, p, id, k):
			started = true
			return queue.Took
		default:
			k.refused = s.round
		}
		if !k.opens() {
			return queue.SkipClass
		}
		s.apart = append(s.apart, id)
		return queue.SkipJob
	})
	for _, id := range s.apart {
		s.open(v, p, id)
	}
	if c.queue.Len() == 0 {
		s.waiting.Remove(int(t))
	}
	return started
}

// try starts a job if it may and can be.
func (s *policy) try(v *sched.View, p *sched.Plan, id job.ID, k *kind) bool {
	j := v.Job(id)
	class, t := v.Class(j.Class()), j.Tenant()
	need := class.Amount.GPU
	_, limited := s.shares.limited(v, t, need)
	within := s.shares.within(v, t, need)
	k.why = job.Reason{}
	switch {
	case limited || !within && !s.cfg.Lend:
	case room(v.Cluster(), class.Scope, class.Mask, class.Demand) >= need:
		if p.Start(id, k.where) {
			s.started(v, p, j)
			return true
		}
		k.why = p.Why()
	case within:
		if s.reclaim(v, p, j, k) {
			s.started(v, p, j)
			s.round, s.pass = s.round+1, s.pass+1 // others may use what the preempted jobs left over
			return true
		}
	}
	if k.apart = k.why.Fragmentation(); !k.apart {
		k.why = s.shares.refused(v, j)
	}
	p.Wait(id, k.why)
	return false
}

// room is what is free for a gang, wherever it is.
func room(c *cluster.Cluster, p cluster.PoolID, m cluster.TypeMask, d *job.Demand) unit.Milli {
	if gpu := d.Roles[0].GPU; gpu > 0 && gpu < unit.One {
		return c.FreeMilli(p, m)
	}
	return unit.Milli(c.FreeGPUs(p, m)) * unit.One
}

// started notes that the plan starts a job.
func (s *policy) started(v *sched.View, p *sched.Plan, j sched.Job) {
	s.shares.plan(v, j.Tenant(), v.Class(j.Class()).Amount.GPU)
	s.closing.Remove(int32(j.ID))
	s.reopening.Remove(int32(j.ID))
	if r := &s.jobs[j.ID]; r.noted {
		r.noted = false
		p.Forget(j.ID)
	}
	s.vcs[j.Tenant()].runs(s.local(j))
}

// NextWake implements sched.Waker: when the next job that backs off makes its
// next attempt.
func (s *policy) NextWake(*sched.View) time.Duration {
	if s.reopening.Len() == 0 {
		return unit.Never
	}
	_, at := s.reopening.Min()
	return time.Duration(at)
}

// Why implements sched.Explainer. Jobs that were refused for the sake of
// locality have been told so.
func (s *policy) Why(v *sched.View, id job.ID) job.Reason { return s.shares.refused(v, v.Job(id)) }
