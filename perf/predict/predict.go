// Package predict is what a scheduler believes about jobs: estimates of their
// run time, learnt from history, taken from the user's word, or given.
//
// Nouns: an estimate is the run time of a job in its reference configuration;
// an Estimator makes estimates and learns from jobs that have ended.
package predict

import (
	"time"

	"github.com/norn-scheduler/norn/job"
)

// Estimator predicts run times. Which one a run uses is part of the
// experiment.
type Estimator interface {
	// Estimate predicts the run time of a job, at its submission and again after
	// each failed attempt; ok is false when the estimator has nothing to say.
	Estimate(j *job.Job) (d time.Duration, ok bool)
	// Observe tells how long a job that has ended really ran.
	Observe(j *job.Job, ran time.Duration)
}

// None believes nothing.
type None struct{}

// Estimate has nothing to say.
func (None) Estimate(*job.Job) (time.Duration, bool) { return 0, false }

// Observe learns nothing.
func (None) Observe(*job.Job, time.Duration) {}

// User takes the user's word.
type User struct{}

// Estimate is what the user said, if anything.
func (User) Estimate(j *job.Job) (time.Duration, bool) { return j.Estimate, j.Estimate > 0 }

// Observe learns nothing.
func (User) Observe(*job.Job, time.Duration) {}
