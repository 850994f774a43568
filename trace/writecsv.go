package trace

import (
	"bufio"
	"bytes"
	"errors"
	"io"
	"slices"
	"strconv"
	"time"

	"github.com/norn-scheduler/norn/cluster/unit"
	"github.com/norn-scheduler/norn/internal/jsontext"
	"github.com/norn-scheduler/norn/job"
)

// csvColumn is a column of Norn's CSV: it appends its field of a job, or
// nothing where the field is empty. A column that is empty for all jobs is not
// written.
type csvColumn struct {
	name   string
	append func(b []byte, e *Entry) []byte
	always bool
}

// WriteCSV writes a trace as Norn's CSV, with the columns that have something
// in them. It holds the whole trace in memory to know which those are, and
// tells what the CSV cannot carry.
func WriteCSV(w io.Writer, src Source) (Written, error) {
	var done Written
	var all ordering
	var e Entry
	losses := newLosses()
	for {
		err := src.Next(&e)
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return done, err
		}
		losses.add(&e)
		all.hold(&e)
	}
	origin := originOf(src)
	byDay := !origin.IsZero() && all.n > 0 && all.held(0).Job.Submit == 0 && origin.UnixNano() >= int64(aBillion)
	if !origin.IsZero() && !byDay {
		losses.origin = 1
	}
	columns := usedColumns(csvColumns(origin, byDay), &all)
	out := bufio.NewWriterSize(w, headSize)
	for i, c := range columns {
		if i > 0 {
			out.WriteByte(',')
		}
		out.WriteString(c.name)
	}
	out.WriteByte('\n')
	var line []byte
	for i := range all.n {
		line = appendRow(line[:0], columns, all.held(i))
		if _, err := out.Write(line); err != nil {
			return done, err
		}
	}
	done.Jobs, done.Lost = all.n, losses.list()
	return done, out.Flush()
}

func usedColumns(columns []csvColumn, all *ordering) []csvColumn {
	var scratch []byte
	return slices.DeleteFunc(columns, func(c csvColumn) bool {
		if c.always {
			return false
		}
		for i := range all.n {
			if scratch = c.append(scratch[:0], all.held(i)); len(scratch) > 0 {
				return false
			}
		}
		return true
	})
}

func appendRow(b []byte, columns []csvColumn, e *Entry) []byte {
	for i, c := range columns {
		if i > 0 {
			b = append(b, ',')
		}
		at := len(b)
		b = c.append(b, e)
		if field := b[at:]; bytes.ContainsAny(field, ",\"\n\r") || len(field) > 0 && field[0] == '#' {
			quoted := []byte{'"'}
			for _, ch := range field {
				if ch == '"' {
					quoted = append(quoted, '"')
				}
				quoted = append(quoted, ch)
			}
			b = append(append(b[:at], quoted...), '"')
		}
	}
	return append(b, '\n')
}

// csvColumns are all columns, in the order in which they are written.
func csvColumns(origin time.Time, byDay bool) []csvColumn {
	text := func(name string, get func(j *job.Job) string) csvColumn {
		return csvColumn{name: name, append: func(b []byte, e *Entry) []byte { return append(b, get(&e.Job)...) }}
	}
	number := func(name string, get func(e *Entry) int64) csvColumn {
		return csvColumn{name: name, append: func(b []byte, e *Entry) []byte {
			if v := get(e); v != 0 {
				b = strconv.AppendInt(b, v, 10)
			}
			return b
		}}
	}
	return slices.Concat([]csvColumn{
		text("job", func(j *job.Job) string { return j.Key }),
		{name: "submit", append: func(b []byte, e *Entry) []byte { return appendMoment(b, e.Job.Submit, origin, byDay) }, always: true},
		{name: "duration", append: func(b []byte, e *Entry) []byte { return unit.AppendSeconds(b, e.Truth.Work) }, always: true},
	}, demandColumns(number), []csvColumn{
		text("user", func(j *job.Job) string { return j.User }),
		text("tenant", func(j *job.Job) string { return j.Tenant }),
		text("partition", func(j *job.Job) string { return j.Partition }),
		text("app", func(j *job.Job) string { return j.App }),
		text("name", func(j *job.Job) string { return j.Name }),
		text("model", func(j *job.Job) string { return j.Model }),
		text("backbone", func(j *job.Job) string { return j.Backbone }),
		text("dataset", func(j *job.Job) string { return j.Dataset }),
		{name: "share", append: func(b []byte, e *Entry) []byte {
			if e.Job.Share {
				b = append(b, '1')
			}
			return b
		}},
		number("batch", func(e *Entry) int64 { return int64(e.Job.Batch) }),
		text("kind", func(j *job.Job) string { return named(j.Kind, job.Training) }),
		{name: "units", append: func(b []byte, e *Entry) []byte { return appendFloat(b, e.Job.Units, e.Job.Units != 0) }},
		text("unit", func(j *job.Job) string { return j.Unit }),
		number("priority", func(e *Entry) int64 { return int64(e.Job.Priority) }),
		{name: "deadline", append: func(b []byte, e *Entry) []byte {
			if e.Job.Deadline == 0 {
				return b
			}
			return appendMoment(b, e.Job.Deadline, origin, byDay)
		}},
		{name: "soft", append: func(b []byte, e *Entry) []byte {
			if e.Job.Soft {
				b = append(b, '1')
			}
			return b
		}},
		{name: "estimate", append: func(b []byte, e *Entry) []byte { return appendTime(b, e.Job.Estimate) }},
		text("stop", func(j *job.Job) string { return named(j.Stop, job.Checkpoint) }),
		text("tier", func(j *job.Job) string { return named(j.Tier, job.Basic) }),
		text("resize", func(j *job.Job) string { return named(j.Resize, job.ByRestart) }),
		number("retries", func(e *Entry) int64 { return int64(e.Job.Retries) }),
	}, truthColumns(), hintColumns())
}

// named is the name of v, or nothing when it is the one taken for granted.
func named[T interface {
	comparable
	String() string
}](v, usual T) string {
	if v == usual {
		return ""
	}
	return v.String()
}

func demandColumns(number func(string, func(e *Entry) int64) csvColumn) []csvColumn {
	first := func(e *Entry) *job.Role { return &e.Job.Demand.Roles[0] }
	return []csvColumn{
		{name: "gpus", append: func(b []byte, e *Entry) []byte {
			return jsontext.AppendMilli(b, first(e).GPU*unit.Milli(first(e).Tasks))
		}, always: true},
		number("tasks", func(e *Entry) int64 {
			if r := first(e); r.GPU == unit.One || r.Tasks == 1 && r.GPU < unit.One {
				return 0 // as the reader takes it to be
			}
			return int64(first(e).Tasks)
		}),
		number("min_tasks", func(e *Entry) int64 { return int64(first(e).Min) }),
		number("max_tasks", func(e *Entry) int64 { return int64(first(e).Max) }),
		{name: "cpus", append: func(b []byte, e *Entry) []byte {
			if first(e).CPU == 0 {
				return b
			}
			return jsontext.AppendMilli(b, first(e).CPU*unit.Milli(first(e).Tasks))
		}},
		number("mem", func(e *Entry) int64 { return int64(first(e).Memory) * int64(first(e).Tasks) }),
		number("gpu_mem", func(e *Entry) int64 { return int64(first(e).GPUMemory) }),
		{name: "gpu_type", append: func(b []byte, e *Entry) []byte { return append(b, e.Job.Demand.Types...) }},
		{name: "slots", append: func(b []byte, e *Entry) []byte { return append(b, first(e).Slots...) }},
		{name: "where", append: func(b []byte, e *Entry) []byte { return append(b, e.Job.Demand.Where...) }},
		{name: "tolerate", append: func(b []byte, e *Entry) []byte { return append(b, e.Job.Demand.Tolerate...) }},
		{name: "within", append: func(b []byte, e *Entry) []byte { return append(b, e.Job.Demand.InWithin()...) }},
	}
}

func truthColumns() []csvColumn {
	return []csvColumn{
		{name: "attempts", append: func(b []byte, e *Entry) []byte {
			for i, a := range e.Truth.Attempts {
				if i > 0 {
					b = append(b, '|')
				}
				b = unit.AppendSeconds(b, a)
			}
			return b
		}},
		{name: "outcome", append: func(b []byte, e *Entry) []byte { return append(b, named(e.Truth.Outcome, Passed)...) }},
		{name: "wait", append: func(b []byte, e *Entry) []byte {
			if !e.Truth.HasWait {
				return b
			}
			return unit.AppendSeconds(b, e.Truth.Wait)
		}},
		{name: "at_least", append: func(b []byte, e *Entry) []byte {
			if e.Truth.AtLeast {
				b = append(b, '1')
			}
			return b
		}},
		{name: "true_gpu_mem", append: func(b []byte, e *Entry) []byte {
			if e.Truth.GPUMemory > 0 {
				b = strconv.AppendInt(b, int64(e.Truth.GPUMemory), 10)
			}
			return b
		}},
	}
}

func hintColumns() []csvColumn {
	hint := func(name string, add func(b []byte, h *job.Hints) []byte) csvColumn {
		return csvColumn{name: name, append: func(b []byte, e *Entry) []byte {
			if e.Job.Hints == nil {
				return b
			}
			return add(b, e.Job.Hints)
		}}
	}
	return []csvColumn{
		hint("user_estimate", func(b []byte, h *job.Hints) []byte { return appendTime(b, h.UserEstimate) }),
		hint("group_estimate", func(b []byte, h *job.Hints) []byte { return appendTime(b, h.GroupEstimate) }),
		hint("group_gpu_estimate", func(b []byte, h *job.Hints) []byte { return appendTime(b, h.GroupSizeEstimate) }),
		hint("group", func(b []byte, h *job.Hints) []byte { return append(b, h.Group...) }),
		hint("qos", func(b []byte, h *job.Hints) []byte { return append(b, h.QoS...) }),
		hint("sensitivity", func(b []byte, h *job.Hints) []byte { return append(b, h.Sensitivity...) }),
		hint("rank", func(b []byte, h *job.Hints) []byte { return appendFloat(b, h.Rank, h.HasRank) }),
		hint("weight", func(b []byte, h *job.Hints) []byte { return appendFloat(b, h.Weight, h.Weight != 0) }),
		hint("cpu_per_gpu", func(b []byte, h *job.Hints) []byte {
			if h.CPUPerGPU == 0 {
				return b
			}
			return append(b, h.CPUPerGPU.String()...)
		}),
		hint("latency", func(b []byte, h *job.Hints) []byte { return appendFloat(b, h.Latency, h.Latency != 0) }),
		hint("rungs", func(b []byte, h *job.Hints) []byte { return append(b, h.Rungs.String()...) }),
		hint("shape", func(b []byte, h *job.Hints) []byte {
			if h.Shape == nil {
				return b
			}
			return append(b, h.Shape.String()...)
		}),
	}
}

func appendFloat(b []byte, v float64, told bool) []byte {
	if !told {
		return b
	}
	return jsontext.AppendNumber(b, v)
}

func appendTime(b []byte, d time.Duration) []byte {
	if d == 0 {
		return b
	}
	return unit.AppendSeconds(b, d)
}

// appendMoment writes a moment as seconds or as a time of day.
func appendMoment(b []byte, at time.Duration, origin time.Time, byDay bool) []byte {
	if !byDay {
		return unit.AppendSeconds(b, at)
	}
	day := origin.Add(at).UTC()
	if day.Nanosecond() == 0 {
		return day.AppendFormat(b, time.DateTime)
	}
	return day.AppendFormat(b, time.RFC3339Nano)
}

// losses counts what the CSV cannot carry.
type losses struct {
	origin int
	kinds  []lossKind
}

type lossKind struct {
	what string
	lost func(e *Entry) bool
	jobs int
}

func newLosses() *losses {
	hint := func(what string, lost func(h *job.Hints) bool) lossKind {
		return lossKind{what: what, lost: func(e *Entry) bool { return e.Job.Hints != nil && lost(e.Job.Hints) }}
	}
	return &losses{kinds: []lossKind{
		{what: "roles beside the first", lost: func(e *Entry) bool {
			r := &e.Job.Demand.Roles
			return r[1].Tasks+r[2].Tasks+r[3].Tasks > 0
		}},
		{what: "names of roles", lost: func(e *Entry) bool { return e.Job.Demand.Roles[0].Name != "" }},
		hint("times of an iteration, of its stages and bursts", func(h *job.Hints) bool {
			return h.Iteration > 0 || h.Stages != [3]time.Duration{} || h.Bursts[0].To > 0
		}),
		hint("speed and use of GPUs", func(h *job.Hints) bool {
			return h.Speed != 0 || h.GPUUse != 0 || h.MemoryUse != 0 || h.HostUse != 0 || h.CPUUse != 0 || h.GPUMemory != 0 || h.Mixed
		}),
		hint("worth of deadlines", func(h *job.Hints) bool { return h.Worth != [4]job.Worth{} }),
		hint("adaptation, plans and patterns", func(h *job.Hints) bool {
			return h.Adapts != "" || h.Epochs != 0 || h.Modes[0] != job.Mode{} || h.Plan != "" || h.Pattern != "" || h.Sensitive || h.LeastUtility != 0
		}),
		{what: "changes of batch and noise", lost: func(e *Entry) bool { return e.Truth.Course != nil }},
		hint("running on CPUs instead", func(h *job.Hints) bool {
			return h.CPUTime != 0 || h.CPUEstimate != 0 || h.CPUs != 0 || h.CPUMemory != 0
		}),
	}}
}

func (l *losses) add(e *Entry) {
	for i := range l.kinds {
		if l.kinds[i].lost(e) {
			l.kinds[i].jobs++
		}
	}
}

func (l *losses) list() []Loss {
	var out []Loss
	if l.origin > 0 {
		out = append(out, Loss{What: "the time of day at zero"})
	}
	for _, k := range l.kinds {
		if k.jobs > 0 {
			out = append(out, Loss{k.what, k.jobs})
		}
	}
	return out
}
