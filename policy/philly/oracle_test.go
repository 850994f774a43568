package philly

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/norn-scheduler/norn/cluster"
	"github.com/norn-scheduler/norn/cluster/unit"
	"github.com/norn-scheduler/norn/job"
	"github.com/norn-scheduler/norn/sched"
	"github.com/norn-scheduler/norn/sim/simtest"
	"github.com/norn-scheduler/norn/tenant"
)

// naive is the policy written down without any memory: at each decision it looks
// at every job anew.
type naive struct {
	cfg     Config
	wake    time.Duration
	refused map[refusal]job.Reason // since somebody was preempted
	done    map[tenant.ID]bool     // VCs of which nothing more could be started since
	lending bool
	vain    job.Reason // why the room that a reclaim made was of no use
}

// refusal is what jobs have in common of which none need be tried after one was
// refused.
type refusal struct {
	vc    tenant.ID
	class int32
	level Level
	opens bool
}

// asks is a job that asks for GPUs now.
type asks struct {
	sched.Job
	level  Level
	failed int64
	opens  bool // a refusal opens an attempt
}

func (n *naive) Decide(v *sched.View, p *sched.Plan) {
	var s shares
	s.settle(v)
	queues := map[tenant.ID][]asks{}
	n.wake, n.refused = unit.Never, map[refusal]job.Reason{}
	for j := range v.Waiting() {
		if a, ok := n.asks(v, p, &s, j); ok {
			queues[j.Tenant()] = append(queues[j.Tenant()], a)
		}
	}
	for _, n.lending = range []bool{false, true} {
		n.done = map[tenant.ID]bool{}
		for t := n.neediest(v, &s, queues); t != tenant.Root; t = n.neediest(v, &s, queues) {
			at := slices.IndexFunc(queues[t], func(a asks) bool { return n.try(v, p, &s, a) })
			if at < 0 {
				n.done[t] = true
				continue
			}
			s.plan(v, t, v.Class(queues[t][at].Class()).Amount.GPU)
			p.Forget(queues[t][at].ID)
			queues[t] = slices.Delete(queues[t], at, at+1)
		}
	}
}

func (n *naive) neediest(v *sched.View, s *shares, queues map[tenant.ID][]asks) tenant.ID {
	t := tenant.Root
	for vc := tenant.ID(1); int(vc) < v.Tenants().Len(); vc++ {
		switch {
		case len(queues[vc]) == 0 || n.done[vc]:
		case t == tenant.Root, s.load(v, vc) < s.load(v, t),
			s.load(v, vc) == s.load(v, t) && queues[vc][0].ID < queues[t][0].ID:
			t = vc
		}
	}
	return t
}

// asks tells how a job stands with its attempts, from what is written on it.
func (n *naive) asks(v *sched.View, p *sched.Plan, s *shares, j sched.Job) (asks, bool) {
	noted, _ := sched.Recall[note](j)
	a := asks{Job: j, failed: noted.failed, opens: true}
	if v.Class(j.Class()).Amount.GPU > s.most(v, j.Tenant(), n.cfg.Lend) || p.Never(j.ID, where[n.cfg.Last]).Code != job.NoReason {
		p.Wait(j.ID, job.Reason{Code: job.Impossible, Job: job.None})
		return a, false
	}
	if began := noted.began; began >= 0 {
		next := began + n.cfg.Acquire + n.cfg.Backoff
		if a.opens = v.Now >= next; a.opens {
			a.failed++
		} else {
			n.wake = min(n.wake, next)
		}
		if !a.opens && v.Now >= began+n.cfg.Acquire {
			return a, false
		}
	}
	left := a.failed
	var ok []Level
	for l := n.cfg.First; l < n.cfg.Last; l++ {
		if gpuTasks(j.Spec().Demand) > 1 && p.Never(j.ID, where[l]).Code == job.NoReason {
			ok = append(ok, l)
		}
	}
	ok = append(ok, n.cfg.Last)
	a.level = ok[min(int(left)/n.cfg.Attempts, len(ok)-1)]
	a.opens = a.opens && a.level != n.cfg.Last
	return a, true
}

func (n *naive) try(v *sched.View, p *sched.Plan, s *shares, a asks) bool {
	class, t := v.Class(a.Class()), a.Tenant()
	need := class.Amount.GPU
	key := refusal{t, a.Class(), a.level, a.opens}
	if !n.lending && !s.within(v, t, need) {
		return false
	}
	why, again := n.refused[key]
	if !again {
		if why = n.start(v, p, s, a); why.Code == job.NoReason {
			return true
		}
		n.refused[key] = why
	}
	p.Wait(a.ID, why)
	if why.Fragmentation() && a.opens {
		p.Remember(a.ID, &note{a.failed, v.Now})
		n.wake = min(n.wake, v.Now+n.cfg.Acquire+n.cfg.Backoff)
	}
	return false
}

// start starts a job, or says why it cannot.
func (n *naive) start(v *sched.View, p *sched.Plan, s *shares, a asks) job.Reason {
	class, t := v.Class(a.Class()), a.Tenant()
	need := class.Amount.GPU
	_, limited := s.limited(v, t, need)
	switch {
	case limited || !n.cfg.Lend && !s.within(v, t, need):
	case room(v.Cluster(), class.Pool, class.Mask, class.Demand) >= need:
		if p.Start(a.ID, where[a.level]) {
			return job.Reason{}
		}
		if p.Why().Fragmentation() {
			return p.Why()
		}
	case s.within(v, t, need) && float64(v.Total()-v.Free()) >= n.cfg.ReclaimAt*float64(v.Total()):
		if n.reclaim(v, p, s, a) {
			clear(n.refused)
			clear(n.done)
			return job.Reason{}
		}
		if n.vain.Fragmentation() {
			return n.vain
		}
	}
	return s.refused(v, a.Job)
}

// reclaim tries the newest one, two, three, ... jobs of VCs above their quotas,
// and then spares those that need not have gone.
func (n *naive) reclaim(v *sched.View, p *sched.Plan, s *shares, a asks) bool {
	n.vain = job.Reason{}
	var jobs []sched.Job
	for j := range v.Running() {
		if j.Tenant() != a.Tenant() && s.over(v, j.Tenant()) && j.Spec().Stop != job.Pinned && j.Allocated() > 0 && p.Alloc(j.ID) != nil {
			jobs = append(jobs, j)
		}
	}
	slices.SortFunc(jobs, func(x, y sched.Job) int { return cmp.Or(cmp.Compare(y.Since(), x.Since()), cmp.Compare(y.ID, x.ID)) })
	for most := range len(jobs) + 1 {
		var gone []sched.Job
		held := map[tenant.ID]unit.Milli{}
		for _, j := range jobs {
			if t := j.Tenant(); len(gone) < most && s.used(v, t)-held[t] > s.quota[t] {
				gone = append(gone, j)
				held[t] += j.Allocated()
			}
		}
		why := job.Reason{Code: job.Reclaimed, Job: a.ID}
		var needed []job.ID
		if len(gone) < most || !p.Try(func() bool {
			for _, j := range gone {
				p.Stop(j.ID, why)
			}
			class := v.Class(a.Class())
			if room(v.Cluster(), class.Pool, class.Mask, class.Demand) < class.Amount.GPU {
				return false
			}
			if !p.Start(a.ID, where[a.level]) {
				n.vain = p.Why() // what is tried and given up leaves no reason
				return false
			}
			on := fmt.Sprint(p.Alloc(a.ID).Shares)
			for _, j := range gone { // whoever can have the same again stays
				if !slices.ContainsFunc(v.Alloc(j.ID).Shares, func(x cluster.Share) bool { return strings.Contains(on, fmt.Sprintf("{%d ", x.Device)) }) {
					p.StartOn(j.ID, v.Alloc(j.ID))
				} else {
					needed = append(needed, j.ID)
				}
			}
			return true
		}) {
			continue
		}
		for _, id := range needed {
			s.plan(v, v.Job(id).Tenant(), -v.Job(id).Allocated())
		}
		return true
	}
	return false
}

func (n *naive) NextWake(*sched.View) time.Duration { return n.wake }

// TestNaive holds the policy against the one without memory on small random
// histories: they must decide alike, whatever happens.
func TestNaive(t *testing.T) {
	for _, c := range []Config{
		*NewConfig(),
		{Acquire: 10 * time.Second, Backoff: 5 * time.Second, Attempts: 1, Last: Anywhere, Lend: true},
		{Acquire: 5 * time.Second, Backoff: 5 * time.Second, Attempts: 2, First: Rack, Last: Anywhere, Lend: true, ReclaimAt: 0.5},
		{Acquire: 10 * time.Second, Backoff: 5 * time.Second, Attempts: 1, Last: Anywhere},
	} {
		rapid.Check(t, func(t *rapid.T) {
			shape := simtest.Shape{Tenants: true, Types: rapid.Bool().Draw(t, "types"), Failures: rapid.Bool().Draw(t, "failures"), Costs: rapid.Bool().Draw(t, "costs")}
			w := simtest.Draw(t, shape)
			nodes := rapid.SliceOfN(rapid.IntRange(1, 6), 1, 4).Draw(t, "nodes")
			logs := [2][]string{}
			for i, policy := range []func() (sched.Policy, error){c.Policy, func() (sched.Policy, error) { return &naive{cfg: c}, nil }} {
				w.Fresh(t, shape, nodes)
				w.Make = policy
				run, err := simtest.Try(w.Config, w.Jobs...)
				if err != nil {
					t.Fatalf("%v\n%s", err, strings.Join(run.Log, "\n"))
				}
				logs[i] = slices.DeleteFunc(run.Log, func(line string) bool { return strings.Contains(line, " wait ") || strings.Contains(line, " memo ") })
			}
			if !slices.Equal(logs[0], logs[1]) {
				t.Fatalf("the policy decides\n%s\n--- the naive one\n%s", strings.Join(logs[0], "\n"), strings.Join(logs[1], "\n"))
			}
		})
	}
}
