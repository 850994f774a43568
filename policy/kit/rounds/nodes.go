package rounds

import (
	"slices"

	"github.com/norn-scheduler/norn/cluster"
	"github.com/norn-scheduler/norn/cluster/unit"
	"github.com/norn-scheduler/norn/sched"
)

// A Rule may tell gangs on a single node from gangs that may be spread over
// several nodes (Policy.Together). A type then has room for only so many gangs
// of the first sort at once.

// nodes is what each node has to share when a round begins, in thousandths of a
// GPU.
type nodes struct {
	shared [][]unit.Milli // by type and node: what is shared, including the devices of jobs that are left alone for now
	dealt  [][]unit.Milli // the same without those devices
	taken  [][]tally      // by type: the gangs that were served to run on a single node, by size
}

// tally counts the gangs of one size that were served, and the gangs of that
// size for which nodes have room if nothing else runs.
type tally struct{ gpus, gangs, slots int }

// count counts the devices of all nodes.
func (n *nodes) count(r *Round) {
	v, c := r.View, r.View.Cluster()
	*n = nodes{taken: make([][]tally, c.Types())}
	for t := range c.Types() {
		row := make([]unit.Milli, c.Nodes())
		for pool := range v.EachPool() {
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

// add adds the devices of running jobs.
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

// slots is the number of gangs of so many GPUs for which the nodes have room,
// each on a single node.
func slots(nodes []unit.Milli, gpus int) int {
	n := 0
	for _, milli := range nodes {
		n += int(milli) / (gpus * int(unit.One))
	}
	return n
}

// Slots is the number of gangs of so many GPUs that could run at once, each on
// a single node of a type, if they had all devices that are shared. Call it
// only when a round begins.
func (r *Round) Slots(t cluster.TypeID, gpus int) int { return slots(r.nodes.shared[t], gpus) }

// Apart is the speed at which the scheduler believes that a job runs on a type
// if it may be spread over nodes. It equals Speed if the job has one GPU, if no
// node could hold the job, or if spreading does not slow it down.
func (r *Round) Apart(j sched.Job, t cluster.TypeID) float64 {
	s := r.Speed(j, t)
	if s == 0 || j.GPUs() <= 1 || j.GPUs() > r.nodeGPUs(j, t) {
		return s
	}
	return min(s, r.View.TypeSpeed(j, t, tasksOf(j), true))
}

// room tells whether nodes have room for one more gang of so many GPUs beside
// those that were served. A gang of m times s GPUs counts as m gangs of s GPUs.
// Gangs that fit always have room. Gangs that have room also fit if each size
// is a multiple of the next smaller one.
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

// take notes that a gang for which there was room was served.
func (n *nodes) take(t cluster.TypeID, gpus int) {
	for i := range n.taken[t] {
		if k := &n.taken[t][i]; k.gpus == gpus {
			k.gangs++
		}
	}
}

// ServeTogether is Serve on devices of a single node. It is also false if the
// gangs served this way leave no room on the nodes. Call it only when a round
// begins.
func (r *Round) ServeTogether(j sched.Job, t cluster.TypeID) bool {
	if !r.nodes.room(t, j.GPUs()) || !r.Serve(j, t) {
		return false
	}
	r.nodes.take(t, j.GPUs())
	r.picks[len(r.picks)-1].near = true
	return true
}
