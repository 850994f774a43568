package live

import (
	"context"
	"fmt"
	"log/slog"
	"sync/atomic"

	"github.com/norn-scheduler/norn/api"
	"github.com/norn-scheduler/norn/api/server"
	"github.com/norn-scheduler/norn/cluster/unit"
	"github.com/norn-scheduler/norn/job"
)

// books are what is kept of jobs that have ended, and of what has happened.
type books struct {
	journal *Journal
	recent  Recent
	feed    Feed
	buried  []Ended      // jobs that have ended, of which the history file has still to tell
	next    atomic.Int64 // number of the next submission
}

// NewNumber is a number that no submission had before. It may be called from any
// goroutine.
func (d *books) NewNumber() int64 { return d.next.Add(1) - 1 }

// Watch is part of server.Backend.
func (d *books) Watch(ctx context.Context, c server.Caller, since int64) (<-chan api.Event, error) {
	return d.feed.Watch(ctx, c, since), nil
}

// endedState is the state of a job that has ended; of an array the worst of its
// jobs. It is empty when no such job has ended.
func (d *books) endedState(id string) api.State {
	j := d.EndedJob(id)
	if j == nil {
		return ""
	}
	return j.State
}

// owner is the user of a job that has ended.
func (d *books) owner(id string) string {
	j := d.EndedJob(id)
	if j == nil {
		return ""
	}
	return j.User
}

// EndedJob is a job that has ended, or of an array the one that says most: one
// that was not done. Of jobs with one name it is the last one.
func (d *books) EndedJob(id string) *api.Job {
	var found *api.Job
	isName := named(id) // of several with one name the last one is meant
	take := func(j *api.Job) {
		if (j.ID == id || BaseOf(j.ID) == id) && (found == nil || found.State == api.Done && !isName) {
			found = j
		}
	}
	d.recent.Each(func(j *api.Job) bool { take(j); return true })
	if found == nil && !d.recent.Whole() && d.submitted(id) {
		d.journal.EachEnded(func(e *Ended) {
			if j := e.Job; isName && j.ID == id {
				found = &j
			} else {
				take(&j)
			}
		})
	}
	return found
}

// submitted tells whether there ever was a job with that key that may not be among the
// recent ones.
func (d *books) submitted(id string) bool {
	if n, _, ok := numbered(id); ok {
		return n > 0 && n < d.next.Load()
	}
	return d.recent.Dropped(id)
}

// endedJobs are the jobs that have ended and match a query. It may be called from
// any goroutine: it reads the history file.
func (d *books) endedJobs(q *api.Query, visible func(user string) bool) ([]api.Job, error) {
	var out []api.Job
	wanted := idsOf(q)
	err := d.journal.EachEnded(func(e *Ended) {
		if visible(e.Job.User) && matches(&e.Job, q, wanted) {
			out = append(out, e.Job)
		}
		if q.Limit > 0 && len(out) > 2*q.Limit {
			out = append(out[:0], out[len(out)-q.Limit:]...)
		}
	})
	return out, err
}

// bury writes the history of a job that has just ended, and forgets it. Lines
// of the file that are lost in a crash are written again from the log.
func (d *Daemon) bury(id job.ID) {
	l := d.jobs[id]
	j := d.View(l)
	e := Ended{Log: d.epoch.N, N: len(d.st.Ended()) - 1, Job: j, Life: l.Life, Course: l.Course.tell(d.Loop.Clock.Wall), Losses: l.Losses.Points()}
	d.buried = append(d.buried, e)
	d.recent.Add(j)
	d.Tally.Ended++
	d.Tally.End(&j, d.st.Record(id))
	d.jobs[id] = nil
	if d.byKey[l.Key] == l { // else another job has its name by now
		delete(d.byKey, l.Key)
	}
	d.cfg.Ended(l)
	holds{d}.settle(l.Key)
}

// keepEnded writes the history of the jobs that have ended. A history that cannot be
// written, as on a full disk, is written later. The log has it, should the daemon end
// before.
func (d *books) keepEnded() error {
	if len(d.buried) == 0 {
		return nil
	}
	if err := d.journal.AppendEnded(d.buried); err != nil {
		return fmt.Errorf("the history of jobs: %w", err)
	}
	d.buried = d.buried[:0]
	return nil
}

// tryHistory writes the history of the jobs that have ended, or tells that it cannot.
func (d *books) tryHistory(log *slog.Logger) {
	if err := d.keepEnded(); err != nil {
		log.Error("jobs that have ended are not in the history yet", "jobs", len(d.buried), "error", err)
	}
}

// observe lets the estimator learn from a job that ended before this daemon.
func (d *Daemon) observe(j *api.Job) {
	if j.State != api.Done || d.cfg.Estimator == nil {
		return
	}
	var demand job.Demand
	n := int32(max(1, j.GPUs.Ask))
	demand.Roles[0] = job.Role{Tasks: n, GPU: 1000}
	if j.GPUs.Ask < 1 {
		demand.Roles[0] = job.Role{Tasks: 1, GPU: 0, CPU: 1000}
		if j.GPUs.Ask > 0 {
			demand.Roles[0].GPU = unit.Milli(j.GPUs.Ask*1000 + 0.5)
		}
	}
	d.cfg.Estimator.Observe(&job.Job{
		Key: j.ID, Name: j.Name, User: j.User, Tenant: j.Tenant, Submit: d.Loop.Clock.Since(j.Submitted), Demand: &demand,
	}, j.Ran.Duration())
}
