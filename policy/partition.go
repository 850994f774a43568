package policy

import (
	"time"

	"github.com/norn-scheduler/norn/cluster"
	"github.com/norn-scheduler/norn/cluster/unit"
	"github.com/norn-scheduler/norn/job"
	"github.com/norn-scheduler/norn/sched"
	"github.com/norn-scheduler/norn/tenant"
)

// Partitioned runs an independent policy in each pool of the cluster, so that
// jobs of different partitions neither wait for nor disturb each other, but for
// the limits of their tenants. build is called once for each
// pool that ever has a job; a policy that is a sched.Divider makes those of
// further pools itself.
func Partitioned(build func() (sched.Policy, error)) sched.Policy { return &partitioned{build: build} }

type partitioned struct {
	build   func() (sched.Policy, error)
	pools   []part
	tenants int  // so many were looked at for limits
	limits  bool // some limit is over tenants of several pools
}

// part is the policy of one pool, and what else it can do; nil: it cannot.
type part struct {
	policy  sched.Policy
	waker   sched.Waker
	why     sched.Explainer
	wake    time.Duration
	changes []sched.Change
}

// Decide implements sched.Policy.
func (d *partitioned) Decide(v *sched.View, p *sched.Plan) {
	for len(d.pools) < v.Pools() {
		d.pools = append(d.pools, part{wake: unit.Never})
	}
	for i := range d.pools {
		d.pools[i].changes = d.pools[i].changes[:0]
	}
	for _, ch := range v.Changes() {
		q := &d.pools[v.Job(ch.Job).Pool()]
		q.changes = append(q.changes, ch)
	}
	all := v.NodesChanged() || d.limited(v)
	for i := range d.pools {
		q := &d.pools[i]
		due := q.wake <= v.Now
		if len(q.changes) == 0 && !due && (q.policy == nil || !all) {
			continue
		}
		w := v.Within(cluster.PoolID(i), q.changes)
		w.First, w.Woken = v.First || q.policy == nil, due
		if q.policy == nil {
			policy, err := d.another()
			if err != nil {
				p.Invalidate(err)
				return
			}
			q.policy = policy
			q.waker, _ = policy.(sched.Waker)
			q.why, _ = policy.(sched.Explainer)
		}
		q.policy.Decide(&w, p)
		q.wake = unit.Never
		if q.waker != nil {
			q.wake = q.waker.NextWake(&w)
		}
	}
}

// limited tells whether what is taken or given back in one pool may let jobs of another start or be
// stopped: where a tenant has jobs in several, or a limit is over tenants of several.
func (d *partitioned) limited(v *sched.View) bool {
	if v.Visits() > 0 {
		return true
	}
	tree := v.Tenants()
	if d.tenants == tree.Len() {
		return d.limits
	}
	d.tenants = tree.Len()
	pools := make([]cluster.PoolID, tree.Len()) // of the first tenant below each, plus one
	for t := range tenant.ID(tree.Len()) {
		pool := v.PoolsOf(t)[0]
		for up := t; up >= 0; up = tree.At(up).Parent {
			if pools[up] == 0 {
				pools[up] = pool + 1
			}
			d.limits = d.limits || pools[up] != pool+1 && tree.At(up).Limit < tenant.Unlimited
		}
	}
	return d.limits
}

// another makes the policy of one more pool.
func (d *partitioned) another() (sched.Policy, error) {
	for i := range d.pools {
		if first, ok := d.pools[i].policy.(sched.Divider); ok {
			return first.Divide(), nil
		}
	}
	return d.build()
}

// NextWake implements sched.Waker.
func (d *partitioned) NextWake(*sched.View) time.Duration {
	wake := unit.Never
	for i := range d.pools {
		wake = min(wake, d.pools[i].wake)
	}
	return wake
}

// Why implements sched.Explainer.
func (d *partitioned) Why(v *sched.View, id job.ID) job.Reason {
	q := v.Job(id).Pool()
	if e := d.pools[q].why; e != nil {
		w := v.Within(q, nil)
		return e.Why(&w, id)
	}
	return job.Reason{Code: job.Outranked, Job: job.None}
}
