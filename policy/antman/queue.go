package antman

import (
	"cmp"
	"slices"

	"github.com/norn-scheduler/norn/cluster"
	"github.com/norn-scheduler/norn/cluster/unit"
	"github.com/norn-scheduler/norn/job"
	"github.com/norn-scheduler/norn/policy/kit/beside"
	"github.com/norn-scheduler/norn/sched"
	"github.com/norn-scheduler/norn/tenant"
)

// queue is what one decision finds on its way along the jobs that wait to own GPUs.
type queue struct {
	behind  map[tenant.ID]job.ID      // tenants whose first job waits, which those behind it wait for
	first   map[tenant.ID]bool        // tenants of which a job waits that could own GPUs
	blocked map[cluster.PoolID]job.ID // pools in which a job waits for which no GPUs can be kept
	kept    []cluster.Alloc           // by gangs that wait, each for itself
}

// clear begins a decision.
func (q *queue) clear() {
	q.behind, q.first, q.blocked, q.kept = map[tenant.ID]job.ID{}, map[tenant.ID]bool{}, map[cluster.PoolID]job.ID{}, q.kept[:0]
}

// keeps tells whether a gang keeps any of the devices of an alloc.
func (q *queue) keeps(a *cluster.Alloc) bool {
	for i := range q.kept {
		for _, s := range q.kept[i].Shares {
			if slices.ContainsFunc(a.Shares, func(o cluster.Share) bool { return o.Device == s.Device }) {
				return true
			}
		}
	}
	return false
}

// without has f run while what is kept is not free.
func (q *queue) without(p *sched.Plan, f func()) {
	for i := range q.kept {
		inner := f
		f = func() { p.Without(&q.kept[i], inner) }
	}
	f()
}

// keep has a gang that finds too few GPUs keep those of the nodes where most are free: of
// as few nodes as could hold it, and with the processors and the memory that its tasks need
// there. So it loses none of them until it has all. For other jobs the whole pool is blocked.
func (f *policy) keep(v *sched.View, p *sched.Plan, j sched.Job) {
	if !visitor(j) {
		f.queue.blocked[j.Pool()] = j.ID
		return
	}
	var kept cluster.Alloc
	f.queue.without(p, func() {
		need := j.GPUs()
		for _, r := range rooms(v, j) {
			if need <= 0 {
				break
			}
			keepOf(&kept, v, r.node, j, need)
			need -= r.capacity
		}
	})
	f.queue.kept = append(f.queue.kept, kept)
}

// room is a node on which a gang that waits could keep GPUs.
type room struct {
	node           cluster.NodeID
	free, capacity int // GPUs that it could use: now, and if all were free
}

// rooms are the nodes on which a gang that waits could keep GPUs, the one with most free
// GPUs first. Where one node could hold the gang, they are those that could.
func rooms(v *sched.View, j sched.Job) []room {
	c, mask := v.Cluster(), v.Class(j.Class()).Mask
	var some []room
	least := 0
	for _, n := range c.PoolNodes(v.Scope(j)) {
		could := capacity(v, n, j)
		if could >= j.GPUs() {
			least = j.GPUs()
		}
		if free := c.NodeFreeGPUs(n, mask); min(free, could) > 0 {
			some = append(some, room{n, free, could})
		}
	}
	some = slices.DeleteFunc(some, func(r room) bool { return r.capacity < least })
	slices.SortStableFunc(some, func(a, b room) int { return cmp.Compare(b.free, a.free) })
	return some
}

// capacity is how many GPUs of a node a job could use if all were free.
func capacity(v *sched.View, n cluster.NodeID, j sched.Job) (gpus int) {
	c, mask := v.Cluster(), v.Class(j.Class()).Mask
	if !c.Usable(n) {
		return 0
	}
	if c.Node(n).Pooled {
		for _, g := range c.Node(n).GPUs {
			if mask.Has(g.Type) {
				gpus += g.Count
			}
		}
		return gpus
	}
	first, count := c.DeviceRange(n)
	for d := first; d < first+cluster.DeviceID(count); d++ {
		if mask.Has(c.TypeOf(d)) && !c.Broken(d) {
			gpus++
		}
	}
	return gpus
}

// keepOf adds so many of the free GPUs of a node to what a gang keeps, at most.
func keepOf(kept *cluster.Alloc, v *sched.View, n cluster.NodeID, j sched.Job, most int) {
	c, mask, role, had := v.Cluster(), v.Class(j.Class()).Mask, &j.Spec().Demand.Roles[0], 0
	first, count := c.DeviceRange(n)
	for d := first; d < first+cluster.DeviceID(count); d++ {
		free := min(int(c.DeviceFree(d)/unit.One), most-had)
		if free > 0 && mask.Has(c.TypeOf(d)) && !c.Broken(d) {
			beside.Add(kept, n, cluster.Share{Device: d, Milli: int32(free) * int32(unit.One)})
			had += free
		}
	}
	if had > 0 {
		each := int(role.GPU / unit.One)
		tasks, piece := (had+each-1)/each, &kept.Pieces[len(kept.Pieces)-1]
		piece.CPU, piece.Memory = role.CPU*unit.Milli(tasks), role.Memory*unit.Bytes(tasks)
	}
}
