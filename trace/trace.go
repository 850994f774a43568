// Package trace reads and writes streams of jobs: published traces, Norn's own
// two formats, and what clusters in production say of themselves.
//
// Nouns:
//   - An Entry is a job and its Truth.
//   - The Truth is what only the simulator may know: how long the job really
//     runs, in which attempts, and how it ends.
//   - A Source is a stream of entries.
//   - A Format turns a file into a Source.
//   - A Reader opens a file in whatever format it is and gives its entries in
//     order of submission.
//   - The Info says what the Reader has met, assumed and left out.
//   - A Summary is the statistics of a source.
//
// Units: times are durations since the zero of the trace. Where a file tells
// the time of day, zero is the first submission that is read and Info.Origin
// says when that was; where a file has a zero of its own, it is kept. Devices
// and cores are counted in thousandths, memory in bytes.
//
// docs/traces.md tells for each format which fields are used and what is
// guessed when they are missing. To read a format of your own, describe it with
// a Table (see the example) and hand it over in Options.Extra.
package trace

import (
	"io"
	"time"

	"github.com/norn-scheduler/norn/cluster/unit"
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

	Wait      time.Duration // how long it queued where the trace was taken, for reports alone; see HasWait
	HasWait   bool
	GPUMemory unit.Bytes // peak on each of its GPUs; 0: what it asks for

	AtLeast bool // Work is a lower bound: the trace ends or was cut before the job did

	Course []Turn // what the job trains with as it goes on, in order, the first from 0 on; nil: what its user asked for, always
}

// Turn is a change of what a job trains with. The job reports it when it comes.
type Turn struct {
	From time.Duration // work done, from which on it holds
	job.Reported
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

var outcomeNames = [...]string{"passed", "failed", "killed"}

// String is the name of the outcome: passed, failed or killed.
func (o Outcome) String() string { return outcomeNames[o] }

// ParseOutcome reads the name of an outcome; the empty name is Passed.
func ParseOutcome(s string) (Outcome, bool) {
	if s == "" {
		return Passed, true
	}
	for i, name := range outcomeNames {
		if name == s {
			return Outcome(i), true
		}
	}
	return 0, false
}

// Phase is the last phase of a job with this outcome.
func (o Outcome) Phase() job.Phase {
	return [...]job.Phase{job.Done, job.FailedPhase, job.Cancelled}[o]
}

// Source is a stream of jobs in order of submission, numbered from zero.
type Source interface {
	// Next fills e with the next job; io.EOF at the end. The caller may keep
	// everything to which e points.
	Next(e *Entry) error
}

// FromMemory serves jobs that are held in memory, which must be in order of
// submission and numbered from zero.
func FromMemory(jobs []Entry) Source { return &memory{jobs: jobs} }

type memory struct {
	jobs []Entry
	next int
}

// Next implements Source.
func (m *memory) Next(e *Entry) error {
	if m.next == len(m.jobs) {
		return io.EOF
	}
	*e = m.jobs[m.next]
	m.next++
	return nil
}
