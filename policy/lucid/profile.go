package lucid

import (
	"cmp"
	"slices"
	"time"

	"github.com/norn-scheduler/norn/cluster"
	"github.com/norn-scheduler/norn/cluster/unit"
	"github.com/norn-scheduler/norn/job"
	"github.com/norn-scheduler/norn/policy/kit/beside"
	"github.com/norn-scheduler/norn/sched"
)

// measured tells whether a running job is being measured, and until when at most.
func (l *policy) measured(v *sched.View, j sched.Job) (until time.Duration, ok bool) {
	first, ran := j.FirstStart()
	n, _ := sched.Recall[note](j)
	if !ran || j.Phase() != job.Running || n.measured < 0 || n.measured > first || j.Failures()+j.Preemptions() > 0 || !l.short(j) {
		return 0, false
	}
	if l.cfg.ProfileTime >= unit.Never-first {
		return unit.Never, true
	}
	return first + l.cfg.ProfileTime, true
}

// short tells whether a job is one to be measured.
func (l *policy) short(j sched.Job) bool {
	return beside.Plain(j) && j.GPUs() <= l.cfg.ProfileGPUs && j.Spec().Stop != job.Pinned
}

// release ends the measurements that have taken their time. A job that was
// measured may start elsewhere at once.
func (l *policy) release(v *sched.View, p *sched.Plan) {
	l.queue = l.queue[:0]
	for j := range each(v, &l.runs.measuring) {
		if until, ok := l.measured(v, j); ok && v.Now >= until {
			l.runs.measuring.Remove(int(j.ID))
			p.Stop(j.ID, job.Reason{Code: job.Profiled, Job: job.None})
			l.runs.disturb(j.ID)
			n, _ := sched.Noted[note](p, j)
			n.measured = -1
			p.Remember(j.ID, &n)
			l.queue = append(l.queue, waiting{j.ID, l.rank(v, j)})
		}
	}
}

// measure starts new jobs on the profiler's nodes, those with the fewest GPUs before
// others, until one of a pool has no room: Algorithm 1. Then nodes are lent to the
// profiler, or given back.
func (l *policy) measure(v *sched.View, p *sched.Plan, fresh []waiting) {
	slices.SortStableFunc(fresh, func(a, b waiting) int { return cmp.Compare(v.Job(a.id).GPUs(), v.Job(b.id).GPUs()) })
	left := map[cluster.PoolID]int{} // jobs that wait to be measured
	for _, w := range fresh {
		left[v.Job(w.id).Pool()]++
	}
	blocked := map[cluster.PoolID]bool{}
	l.wants = false
	for _, w := range fresh {
		j := v.Job(w.id)
		pool := j.Pool()
		n := note{measured: v.Now, lent: cluster.None}
		fits := !blocked[pool] && l.consolidate(v, j, true)
		if !fits && !blocked[pool] {
			n.lent = l.lend(v, j, left[pool])
			fits = n.lent >= 0 && l.consolidate(v, j, true)
		}
		if fits {
			p.StartOn(w.id, &l.alloc)
			l.runs.began(w.id, p.Alloc(w.id))
			l.runs.measuring.Add(int(w.id))
			p.Remember(w.id, &n)
			left[pool]--
			continue
		}
		blocked[pool] = true
		p.Wait(w.id, beside.Because("it waits to be measured, and the GPUs for that are taken"))
	}
	l.giveBack(v, p, left)
}

// profilable tells whether a node of the profiler could hold a job if it were empty.
func (l *policy) profilable(v *sched.View, j sched.Job) bool {
	if !l.profiles {
		return false
	}
	for _, n := range l.profilers(v, j.Pool()) {
		if len(l.devices(v, n, v.Class(j.Class()), true)) >= j.GPUs() {
			return true
		}
	}
	return false
}
