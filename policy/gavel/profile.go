package gavel

import (
	"time"

	"github.com/norn-scheduler/norn/cluster"
	"github.com/norn-scheduler/norn/cluster/unit"
	"github.com/norn-scheduler/norn/job"
	"github.com/norn-scheduler/norn/sched"
)

// Decide implements sched.Policy: rounds, and stays in which a job of a new sort is measured
// beside reference jobs before it starts.
func (g *policy) Decide(v *sched.View, p *sched.Plan) {
	g.beliefs, _ = v.Sharing.(*believer)
	measuring := g.release(v, p)
	g.Policy.Decide(v, p)
	if g.measures(v) {
		g.measure(v, p, measuring)
	}
}

// measures tells whether anything can be learnt of pairs.
func (g *policy) measures(v *sched.View) bool {
	return g.beliefs != nil && v.Profiles && g.cfg.Profile > 0
}

// release ends the stays that have taken their time, and returns the sorts that are measured.
func (g *policy) release(v *sched.View, p *sched.Plan) map[string]bool {
	if g.beliefs == nil {
		return nil
	}
	measuring := map[string]bool{}
	for j := range v.Running() {
		switch {
		case !j.Profiling():
		case v.Now >= g.ends(j):
			p.Stop(j.ID, job.Reason{Code: job.Profiled, Job: job.None})
		default:
			measuring[g.beliefs.sort(j.Spec())] = true
		}
	}
	return measuring
}

// ends is when the stay of a job ends.
func (g *policy) ends(j sched.Job) time.Duration { return unit.Later(j.Ready(), g.cfg.Profile) }

// measure turns starts of new sorts of jobs into stays, one of a sort at a time.
func (g *policy) measure(v *sched.View, p *sched.Plan, measuring map[string]bool) {
	for j := range v.Waiting() {
		a := p.Alloc(j.ID)
		if a == nil || j.GPUs() != 1 || len(a.Shares) != 1 || len(p.On(a.Shares[0].Device)) != 1 || !g.beliefs.unmeasured(j.Spec()) {
			continue
		}
		sort := g.beliefs.sort(j.Spec())
		if left, known := j.Remaining(); measuring[sort] || j.Spec().Stop == job.Pinned || known && left <= g.cfg.Profile {
			continue
		}
		var on cluster.Alloc
		on.CopyFrom(a)
		p.Stop(j.ID, job.Reason{Code: job.Profiled, Job: job.None})
		if p.Profile(j.ID, &on) {
			measuring[sort] = true
		} else {
			p.StartOn(j.ID, &on)
		}
	}
}

// NextWake implements sched.Waker: a round begins, a stay ends, or the GPUs of a stay that has
// just ended can be given out.
func (g *policy) NextWake(v *sched.View) time.Duration {
	at := g.Policy.NextWake(v)
	if g.beliefs == nil {
		return at
	}
	for j := range v.Running() {
		if j.Profiling() {
			at = min(at, g.ends(j))
		}
	}
	for j := range v.Waiting() {
		if j.Since() == v.Now && j.Since() > j.Submit() {
			at = min(at, unit.Later(v.Now, time.Second))
		}
	}
	return at
}
