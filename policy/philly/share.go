package philly

import (
	"github.com/norn-scheduler/norn/cluster/unit"
	"github.com/norn-scheduler/norn/job"
	"github.com/norn-scheduler/norn/sched"
	"github.com/norn-scheduler/norn/tenant"
)

// shares is the quota of each VC and what the VCs hold as the plan stands.
type shares struct {
	quota   []unit.Milli // by tenant
	planned []unit.Milli // what the plan adds to what the tenant tree says
	touched []tenant.ID
	total   int // GPUs that the quotas were made for
	visits  int // the same, see View.Visits
}

// settle makes the quotas. A tenant has the GPUs that it is guaranteed; what its
// parent has beyond all guarantees of its children goes to the other children in
// proportion to their weights. The root has all GPUs of the view, and tenants
// that belong to another pool have no part in it. It tells whether the quotas
// changed.
func (s *shares) settle(v *sched.View) bool {
	tree, total := v.Tenants(), v.Total()
	if len(s.quota) == tree.Len() && s.total == total && s.visits == v.Visits() {
		return false
	}
	for len(s.quota) < tree.Len() {
		s.quota, s.planned = append(s.quota, 0), append(s.planned, 0)
	}
	s.total, s.visits = total, v.Visits()
	left, weights := make([]unit.Milli, tree.Len()), make([]float64, tree.Len())
	member := func(t tenant.ID) bool { return v.Uses(t) }
	parent := func(t tenant.ID) tenant.ID {
		up := tree.At(t).Parent
		for up != tenant.Root && !member(up) {
			up = tree.At(up).Parent
		}
		return up
	}
	for t := tenant.Root + 1; int(t) < tree.Len(); t++ {
		if e := tree.At(t); member(t) && e.Guarantee > 0 {
			left[parent(t)] -= e.Guarantee
		} else if member(t) {
			weights[parent(t)] += e.Weight
		}
	}
	s.quota[tenant.Root] = unit.Milli(total) * unit.One
	left[tenant.Root] += s.quota[tenant.Root]
	for t := tenant.Root + 1; int(t) < tree.Len(); t++ { // parents come before their children
		e, up := tree.At(t), parent(t)
		switch s.quota[t] = 0; {
		case !member(t):
			continue
		case e.Guarantee > 0:
			s.quota[t] = e.Guarantee
		case left[up] > 0:
			s.quota[t] = unit.Milli(float64(left[up]) * e.Weight / weights[up])
		}
		left[t] += s.quota[t]
	}
	return true
}

// used is what a VC and its children hold as the plan stands.
func (s *shares) used(v *sched.View, t tenant.ID) unit.Milli {
	return v.Tenants().At(t).Used.GPU + s.planned[t]
}

// plan notes that the plan gives a VC so many more GPUs, or takes them.
func (s *shares) plan(v *sched.View, t tenant.ID, milli unit.Milli) {
	for ; t >= 0; t = v.Tenants().At(t).Parent {
		s.planned[t] += milli
		s.touched = append(s.touched, t)
	}
}

// forget ends a plan.
func (s *shares) forget() {
	for _, t := range s.touched {
		s.planned[t] = 0
	}
	s.touched = s.touched[:0]
}

// over tells whether a VC holds more than its quota, within whether it would
// not with so many GPUs more.
func (s *shares) over(v *sched.View, t tenant.ID) bool { return s.used(v, t) > s.quota[t] }

func (s *shares) within(v *sched.View, t tenant.ID, need unit.Milli) bool {
	return s.used(v, t)+need <= s.quota[t]
}

// most is the largest number of GPUs that a job of a VC may ever have.
func (s *shares) most(v *sched.View, t tenant.ID, lend bool) unit.Milli {
	most := tenant.Unlimited
	if !lend {
		most = s.quota[t]
	}
	for ; t >= 0; t = v.Tenants().At(t).Parent {
		most = min(most, v.Tenants().At(t).Limit)
	}
	return most
}

// load is how much of its quota a VC holds.
func (s *shares) load(v *sched.View, t tenant.ID) float64 {
	return float64(s.used(v, t)) / max(1, float64(s.quota[t]))
}

// limited is the VC at or above a job's VC whose limit the job would exceed.
func (s *shares) limited(v *sched.View, t tenant.ID, need unit.Milli) (at tenant.ID, yes bool) {
	for ; t >= 0; t = v.Tenants().At(t).Parent {
		if s.used(v, t)+need > v.Tenants().At(t).Limit {
			return t, true
		}
	}
	return 0, false
}

// refused is why a job must wait although its gang may fit, as far as shares
// are concerned: because of a limit, because its VC has used up its quota, or
// because too few GPUs are free.
func (s *shares) refused(v *sched.View, j sched.Job) job.Reason {
	class, t := v.Class(j.Class()), j.Tenant()
	need := class.Amount.GPU
	if at, yes := s.limited(v, t, need); yes {
		return job.Reason{Code: job.Quota, Need: gpus(v.Tenants().At(at).Limit), Have: gpus(s.used(v, at)), Job: job.None}
	}
	if !s.within(v, t, need) {
		return job.Reason{Code: job.OverShare, Need: gpus(s.quota[t]), Have: gpus(s.used(v, t)), Job: job.None}
	}
	return job.Reason{Code: job.NeedGPUs, Need: class.GPUs, Have: int32(v.Cluster().FreeGPUs(class.Scope, class.Mask)), Job: job.None}
}

// gpus is whole GPUs, parts left out.
func gpus(m unit.Milli) int32 { return int32(m / unit.One) }
