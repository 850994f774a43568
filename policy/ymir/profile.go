package ymir

import (
	"fmt"

	"github.com/norn-scheduler/norn/cluster"
	"github.com/norn-scheduler/norn/job"
	"github.com/norn-scheduler/norn/place"
	"github.com/norn-scheduler/norn/sched"
)

// measure ends the measurements whose time is up.
func (y *policy) measure(v *sched.View, p *sched.Plan) {
	for j := range v.Running() {
		if j.Profiling() && v.Now >= j.Ready()+y.cfg.ProfileTime {
			p.Stop(j.ID, job.Reason{Code: job.Profiled, Job: job.None})
			change(p, j, func(n *note) { n.ready = v.Now + y.cfg.Latency })
		}
	}
}

// unmeasured tells whether a job waits for its measurement.
func (y *policy) unmeasured(v *sched.View, p *sched.Plan, j sched.Job) bool {
	_, ok := y.readyAt(j)
	return !ok && p.Alloc(j.ID) == nil && !j.Profiling()
}

// profileSize is on how many GPUs a job is measured.
func (y *policy) profileSize(v *sched.View, j sched.Job) int {
	n := y.cfg.ProfileGPUs
	if pipeline(j) {
		n = max(n, y.nodeGPUs(v, j.Pool()))
	}
	least, most := j.Spec().Demand.Roles[0].Range()
	return max(int(least), min(n, int(most)))
}

// admit begins to measure jobs in order of submission, as long as there are GPUs.
func (y *policy) admit(v *sched.View, p *sched.Plan) {
	for j := range v.Waiting() {
		if !y.unmeasured(v, p, j) {
			continue
		}
		y.profile(v, p, j)
	}
}

// profile begins to measure a job, if there is room.
func (y *policy) profile(v *sched.View, p *sched.Plan, j sched.Job) bool {
	size := y.profileSize(v, j)
	where := place.Consolidated
	if !plain(j) {
		where = place.Pack
	}
	// The strategy finds the devices; they are taken for a measurement.
	var found cluster.Alloc
	var why job.Reason
	p.Try(func() bool {
		if p.StartSize(j.ID, size, where) {
			found.CopyFrom(p.Alloc(j.ID))
		} else {
			why = p.Why()
		}
		return false
	})
	if len(found.Pieces) == 0 {
		p.Wait(j.ID, why)
		return false
	}
	return p.Profile(j.ID, &found)
}

// hand starts jobs whose turn it is to go on from what another has learnt, at once
// when that has ended and with as many GPUs.
func (y *policy) hand(v *sched.View, p *sched.Plan) {
	for j := range v.Waiting() {
		with, how := j.Merged()
		if _, started := j.FirstStart(); how != job.After || with == job.None || started || p.Alloc(j.ID) != nil {
			continue
		}
		first := v.Job(with)
		switch phase := first.Phase(); {
		case phase.Over() && phase != job.Done: // there is nothing to go on from
			p.Split(j.ID)
		case phase.Over() && first.Since() == v.Now:
			pl := &placer{y: y, v: v, p: p, pool: j.Pool(), node: y.nodeGPUs(v, j.Pool())}
			pl.place(&outcome{jobs: []sched.Job{j}}, first.Tasks())
		}
	}
}

// fits tells whether a job can run with so many tasks.
func fits(j sched.Job, tasks int) bool {
	least, most := j.Spec().Demand.Roles[0].Range()
	return tasks >= int(least) && tasks <= int(most)
}

// follows is why a job waits that goes on from what another one learns.
func follows(v *sched.View, first, j sched.Job) job.Reason {
	text := fmt.Sprintf("goes on from what job %s learns, when that is done, and is believed to be %.3g times as fast then", first.Spec().Key, v.Transfer.After(j.Spec(), first.Spec()))
	if b := learnt(v); b != nil {
		text += ": " + b.GainGrounds(j.Spec(), first.Spec())
	}
	return job.Reason{Code: job.Because, Job: job.None, Text: text}
}

// notYet is why a job waits between divisions.
func (y *policy) notYet(v *sched.View) job.Reason {
	return job.Reason{Code: job.NotYet, At: (v.Now/y.cfg.Interval + 1) * y.cfg.Interval, Job: job.None}
}

// excuse says why those wait who were given no reason.
func (y *policy) excuse(v *sched.View, p *sched.Plan, solved bool) {
	for j := range v.Waiting() {
		if p.Alloc(j.ID) != nil {
			continue
		}
		with, how := j.Merged()
		at, ok := y.readyAt(j)
		switch {
		case sched.Revived(v, p, j, place.Pack):
			p.Wait(j.ID, y.notYet(v))
		case how == job.After && !over(v, with) && !solved && j.Reason().Code == job.Because:
			// what is believed of it is told anew at each division
		case how == job.After && !over(v, with):
			p.Wait(j.ID, follows(v, v.Job(with), j))
		case ok && at > v.Now:
			p.Wait(j.ID, job.Reason{Code: job.Because, Job: job.None, Text: "its measurements are being evaluated"})
		case ok && !solved && (j.Reason().Code > job.Because || j.Reason().Code == job.NoReason):
			p.Wait(j.ID, y.notYet(v))
		}
	}
}
