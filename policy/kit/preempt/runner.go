package preempt

import (
	"slices"
	"time"

	"github.com/norn-scheduler/norn/cluster"
	"github.com/norn-scheduler/norn/cluster/unit"
	"github.com/norn-scheduler/norn/job"
	"github.com/norn-scheduler/norn/place"
	"github.com/norn-scheduler/norn/sched"
)

// Order gives each job its place in the order of a policy.
type Order interface {
	// Key is the place of an active job. It is on the scale of chosen jobs if
	// chosen is set, and on that of waiting jobs otherwise.
	Key(v *sched.View, j sched.Job, chosen bool) Key
	// Shift brings keys of waiting jobs onto the scale of chosen ones.
	Shift(v *sched.View) int64
}

// Policy is a preemptive policy over an Order. It follows the changes of the
// view, keeps the choice correct, and turns it into a plan.
//
// Sizes are in thousandths of a GPU, and the capacity is that of all usable
// GPUs of the view. Jobs on cordoned nodes or broken GPUs are left alone, and
// the usable GPUs that they have are not part of the capacity. A chosen job may
// find no place, for example because its strategy wants GPUs on one node. It
// keeps its claim and is tried again at every decision. A running job that must
// not be stopped, or that would lose its work, stays at the top.
//
// The choice is kept by repair (Selector) if the capacity is one number and the
// order of chosen jobs is constant. If jobs accept different GPU types, or if
// the order changes with time (Literal), a walk over the order makes the choice
// anew at every decision.
type Policy struct {
	Order   Order
	Place   func(j sched.Job) place.Strategy
	Literal bool
	Victims Victims

	sel        Selector
	walk       walker
	walks      bool     // the choice is made by walking
	classes    int      // number of classes whose GPU types were looked at
	unplaced   []job.ID // chosen, but without a place so far
	alone      []alone  // running, but left alone
	infeasible sched.Infeasible
	started    []job.ID      // jobs started by the last plan, whose keys are still guesses
	starts     []start       // starts of the present plan
	stops      []job.ID      // stops of the present plan
	unsaved    []job.ID      // running, and may have saved nothing yet
	spared     []job.ID      // running, though not chosen: their places are not taken yet
	wake       time.Duration // when a job that is spared is to be stopped
}

type start struct {
	id  job.ID
	key Key
}

// alone is a job that is left alone, with the usable GPUs that it has, in
// thousandths.
type alone struct {
	id     job.ID
	usable int64
}

// pinnedKey is the place of running jobs that must not be stopped.
const pinnedKey = -1 << 62

// Follow takes in what happened since the last decision.
func (r *Policy) Follow(v *sched.View, p *sched.Plan) {
	if r.mustWalk(v, p) {
		r.walk.follow(v, p, r)
		return
	}
	r.sel.Shift(r.Order.Shift(v))
	guessed := r.started
	r.started = r.started[:0]
	for _, id := range guessed {
		r.Rekey(v, id)
		r.mayBeUnsaved(v.Job(id))
		if v.Job(id).Phase() == job.Assigned {
			r.started = append(r.started, id)
		}
	}
	for _, id := range r.unplaced {
		r.Rekey(v, id)
	}
	for _, id := range r.spared {
		r.Rekey(v, id)
	}
	r.unsaved = slices.DeleteFunc(r.unsaved, func(id job.ID) bool {
		r.Rekey(v, id)
		return !mayLose(v.Job(id))
	})
	if n := r.capacity(v); n > r.sel.Capacity() {
		r.sel.SetCapacity(n)
	}
	for _, id := range r.infeasible.Reconsider(v) {
		r.wait(v, p, v.Job(id))
	}
	for _, ch := range v.Changes() {
		j := v.Job(ch.Job)
		switch ch.Kind {
		case sched.Arrived, sched.Stopped:
			r.remove(j.ID)
			r.wait(v, p, j)
		case sched.Runs:
			r.runs(v, j)
			if j.Phase() == job.Assigned {
				r.started = append(r.started, j.ID)
			}
		case sched.Ended:
			r.remove(ch.Job)
		case sched.Altered:
			r.Rekey(v, ch.Job)
		}
	}
	if v.NodesChanged() && !v.First {
		r.alone = r.alone[:0]
		for j := range v.Running() {
			r.runs(v, j)
		}
	}
	// The capacity must shrink only after the jobs on lost nodes have been taken
	// out.
	r.sel.SetCapacity(r.capacity(v))
}

// capacity is the capacity for all jobs that are not left alone, in thousandths
// of a GPU.
func (r *Policy) capacity(v *sched.View) int {
	n := int64(v.Total()) * int64(unit.One)
	for _, a := range r.alone {
		n -= a.usable
	}
	return int(n)
}

// runs adds a running job to the choice, or removes it if it is to be left
// alone.
func (r *Policy) runs(v *sched.View, j sched.Job) {
	if stays(v, j.ID) {
		r.sel.Remove(j.ID)
		r.alone = append(r.alone, alone{j.ID, usableOf(v, j.ID)})
		return
	}
	if !r.sel.Has(j.ID) {
		r.sel.AddChosen(j.ID, int(j.Allocated()), r.chosenKey(v, j))
	}
	r.mayBeUnsaved(j)
}

// mayBeUnsaved notes a running job whose key changes when it saves its state.
func (r *Policy) mayBeUnsaved(j sched.Job) {
	if mayLose(j) && !slices.Contains(r.unsaved, j.ID) {
		r.unsaved = append(r.unsaved, j.ID)
	}
}

// mayLose tells whether a job that saves now and then has saved nothing since it was started.
func mayLose(j sched.Job) bool {
	return j.Spec().Stop == job.LastSave && (j.Unsaved() || j.Phase() == job.Assigned)
}

// stays tells whether a running job is to be left alone, because it is on a
// cordoned node or on a broken GPU. Stopping it would free less than it has,
// and it might find no other place.
func stays(v *sched.View, id job.ID) bool {
	a := v.Alloc(id)
	if a == nil {
		return false
	}
	c := v.Cluster()
	return slices.ContainsFunc(a.Pieces, func(p cluster.Piece) bool { return !c.Usable(p.Node) }) ||
		slices.ContainsFunc(a.Shares, func(s cluster.Share) bool { return c.Broken(s.Device) })
}

// usableOf is the amount of usable GPUs that a job has, in thousandths.
func usableOf(v *sched.View, id job.ID) (sum int64) {
	for _, s := range v.Alloc(id).Shares {
		if v.Cluster().UsableDevice(s.Device) {
			sum += int64(s.Milli)
		}
	}
	return sum
}

func (r *Policy) wait(v *sched.View, p *sched.Plan, j sched.Job) {
	if !r.infeasible.Rejects(p, j.ID, r.Place(j)) {
		r.sel.Add(j.ID, int(v.Class(j.Class()).Amount.GPU), r.Order.Key(v, j, false))
	}
}

// mustWalk tells whether the choice must be made by walking. It switches to
// walking when the first job comes that accepts only some of several GPU types, or
// only some nodes.
func (r *Policy) mustWalk(v *sched.View, p *sched.Plan) bool {
	if r.walks {
		return true
	}
	r.walks = r.Literal
	if v.NodesChanged() {
		r.classes = 0 // nodes may repel jobs from now on
	}
	for ; r.classes < v.Classes() && !r.walks; r.classes++ {
		class := v.Class(int32(r.classes))
		r.walks = class.Mask != 0 && v.Cluster().Types() > 1 || class.Scope != class.Pool
	}
	if r.walks && !v.First {
		r.walk.takeOver(v, p, r)
	}
	return r.walks
}

func (r *Policy) chosenKey(v *sched.View, j sched.Job) Key {
	if j.Spec().Stop == job.Pinned || j.Spec().Stop == job.Restart {
		return Key{A: pinnedKey}
	}
	if j.Unsaved() {
		if at, ok := j.NextSave(); ok {
			r.wake = min(r.wake, at)
		}
		return Key{A: pinnedKey}
	}
	return r.Order.Key(v, j, true)
}

func (r *Policy) remove(id job.ID) {
	r.infeasible.Remove(id)
	r.sel.Remove(id)
	r.forget(id)
	if len(r.alone) > 0 {
		r.alone = slices.DeleteFunc(r.alone, func(a alone) bool { return a.id == id })
	}
}

// forget drops the claim of a job that was chosen and found no place.
func (r *Policy) forget(id job.ID) {
	if i := slices.Index(r.unplaced, id); i >= 0 {
		r.unplaced = slices.Delete(r.unplaced, i, i+1)
	}
}

// Rekey asks the Order again for the place of a job, if it is active.
func (r *Policy) Rekey(v *sched.View, id job.ID) {
	j := v.Job(id)
	if r.walks {
		r.walk.rekey(v, r, j)
		return
	}
	if !r.sel.Has(id) {
		return
	}
	var key Key // on the scale of chosen jobs
	if j.Running() {
		key = r.chosenKey(v, j)
	} else {
		key = r.Order.Key(v, j, false)
		key.A += r.Order.Shift(v)
	}
	if !r.sel.Chosen(id) {
		key.A -= r.Order.Shift(v)
	}
	r.sel.Rekey(id, key)
}

// RekeyWaiting asks the Order again for the places of all waiting jobs.
func (r *Policy) RekeyWaiting(v *sched.View) {
	for j := range v.Waiting() {
		r.Rekey(v, j.ID)
	}
}

// Decide turns the choice into a plan: first the stops, then the starts in
// order.
func (r *Policy) Decide(v *sched.View, p *sched.Plan) {
	r.stops, r.starts, r.wake = r.stops[:0], r.starts[:0], unit.Never
	if r.walks {
		r.walk.choose(v, r)
	} else {
		r.choose(v, p)
	}
	if len(r.stops)+len(r.starts) == 0 {
		return
	}
	slices.Sort(r.stops)
	slices.SortFunc(r.starts, func(a, b start) int { return compare(a.key, a.id, b.key, b.id) })
	r.unplaced = r.unplaced[:0]
	if r.Victims == AtCheckpoint {
		r.bargain(v, p)
	} else {
		r.carryOut(v, p)
	}
	r.heirs(v, p)
}

// carryOut stops and starts jobs at once.
func (r *Policy) carryOut(v *sched.View, p *sched.Plan) {
	why := job.Reason{Code: job.MakesRoom, Job: job.None}
	if len(r.starts) > 0 {
		why.Job = r.starts[0].id
	}
	for _, id := range r.stops {
		p.Stop(id, why)
		r.stopped(id)
	}
	for _, s := range r.starts {
		r.placed(s.id, r.begin(v, p, s) || r.room(v, p, s))
	}
}

// heirs notes the waiting jobs that are chosen since others were stopped to make room
// (room). They are tried at the next decision, by their places at that time. Those that are
// not chosen any more drop their claim, or are stopped then.
func (r *Policy) heirs(v *sched.View, p *sched.Plan) {
	if r.walks {
		return
	}
	r.sel.Changes(func(id job.ID, chosen bool) {
		switch {
		case chosen && !v.Job(id).Running():
			r.unplaced = append(r.unplaced, id)
		case !chosen && p.Alloc(id) == nil:
			r.forget(id)
		case !chosen:
			r.spared = append(r.spared, id)
		}
	})
}

// begin starts a job, if there is room.
func (r *Policy) begin(v *sched.View, p *sched.Plan, s start) bool {
	return p.Start(s.id, r.Place(v.Job(s.id)))
}

// placed notes whether a chosen job was started.
func (r *Policy) placed(id job.ID, ok bool) {
	switch {
	case !ok:
		r.unplaced = append(r.unplaced, id)
		return
	case r.walks:
		r.walk.runs(id)
	}
	r.started = append(r.started, id)
}

// stopped notes that a job was stopped. A change brings it back once it has left its devices.
func (r *Policy) stopped(id job.ID) {
	if r.walks {
		r.walk.stopped(id)
	} else {
		r.sel.Remove(id)
	}
}

// choose asks the Selector for the jobs whose choice differs from the plan so
// far.
func (r *Policy) choose(v *sched.View, p *sched.Plan) {
	r.sel.Changes(func(id job.ID, chosen bool) {
		switch {
		case chosen && v.Job(id).Running(): // it was spared
		case chosen:
			r.starts = append(r.starts, start{id, r.sel.Key(id)})
		case p.Alloc(id) != nil:
			r.stops = append(r.stops, id)
		default:
			r.forget(id)
		}
	})
	for _, id := range r.unplaced {
		r.starts = append(r.starts, start{id, r.sel.Key(id)})
	}
	r.stillSpared(v)
}

// Wake is when Decide wants to be asked again, whatever happens until then: a job that it
// spares until then will have saved its state.
func (r *Policy) Wake(v *sched.View) time.Duration {
	if r.walks {
		return r.wake
	}
	wake := r.wake
	if r.sel.Waiting() > 0 {
		for _, id := range r.unsaved {
			if at, ok := v.Job(id).NextSave(); ok {
				wake = min(wake, at)
			}
		}
	}
	return wake
}

// Contended tells whether time alone can change a choice made by walking. That
// is so if jobs wait, or were stopped by the last plan, while others run.
func (r *Policy) Contended() bool {
	return r.walk.waiting.Len()+len(r.stops) > 0 && r.walk.running.Len() > 0
}

// Why says why a job was left waiting.
func (r *Policy) Why(v *sched.View, id job.ID) job.Reason {
	class := v.Class(v.Job(id).Class())
	need, have := v.Job(id).GPUs(), v.TotalOf(class.Mask)
	if need > have { // while nodes are down; the engine knows which jobs can never run
		return job.Reason{Code: job.NeedGPUs, Need: int32(need), Have: int32(v.FreeOf(class.Mask)), Job: job.None}
	}
	return job.Reason{Code: job.Outranked, Job: job.None}
}

func compare(a Key, aid job.ID, b Key, bid job.ID) int {
	switch {
	case a.A != b.A:
		return less(a.A < b.A)
	case a.B != b.B:
		return less(a.B < b.B)
	case aid != bid:
		return less(aid < bid)
	}
	return 0
}

func less(yes bool) int {
	if yes {
		return -1
	}
	return 1
}
