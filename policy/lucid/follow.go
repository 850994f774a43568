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
	"github.com/norn-scheduler/norn/state/dense"
)

// followed is the running jobs about which there may be something to decide, so that a
// decision need not look at all that run. It is a function of what runs: a set may have
// jobs too many, and never one too few.
type followed struct {
	measuring dense.Set             // they are measured, or were
	parted    dense.Set             // they hold parts of devices, and are not calm
	fresh     dense.Set             // they may become partners, once they are settled
	open      map[company][]partner // settled jobs with whole devices, in order of their starts, then by number
	calm      calm
}

// company is what partners have in common.
type company struct {
	pool cluster.PoolID
	gpus int
}

// partner is a job that others may join, if it still runs since that moment.
type partner struct {
	id     job.ID
	since  time.Duration
	score  Score
	memory unit.Bytes
}

// follow begins anew on the first decision, forgets who has left, and takes in the jobs that
// have settled.
func (l *policy) follow(v *sched.View) {
	f := &l.runs
	if v.First {
		*f = followed{open: map[company][]partner{}, calm: calmed(v)}
		for j := range v.Running() {
			if n, _ := sched.Recall[note](j); n.measured >= 0 {
				f.measuring.Add(int(j.ID))
			}
			f.began(j.ID, v.Alloc(j.ID))
		}
	}
	f.stir(v)
	for _, set := range []*dense.Set{&f.measuring, &f.parted, &f.fresh} {
		for id := range set.All() {
			if !v.Job(job.ID(id)).Running() {
				set.Remove(id)
			}
		}
	}
	for j := range each(v, &f.fresh) {
		if j.Phase() == job.Running && j.Since() < v.Now && !j.Profiling() {
			f.fresh.Remove(int(j.ID))
			l.welcome(v, j)
		}
	}
	l.settle(v)
}

// began takes in a job that was given an alloc, or another part of it.
func (f *followed) began(id job.ID, a *cluster.Alloc) {
	if a == nil {
		return
	}
	f.fresh.Add(int(id))
	if inParts(a) {
		f.parted.Add(int(id))
	}
}

// inParts tells whether a part of any device of an alloc is left to others.
func inParts(a *cluster.Alloc) bool {
	return slices.ContainsFunc(a.Shares, func(s cluster.Share) bool { return s.Milli < beside.Whole })
}

// each yields the jobs of a set that run, by number. Those that were started a moment ago may
// not run yet.
func each(v *sched.View, set *dense.Set) func(yield func(sched.Job) bool) {
	return func(yield func(sched.Job) bool) {
		for id := range set.All() {
			if j := v.Job(job.ID(id)); j.Running() && !yield(j) {
				return
			}
		}
	}
}

// welcome makes a settled job a partner, unless it never is one.
func (l *policy) welcome(v *sched.View, j sched.Job) {
	a := v.Alloc(j.ID)
	score, memory, known := l.cfg.Analyser.Of(j.Spec())
	if !known || !shares(j) || a.Nodes() != 1 || inParts(a) {
		return
	}
	at := company{j.Pool(), j.GPUs()}
	p := partner{j.ID, j.Since(), score, memory}
	i, found := slices.BinarySearchFunc(l.runs.open[at], p, partner.compare)
	if !found {
		l.runs.open[at] = slices.Insert(l.runs.open[at], i, p)
	}
}

func (p partner) compare(q partner) int {
	return cmp.Or(cmp.Compare(p.since, q.since), cmp.Compare(p.id, q.id))
}
