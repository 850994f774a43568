// Package replay turns an event log back into what it tells of: the state at
// any moment, the trace of jobs that another policy may be tried on, and the
// life of one job.
package replay

import (
	"errors"
	"io"
	"strings"
	"time"

	"github.com/norn-scheduler/norn/engine"
	"github.com/norn-scheduler/norn/eventlog"
	"github.com/norn-scheduler/norn/job"
	"github.com/norn-scheduler/norn/state"
	"github.com/norn-scheduler/norn/trace"
)

// Fold reads a log to its end and folds it, showing every event to the sinks.
// Several logs that lie one behind the other, as a live world writes them, are
// folded as the one that they go on with. On an error, which names the line, the
// state is that before the line.
func Fold(r *eventlog.Reader, sinks ...engine.Sink) (*state.State, error) {
	s, _, err := FoldParts(r, sinks...)
	return s, err
}

// FoldParts does what Fold does, and tells of the logs that it has met.
func FoldParts(r *eventlog.Reader, sinks ...engine.Sink) (*state.State, []Part, error) {
	f, err := newFolder(r, sinks)
	if err == nil {
		err = f.run()
	}
	return f.s, f.parts, err
}

// Format reads an event log as a trace: the jobs that were submitted, with the
// run times that the log tells. It is meant for trace.Options.Extra.
//
// A job that had not ended when the log did is taken to run at least as long as
// it had. A job that had never run is taken to run as long as was estimated,
// and is left out if there was no estimate.
func Format() trace.Format {
	return trace.Format{
		Name: "log", Aliases: []string{"eventlog", "norn-log"}, Title: "Norn's event log, of a simulation or a live cluster",
		Match: func(h *trace.Head) int {
			if line := h.Line(0); len(line) > 19 && string(line[:19]) == `{"norn":"eventlog",` {
				return 1000
			}
			return 0
		},
		Decode: func(in *trace.Input) (trace.Source, error) {
			r, err := eventlog.NewReader(in.Body, in.Name)
			if err != nil {
				return nil, err
			}
			if !r.Header.Origin.IsZero() {
				in.Origin(r.Header.Origin)
			}
			in.InOrder()
			return jobs(r, in)
		},
	}
}

// history is the source of the jobs of a log.
type history struct {
	in       *trace.Input
	state    *state.State
	attempts attempts
	courses  courses
	next     job.ID
}

// jobs folds the log, and keeps how long the attempts that failed ran. Of a log
// that breaks off, the jobs are taken as they stood then.
func jobs(r *eventlog.Reader, in *trace.Input) (trace.Source, error) {
	h := &history{in: in, attempts: attempts{}, courses: courses{}}
	s, parts, err := FoldParts(r, h.attempts, h.courses)
	for i := range parts {
		if torn := parts[i].Torn; torn != nil {
			in.Note(at(torn, r) + ", and another one goes on")
		}
	}
	if errors.Is(err, eventlog.ErrTorn) {
		in.Note(at(err, r) + ": jobs are taken as they stood then")
		err = nil
	}
	if err != nil {
		return nil, err
	}
	h.state = s
	return h, nil
}

// at is an error about a line of a log, without the name of the log.
func at(err error, r *eventlog.Reader) string {
	return "line " + strings.TrimPrefix(err.Error(), r.Name()+":")
}

// attempts is how long each attempt ran that failed and kept nothing.
type attempts map[job.ID][]time.Duration

// Event implements engine.Sink.
func (a attempts) Event(ev *eventlog.Event, s *state.State) {
	if ev.Kind == eventlog.Fail && ev.Kept <= 0 {
		a[ev.Job] = append(a[ev.Job], s.Record(ev.Job).Attempt)
	}
}

// courses is what each job trained with as it went on, as far as it has reported.
type courses map[job.ID][]trace.Turn

// Event implements engine.Sink. Work that is done once more is that of the last time.
func (c courses) Event(ev *eventlog.Event, s *state.State) {
	if ev.Kind != eventlog.Config && ev.Kind != eventlog.Carry {
		return
	}
	r := s.Record(ev.Job)
	now, all := trace.Turn{From: r.ProgressAt(s.Now), Reported: r.Config.Reported}, c[ev.Job]
	if now.Reported == (job.Reported{}) {
		return
	}
	for len(all) > 0 && all[len(all)-1].From >= now.From {
		all = all[:len(all)-1]
	}
	if len(all) == 0 && now.From > 0 {
		all = append(all, trace.Turn{Reported: job.Reported{Batch: int32(r.Job.Batch), Pace: 1}})
	}
	c[ev.Job] = append(all, now)
}

// Next implements trace.Source.
func (h *history) Next(e *trace.Entry) error {
	for int(h.next) < h.state.Jobs() {
		r := h.state.Record(h.next)
		if h.next++; r.Past {
			continue
		}
		h.in.Row()
		*e = trace.Entry{Job: *r.Job}
		e.Truth.Attempts, e.Truth.Course = h.attempts[r.Job.ID], h.courses[r.Job.ID]
		if ok := truth(&e.Truth, r, h.state.Now); ok {
			return nil
		}
		return trace.LeaveOutJob("job "+r.Job.Key, "never ran, and its run time was not estimated", 1)
	}
	return io.EOF
}

// truth is what the log tells about how long a job runs; ok is false when it
// tells nothing.
func truth(t *trace.Truth, r *job.Record, end time.Duration) (ok bool) {
	t.Work = r.ProgressAt(end)
	switch {
	case r.Phase == job.FailedPhase:
		t.Outcome = trace.Failed
	case r.Phase == job.Cancelled:
		t.Outcome = trace.Killed
	case !r.Phase.Over():
		t.AtLeast = true
	}
	if r.Starts > 0 {
		return true
	}
	switch {
	case r.Estimate >= 0:
		t.Work = r.Estimate
	case r.Job.Estimate > 0:
		t.Work = r.Job.Estimate
	default:
		return false
	}
	return true
}
