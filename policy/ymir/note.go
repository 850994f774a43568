package ymir

import (
	"slices"
	"time"

	"github.com/norn-scheduler/norn/job"
	"github.com/norn-scheduler/norn/sched"
)

// note is what is remembered of a job.
type note struct {
	ready   time.Duration // when its estimation is done; -1: it is not measured
	divided time.Duration // when GPUs were last divided, on one job of each pool; -1 on the others
	bans    []job.ID      // with which it must not be merged again; job.None for those that are not known any more
	factor  float64       // on its speed, as believed when it was to go on from what another job learns; 0: it was not
}

// NewNote is a note of this policy, for the table of policies.
func NewNote() sched.Note { return new(note) }

// Kind implements sched.Note.
func (n *note) Kind() string { return "ymir" }

// Fields implements sched.Note.
func (n *note) Fields(f *sched.Fields) {
	f.Moment("ready", &n.ready)
	f.Moment("divided", &n.divided)
	f.Refs("bans", &n.bans)
	f.Float("factor", &n.factor)
}

// change remembers something of a job besides what is remembered already.
func change(p *sched.Plan, j sched.Job, f func(*note)) {
	n, _ := sched.Noted[note](p, j)
	f(&n)
	p.Remember(j.ID, &n)
}

// banned tells whether a job must not be merged with another one.
func banned(j sched.Job, other job.ID) bool {
	n, _ := sched.Recall[note](j)
	return slices.Contains(n.bans, other)
}

// ban remembers that a job must not be merged with another one, and forgets those that
// have ended.
func ban(v *sched.View, p *sched.Plan, j sched.Job, other job.ID) {
	change(p, j, func(n *note) {
		left := slices.DeleteFunc(slices.Clone(n.bans), func(id job.ID) bool { return over(v, id) })
		n.bans = append(left, other)
	})
}

// over tells whether a job has ended; one that is not known any more has.
func over(v *sched.View, id job.ID) bool { return id == job.None || v.Job(id).Phase().Over() }

// divided tells whether GPUs were divided at this very moment already. That is noted on a
// job of each pool, which may have ended since.
func (y *policy) divided(v *sched.View) bool {
	if v.First {
		y.noted = y.noted[:0]
		for j := range v.Waiting() {
			y.noted = append(y.noted, j.ID)
		}
		for j := range v.Running() {
			y.noted = append(y.noted, j.ID)
		}
	}
	return slices.ContainsFunc(y.noted, func(id job.ID) bool {
		j := v.Job(id)
		n, _ := sched.Recall[note](j)
		return n.divided == v.Now && (j.Waiting() || j.Running())
	})
}
