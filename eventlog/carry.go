package eventlog

import (
	"fmt"
	"strconv"
	"time"

	"github.com/norn-scheduler/norn/cluster/unit"
	"github.com/norn-scheduler/norn/internal/jsontext"
	"github.com/norn-scheduler/norn/job"
	"github.com/norn-scheduler/norn/state"
)

// Carried is the events that take the jobs of a state over into a new log: those
// that have not ended, and as many as past of those that ended last, from which
// policies learn. They are in the order of their numbers, which they lose: they are
// numbered anew from zero.
func Carried(s *state.State, past int) []Event {
	left := map[job.ID]int32{} // of those that have ended: their place in the order in which they did
	ended := s.Ended()
	for i, id := range ended[max(0, len(ended)-past):] {
		left[id] = int32(i)
	}
	var out []Event
	at := map[job.ID]job.ID{}
	for i := range job.ID(s.Jobs()) {
		place, kept := left[i]
		if s.Record(i).Phase.Over() && !kept {
			continue
		}
		at[i] = job.ID(len(out))
		out = append(out, carried(s, i, at[i], place))
	}
	renumber(out, at)
	return out
}

// carried is the event that takes over one job, which gets a new number.
func carried(s *state.State, was, now job.ID, left int32) Event {
	r := s.Record(was)
	spec, past := *r.Job, *r
	spec.ID, spec.Serial = now, r.Serial()
	ev := Event{Time: s.Now, Kind: Past, Job: now, Spec: &spec, Record: &past, Estimate: r.Estimate, Reason: r.Reason, Left: left}
	if r.Phase.Over() {
		return ev
	}
	on, pinned := s.Alloc(was), s.PinnedPlace(was)
	ev.Kind, ev.Frozen = Carry, on != nil && pinned != nil
	if ev.Alloc = on; on == nil {
		ev.Alloc = pinned
	}
	return ev
}

// renumber lets everything that names a job name it by its new number, which at
// tells; one that is not carried over is named no more.
func renumber(events []Event, at map[job.ID]job.ID) {
	now := func(id job.ID) job.ID {
		if n, carried := at[id]; carried {
			return n
		}
		return job.None
	}
	for i := range events {
		ev := &events[i]
		ev.Reason.Job = now(ev.Reason.Job)
		if id := ev.Reason.Job; id != job.None && events[id].Kind == Past {
			ev.Reason.Job = job.None
		}
		ev.Record.With = now(ev.Record.With) // what it has learnt from one that is gone stays with it
		ev.Record.Note = ev.Record.Note.Renumbered(now)
	}
}

func (ev *Event) appendCarry(f *jsontext.Writer) {
	f.Key("spec")
	ev.appendSpec(f)
	appendSerial(f, ev.Spec)
	f.Int("left", int64(ev.Left))
	ev.appendEstimate(f)
	appendAlloc(f, ev.Alloc)
	f.Bool("frozen", ev.Frozen)
	appendReason(f, &ev.Reason)
	r := ev.Record
	f.Key("record")
	f.B = append(f.B, '{')
	f.Text("phase", r.Phase.String())
	moment := func(name string, at time.Duration) {
		if at >= 0 {
			f.Key(name)
			f.B = unit.AppendSeconds(f.B, at)
		}
	}
	if r.Merged != job.Apart {
		f.Text("merged", r.Merged.String())
		integer(f, "with", int64(r.With))
	}
	f.Bool("profiling", r.Profiling)
	moment("since", r.Since)
	if r.Phase.HasDevices() && r.Placed != r.Since {
		moment("placed", r.Placed)
	}
	moment("first_start", r.FirstStart)
	moment("end", r.End)
	f.Int("tasks", int64(r.Tasks))
	f.Milli("gpus", r.Milli)
	f.Time("held", r.AllocatedTime)
	f.Float("service", r.Service)
	f.Float("lost", r.Lost)
	f.Float("failed", r.Failed)
	f.Time("ready", r.Ready)
	f.Float("rate", r.Speed)
	f.Time("progress", r.Progress)
	f.Time("attempt", r.Attempt)
	f.Time("saved", r.Saves.Last)
	f.Time("saves_every", r.Saves.Every)
	f.Time("saves_from", r.Saves.From)
	f.Bool("saves_untold", r.Saves.Regular)
	appendConfig(f, &r.Config)
	for i, n := range counts(r) {
		f.Int(countNames[i], int64(*n))
	}
	f.B = append(f.B, '}')
	appendNote(f, r.Note)
}

// appendConfig writes what a job has reported of its training. The chosen side follows
// from its allocation.
func appendConfig(f *jsontext.Writer, c *job.Config) {
	if c.Reported == (job.Reported{}) {
		return
	}
	f.Key("config")
	f.B = append(f.B, '{')
	appendReported(f, &c.Reported)
	if c.Spent != ([job.MaxModes]int32{}) {
		f.Key("spent")
		f.B = append(f.B, '[')
		for i, n := range c.Spent {
			if i > 0 {
				f.B = append(f.B, ',')
			}
			f.B = strconv.AppendInt(f.B, int64(n), 10)
		}
		f.B = append(f.B, ']')
	}
	f.B = append(f.B, '}')
}

// config reads what a job had reported of its training.
func (l *Reader) config(c *job.Config) error {
	t := &l.text
	err := t.Object(func(key []byte) error {
		if done, err := l.reported(&c.Reported, key); done {
			return err
		}
		if string(key) != "spent" {
			return t.Skip() // of a later program
		}
		n := 0
		return t.Array(func() error {
			if n++; n > len(c.Spent) {
				return fmt.Errorf("epochs with more than %d batch sizes", len(c.Spent))
			}
			return number(t, &c.Spent[n-1])
		})
	})
	if err == nil {
		err = c.Reported.Check()
	}
	return err
}

var countNames = [...]string{"starts", "preemptions", "migrations", "resizes", "failures"}

// counts are the counters of a record, as countNames calls them.
func counts(r *job.Record) [len(countNames)]*int32 {
	return [...]*int32{&r.Starts, &r.Preemptions, &r.Migrations, &r.Resizes, &r.Failures}
}

func (l *Reader) recordField(key []byte) (err error) {
	t, r := &l.text, &l.record
	for i, name := range countNames {
		if name == string(key) {
			return number(t, counts(r)[i])
		}
	}
	float := func(to *float64) error {
		if *to, err = t.Float(); err == nil && *to < 0 && to != &r.Lost {
			err = fmt.Errorf("%s of %v", key, *to)
		}
		return err
	}
	switch string(key) {
	case "phase":
		return named(t, &r.Phase, job.Held, job.Waiting, job.Assigned, job.Running, job.Stopping, job.Done, job.FailedPhase, job.Cancelled)
	case "merged":
		return named(t, &r.Merged, job.Together, job.After)
	case "with":
		return number(t, &r.With)
	case "profiling":
		return flag(t, &r.Profiling)
	case "since":
		return seconds(t, &r.Since)
	case "placed":
		return seconds(t, &r.Placed)
	case "first_start":
		return seconds(t, &r.FirstStart)
	case "end":
		return seconds(t, &r.End)
	case "tasks":
		return number(t, &r.Tasks)
	case "gpus":
		return milli(t, &r.Milli)
	case "held":
		return seconds(t, &r.AllocatedTime)
	case "service":
		return float(&r.Service)
	case "lost":
		return float(&r.Lost)
	case "failed":
		return float(&r.Failed)
	case "ready":
		return seconds(t, &r.Ready)
	case "rate":
		return float(&r.Speed)
	case "progress":
		return seconds(t, &r.Progress)
	case "attempt":
		return seconds(t, &r.Attempt)
	case "saved":
		return seconds(t, &r.Saves.Last)
	case "saves_every":
		return seconds(t, &r.Saves.Every)
	case "saves_from":
		return seconds(t, &r.Saves.From)
	case "saves_untold":
		return flag(t, &r.Saves.Regular)
	case "config":
		return l.config(&r.Config)
	}
	return t.Skip() // of a later program
}
