package policy

import (
	"time"

	"github.com/norn-scheduler/norn/cluster"
	"github.com/norn-scheduler/norn/job"
	"github.com/norn-scheduler/norn/sched"
	"github.com/norn-scheduler/norn/unit"
)

// Partitioned runs an independent policy in each pool of the cluster, so that
// tenants with a partition of their own neither wait for nor disturb each
// other. make is called once for each pool that ever has a job; a policy that is
// a sched.Divider makes those of further pools itself.
func Partitioned(make func() (sched.Policy, error)) sched.Policy { return &partitioned{make: make} }

type partitioned struct {
	make  func() (sched.Policy, error)
	pools []part
}

// part is the policy of one pool.
type part struct {
	policy  sched.Policy
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
	for i := range d.pools {
		q := &d.pools[i]
		due := q.wake <= v.Now
		if len(q.changes) == 0 && !due && (q.policy == nil || !v.NodesChanged()) {
			continue
		}
		w := v.Within(cluster.PoolID(i), q.changes)
		w.First, w.Woken = v.First || q.policy == nil, due
		if q.policy == nil {
			policy, err := d.another()
			if err != nil {
				p.Spoil(err)
				return
			}
			q.policy = policy
		}
		q.policy.Decide(&w, p)
		q.wake = unit.Never
		if waker, ok := q.policy.(sched.Waker); ok {
			q.wake = waker.NextWake(&w)
		}
	}
}

// another makes the policy of one more pool.
func (d *partitioned) another() (sched.Policy, error) {
	for i := range d.pools {
		if first, ok := d.pools[i].policy.(sched.Divider); ok {
			return first.Divide(), nil
		}
	}
	return d.make()
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
	if e, ok := d.pools[q].policy.(sched.Explainer); ok {
		w := v.Within(q, nil)
		return e.Why(&w, id)
	}
	return job.Reason{Code: job.Outranked, Job: job.None}
}
