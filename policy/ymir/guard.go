package ymir

import (
	"math"
	"time"

	"github.com/norn-scheduler/norn/job"
	"github.com/norn-scheduler/norn/policy/ymir/estimator"
	"github.com/norn-scheduler/norn/sched"
)

// guard splits pairs that have gone through so many epochs and gain nothing, by how
// fast they are seen to make progress, and those of which one job has ended.
func (y *policy) guard(v *sched.View, p *sched.Plan) {
	for j := range v.Running() {
		with, how := j.Merged()
		if how == job.Apart || j.Profiling() || p.Alloc(j.ID) == nil {
			continue
		}
		switch {
		case how == job.Together && over(v, with):
			p.Split(j.ID)
		case how == job.Together && j.ID > with || math.IsInf(y.cfg.Guard, 1):
		case how == job.After && y.afterFails(v, j):
			p.Split(j.ID) // nobody is merged with the other one, which has ended
		case how == job.Together && v.Job(with).Running() && y.togetherFails(v, j, v.Job(with)):
			p.Split(j.ID)
			ban(v, p, j, with)
			ban(v, p, v.Job(with), j.ID)
		}
	}
}

// epochs is how much of its data a job has gone through, when it gets through its
// work so many times as fast as alone.
func epochs(j sched.Job, factor float64) float64 {
	total, known := j.Estimate()
	if !known || total <= 0 || j.Spec().Units <= 0 || factor <= 0 {
		return 0
	}
	return j.Progress().Seconds() / total.Seconds() * j.Spec().Units / factor
}

// afterFails tells whether a job that goes on from another one is slower than from
// the backbone.
func (y *policy) afterFails(v *sched.View, j sched.Job) bool {
	if j.Speed() <= 0 || !over(v, second(j)) {
		return false
	}
	if b := learnt(v); b != nil {
		return b.Epochs(j.Spec()) >= y.cfg.Guard && second(j) != job.None && b.After(j.Spec(), v.Job(second(j)).Spec()) < 1
	}
	alone := believed(v, j, j.Tasks(), y.nodeGPUs(v, j.Pool()))
	if alone <= 0 {
		return false
	}
	factor := j.Speed() / alone
	return factor < 1 && epochs(j, factor) >= y.cfg.Guard
}

// second is with whom a job is merged.
func second(j sched.Job) job.ID {
	with, _ := j.Merged()
	return with
}

// togetherFails tells whether two jobs that are trained as one would do better one
// after the other.
func (y *policy) togetherFails(v *sched.View, a, b sched.Job) bool {
	node := y.nodeGPUs(v, a.Pool())
	sa, sb := believed(v, a, a.Tasks(), node), believed(v, b, b.Tasks(), node)
	if sa <= 0 || sb <= 0 || a.Speed() <= 0 || b.Speed() <= 0 {
		return false
	}
	la, lb := y.left(a), y.left(b)
	merged := max(la/a.Speed(), lb/b.Speed())
	seen := learnt(v)
	if seen != nil && max(seen.Epochs(a.Spec()), seen.Epochs(b.Spec())) < y.cfg.Guard {
		return false
	}
	if seen != nil {
		fa, fb := seen.Together(a.Spec(), b.Spec(), [2]time.Duration{time.Duration(la * 1e9), time.Duration(lb * 1e9)})
		merged = max(la/(sa*fa), lb/(sb*fb))
	}
	if estimator.TranWt(la/sa, lb/sb, estimator.TogetherSum(merged)) >= 1 {
		return false
	}
	return seen != nil || max(epochs(a, 1), epochs(b, 1)) >= y.cfg.Guard
}
