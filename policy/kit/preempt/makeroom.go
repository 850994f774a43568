package preempt

import (
	"slices"

	"github.com/norn-scheduler/norn/cluster"
	"github.com/norn-scheduler/norn/job"
	"github.com/norn-scheduler/norn/place"
	"github.com/norn-scheduler/norn/policy/kit/quota"
	"github.com/norn-scheduler/norn/sched"
)

// Victim is a running job that may be stopped, with what it has.
type Victim struct {
	ID job.ID
	On *cluster.Alloc
}

// Stoppable is a running job as a victim; ok is false where it must not be stopped, or is on none of some nodes. On
// nodes and GPUs that take no new work nobody is stopped, for it would make no room.
func Stoppable(v *sched.View, p *sched.Plan, r sched.Job, among func(cluster.NodeID) bool) (w Victim, ok bool) {
	on := p.Alloc(r.ID)
	if on == nil || r.Phase() != job.Running || r.Spec().Stop == job.Pinned || !v.Cluster().UsableAlloc(on) {
		return w, false
	}
	return Victim{r.ID, on}, slices.ContainsFunc(on.Pieces, func(at cluster.Piece) bool { return among(at.Node) })
}

// MakeRoom starts a waiting job, for which victims are stopped one after the other until it fits. Those
// that turn out not to be in the way stay. Where it does not fit without them all, the plan is left as
// it was.
func MakeRoom(v *sched.View, p *sched.Plan, victims []Victim, id job.ID, where place.Strategy) (stopped []job.ID, started bool) {
	class, n := v.Class(v.Job(id).Class()), 0
	started = p.Try(func() bool {
		for ; n < len(victims); n++ {
			if v.Cluster().FreeMilli(class.Scope, class.Mask) >= class.Amount.GPU && p.Start(id, where) {
				return true
			}
			p.Stop(victims[n].ID, job.Reason{Code: job.MakesRoom, Job: id})
		}
		return p.Start(id, where)
	})
	if !started {
		return nil, false
	}
	for i := n - 1; i >= 0; i-- {
		on := victims[i].On
		if !quota.Vacant(v.Cluster(), on, p.Alloc(id)) || !p.StartOn(victims[i].ID, on) {
			stopped = append(stopped, victims[i].ID)
		}
	}
	return stopped, true
}
