package sleep

import (
	"slices"

	"github.com/norn-scheduler/norn/cluster"
	"github.com/norn-scheduler/norn/job"
	"github.com/norn-scheduler/norn/sched"
)

// needs finds which nodes waiting jobs need: idle ones, then booting ones, then those asleep.
type needs struct {
	rest  []spare // nodes that nobody needs yet, in that order
	taken []spare // nodes that a waiting job needs, with what is left of them
	wake  []cluster.NodeID
	free  map[key]int // GPUs that are free beside running jobs, for those who wait for other reasons than room
}

// spare is a node and how many GPUs of it no waiting job needs.
type spare struct {
	node cluster.NodeID
	left int
}

// key names the GPUs that a class of jobs may have.
type key struct {
	scope cluster.PoolID
	mask  cluster.TypeMask
}

// waitsForRoom tells whether a job would run if there were more nodes. short tells that none of those
// awake has room for it.
func waitsForRoom(r job.Reason) (waits, short bool) {
	switch r.Code {
	case job.NeedGPUs, job.NeedOneNode, job.NeedWholeNode, job.NeedRack, job.NeedCPU, job.NeedSlots, job.NeedPart, job.NeedTasks, job.NeedWhere, job.NeedWithin:
		return true, true
	case job.Quota, job.OnHold, job.Occupied, job.Cancelling, job.AfterJob, job.InTurn:
		return false, false
	}
	return !r.Never(), false
}

// look goes through the jobs that wait. It returns the number of nodes that they need.
func (n *needs) look(v *sched.View) int {
	n.rest, n.taken, n.wake, n.free = n.rest[:0], n.taken[:0], n.wake[:0], nil
	listed, waiting := false, false
	for j := range v.Waiting() {
		waits, short := waitsForRoom(j.Reason())
		if !waits {
			continue
		}
		if waiting = true; !listed {
			n.list(v.Cluster())
			listed = true
		}
		if len(n.rest) == 0 {
			break
		}
		if short || !n.fits(v, j) {
			n.serve(v, j)
		}
	}
	if waiting && n.stuck(v) {
		n.all(v.Cluster())
	}
	return len(n.taken)
}

// list lists the nodes of which no job has anything.
func (n *needs) list(c *cluster.Cluster) {
	for _, p := range []cluster.Power{cluster.Awake, cluster.Booting, cluster.Asleep} {
		for id := range cluster.NodeID(c.Nodes()) {
			if c.Power(id) == p && c.Health(id) == cluster.Up && !c.Busy(id) {
				n.rest = append(n.rest, spare{id, c.NodeGPUs(id)})
			}
		}
	}
}

// fits takes a job that waits for something else than room to run on nodes beside others, as long as
// there is room. Where there is none it needs idle nodes, which stay awake for it: its policy may start it
// only at its next decision.
func (n *needs) fits(v *sched.View, j sched.Job) bool {
	k := v.Class(j.Class())
	at := key{k.Scope, k.Mask}
	if n.free == nil {
		n.free = map[key]int{}
	}
	left, known := n.free[at]
	if !known {
		left = v.Cluster().FreeGPUs(k.Scope, k.Mask) - n.idle(v.Cluster(), k.Scope, k.Mask)
	}
	if left < int(k.GPUs) {
		n.free[at] = left
		return false
	}
	n.free[at] = left - int(k.GPUs)
	return true
}

// idle is the number of GPUs of nodes that are awake of which no job has anything.
func (n *needs) idle(c *cluster.Cluster, scope cluster.PoolID, mask cluster.TypeMask) (gpus int) {
	for _, nodes := range [][]spare{n.rest, n.taken} {
		for _, s := range nodes {
			if c.Usable(s.node) && admits(c, scope, mask, s.node) {
				gpus += c.NodeGPUs(s.node)
			}
		}
	}
	return gpus
}

// serve takes nodes for a job: what other jobs leave of theirs if it fits there, else more nodes.
// Nothing is taken for one that all of them are not enough for.
func (n *needs) serve(v *sched.View, j sched.Job) {
	c, k := v.Cluster(), v.Class(j.Class())
	for i := range n.taken {
		if t := &n.taken[i]; t.left >= max(1, int(k.GPUs)) && admits(c, k.Scope, k.Mask, t.node) {
			t.left -= int(k.GPUs)
			return
		}
	}
	more, gpus := 0, int(k.GPUs)
	for ; more < len(n.rest) && (gpus > 0 || more == 0); more++ {
		best := more
		for best < len(n.rest) && !admits(c, k.Scope, k.Mask, n.rest[best].node) {
			best++
		}
		if best == len(n.rest) {
			return
		}
		s := n.rest[best]
		copy(n.rest[more+1:best+1], n.rest[more:best])
		n.rest[more] = s
		gpus -= s.left
	}
	if gpus > 0 {
		return
	}
	for i, s := range n.rest[:more] {
		s.left = 0
		if i == more-1 {
			s.left = -gpus
		}
		if c.Power(s.node) == cluster.Asleep {
			n.wake = append(n.wake, s.node)
		}
		n.taken = append(n.taken, s)
	}
	n.rest = n.rest[more:]
}

// admits tells whether a class of jobs may use a node.
func admits(c *cluster.Cluster, scope cluster.PoolID, mask cluster.TypeMask, id cluster.NodeID) bool {
	if !c.In(id, scope) {
		return false
	}
	if mask == 0 {
		return true
	}
	for _, g := range c.NodeGroups(id) {
		if mask.Has(c.GroupType(g)) {
			return true
		}
	}
	return false
}

// stuck tells that jobs wait and nothing runs that could end: nobody knows better than to have all nodes
// awake. As long as one boots, no others are woken.
func (n *needs) stuck(v *sched.View) bool {
	return len(n.wake) == 0 && cluster.BusyNodes(v.Cluster()) == 0
}

// all needs all nodes.
func (n *needs) all(c *cluster.Cluster) {
	boots := slices.ContainsFunc(n.rest, func(s spare) bool { return c.Power(s.node) == cluster.Booting })
	for _, s := range n.rest {
		switch asleep := c.Power(s.node) == cluster.Asleep; {
		case asleep && boots:
			continue
		case asleep:
			n.wake = append(n.wake, s.node)
		}
		n.taken = append(n.taken, s)
	}
	n.rest = n.rest[:0]
}
