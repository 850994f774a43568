// Package trace reads, writes and makes streams of jobs.
//
// Nouns: an Entry is a job and its Truth; the Truth is what only the simulator
// may know: how long the job really runs, in which attempts, and how it ends; a
// Source is a stream of entries in order of submission; a Format turns a file
// into one.
//
// Units: times are durations since the first submission of the trace, unless
// the trace has an origin of its own.
package trace

import (
	"time"

	"github.com/norn-scheduler/norn/job"
)

// Entry is one job of a trace.
type Entry struct {
	Job   job.Job
	Truth Truth
}

// Truth is what a scheduler cannot know about a job.
type Truth struct {
	Work     time.Duration   // of the last attempt: run time in the reference configuration
	Attempts []time.Duration // how long each failed attempt before it ran
	Outcome  Outcome
}

// Total is the run time over all attempts.
func (t *Truth) Total() time.Duration {
	sum := t.Work
	for _, a := range t.Attempts {
		sum += a
	}
	return sum
}

// Outcome is how a job ends.
type Outcome uint8

// The outcomes.
const (
	Passed Outcome = iota
	Failed
	Killed // by its user
)

func (o Outcome) String() string { return [...]string{"passed", "failed", "killed"}[o] }

// Phase is the last phase of a job with this outcome.
func (o Outcome) Phase() job.Phase {
	return [...]job.Phase{job.Done, job.FailedPhase, job.Cancelled}[o]
}

// Source is a stream of jobs in order of submission, numbered from zero.
type Source interface {
	// Next fills e with the next job; io.EOF at the end. What e points to is the
	// caller's to keep.
	Next(e *Entry) error
}
