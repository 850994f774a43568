package live

import (
	"time"

	"github.com/norn-scheduler/norn/api"
	"github.com/norn-scheduler/norn/job"
)

// Job is a job that has not ended: what is known of it beside its record, whatever the
// world is.
type Job struct {
	ID    job.ID
	Key   string // by which its user knows it
	Array string // key of the array that it belongs to; empty: it is in none
	User  string
	Spec  *api.JobSpec

	Run     int           // number of its last run, 0 before the first
	Exit    *Exit         // of the last run that ended
	Purpose Purpose       // why its run was told to leave
	Why     string        // of the purpose, for a reader
	Decided time.Duration // when its present run, or the end of that, was decided on
	Report  *api.Report   // the last one of rank 0 in this run
	Counts  Counts

	Broken string // why it can never run again: what was submitted is lost; empty: it can

	Exempt bool // from the limits of users and tenants: an operator has submitted it
	Passed bool // an operator lets it start whatever the limits say
	AtOnce int  // jobs of its array that may run at a time; 0: all

	Held  bool          // by a person
	Until time.Duration // held until then by a retry; 0: not
	After []api.After   // what it still waits for

	Lane    Lane
	Life    Life
	Course  Course
	Losses  Curve
	where   Whereabouts
	counted standing // for those whom it belongs to
}

// Intention is what a person wants of the run of a job, as the log has it; ok is false
// where that is nothing.
func (j *Job) Intention() (why job.Reason, ok bool) {
	code := map[Purpose]job.ReasonCode{Cancelled: job.Cancelling, Requeuing: job.UserRequest}[j.Purpose]
	return job.Reason{Code: code, Job: job.None, Text: j.Why}, code != job.NoReason
}

// intended takes over what the log says that somebody wants of a run.
func (j *Job) intended(why job.Reason) {
	switch why.Code {
	case job.Cancelling:
		j.Purpose, j.Why = Cancelled, why.Text
	case job.UserRequest:
		j.Purpose, j.Why = Requeuing, why.Text
	}
}

// standsSince is since when a job stands as it does: running on its devices, waiting.
func (j *Job) standsSince(r *job.Record) time.Duration {
	if j.where.Since > 0 && r.Phase == job.Running {
		return j.where.Since
	}
	return r.Since
}
