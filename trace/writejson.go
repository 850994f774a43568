package trace

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"math"
	"strconv"
	"time"
	"unicode/utf8"

	"github.com/norn-scheduler/norn/job"
	"github.com/norn-scheduler/norn/unit"
)

// WriteJSON writes a trace as Norn's JSON Lines, which carry all of it. Text
// that is not UTF-8 is mended.
func WriteJSON(w io.Writer, src Source) (Written, error) {
	var done Written
	out := bufio.NewWriterSize(w, headSize)
	var line []byte
	var e Entry
	for {
		err := src.Next(&e)
		if err != nil && !errors.Is(err, io.EOF) {
			return done, err
		}
		if done.Jobs == 0 { // the origin is known once the first job is
			line = appendTraceHeader(line[:0], originOf(src))
			if _, err := out.Write(line); err != nil {
				return done, err
			}
		}
		if err != nil {
			return done, out.Flush()
		}
		if line, err = appendEntry(line[:0], &e); err != nil {
			return done, fmt.Errorf("job %s: %w", e.Job.Key, err)
		}
		if _, err := out.Write(line); err != nil {
			return done, err
		}
		done.Jobs++
	}
}

func appendTraceHeader(b []byte, origin time.Time) []byte {
	b = fmt.Appendf(b, `{"norn":"trace","version":%d,"sorted":true`, traceVersion)
	if !origin.IsZero() {
		b = append(b, `,"origin":"`...)
		b = origin.UTC().AppendFormat(b, time.RFC3339Nano)
		b = append(b, '"')
	}
	return append(b, "}\n"...)
}

// fields appends the fields of an object, those that are zero left out.
type fields struct {
	b   []byte
	err error
}

func (f *fields) key(name string) {
	if last := f.b[len(f.b)-1]; last != '{' {
		f.b = append(f.b, ',')
	}
	f.b = append(f.b, '"')
	f.b = append(f.b, name...)
	f.b = append(f.b, `":`...)
}

func (f *fields) text(name, v string) {
	if v != "" {
		f.key(name)
		f.b = appendString(f.b, v)
	}
}

func (f *fields) time(name string, v time.Duration) {
	if v != 0 {
		f.key(name)
		f.b = unit.AppendSeconds(f.b, v)
	}
}

func (f *fields) int(name string, v int64) {
	if v != 0 {
		f.key(name)
		f.b = strconv.AppendInt(f.b, v, 10)
	}
}

func (f *fields) milli(name string, v unit.Milli) {
	if v != 0 {
		f.key(name)
		f.b = appendMilli(f.b, v)
	}
}

func (f *fields) float(name string, v float64) {
	if math.Float64bits(v) != 0 {
		f.key(name)
		f.number(v)
	}
}

func (f *fields) number(v float64) {
	if math.IsNaN(v) || math.IsInf(v, 0) {
		f.err = fmt.Errorf("%v cannot be written as a number", v)
		v = 0
	}
	f.b = appendNumber(f.b, v)
}

func (f *fields) bool(name string, v bool) {
	if v {
		f.key(name)
		f.b = append(f.b, "true"...)
	}
}

func appendEntry(b []byte, e *Entry) ([]byte, error) {
	f := &fields{b: append(b, '{')}
	j, t := &e.Job, &e.Truth
	f.text("job", j.Key)
	f.time("submit", j.Submit)
	f.demand(j.Demand)
	f.time("work", t.Work)
	if t.Attempts != nil {
		f.times("attempts", t.Attempts)
	}
	if t.Outcome != Passed {
		f.text("outcome", t.Outcome.String())
	}
	if t.HasWait {
		f.key("wait")
		f.b = unit.AppendSeconds(f.b, t.Wait)
	}
	f.bool("at_least", t.AtLeast)
	f.text("name", j.Name)
	f.text("user", j.User)
	f.text("tenant", j.Tenant)
	if j.Kind != job.Training {
		f.text("kind", j.Kind.String())
	}
	f.text("model", j.Model)
	f.text("backbone", j.Backbone)
	f.text("dataset", j.Dataset)
	f.int("batch", int64(j.Batch))
	f.float("units", j.Units)
	f.text("unit", j.Unit)
	f.int("priority", int64(j.Priority))
	f.time("deadline", j.Deadline)
	f.time("estimate", j.Estimate)
	if j.Stop != job.Checkpoint {
		f.text("stop", j.Stop.String())
	}
	f.int("retries", int64(j.Retries))
	if j.Hints != nil {
		f.key("hints")
		f.b = append(f.b, '{')
		f.hints(j.Hints)
		f.b = append(f.b, '}')
	}
	return append(f.b, "}\n"...), f.err
}

func (f *fields) times(name string, v []time.Duration) {
	f.key(name)
	f.b = append(f.b, '[')
	for i, d := range v {
		if i > 0 {
			f.b = append(f.b, ',')
		}
		f.b = unit.AppendSeconds(f.b, d)
	}
	f.b = append(f.b, ']')
}

func (f *fields) demand(d *job.Demand) {
	if d == nil {
		f.err = errors.New("has no demand")
		return
	}
	f.text("types", d.Types)
	if n := d.Roles[0].Tasks; d.Roles == job.GPUs(int(n)).Roles {
		f.int("gpus", int64(n))
		return
	}
	last := job.MaxRoles
	for last > 1 && d.Roles[last-1] == (job.Role{}) {
		last--
	}
	f.key("roles")
	f.b = append(f.b, '[')
	for i := range d.Roles[:last] {
		if i > 0 {
			f.b = append(f.b, ',')
		}
		f.b = append(f.b, '{')
		r := &d.Roles[i]
		f.text("name", r.Name)
		f.int("tasks", int64(r.Tasks))
		f.int("min", int64(r.Min))
		f.int("max", int64(r.Max))
		f.milli("gpu", r.GPU)
		f.int("gpu_mem", int64(r.GPUMemory))
		f.milli("cpu", r.CPU)
		f.int("mem", int64(r.Memory))
		f.b = append(f.b, '}')
	}
	f.b = append(f.b, ']')
}

func (f *fields) hints(h *job.Hints) {
	f.time("user_estimate", h.UserEstimate)
	f.time("group_estimate", h.GroupEstimate)
	f.time("group_gpu_estimate", h.GroupSizeEstimate)
	f.text("group", h.Group)
	if h.HasRank {
		f.key("rank")
		f.number(h.Rank)
	}
	f.time("iteration", h.Iteration)
	if h.Stages != ([3]time.Duration{}) {
		f.times("stages", h.Stages[:])
	}
	f.float("speed", h.Speed)
	f.float("gpu_use", h.GPUUse)
	f.float("memory_use", h.MemoryUse)
	f.int("gpu_mem", int64(h.GPUMemory))
	f.bool("mixed", h.Mixed)
	f.float("weight", h.Weight)
	f.text("qos", h.QoS)
	f.worth(h)
	f.text("adapts", h.Adapts)
	f.text("plan", h.Plan)
	f.text("pattern", h.Pattern)
	f.bool("sensitive", h.Sensitive)
	f.time("cpu_time", h.CPUTime)
	f.time("cpu_estimate", h.CPUEstimate)
	f.milli("cpus", h.CPUs)
	f.int("cpu_mem", int64(h.CPUMemory))
}

func (f *fields) worth(h *job.Hints) {
	last := len(h.Worth)
	for last > 0 && h.Worth[last-1] == (job.Worth{}) {
		last--
	}
	if last == 0 {
		return
	}
	f.key("worth")
	f.b = append(f.b, '[')
	for i := range h.Worth[:last] {
		if i > 0 {
			f.b = append(f.b, ',')
		}
		f.b = append(f.b, '[')
		f.b = unit.AppendSeconds(f.b, h.Worth[i].By)
		f.b = append(f.b, ',')
		f.number(h.Worth[i].Value)
		f.b = append(f.b, ']')
	}
	f.b = append(f.b, ']')
}

// appendNumber writes a number exactly, without an exponent where it needs none.
func appendNumber(b []byte, v float64) []byte {
	if a := math.Abs(v); a < 1e21 && a >= 1e-6 {
		return strconv.AppendFloat(b, v, 'f', -1, 64)
	}
	return strconv.AppendFloat(b, v, 'g', -1, 64)
}

// appendMilli writes devices or cores as a decimal number.
func appendMilli(b []byte, m unit.Milli) []byte {
	return strconv.AppendFloat(b, float64(m)/1000, 'f', -1, 64)
}

const hexDigits = "0123456789abcdef"

// appendString writes a JSON string. Bytes that are not UTF-8 are replaced.
func appendString(b []byte, s string) []byte {
	b = append(b, '"')
	for i, r := range s {
		switch {
		case r == '"' || r == '\\':
			b = append(b, '\\', byte(r))
		case r < ' ':
			b = append(b, `\u00`...)
			b = append(b, hexDigits[r>>4], hexDigits[r&15])
		case r < utf8.RuneSelf:
			b = append(b, s[i])
		default:
			b = utf8.AppendRune(b, r)
		}
	}
	return append(b, '"')
}
