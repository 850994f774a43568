package iadeep

import (
	"slices"
	"time"

	"github.com/norn-scheduler/norn/cluster"
	"github.com/norn-scheduler/norn/cluster/unit"
	"github.com/norn-scheduler/norn/job"
	"github.com/norn-scheduler/norn/perf"
	"github.com/norn-scheduler/norn/sched"
	"github.com/norn-scheduler/norn/solve/gp"
)

// begin begins the tuning of a job that has come to others.
func (f *policy) begin(v *sched.View, p *sched.Plan, j sched.Job, others []job.ID) {
	t := note{jobs: len(others) + 1}
	t.joint = f.cfg.Tune && len(others) == 1 && f.tunable(j) && f.tunable(v.Job(others[0]))
	f.remember(v, p, j.ID, t)
	f.wake = min(f.wake, f.later(v, append(others[:len(others):len(others)], j.ID)))
}

func (f *policy) remember(v *sched.View, p *sched.Plan, id job.ID, n note) {
	p.Remember(id, &n)
	f.learnt.record(v, id, n)
}

// tunable tells whether the batch of a job may be changed: it tells its own one, and has
// work left for which that pays.
func (f *policy) tunable(j sched.Job) bool {
	left, known := j.Remaining()
	return j.Spec().Batch > 0 && (!known || left >= f.cfg.Left)
}

// advance goes on with the tuning on a device, if there is one: when a trial has taken
// its time, what came of it is noted, and the next one begins.
func (f *policy) advance(v *sched.View, p *sched.Plan, d cluster.DeviceID, on []job.ID) {
	for _, id := range on {
		if owns(v.Job(id)) && v.Alloc(id).Shares[0].Device == d {
			f.trial(v, p, d, id, on)
			return
		}
	}
}

func (f *policy) trial(v *sched.View, p *sched.Plan, d cluster.DeviceID, owner job.ID, on []job.ID) {
	t, _ := sched.Recall[note](v.Job(owner))
	if len(on) != t.jobs || !f.mine(v, on) { // a resident has ended, or was thrown off: give up
		f.giveUp(v, p, d, owner)
		return
	}
	if due := f.due(v, on); v.Now < due {
		f.wake = min(f.wake, due)
		return
	}
	sum, ok := f.pd(v, on)
	if !ok {
		f.giveUp(v, p, d, owner)
		return
	}
	t.values = append(slices.Clip(t.values), sum)
	members := f.members(owner, on, t.joint)
	tuner := f.tuner(v, members)
	if !f.cfg.Tune || !f.tunable(v.Job(owner)) {
		tuner.Trials = 1
	}
	seen, next, more := tuner.Tried(t.values)
	if more {
		f.set(v, p, members, tuner.At(next))
		f.remember(v, p, owner, t)
		f.wake = min(f.wake, f.later(v, on))
		return
	}
	f.set(v, p, members, tuner.At(gp.Best(seen).Point))
	f.remember(v, p, owner, f.record(v, owner, on, t.values[0]))
	f.tuned[d] = false
}

// giveUp ends a tuning that cannot be brought to its end: its owner goes back to its own
// batch. Where two were tuned at once, who is left is alone, and does so in any case.
func (f *policy) giveUp(v *sched.View, p *sched.Plan, d cluster.DeviceID, owner job.ID) {
	p.Adjust(owner, func(a *cluster.Alloc) { a.Shares[0].Batch = 0 })
	f.remember(v, p, owner, note{})
	f.tuned[d] = false
}

// record is what is noted of a crowd when its interference has been measured.
func (f *policy) record(v *sched.View, owner job.ID, on []job.ID, pds float64) note {
	n := note{sum: pds - float64(len(on))}
	for _, id := range on {
		if id != owner {
			n.with = append(n.with, kindOf(v.Job(id)))
		}
	}
	return n
}

// members are the jobs that are tuned: the owner, and in a joint tuning the other one.
func (f *policy) members(owner job.ID, on []job.ID, joint bool) []job.ID {
	out := []job.ID{owner}
	for _, id := range on {
		if joint && id != owner {
			out = append(out, id)
		}
	}
	return out
}

// set gives jobs the batches of a trial; 0 is their own one.
func (f *policy) set(v *sched.View, p *sched.Plan, members []job.ID, batches []int) {
	p.Try(func() bool {
		for i, id := range members {
			batch := int32(batches[i])
			if batches[i] == max(1, v.Job(id).Spec().Batch) {
				batch = 0
			}
			if !p.Adjust(id, func(a *cluster.Alloc) { a.Shares[0].Batch = batch }) {
				return false
			}
		}
		return true
	})
}

// due is when the present trial has taken its time: so many steps after what anybody
// on the GPU holds has changed last, or has begun to make progress.
func (f *policy) due(v *sched.View, on []job.ID) time.Duration {
	at := time.Duration(0)
	for _, id := range on {
		j := v.Job(id)
		if j.Phase() != job.Running {
			return unit.Never
		}
		from := max(j.Since(), j.Ready())
		if took := f.took(v, j); from < unit.Never-took {
			at = max(at, from+took)
		} else {
			return unit.Never
		}
	}
	return at
}

// later is when a trial that begins now will be over.
func (f *policy) later(v *sched.View, on []job.ID) time.Duration {
	at := time.Duration(0)
	for _, id := range on {
		took := f.took(v, v.Job(id))
		if took >= unit.Never-v.Now {
			return unit.Never
		}
		at = max(at, v.Now+took)
	}
	return at
}

// took is how long the steps of a trial take, or longer, where the world needs more time
// to see what comes of it.
func (f *policy) took(v *sched.View, j sched.Job) time.Duration {
	if h := j.Spec().Hints; h != nil && h.Iteration > 0 {
		return max(time.Millisecond, v.Lag, min(h.Iteration, time.Hour)*time.Duration(f.cfg.Steps))
	}
	return max(f.cfg.Settling, v.Lag)
}

// pd is the sum of the PDs of jobs; ok is false when one of them stands still.
func (f *policy) pd(v *sched.View, on []job.ID) (sum float64, ok bool) {
	for _, id := range on {
		j := v.Job(id)
		alone := v.TypeSpeed(j, v.Cluster().TypeOf(v.Alloc(id).Shares[0].Device), 1, false)
		if !(j.Speed() > 0) || !(alone > 0) {
			return 0, false
		}
		sum += alone / j.Speed()
	}
	return sum, true
}

// tuner is how the batches of jobs are tried.
func (f *policy) tuner(v *sched.View, members []job.ID) *Tuner {
	t := &Tuner{
		Trials: f.cfg.Trials, Samples: f.cfg.Samples, Step: f.cfg.Step,
		Search: gp.Search{Kernel: gp.Smooth(), Rounds: f.cfg.Rounds, Patience: f.cfg.Patience, Tol: f.cfg.Tol},
	}
	for _, id := range members {
		j := v.Job(id)
		own := max(1, j.Spec().Batch)
		t.Batches = append(t.Batches, Candidates(own, f.fits(v, j)))
		t.From, t.Own = append(t.From, own), own
	}
	return t
}

// fits tells which batches leave a job within the memory that it asked for. Where
// nobody knows what a sample takes, none that is larger than its own does.
func (f *policy) fits(v *sched.View, j sched.Job) func(batch int) bool {
	spec := j.Spec()
	b, ok := v.Sharing.(perf.Batched)
	asked := spec.Demand.Roles[0].GPUMemory
	if ok && asked > 0 && spec.Hints != nil && spec.Hints.GPUMemory > 0 {
		if st := b.Stepping(spec); st != nil {
			return func(batch int) bool { return spec.Hints.GPUMemory+st.Grows(batch) <= asked }
		}
	}
	return func(batch int) bool { return batch <= spec.Batch }
}
