package rounds

import (
	"slices"

	"github.com/norn-scheduler/norn/cluster"
	"github.com/norn-scheduler/norn/cluster/unit"
	"github.com/norn-scheduler/norn/sched"
)

// A Rule may tell gangs that run together on one node from those that may be spread over
// several (Policy.Together). A type then has room for so many of the first at once.

// nodes is what there is on each node where a round begins.
type nodes struct {
	shared [][]unit.Milli // by type and node: with what those who are left alone for now hold
	dealt  [][]unit.Milli // without
	taken  [][]tally      // by type: of the gangs that were taken to be together, by size
}

// tally is how many gangs of a size were taken, and how many nodes have room for alone.
type tally struct{ gpus, gangs, slots int }

// count counts what there is.
func (n *nodes) count(r *Round) {
	v, c := r.View, r.View.Cluster()
	*n = nodes{taken: make([][]tally, c.Types())}
	first, last := v.Pool, v.Pool
	if v.All {
		first, last = 0, cluster.PoolID(v.Pools()-1)
	}
	for t := range c.Types() {
		row := make([]unit.Milli, c.Nodes())
		for pool := first; pool <= last; pool++ {
			for _, id := range c.PoolNodes(pool) {
				if c.Usable(id) {
					row[id] = unit.Milli(c.NodeFreeGPUs(id, 1<<t)) * unit.One
				}
			}
		}
		n.dealt = append(n.dealt, row)
	}
	add(r, r.Jobs, n.dealt)
	for _, row := range n.dealt {
		n.shared = append(n.shared, slices.Clone(row))
	}
	add(r, r.Alone, n.shared)
}

// add adds what running jobs hold.
func add(r *Round, jobs []sched.Job, to [][]unit.Milli) {
	c := r.View.Cluster()
	for _, j := range jobs {
		if a := r.View.Alloc(j.ID); a != nil && j.Running() {
			for _, s := range a.Shares {
				if c.UsableDevice(s.Device) {
					to[c.TypeOf(s.Device)][c.NodeOf(s.Device)] += unit.Milli(s.Milli)
				}
			}
		}
	}
}

// slots is how many gangs of so many GPUs could each be together on one of the nodes.
func slots(nodes []unit.Milli, gpus int) int {
	n := 0
	for _, milli := range nodes {
		n += int(milli) / (gpus * int(unit.One))
	}
	return n
}

// Slots is how many gangs of so many GPUs could each be together on a node of a type at
// once, if they had all that is shared. Only where a round begins.
func (r *Round) Slots(t cluster.TypeID, gpus int) int { return slots(r.nodes.shared[t], gpus) }

// Apart is how fast the scheduler believes that a job runs on a type where it may be spread
// over nodes: as fast as Speed tells where that makes no difference, since it has one GPU or
// no node could hold it, or where it does not slow it down.
func (r *Round) Apart(j sched.Job, t cluster.TypeID) float64 {
	s := r.Speed(j, t)
	if s == 0 || j.GPUs() <= 1 || j.GPUs() > r.nodeGPUs(j, t) {
		return s
	}
	return min(s, r.View.TypeSpeed(j, t, tasksOf(j), true))
}

// room tells whether nodes have room for one more gang of so many GPUs beside those that were
// taken: of gangs of s GPUs, one of m times as many takes the room of m. Whatever fits
// has room; where each size is a multiple of the next smaller one, whatever has room fits.
func (n *nodes) room(t cluster.TypeID, gpus int) bool {
	if !slices.ContainsFunc(n.taken[t], func(k tally) bool { return k.gpus == gpus }) {
		n.taken[t] = append(n.taken[t], tally{gpus: gpus, slots: slots(n.dealt[t], gpus)})
	}
	for _, size := range n.taken[t] {
		used := gpus / size.gpus
		for _, k := range n.taken[t] {
			used += k.gangs * (k.gpus / size.gpus)
		}
		if used > size.slots {
			return false
		}
	}
	return true
}

// take notes that a gang for which there was room was taken.
func (n *nodes) take(t cluster.TypeID, gpus int) {
	for i := range n.taken[t] {
		if k := &n.taken[t][i]; k.gpus == gpus {
			k.gangs++
		}
	}
}

// ServeTogether is Take on devices of one node. It is also false where those that were taken
// so leave no room on the nodes. Only where a round begins.
func (r *Round) ServeTogether(j sched.Job, t cluster.TypeID) bool {
	if !r.nodes.room(t, j.GPUs()) || !r.Serve(j, t) {
		return false
	}
	r.nodes.take(t, j.GPUs())
	r.picks[len(r.picks)-1].near = true
	return true
}
