package local

import (
	"github.com/norn-scheduler/norn/api"
	"github.com/norn-scheduler/norn/job"
	"github.com/norn-scheduler/norn/live"
)

// endedState is the state of a job that has ended; of an array the worst of its
// jobs. It is empty when no such job has ended.
func (d *Daemon) endedState(id string) api.State {
	j := d.endedJob(id)
	if j == nil {
		return ""
	}
	return j.State
}

// owner is the user of a job that has ended.
func (d *Daemon) owner(id string) string {
	j := d.endedJob(id)
	if j == nil {
		return ""
	}
	return j.User
}

// endedJob is a job that has ended, or of an array the one that says most: one
// that was not done.
func (d *Daemon) endedJob(id string) *api.Job {
	var found *api.Job
	take := func(j *api.Job) {
		if (j.ID == id || baseOf(j.ID) == id) && (found == nil || found.State == api.Done) {
			found = j
		}
	}
	d.recent.Each(func(j *api.Job) bool { take(j); return true })
	if found == nil && !d.recent.Whole() && d.submitted(id) {
		d.store.EachEnded(func(e *live.Ended) {
			j := e.Job
			take(&j)
		})
	}
	return found
}

// submitted tells whether there ever was a job of that number.
func (d *Daemon) submitted(id string) bool {
	n := int64(0)
	for _, c := range baseOf(id) {
		n = n*10 + int64(c-'0')
	}
	return n > 0 && n < d.next.Load()
}

// endedJobs are the jobs that have ended and match a query. It may be called from
// any goroutine: it reads the history file.
func (d *Daemon) endedJobs(q *api.Query, visible func(user string) bool) ([]api.Job, error) {
	var out []api.Job
	err := d.store.EachEnded(func(e *live.Ended) {
		if visible(e.Job.User) && matches(&e.Job, q) {
			out = append(out, e.Job)
		}
		if q.Limit > 0 && len(out) > 2*q.Limit {
			out = append(out[:0], out[len(out)-q.Limit:]...)
		}
	})
	return out, err
}

// bury writes the history of a job that has just ended, and forgets it. What is
// lost of the file in a crash is written again from the log.
func (d *Daemon) bury(id job.ID) {
	l := d.jobs[id]
	j := d.view(l)
	e := live.Ended{Log: d.epoch.N, N: d.st.Over() - 1, Job: j}
	d.buried = append(d.buried, e)
	d.recent.Add(j)
	d.tally.Ended++
	d.tally.End(&j, d.st.Record(id))
	d.jobs[id] = nil
	delete(d.byKey, l.key)
	if l.token != "" {
		d.tokens.drop(l.token)
	}
	d.settle(l.key)
}

// observe lets the estimator learn from a job that ended before this daemon.
func (d *Daemon) observe(j *api.Job) {
	if j.State != api.Done || d.opt.Estimator == nil {
		return
	}
	var demand job.Demand
	n := int32(max(1, j.GPUs.Ask))
	demand.Roles[0] = job.Role{Tasks: n, GPU: 1000}
	if j.GPUs.Ask < 1 {
		demand.Roles[0] = job.Role{Tasks: 1, GPU: 0, CPU: 1000}
		if j.GPUs.Ask > 0 {
			demand.Roles[0].GPU = milli(j.GPUs.Ask)
		}
	}
	d.opt.Estimator.Observe(&job.Job{
		Key: j.ID, Name: j.Name, User: j.User, Tenant: j.Tenant, Submit: d.loop.Clock.Since(j.Submitted), Demand: &demand,
	}, j.Ran.Duration())
}
