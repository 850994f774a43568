package easyscale

import (
	"cmp"
	"slices"

	"github.com/norn-scheduler/norn/cluster"
	"github.com/norn-scheduler/norn/cluster/unit"
	"github.com/norn-scheduler/norn/job"
	"github.com/norn-scheduler/norn/perf"
	"github.com/norn-scheduler/norn/policy/kit/resize"
	"github.com/norn-scheduler/norn/sched"
)

// holder is a running job whose tasks may join and leave.
type holder struct {
	j       sched.Job
	note    note
	has     []perf.TypeTasks
	largest int  // GPUs of the largest node on which it may run
	served  bool // it was given or gave back something in this round
}

// tasks is how many tasks it has.
func (h *holder) tasks() (n int) {
	for _, x := range h.has {
		n += x.Tasks
	}
	return n
}

// round is what is decided of a pool at one moment.
type round struct {
	o       *policy
	v       *sched.View
	p       *sched.Plan
	pool    cluster.PoolID
	holders []*holder
	wanted  map[cluster.NodeID]bool // nodes that are wanted back: nothing more goes there
	rooms   map[int32][]int         // by class and GPU type: tasks for which there is room before anything is granted
}

func newRound(o *policy, v *sched.View, p *sched.Plan, pool cluster.PoolID) *round {
	r := &round{o: o, v: v, p: p, pool: pool, wanted: map[cluster.NodeID]bool{}, rooms: map[int32][]int{}}
	c := v.Cluster()
	for _, recall := range v.Recalls() {
		for _, id := range c.PoolNodes(pool) {
			r.wanted[id] = r.wanted[id] || c.Node(id).Lender() == recall.Lender
		}
	}
	for j := range v.Running() {
		if j.Pool() == pool && resize.Divides(v, j) && j.Ready() < v.Now {
			h := &holder{j: j, has: perf.TasksOn(c, v.Alloc(j.ID)), largest: resize.LargestNode(v, j)}
			h.note, _ = sched.Recall[note](j)
			r.holders = append(r.holders, h)
		}
	}
	return r
}

// speed is what is believed of a job with so many tasks on each GPU type, and the part of the GPUs
// that it does not use.
func (r *round) speed(h *holder, has []perf.TypeTasks) (speed, waste float64) {
	role := &h.j.Spec().Demand.Roles[0]
	tasks := 0
	for _, x := range has {
		tasks += x.Tasks
	}
	spread := tasks*int(role.GPU/unit.One) > h.largest
	switch {
	case len(has) == 0:
		return 0, 0
	case len(has) == 1:
		return r.v.TypeSpeed(h.j, has[0].Type, tasks, spread), 0
	}
	all := make([]perf.GPUsOf, len(has))
	for i, x := range has {
		all[i] = perf.GPUsOf{GPUs: x.Tasks, Speed: r.v.TypeSpeed(h.j, x.Type, int(role.Tasks), spread)}
	}
	s := perf.Slice(int(role.Tasks), all)
	return s.Speed(), s.Waste
}

// settle judges the latest grants: who is not faster gives back what was granted. And who has GPUs on
// which no worker has a turn leaves them.
func (r *round) settle() {
	for _, h := range r.holders {
		if h.note.on != "" {
			if t, known := r.v.Cluster().TypeByName(h.note.on); known && h.j.Speed() <= h.note.before && r.leave(h, t, h.note.added) {
				h.note.most = h.tasks()
			}
			h.note = note{most: h.note.most}
			sched.Remember(r.p, h.j.ID, h.note)
		}
		for !h.served && len(h.has) > 1 && h.j.Spec().Resize == job.TimeSliced && r.trim(h) {
		}
	}
}

// trim has a job leave all GPUs of a type on which no worker has a turn.
func (r *round) trim(h *holder) bool {
	now, _ := r.speed(h, h.has)
	for i, x := range h.has {
		without := slices.Delete(slices.Clone(h.has), i, i+1)
		if s, _ := r.speed(h, without); s >= now && r.leave(h, x.Type, x.Tasks) {
			return true
		}
	}
	return false
}

// leave takes so many tasks of a job off GPUs of a type, from its last node on. It does nothing if
// too few would be left.
func (r *round) leave(h *holder, t cluster.TypeID, tasks int) bool {
	least, _ := h.j.Spec().Demand.Roles[0].Range()
	a := r.v.Alloc(h.j.ID)
	if h.tasks()-tasks < max(1, int(least)) {
		return false
	}
	var seats []resize.Seat
	next, left := len(a.Shares), tasks
	for i := len(a.Pieces) - 1; i >= 0 && left > 0; i-- {
		piece := a.Pieces[i]
		mine := a.Shares[next-int(piece.Shares) : next]
		next -= int(piece.Shares)
		each, n := max(1, len(mine)/int(max(1, piece.Tasks))), 0
		for k := len(mine) - each; k >= 0 && n < left && r.v.Cluster().TypeOf(mine[k].Device) == t; k -= each {
			n++
		}
		if n > 0 {
			seats, left = append(seats, resize.Seat{Node: piece.Node, Tasks: n}), left-n
		}
	}
	if left > 0 || !resize.Shrink(r.p, h.j.ID, seats) {
		return false
	}
	h.has, h.served = perf.TasksOn(r.v.Cluster(), r.p.Alloc(h.j.ID)), true
	return true
}

// start starts waiting jobs, in order of submission, each on the fewest GPUs on which it can run, of
// the fastest type of which there are enough. One that finds no room is passed over.
func (r *round) start() {
	var reasons resize.Reasons
	for j := range r.v.Waiting() {
		if j.Pool() != r.pool {
			continue
		}
		if old, _ := sched.Recall[note](j); old != (note{}) {
			r.p.Forget(j.ID)
		}
		d := j.Spec().Demand
		least, _ := d.Roles[0].Range()
		switch why := resize.Never(r.v, r.p, j, r.o.cfg.Place); {
		case why.Code != job.NoReason:
			r.p.Wait(j.ID, why)
		case !d.Elastic() || !resize.Whole(d) || r.v.PinnedPlace(j.ID) != nil:
			r.p.Start(j.ID, r.o.cfg.Place)
		case !r.begin(j, int(least)) && !r.p.StartSize(j.ID, int(least), r.o.cfg.Place):
			reasons.Hold(r.p, j, r.o.cfg.Place, "waits for a GPU; jobs that have some keep them")
		}
	}
}

// begin starts a job on the fastest GPU type that has room for so many tasks.
func (r *round) begin(j sched.Job, tasks int) bool {
	for _, t := range r.types(j) {
		if seats := r.seats(j, t, tasks); seats != nil {
			return resize.Place(r.v, r.p, j, seats)
		}
	}
	return false
}

// types are the GPU types on which a job can run, the fastest first.
func (r *round) types(j sched.Job) (out []cluster.TypeID) {
	c, tasks, scope := r.v.Cluster(), int(j.Spec().Demand.Roles[0].Tasks), r.v.Scope(j)
	speed := func(t cluster.TypeID) float64 { return r.v.TypeSpeed(j, t, tasks, false) }
	for t := range cluster.TypeID(c.Types()) {
		if !c.Type(t).Host && speed(t) > 0 && c.TotalGPUs(scope, 1<<t) > 0 {
			out = append(out, t)
		}
	}
	slices.SortStableFunc(out, func(a, b cluster.TypeID) int { return cmp.Compare(speed(b), speed(a)) })
	return out
}

// proposal is more tasks of one type for a job.
type proposal struct {
	h     *holder
	on    cluster.TypeID
	tasks int
	gain  float64 // for each GPU
}

// grow grants proposals, those with the largest gain first, of equal ones the larger; one for each job.
func (r *round) grow() {
	var all []proposal
	for _, h := range r.holders {
		all = append(all, r.propose(h)...)
	}
	slices.SortStableFunc(all, func(a, b proposal) int {
		return cmp.Or(cmp.Compare(b.gain, a.gain), cmp.Compare(b.tasks, a.tasks), cmp.Compare(a.h.j.ID, b.h.j.ID))
	})
	for _, x := range all {
		if x.h.served {
			continue
		}
		seats := r.seats(x.h.j, x.on, x.tasks)
		if x.h.served = seats != nil && resize.Grow(r.v, r.p, x.h.j, seats); x.h.served {
			sched.Remember(r.p, x.h.j.ID, note{on: r.v.Cluster().Type(x.on).Name, added: x.tasks, before: x.h.j.Speed(), most: x.h.note.most})
		}
	}
}

// propose is the proposals of a job: of each GPU type the one with the largest gain, as far as there
// is room, up to twice what it has.
func (r *round) propose(h *holder) (out []proposal) {
	role := &h.j.Spec().Demand.Roles[0]
	_, most := role.Range()
	has := h.tasks()
	if h.note.most > 0 {
		most = min(most, int32(h.note.most))
	}
	now, _ := r.speed(h, h.has)
	if has >= int(most) || h.served || now <= 0 {
		return nil
	}
	mixes := r.o.cfg.Mix && h.j.Spec().Resize == job.TimeSliced
	for _, t := range r.types(h.j) {
		if !mixes && t != h.has[0].Type {
			continue
		}
		best := proposal{h: h, on: t}
		for n := 1; n <= min(has, int(most)-has, r.room(h.j, t)); n++ {
			next, waste := r.speed(h, more(h.has, t, n))
			gain := (next/now - 1) / float64(n*int(role.GPU/unit.One))
			if gain > 0 && waste <= r.o.cfg.Waste && gain >= best.gain {
				best.tasks, best.gain = n, gain
			}
		}
		if best.tasks > 0 {
			out = append(out, best)
		}
	}
	return out
}

// more is what a job has with so many more tasks of a type.
func more(has []perf.TypeTasks, t cluster.TypeID, n int) []perf.TypeTasks {
	out := slices.Clone(has)
	for i := range out {
		if out[i].Type == t {
			out[i].Tasks += n
			return out
		}
	}
	return append(out, perf.TypeTasks{Type: t, Tasks: n})
}

// room is for how many tasks of a job there is room on GPUs of a type, before anything is granted to
// running jobs.
func (r *round) room(j sched.Job, t cluster.TypeID) int {
	rooms := r.rooms[j.Class()]
	if rooms == nil {
		rooms = make([]int, r.v.Cluster().Types())
		r.each(j, func(s resize.Seat) { rooms[r.v.Cluster().GroupType(s.Group)] += s.Tasks })
		r.rooms[j.Class()] = rooms
	}
	return rooms[t]
}

// each visits the groups of devices on which there is room for tasks of a job.
func (r *round) each(j sched.Job, visit func(resize.Seat)) {
	c, scope := r.v.Cluster(), r.v.Scope(j)
	for _, id := range c.PoolNodes(scope) {
		if r.wanted[id] || !c.In(id, scope) {
			continue
		}
		for _, g := range c.NodeGroups(id) {
			if n := resize.Room(r.v, j, id, g); n > 0 {
				visit(resize.Seat{Node: id, Group: g, Tasks: n})
			}
		}
	}
}

// seats finds places for so many tasks of a job on GPUs of a type: on nodes where it is, then on the
// fullest node that has room for all that are left, then where there is most room. It is nil where
// there is not enough.
func (r *round) seats(j sched.Job, t cluster.TypeID, tasks int) (out []resize.Seat) {
	var rooms []resize.Seat
	r.each(j, func(s resize.Seat) {
		if r.v.Cluster().GroupType(s.Group) == t {
			rooms = append(rooms, s)
		}
	})
	on := map[cluster.NodeID]bool{}
	if a := r.p.Alloc(j.ID); a != nil {
		for i := range a.Pieces {
			on[a.Pieces[i].Node] = true
		}
	}
	for tasks > 0 {
		best := -1
		for i := range rooms {
			if rooms[i].Tasks > 0 && (best < 0 || better(&rooms[i], &rooms[best], on, tasks)) {
				best = i
			}
		}
		if best < 0 {
			return nil
		}
		s := rooms[best]
		rooms[best].Tasks = 0
		s.Tasks = min(s.Tasks, tasks)
		tasks -= s.Tasks
		out = append(out, s)
	}
	return out
}

// better tells whether a is a better place than b for so many tasks of a job that is on some nodes.
func better(a, b *resize.Seat, on map[cluster.NodeID]bool, tasks int) bool {
	if on[a.Node] != on[b.Node] {
		return on[a.Node]
	}
	if whole, also := a.Tasks >= tasks, b.Tasks >= tasks; whole != also {
		return whole
	} else if whole {
		return a.Tasks < b.Tasks
	}
	return a.Tasks > b.Tasks
}
