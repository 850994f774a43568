package preempt

import (
	"slices"

	"github.com/norn-scheduler/norn/cluster"
	"github.com/norn-scheduler/norn/job"
	"github.com/norn-scheduler/norn/policy/kit/queue"
	"github.com/norn-scheduler/norn/sched"
	"github.com/norn-scheduler/norn/state"
	"github.com/norn-scheduler/norn/state/dense"
)

// walker makes the choice literally. It sorts the running jobs, merges them
// with the waiting ones and walks all that could matter. Once one waiting job
// did not fit, those of equal demand are skipped together.
type walker struct {
	waiting queue.Queue
	running dense.Set
	order   []start
	kinds   kinds
	free    []int64 // by kind of GPUs, in thousandths
	alone   bool    // some node may be cordoned, or some GPU broken
}

// follow takes in what happened since the last decision.
func (w *walker) follow(v *sched.View, p *sched.Plan, r *Policy) {
	if v.NodesChanged() {
		w.alone = someUnusable(v)
	}
	for _, id := range r.infeasible.Reconsider(v) {
		w.wait(v, p, r, v.Job(id))
	}
	for _, ch := range v.Changes() {
		j := v.Job(ch.Job)
		switch ch.Kind {
		case sched.Arrived, sched.Stopped:
			w.running.Remove(int(j.ID))
			w.wait(v, p, r, j)
		case sched.Runs:
			w.runs(j.ID)
		case sched.Ended:
			r.infeasible.Remove(j.ID)
			w.waiting.Remove(j.ID)
			w.running.Remove(int(j.ID))
		case sched.Altered:
			w.rekey(v, r, j)
		}
	}
}

// someUnusable tells whether any node takes no new jobs, or any GPU is broken.
func someUnusable(v *sched.View) bool {
	c := v.Cluster()
	for i := range c.Nodes() {
		if !c.Usable(cluster.NodeID(i)) {
			return true
		}
	}
	for i := range c.Devices() {
		if c.Broken(cluster.DeviceID(i)) {
			return true
		}
	}
	return false
}

func (w *walker) wait(v *sched.View, p *sched.Plan, r *Policy, j sched.Job) {
	r.infeasible.Remove(j.ID)
	if r.infeasible.Rejects(p, j.ID, r.Place(j)) {
		w.waiting.Remove(j.ID)
		return
	}
	w.waiting.Add(j.ID, j.Class(), queue.Key(r.Order.Key(v, j, false)))
}

// takeOver begins in the middle of a run.
func (w *walker) takeOver(v *sched.View, p *sched.Plan, r *Policy) {
	w.alone = someUnusable(v)
	for j := range v.Waiting() {
		w.wait(v, p, r, j)
	}
	for j := range v.Running() {
		w.runs(j.ID)
	}
}

// runs notes that a job was started, and stopped that it was stopped. A stopped job
// waits again when the view says so.
func (w *walker) runs(id job.ID) {
	w.waiting.Remove(id)
	w.running.Add(int(id))
}

func (w *walker) stopped(id job.ID) { w.running.Remove(int(id)) }

func (w *walker) rekey(v *sched.View, r *Policy, j sched.Job) {
	if w.waiting.Has(j.ID) {
		w.waiting.Add(j.ID, j.Class(), queue.Key(r.Order.Key(v, j, false)))
	}
}

// choose walks the order and tells the runner how the choice differs from the
// jobs that run.
func (w *walker) choose(v *sched.View, r *Policy) {
	if w.waiting.Len() == 0 {
		return // the running jobs fit, and none waits
	}
	w.count(v)
	w.sortRunning(v, r)
	shift := r.Order.Shift(v)
	next := 0
	runUntil := func(key Key, id job.ID) {
		for ; next < len(w.order) && compare(w.order[next].key, w.order[next].id, key, id) < 0; next++ {
			w.visitRunning(v, r, w.order[next].id)
		}
	}
	w.waiting.Walk(nil, func(id job.ID) queue.Step {
		key := Key(w.waiting.Key(id))
		key.A += shift
		runUntil(key, id)
		if !w.take(v, v.Job(id)) {
			return queue.SkipClass
		}
		r.starts = append(r.starts, start{id, key})
		return queue.SkipJob
	})
	for ; next < len(w.order); next++ {
		w.visitRunning(v, r, w.order[next].id)
	}
}

// sortRunning sorts the running jobs that may be stopped, and subtracts the
// GPUs of the others from those that are free.
func (w *walker) sortRunning(v *sched.View, r *Policy) {
	w.order = w.order[:0]
	for i := range w.running.All() {
		if w.alone && stays(v, job.ID(i)) {
			for _, s := range v.Alloc(job.ID(i)).Shares {
				if v.Cluster().UsableDevice(s.Device) {
					w.free[w.kinds.of(v.Cluster(), s.Device)] -= int64(s.Milli)
				}
			}
			continue
		}
		j := v.Job(job.ID(i))
		w.order = append(w.order, start{j.ID, w.runningKey(v, r, j)})
	}
	slices.SortFunc(w.order, func(a, b start) int { return compare(a.key, a.id, b.key, b.id) })
}

// runningKey is the place of a running job. A job is never behind the place that it would
// have if it waited, although it may run slowly on the type that it has got. Otherwise two
// jobs could preempt each other forever: each would look shorter while it waits.
func (w *walker) runningKey(v *sched.View, r *Policy, j sched.Job) Key {
	key, waiting := r.chosenKey(v, j), r.Order.Key(v, j, false)
	if waiting.A += r.Order.Shift(v); compare(waiting, j.ID, key, j.ID) < 0 {
		return waiting
	}
	return key
}

// count counts the usable GPUs of each kind.
func (w *walker) count(v *sched.View) {
	c := v.Cluster()
	w.kinds.find(v)
	if len(w.kinds.scopes) == 1 {
		w.free = slices.Grow(w.free[:0], c.Types())[:c.Types()]
		for t := range w.free {
			w.free[t] = 1000 * int64(v.TotalOf(cluster.TypeMask(1)<<t))
		}
		return
	}
	w.free = make([]int64, len(w.kinds.scopes)*c.Types())
	for d := range v.Devices() {
		if c.UsableDevice(d) {
			w.free[w.kinds.of(c, d)] += int64(c.Capacity(d))
		}
	}
}

// visitRunning lets a running job keep its GPUs, if they are still free.
func (w *walker) visitRunning(v *sched.View, r *Policy, id job.ID) {
	a := v.Alloc(id)
	if a == nil {
		return
	}
	c := v.Cluster()
	fits := true
	for i := range a.Shares {
		k := w.kinds.of(c, a.Shares[i].Device)
		w.free[k] -= int64(a.Shares[i].Milli)
		fits = fits && w.free[k] >= 0
	}
	if fits {
		return
	}
	for i := range a.Shares {
		w.free[w.kinds.of(c, a.Shares[i].Device)] += int64(a.Shares[i].Milli)
	}
	r.stops = append(r.stops, id)
}

// take gives a waiting job GPUs of one of the types it accepts, or of several
// if no type has enough.
func (w *walker) take(v *sched.View, j sched.Job) bool {
	class := v.Class(j.Class())
	need := int64(class.Amount.GPU)
	sum, took := int64(0), false
	class.EachType(v.Cluster(), func(t cluster.TypeID) bool {
		left := int64(0)
		w.kinds.each(v.Cluster(), class, t, func(k int) { left += w.free[k] })
		if left >= need {
			w.takeOf(v, class, t, need)
			took = true
			return false
		}
		sum += left
		return true
	})
	if took {
		return true
	}
	if sum < need || class.NoType {
		return false
	}
	class.EachType(v.Cluster(), func(t cluster.TypeID) bool {
		need = w.takeOf(v, class, t, need)
		return need > 0
	})
	return true
}

// takeOf takes what a job needs from the GPUs of a type, and returns what is missing.
func (w *walker) takeOf(v *sched.View, class *state.Class, t cluster.TypeID, need int64) int64 {
	w.kinds.each(v.Cluster(), class, t, func(k int) {
		n := min(need, w.free[k])
		w.free[k] -= n
		need -= n
	})
	return need
}
