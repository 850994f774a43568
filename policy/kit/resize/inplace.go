package resize

import (
	"slices"

	"github.com/norn-scheduler/norn/cluster"
	"github.com/norn-scheduler/norn/cluster/unit"
	"github.com/norn-scheduler/norn/job"
	"github.com/norn-scheduler/norn/sched"
)

// Seat is a number of tasks of a gang on one node.
type Seat struct {
	Node  cluster.NodeID
	Group cluster.GroupID // its devices there; unused where tasks are only taken away
	Tasks int
}

// Whole tells whether a gang is tasks of one role with whole GPUs, which may be anywhere on the
// nodes of its scope: then a policy may place task by task.
func Whole(d *job.Demand) bool {
	r := &d.Roles[0]
	return d.Roles[1].Tasks == 0 && r.GPU >= unit.One && r.GPU%unit.One == 0 && r.Slots == "" && (d.Within == "" || d.Prefer)
}

// Accepts tells whether workers of a job may have devices of a group. Devices that are only
// counted are left out.
func Accepts(v *sched.View, j sched.Job, group cluster.GroupID) bool {
	c, class := v.Cluster(), v.Class(j.Class())
	t := c.GroupType(group)
	return !class.NoType && !c.GroupPooled(group) && !c.Type(t).Host && (class.Mask == 0 || class.Mask&(1<<t) != 0)
}

// Room is how many tasks of a job fit into a group of devices of a node as the plan stands.
func Room(v *sched.View, j sched.Job, node cluster.NodeID, group cluster.GroupID) int {
	c, role := v.Cluster(), &j.Spec().Demand.Roles[0]
	if !c.Usable(node) || !Accepts(v, j, group) {
		return 0
	}
	return c.TasksBeside(node, role.CPU, role.Memory, c.GroupFree(group)/int(role.GPU/unit.One))
}

// Place starts a waiting gang (see Whole) with the given tasks, on devices that are free there.
func Place(v *sched.View, p *sched.Plan, j sched.Job, seats []Seat) bool {
	return p.StartOn(j.ID, grown(v, j, &cluster.Alloc{}, seats))
}

// Grow gives a running gang (see Whole) further tasks in place, on devices that are free. It
// keeps all that it has.
func Grow(v *sched.View, p *sched.Plan, j sched.Job, seats []Seat) bool {
	return become(p, j.ID, grown(v, j, p.Alloc(j.ID), seats))
}

// Shrink takes tasks of the first role of a running gang away in place, the last ones on each of
// the nodes. All that it keeps stays where it is.
func Shrink(p *sched.Plan, id job.ID, seats []Seat) bool {
	var a cluster.Alloc
	was, next := p.Alloc(id), int32(0)
	for i := range was.Pieces {
		piece := was.Pieces[i]
		shares := was.Shares[next : next+piece.Shares]
		next += piece.Shares
		for _, s := range seats {
			if s.Node == piece.Node && piece.Role == 0 {
				left := piece.Tasks - int32(s.Tasks)
				piece.CPU = piece.CPU / unit.Milli(piece.Tasks) * unit.Milli(left)
				piece.Memory = piece.Memory / unit.Bytes(piece.Tasks) * unit.Bytes(left)
				piece.Shares = piece.Shares / piece.Tasks * left
				piece.Tasks = left
			}
		}
		if piece.Tasks > 0 {
			a.Pieces = append(a.Pieces, piece)
			a.Shares = append(a.Shares, shares[:piece.Shares]...)
		}
	}
	return become(p, id, &a)
}

// become gives a running gang another allocation at once.
func become(p *sched.Plan, id job.ID, a *cluster.Alloc) bool {
	return p.Try(func() bool {
		return p.Stop(id, job.Reason{Code: job.Resized, Need: int32(a.Tasks(0)), Job: job.None}) && p.StartOn(id, a)
	})
}

// grown is an allocation with further tasks. One on a node that it is on already stands with
// those that are there.
func grown(v *sched.View, j sched.Job, was *cluster.Alloc, seats []Seat) *cluster.Alloc {
	role, c := &j.Spec().Demand.Roles[0], v.Cluster()
	var out cluster.Alloc
	next := int32(0)
	add := func(piece *cluster.Piece, group cluster.GroupID, tasks int) {
		before := len(out.Shares)
		out.Shares = c.AppendWhole(out.Shares, group, tasks*int(role.GPU/unit.One), role.GPUMemory)
		piece.Tasks += int32(tasks)
		piece.Shares += int32(len(out.Shares) - before)
		piece.CPU += role.CPU * unit.Milli(tasks)
		piece.Memory += role.Memory * unit.Bytes(tasks)
	}
	for i := range was.Pieces {
		piece := was.Pieces[i]
		out.Shares = append(out.Shares, was.Shares[next:next+piece.Shares]...)
		next += piece.Shares
		for _, s := range seats {
			if s.Node == piece.Node {
				add(&piece, s.Group, s.Tasks)
			}
		}
		out.Pieces = append(out.Pieces, piece)
	}
	for _, s := range seats {
		if !slices.ContainsFunc(out.Pieces, func(p cluster.Piece) bool { return p.Node == s.Node }) {
			piece := cluster.Piece{Node: s.Node}
			add(&piece, s.Group, s.Tasks)
			out.Pieces = append(out.Pieces, piece)
		}
	}
	return &out
}

// Divides tells whether tasks of a running gang may join and leave: it keeps its work at another
// size, and has all of each device that it asks for. These work, and are told apart.
func Divides(v *sched.View, j sched.Job) bool {
	a, d, c := v.Alloc(j.ID), j.Spec().Demand, v.Cluster()
	return Whole(d) && j.Phase() == job.Running && !j.Profiling() && keeps(j.Spec()) && a.Milli() == d.Milli(int32(a.Tasks(0))) &&
		c.UsableDevices(a) == len(a.Shares) && !c.GroupPooled(c.GroupOf(a.Shares[0].Device))
}

// keeps tells whether a job keeps its work at another size: it saves its state when it is told
// to stop, its tasks join and leave while others go on, or its workers take turns.
func keeps(j *job.Job) bool {
	return j.Stop == job.Checkpoint || j.Resize != job.ByRestart && j.Stop != job.Pinned
}
