package lyra

import (
	"cmp"
	"slices"
	"time"

	"github.com/norn-scheduler/norn/cluster"
	"github.com/norn-scheduler/norn/cluster/unit"
	"github.com/norn-scheduler/norn/job"
	"github.com/norn-scheduler/norn/place"
	"github.com/norn-scheduler/norn/policy/kit/resize"
	"github.com/norn-scheduler/norn/sched"
)

// The sides.
const (
	own = iota
	lent
	sides
)

// decision is what is decided of a pool at one moment.
type decision struct {
	o    *policy
	v    *sched.View
	p    *sched.Plan
	pool cluster.PoolID

	nodes   []node
	at      map[cluster.NodeID]int // their places in nodes
	running []*holder
	off     map[job.ID]bool // preempted at this moment
}

// node is a usable node.
type node struct {
	id     cluster.NodeID
	side   int
	closed bool // it is given back
	base   int  // pieces there that have base workers
	on     []*holder
}

// holder is a running job that may change its size in place, or one that cannot.
type holder struct {
	j    sched.Job
	base int // its first workers, that it keeps; all of them where it cannot change
	most int
	each int // GPUs of a worker
	side int
}

// gather lists nodes and who holds them.
func (o *policy) gather(v *sched.View, p *sched.Plan, pool cluster.PoolID) *decision {
	r := &decision{o: o, v: v, p: p, pool: pool, at: map[cluster.NodeID]int{}, off: map[job.ID]bool{}}
	c := v.Cluster()
	for _, id := range c.PoolNodes(pool) {
		if !c.Usable(id) {
			continue
		}
		n := node{id: id}
		if c.Node(id).Lender() != "" {
			n.side, n.closed = lent, !o.cfg.Loaning
		}
		r.at[id] = len(r.nodes)
		r.nodes = append(r.nodes, n)
	}
	for j := range v.Running() {
		if j.Pool() != pool {
			continue
		}
		h := r.holder(j)
		r.running = append(r.running, h)
		left := h.base
		for _, piece := range v.Alloc(j.ID).Pieces {
			if i, there := r.at[piece.Node]; there {
				n := &r.nodes[i]
				if n.on = append(n.on, h); left > 0 {
					n.base++
				}
				h.side = n.side
			}
			left -= int(piece.Tasks)
		}
	}
	return r
}

// holder tells what may become of a running job.
func (r *decision) holder(j sched.Job) *holder {
	a, d := r.v.Alloc(j.ID), &j.Spec().Demand.Roles[0]
	h := &holder{j: j, base: a.Tasks(0), most: a.Tasks(0), each: max(1, int(d.GPU/unit.One))}
	if least, most := d.Range(); r.o.cfg.Scaling && resize.Divides(r.v, j) {
		h.base, h.most = min(int(least), h.base), int(most)
	}
	return h
}

// flexible is how many flexible workers a job has on a node as the plan stands.
func (r *decision) flexible(h *holder, id cluster.NodeID) int {
	a := r.p.Alloc(h.j.ID)
	if a == nil || h.most <= h.base {
		return 0
	}
	before := 0
	for _, piece := range a.Pieces {
		if piece.Node == id {
			return max(0, int(piece.Tasks)-max(0, h.base-before))
		}
		before += int(piece.Tasks)
	}
	return 0
}

// shrink takes flexible workers of a job off a node.
func (r *decision) shrink(h *holder, id cluster.NodeID, workers int) bool {
	return resize.Shrink(r.p, h.j.ID, []resize.Seat{{Node: id, Tasks: workers}})
}

// claim is a waiting job.
type claim struct {
	j     sched.Job
	tasks int // base workers
	left  time.Duration
}

// admit starts base workers, the shortest job first; one that does not fit is passed over.
// Flexible workers make room where they have to.
func (r *decision) admit() {
	var claims []claim
	for j := range r.v.Waiting() {
		if j.Pool() != r.pool || r.off[j.ID] {
			continue
		}
		d := &j.Spec().Demand.Roles[0]
		cl := claim{j: j, tasks: int(d.Tasks), left: time.Hour}
		if d, known := j.Remaining(); known {
			cl.left = d
		}
		if least, most := d.Range(); r.o.cfg.Scaling && least < most && resize.Whole(j.Spec().Demand) {
			cl.tasks = int(least)
			cl.left = time.Duration(float64(cl.left) * float64(d.Tasks) / float64(least))
		}
		claims = append(claims, cl)
	}
	slices.SortStableFunc(claims, func(a, b claim) int { return cmp.Compare(a.left, b.left) })
	failed := map[failure]bool{} // nothing becomes free in the meantime
	for i := range claims {
		cl := &claims[i]
		what := failure{cl.j.Class(), cl.tasks}
		if failed[what] || !r.start(cl) {
			failed[what] = true
			r.tell(cl)
		}
	}
}

// failure is a size of a class that finds no room.
type failure struct {
	class int32
	tasks int
}

// tell tells a job why it waits.
func (r *decision) tell(cl *claim) {
	if cl.j.Reason().Never() && !sched.Revived(r.v, r.p, cl.j, place.Pack) {
		return
	}
	if why := resize.Never(r.v, r.p, cl.j, place.Pack); why.Code != job.NoReason {
		r.p.Wait(cl.j.ID, why)
		return
	}
	need := cl.j.Spec().Demand.GPUsAt(int32(cl.tasks))
	free := r.v.Cluster().FreeGPUs(r.v.Scope(cl.j), r.v.Class(cl.j.Class()).Mask)
	r.p.Wait(cl.j.ID, job.Reason{Code: job.NeedGPUs, Need: int32(need), Have: int32(free), Job: job.None})
}

// start starts the base workers of a job on the side that it prefers, or on the other one.
func (r *decision) start(cl *claim) bool {
	if !resize.Whole(cl.j.Spec().Demand) || r.v.PinnedPlace(cl.j.ID) != nil {
		return r.startAnywhere(cl)
	}
	prefers := own
	if least, most := cl.j.Spec().Demand.Roles[0].Range(); r.o.cfg.Separate && r.o.cfg.Scaling && least < most {
		prefers = lent
	}
	for _, clearing := range [...]bool{false, true} {
		for _, side := range [...]int{prefers, 1 - prefers} {
			if r.p.Try(func() bool { return r.startOn(cl, side, clearing) }) {
				return true
			}
		}
	}
	return r.plainly(cl)
}

// startAnywhere starts a job that cannot be placed worker by worker. If it finds no room as it
// is, flexible workers leave, the latest job's first.
func (r *decision) startAnywhere(cl *claim) bool {
	if r.plainly(cl) {
		return true
	}
	return r.p.Try(func() bool {
		for i := len(r.running) - 1; i >= 0; i-- {
			h, some := r.running[i], false
			for n := range r.nodes {
				if k := r.flexible(h, r.nodes[n].id); k > 0 && r.shrink(h, r.nodes[n].id, k) {
					some = true
				}
			}
			if some && r.plainly(cl) {
				return true
			}
		}
		return false
	})
}

// plainly starts a job wherever it fits, but not on nodes that are given back.
func (r *decision) plainly(cl *claim) bool {
	return r.p.Try(func() bool {
		return r.p.StartSize(cl.j.ID, cl.tasks, place.Pack) && !slices.ContainsFunc(r.p.Alloc(cl.j.ID).Pieces, func(p cluster.Piece) bool {
			return slices.ContainsFunc(r.nodes, func(n node) bool { return n.closed && n.id == p.Node })
		})
	})
}

// startOn starts the base workers of a job on one side. They stay together where that is
// possible. With clearing, flexible workers leave where they are in the way.
func (r *decision) startOn(cl *claim, side int, clearing bool) bool {
	var seats []resize.Seat
	for left := cl.tasks; left > 0; {
		seat, ok := r.seat(cl, side, left, seats, clearing)
		if !ok {
			return false
		}
		seats = append(seats, seat)
		left -= seat.Tasks
	}
	if !resize.Place(r.v, r.p, cl.j, seats) {
		return false
	}
	for _, s := range seats {
		r.nodes[r.at[s.Node]].base++
	}
	d := &cl.j.Spec().Demand.Roles[0]
	if _, most := d.Range(); r.o.cfg.Scaling && int(most) > cl.tasks {
		r.running = append(r.running, &holder{j: cl.j, base: cl.tasks, most: int(most), each: int(d.GPU / unit.One), side: side})
	}
	return true
}

// spot is a group of devices on which workers of a job might be.
type spot struct {
	resize.Seat
	room  int // workers for which there is room
	leave int // GPUs of flexible workers that have to leave for the Tasks of the seat
}

// before tells whether a spot is better for so many workers: one that takes all of them, where
// the fewest flexible workers have to leave, and of these the fullest. Where none takes all, the
// one that takes most.
func (s *spot) before(t *spot, workers int) bool {
	all, other := s.room >= workers, t.room >= workers
	switch {
	case all != other:
		return all
	case all && s.leave != t.leave:
		return s.leave < t.leave
	case all:
		return s.room < t.room
	case s.room != t.room:
		return s.room > t.room
	}
	return s.leave < t.leave
}

// seat finds a node for some of the workers of a job that has seats already. The nodes of these
// are left out.
func (r *decision) seat(cl *claim, side, workers int, taken []resize.Seat, clearing bool) (resize.Seat, bool) {
	var best spot
	each := int(cl.j.Spec().Demand.Roles[0].GPU / unit.One)
	c, scope := r.v.Cluster(), r.v.Scope(cl.j)
	for i := range r.nodes {
		n := &r.nodes[i]
		if n.side != side || n.closed || !c.In(n.id, scope) || slices.ContainsFunc(taken, func(s resize.Seat) bool { return s.Node == n.id }) {
			continue
		}
		for _, g := range c.NodeGroups(n.id) {
			s := spot{room: resize.Room(r.v, cl.j, n.id, g)}
			if clearing && s.room < workers && resize.Accepts(r.v, cl.j, g) {
				s.room = max(s.room, (c.GroupFree(g)+r.inTheWay(n, g))/each)
			}
			if s.room == 0 {
				continue
			}
			s.Seat = resize.Seat{Node: n.id, Group: g, Tasks: min(s.room, workers)}
			s.leave = max(0, s.Tasks*each-c.GroupFree(g))
			if best.room == 0 || s.before(&best, workers) {
				best = s
			}
		}
	}
	if best.room == 0 || clearing && !r.clear(&best, each, cl) {
		return best.Seat, false
	}
	return best.Seat, true
}

// inTheWay is how many GPUs of a group flexible workers have.
func (r *decision) inTheWay(n *node, g cluster.GroupID) (gpus int) {
	for _, h := range n.on {
		if k := r.flexible(h, n.id); k > 0 && r.of(h, g) {
			gpus += k * h.each
		}
	}
	return gpus
}

// of tells whether a job has devices of a group.
func (r *decision) of(h *holder, g cluster.GroupID) bool {
	a := r.p.Alloc(h.j.ID)
	return a != nil && slices.ContainsFunc(a.Shares, func(s cluster.Share) bool { return r.v.Cluster().GroupOf(s.Device) == g })
}

// clear has flexible workers leave a spot until there is room for the tasks of its seat, those of
// the latest job first.
func (r *decision) clear(s *spot, each int, cl *claim) bool {
	n, c := &r.nodes[r.at[s.Node]], r.v.Cluster()
	for k := len(n.on) - 1; k >= 0; k-- {
		h := n.on[k]
		short := s.Tasks*each - c.GroupFree(s.Group)
		if short <= 0 {
			break
		}
		if workers := min(r.flexible(h, n.id), (short+h.each-1)/h.each); workers > 0 && r.of(h, s.Group) {
			r.shrink(h, n.id, workers)
		}
	}
	return resize.Room(r.v, cl.j, s.Node, s.Group) >= s.Tasks
}
