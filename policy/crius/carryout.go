package crius

import (
	"cmp"
	"slices"

	"github.com/norn-scheduler/norn/cluster"
	"github.com/norn-scheduler/norn/cluster/unit"
	"github.com/norn-scheduler/norn/job"
	"github.com/norn-scheduler/norn/policy/kit/resize"
)

// mostRestarts is how often the queue is gone through from its head again after jobs were suspended.
const mostRestarts = 100

// kindOfJob is what jobs have in common of which one finds no room if another one did not.
type kindOfJob struct {
	class int32
	model string
	batch int
	asks  cell
}

// serve fits in the jobs that wait, in order of submission. Where one finds no room otherwise, it may
// have the GPUs of jobs that were submitted after it, which are suspended then.
func (r *round) serve() {
	failed := map[kindOfJob]bool{}
	blocked := map[cluster.TypeID]bool{}
	restarts := 0
	for i := 0; i < len(r.members); i++ {
		m := &r.members[i]
		key := kindOfJob{m.j.Class(), m.j.Spec().Model, m.j.Spec().Batch, m.asks}
		if r.holds[i] != nil || failed[key] || blocked[m.asks.typ] {
			continue
		}
		fits, suspended := r.fit(i), 0
		if !fits {
			fits, suspended = r.fitBefore(i)
		}
		if !fits {
			failed[key], blocked[m.asks.typ] = true, !r.cfg.Overtake
		}
		if suspended > 0 && restarts < mostRestarts { // somebody may have left more than was needed
			restarts++
			clear(failed)
			i = -1
		}
	}
}

// fitBefore fits a member in as if those behind it had nothing. Then they have again what is left of
// it; suspended are those of whom that is not so.
func (r *round) fitBefore(i int) (ok bool, suspended int) {
	mark := len(r.log)
	var behind []change
	for k := i + 1; k < len(r.members); k++ {
		if h := r.holds[k]; h != nil {
			behind = append(behind, change{k, h})
			r.set(k, nil)
		}
	}
	if len(behind) == 0 || !r.fit(i) {
		r.undo(mark)
		return false, 0
	}
	for _, c := range behind {
		if r.fits(c.member, c.hold) {
			r.set(c.member, c.hold)
		} else {
			suspended++
		}
	}
	return true, suspended
}

// carryOut puts into the plan what the ledger says. A job that keeps its cell keeps its GPUs, if all
// others find their cells all the same. It tells whether all jobs have what they had, and no other has
// yet to be looked at.
func (r *round) carryOut() (same bool) {
	r.settle()
	same = !r.later
	for i := range r.members {
		if m := &r.members[i]; m.was != nil && r.holds[i] == m.was {
			r.start(m.j.ID, m.alloc)
		}
	}
	for i := range r.members {
		m, h := &r.members[i], r.holds[i]
		same = same && h == m.was
		switch {
		case h != nil && h == m.was:
		case h != nil && r.start(m.j.ID, r.alloc(m, h)):
		case h != nil: // something beside the GPUs is short
			if m.was == nil || !r.start(m.j.ID, m.alloc) {
				r.p.StartSize(m.j.ID, h.tasks, r.cfg.Place)
			}
		case m.was == nil || !r.p.StartSize(m.j.ID, m.asks.tasks, r.cfg.Place):
			r.whys.Hold(r.p, m.j, r.cfg.Place, "it finds no GPUs, and nobody makes room for it")
		}
	}
	return same
}

// start starts a job on devices, if all that it needs is free there, beside the GPUs, too.
func (r *round) start(id job.ID, a *cluster.Alloc) bool {
	return a != nil && resize.Free(r.v.Cluster(), a) && r.p.StartOn(id, a)
}

// settle gives jobs that have the same cell as before, on as many nodes, the GPUs that they had, if
// the others find room all the same.
func (r *round) settle() {
	var back, rest []change
	for i, h := range r.holds {
		switch was := r.members[i].was; {
		case h == was || h == nil:
		case was != nil && h.cell == was.cell && len(h.spots) == len(was.spots):
			back = append(back, change{i, was})
		default:
			rest = append(rest, change{i, h})
		}
	}
	if len(back) == 0 {
		return
	}
	mark := len(r.log)
	for _, c := range slices.Concat(back, rest) {
		r.set(c.member, nil)
	}
	for _, c := range back {
		if !r.fits(c.member, c.hold) {
			r.undo(mark)
			return
		}
		r.set(c.member, c.hold)
	}
	slices.SortStableFunc(rest, func(a, b change) int {
		return cmp.Compare(b.hold.tasks*r.each[b.member], a.hold.tasks*r.each[a.member])
	})
	defer func(moves int) { r.moves = moves }(r.moves)
	r.moves = 0
	for _, c := range rest {
		h := c.hold
		if !r.fits(c.member, h) {
			if h = r.place(c.member, c.hold.cell); h == nil || len(h.spots) > len(c.hold.spots) {
				r.undo(mark)
				return
			}
		}
		r.set(c.member, h)
	}
}

// alloc is the GPUs of a hold; nil: somebody has them who found no others.
func (r *round) alloc(m *member, h *hold) *cluster.Alloc {
	var a cluster.Alloc
	c, role := r.v.Cluster(), &m.j.Spec().Demand.Roles[0]
	for _, s := range h.spots {
		g := r.nodes[s.node].group
		if c.GroupFree(g) < s.tasks*int(role.GPU/unit.One) {
			return nil
		}
		resize.AppendTasks(c, &a, g, role, s.tasks)
	}
	return &a
}
