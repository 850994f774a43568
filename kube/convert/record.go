package convert

import (
	"bytes"
	"errors"
	"fmt"

	"github.com/norn-scheduler/norn/eventlog"
	"github.com/norn-scheduler/norn/job"
)

// maxRecord bounds the annotation names.Record, in bytes.
const maxRecord = 48 << 10

// FormatRecord writes what Norn has to remember of a job, as the value of the annotation
// names.Record. It is the event carry of the event log (docs/formats.md), without what
// follows from the object of the job, its pods and its Plan. Of the job there are the key
// and the number for life; what it holds is left out. The event needs its Record, whose
// Job is set. It fails on times that cannot be written, and on a record beyond 48 KiB,
// such as one of a policy with a large note.
func FormatRecord(ev *eventlog.Event) (string, error) {
	if ev.Record == nil || ev.Record.Job == nil {
		return "", errors.New("record: an event that tells of no job")
	}
	one := *ev
	one.Kind, one.Job, one.Alloc, one.Frozen, one.Left = eventlog.Carry, 0, nil, false, 0
	shape := job.GPUs(1) // which is the shortest to write
	one.Spec = &job.Job{Key: ev.Record.Job.Key, Serial: ev.Record.Serial(), Demand: &shape}
	one.Reason.Job = job.None
	b, err := one.Append(nil)
	switch b = bytes.TrimSpace(b); {
	case err != nil:
		return "", fmt.Errorf("record of job %s: %w", one.Spec.Key, err)
	case len(b) > maxRecord:
		return "", fmt.Errorf("record of job %s: %d bytes, at most %d are written", one.Spec.Key, len(b), maxRecord)
	}
	return string(b), nil
}

// ParseRecord reads what FormatRecord has written: an event of kind carry about job 0 that
// holds nothing and is trained with no other. Of its Spec only the key and the serial
// number count. It fails on anything else that users may
// have put there. The numbers of other jobs in its note are those of the log in which it
// was written.
func ParseRecord(text string) (*eventlog.Event, error) {
	if len(text) > maxRecord {
		return nil, fmt.Errorf("record: %d bytes, at most %d are read", len(text), maxRecord)
	}
	ev := new(eventlog.Event)
	if err := ev.Parse([]byte(text)); err != nil {
		return nil, fmt.Errorf("record: %w", err)
	}
	r := ev.Record
	switch {
	case ev.Kind != eventlog.Carry:
		return nil, fmt.Errorf("record: an event %s, not carry", ev.Kind)
	case ev.Alloc != nil || ev.Frozen || ev.Job != 0:
		return nil, errors.New("record: it says what the job holds, or its number")
	case min(r.Starts, r.Preemptions, r.Migrations, r.Resizes, r.Failures, r.Tasks) < 0 || r.Milli < 0:
		return nil, errors.New("record: a negative number")
	case min(ev.Time, r.Since, r.AllocatedTime, r.Progress, r.Attempt, r.Saves.Last, r.Saves.Every, r.Saves.From) < 0:
		return nil, errors.New("record: a negative time")
	}
	ev.Reason.Job, r.With, r.Merged = job.None, job.None, job.Apart
	return ev, nil
}
