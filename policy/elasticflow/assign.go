package elasticflow

import (
	"cmp"
	"slices"
	"time"

	"github.com/norn-scheduler/norn/cluster"
	"github.com/norn-scheduler/norn/cluster/unit"
	"github.com/norn-scheduler/norn/job"
	"github.com/norn-scheduler/norn/sched"
)

// divide gives those with promises what their schedules have for them now, and divides the rest.
// Jobs that have nothing come first: those with promises, then those that are late, by deadline,
// then those without a deadline.
func (r *round) divide() {
	for at := range r.lots {
		l := &r.lots[at]
		var all []*Share
		free := l.profile.Free(r.v.Now)
		for _, c := range r.order(at) {
			r.begin(c, &free)
			all = append(all, &c.Share)
		}
		Divide(max(0, free), all)
	}
}

// order lists the claimants of a lot in the order in which they get their first GPUs.
func (r *round) order(at int) (all []*claim) {
	for _, c := range r.claims {
		if c.lot == at {
			all = append(all, c)
		}
	}
	rank := func(c *claim) int {
		switch c.note.state {
		case promised:
			return 0
		case late:
			return 1
		}
		return 2
	}
	by := func(c *claim) time.Duration {
		if c.note.state == late {
			return c.j.Spec().Deadline
		}
		return 0
	}
	slices.SortStableFunc(all, func(a, b *claim) int { return cmp.Or(cmp.Compare(rank(a), rank(b)), cmp.Compare(by(a), by(b))) })
	return all
}

// begin sets the size from which a claimant may grow, and what it may grow to.
func (r *round) begin(c *claim, free *int) {
	tasks := 0
	if c.note.state == promised {
		tasks = c.note.plan.Now(r.v.Now)
	}
	if c.fixed {
		*free += c.size(tasks).GPUs // which its schedule has taken
		tasks = c.Tasks
		*free -= c.size(tasks).GPUs
	}
	c.Size = slices.IndexFunc(c.Sizes, func(s Size) bool { return s.Tasks == tasks })
	if c.Pause == 0 {
		return
	}
	if c.note.state == promised {
		c.May = func(s Size) bool { return r.affords(c, s) }
	}
	c.Wins = func(s Size) bool {
		if s.Tasks == c.Tasks || c.Size < 0 {
			return true
		}
		now := c.Sizes[c.Size].Speed
		return c.Left/now-c.Left/s.Speed > 2*c.Pause.Seconds()
	}
}

// affords tells whether a job ends in time that has another size now, even if it has to go back
// to its schedule as soon as it gets on, and both changes cost their pauses.
func (r *round) affords(c *claim, s Size) bool {
	w, from := c.Work, r.v.Now
	if s.Tasks != w.Tasks {
		w.Tasks, w.Busy, from = s.Tasks, 0, from+w.Pause
	}
	return c.note.plan.End(&w, from) <= c.due()
}

// carryOut places all at their sizes. A job that keeps its size keeps its GPUs, unless another
// would be slower for want of room on one node. Then all are placed anew, the largest first,
// which finds room for sizes that are powers of two.
func (r *round) carryOut() {
	if !r.p.Try(func() bool { return r.place(true) }) && !r.p.Try(func() bool { return r.place(false) }) {
		r.settle()
	}
	for _, j := range r.apart {
		r.startApart(j)
	}
	for _, c := range r.claims {
		if r.p.Alloc(c.j.ID) == nil {
			r.tell(c)
		}
	}
}

// place places all, and is false where somebody is spread that would be faster on one node, or
// finds nothing. keep: who keeps its size is placed first, where it is.
func (r *round) place(keep bool) bool {
	queue := r.queue()
	if keep {
		queue = slices.DeleteFunc(queue, func(c *claim) bool { return c.same() && r.putBack(c) })
	}
	for _, c := range queue {
		if c.same() && c.was.Nodes() <= r.nodes(c) && r.putBack(c) {
			continue
		}
		a, ok := r.find(c)
		if !ok || a.Nodes() > r.nodes(c) && r.slower(c) || !r.p.StartOn(c.j.ID, a) {
			return false
		}
	}
	return true
}

// settle places who finds room, where it is and at its size or a smaller one, or at last at its
// least size wherever there is room for all that it needs.
func (r *round) settle() {
	queue := slices.DeleteFunc(r.queue(), func(c *claim) bool { return c.same() && r.putBack(c) })
	for _, c := range queue {
		for ; c.Size >= 0; c.Size-- {
			if a, ok := r.find(c); ok && r.p.StartOn(c.j.ID, a) {
				break
			}
		}
		if c.Size < 0 {
			r.p.StartSize(c.j.ID, c.Sizes[0].Tasks, r.o.cfg.Place)
		}
	}
}

// queue lists who gets GPUs, the largest first.
func (r *round) queue() (all []*claim) {
	for _, c := range r.claims {
		if c.Size >= 0 && !c.fixed {
			all = append(all, c)
		}
	}
	slices.SortStableFunc(all, func(a, b *claim) int { return cmp.Compare(b.Sizes[b.Size].GPUs, a.Sizes[a.Size].GPUs) })
	return all
}

// same tells whether a claimant keeps its size.
func (c *claim) same() bool { return c.was != nil && c.Sizes[c.Size].Tasks == c.Tasks }

// putBack gives a claimant again what it had, if that is free.
func (r *round) putBack(c *claim) bool {
	cl := r.v.Cluster()
	mark := cl.Mark()
	ok := cl.Allocate(c.was) == nil
	cl.Undo(mark)
	return ok && r.p.StartOn(c.j.ID, c.was)
}

// nodes is the fewest nodes on which a claimant finds room at its size.
func (r *round) nodes(c *claim) int {
	each := max(1, r.lots[c.lot].node/c.each)
	return (c.Sizes[c.Size].Tasks + each - 1) / each
}

// slower tells whether a claimant is slower on several nodes than on one.
func (r *round) slower(c *claim) bool {
	t, tasks := r.lots[c.lot].typ, c.Sizes[c.Size].Tasks
	return r.v.TypeSpeed(c.j, t, tasks, true) < r.v.TypeSpeed(c.j, t, tasks, false)
}

// find finds GPUs for a claimant at its size: on one node, the one with the least room that
// suffices, or else on as few nodes as may be.
func (r *round) find(c *claim) (*cluster.Alloc, bool) {
	cl, role := r.v.Cluster(), &c.j.Spec().Demand.Roles[0]
	type spot struct {
		slot
		room int // tasks
	}
	var spots []spot
	for _, s := range r.lots[c.lot].slots {
		if n := cl.TasksBeside(s.node, role.CPU, role.Memory, cl.GroupFree(s.group)/c.each); n > 0 {
			spots = append(spots, spot{s, n})
		}
	}
	slices.SortStableFunc(spots, func(a, b spot) int { return cmp.Compare(b.room, a.room) })
	a, left := &cluster.Alloc{}, c.Sizes[c.Size].Tasks
	for len(spots) > 0 && left > 0 {
		i := len(spots) - 1 // the last that suffices, or the first
		for i > 0 && spots[i].room < left {
			i--
		}
		n := min(left, spots[i].room)
		shares := len(a.Shares)
		a.Shares = cl.AppendWhole(a.Shares, spots[i].group, n*c.each, role.GPUMemory)
		a.Pieces = append(a.Pieces, cluster.Piece{Node: spots[i].node, Tasks: int32(n), Shares: int32(len(a.Shares) - shares), CPU: role.CPU * unit.Milli(n), Memory: role.Memory * unit.Bytes(n)})
		spots, left = slices.Delete(spots, i, i+1), left-n
	}
	slices.SortFunc(a.Pieces, func(x, y cluster.Piece) int { return cmp.Compare(x.Node, y.Node) })
	slices.SortFunc(a.Shares, func(x, y cluster.Share) int { return cmp.Compare(x.Device, y.Device) })
	return a, left == 0
}

// startApart starts a job that will not be stopped, where the schedules leave it room until its
// end.
func (r *round) startApart(j sched.Job) {
	until := unit.Never
	if left, known := j.Remaining(); known {
		until = r.v.Now + left + pause(r.v.Costs, j.GPUs()) + 1
	}
	before := make([]int, len(r.lots)) // wholly free GPUs
	for i := range r.lots {
		before[i] = r.free(&r.lots[i])
	}
	started := false
	keeps := r.p.Try(func() bool {
		if started = r.p.StartSize(j.ID, int(j.Spec().Demand.Roles[0].Tasks), r.o.cfg.Place); !started || r.o.cfg.edf {
			return true // the reason is noted
		}
		for i := range r.lots {
			if used := before[i] - r.free(&r.lots[i]); used > 0 && used > r.lots[i].profile.Least(r.v.Now, until) {
				return false
			}
		}
		return true
	})
	if !keeps {
		r.p.Wait(j.ID, job.Reason{Code: job.Because, Job: job.None, Text: "it cannot be stopped once it runs, and jobs with deadlines need the GPUs before it would end"})
		return
	}
	for i := range r.lots {
		if l := &r.lots[i]; started {
			l.profile.Take(r.v.Now, until, before[i]-r.free(l))
		}
	}
}

// free is the wholly free GPUs of a lot as the plan stands.
func (r *round) free(l *lot) (n int) {
	for _, s := range l.slots {
		n += r.v.Cluster().GroupFree(s.group)
	}
	return n
}

// tell tells a claimant that has nothing what it waits for.
func (r *round) tell(c *claim) {
	if r.o.cfg.edf {
		r.p.Wait(c.j.ID, job.Reason{Code: job.Because, Job: job.None, Text: "jobs with earlier deadlines have the GPUs"})
		return
	}
	text := "jobs with deadlines and earlier ones have the GPUs"
	if c.note.state == promised {
		spec := c.j.Spec()
		start := c.note.plan.Start(r.v.Now)
		text = "it was admitted: it starts " + unit.Human(start-spec.Submit) + " after its submission at the latest, to end " +
			unit.Human(spec.Deadline-max(c.end, r.v.Now)) + " before its deadline"
	}
	r.p.Wait(c.j.ID, job.Reason{Code: job.Because, Job: job.None, Text: text})
}
