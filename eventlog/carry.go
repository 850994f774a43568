package eventlog

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	"github.com/norn-scheduler/norn/job"
	"github.com/norn-scheduler/norn/jsontext"
	"github.com/norn-scheduler/norn/state"
	"github.com/norn-scheduler/norn/unit"
)

// Carried is the events that take the jobs which have not ended over into a new
// log, in the order of their numbers, which they lose: they are numbered anew
// from zero.
func Carried(s *state.State) []Event {
	var out []Event
	for i := range job.ID(s.Jobs()) {
		r := s.Record(i)
		if r.Phase.Over() {
			continue
		}
		spec, past := *r.Job, *r
		spec.ID = job.ID(len(out))
		on, home := s.Alloc(i), s.Home(i)
		frozen := on != nil && home != nil
		if on == nil {
			on = home
		}
		out = append(out, Event{
			Time: s.Now, Kind: Carry, Job: spec.ID, Spec: &spec, Record: &past,
			Alloc: on, Frozen: frozen, Estimate: r.Estimate, Reason: r.Reason,
		})
	}
	renumber(s, out)
	return out
}

// Lessons is the events that take what was learnt of jobs that share devices over into
// a new log. They belong behind those of Carried.
func Lessons(s *state.State) []Event {
	var out []Event
	for pair, factor := range s.Learnt() {
		out = append(out, Event{Time: s.Now, Kind: Learnt, Pair: pair, Speed: factor})
	}
	slices.SortFunc(out, func(a, b Event) int {
		return cmp.Or(cmp.Compare(a.Pair.Job, b.Pair.Job), cmp.Compare(a.Pair.Beside, b.Pair.Beside), cmp.Compare(a.Pair.Type, b.Pair.Type))
	})
	return out
}

// renumber lets reasons that name a job name it by its new number; one that has
// ended is named no more.
func renumber(s *state.State, events []Event) {
	at := map[*job.Job]job.ID{}
	for i := range events {
		at[events[i].Record.Job] = job.ID(i)
	}
	for i := range events {
		if why := &events[i].Reason; s.Known(why.Job) {
			now, active := at[s.Record(why.Job).Job]
			if !active {
				now = job.None
			}
			why.Job = now
		}
		if r := events[i].Record; s.Known(r.With) {
			other, active := at[s.Record(r.With).Job]
			if r.With = other; !active { // what it has learnt from the other stays with it
				r.With = job.None
			}
		}
	}
}

func (ev *Event) appendCarry(f *jsontext.Writer) {
	f.Key("spec")
	ev.appendSpec(f)
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
	if r.Phase.Holds() && r.Placed != r.Since {
		moment("placed", r.Placed)
	}
	moment("first_start", r.FirstStart)
	f.Int("tasks", int64(r.Tasks))
	f.Milli("gpus", r.Milli)
	f.Time("held", r.HeldTime)
	f.Float("service", r.Service)
	f.Float("lost", r.Lost)
	f.Float("failed", r.Failed)
	f.Time("ready", r.Ready)
	f.Float("rate", r.Speed)
	f.Time("progress", r.Progress)
	f.Time("attempt", r.Attempt)
	for i, n := range counts(r) {
		f.Int(countNames[i], int64(*n))
	}
	if r.Memo != (job.Memo{}) {
		f.Key("memo")
		f.B = fmt.Appendf(f.B, "[%d,%d]", r.Memo[0], r.Memo[1])
	}
	f.B = append(f.B, '}')
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
		return named(t, &r.Phase, job.Held, job.Waiting, job.Assigned, job.Running, job.Stopping)
	case "merged":
		return named(t, &r.Merged, job.Together, job.After)
	case "with":
		return number(t, &r.With)
	case "profiling":
		r.Profiling, err = t.Bool()
		return err
	case "since":
		return seconds(t, &r.Since)
	case "placed":
		return seconds(t, &r.Placed)
	case "first_start":
		return seconds(t, &r.FirstStart)
	case "tasks":
		return number(t, &r.Tasks)
	case "gpus":
		return milli(t, &r.Milli)
	case "held":
		return seconds(t, &r.HeldTime)
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
	case "memo":
		return l.memo(&r.Memo)
	}
	return unknown(key)
}
