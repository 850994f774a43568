package trace

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"strconv"
	"time"

	"github.com/norn-scheduler/norn/cluster/unit"
	"github.com/norn-scheduler/norn/internal/jsontext"
	"github.com/norn-scheduler/norn/job"
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

func appendEntry(b []byte, e *Entry) ([]byte, error) {
	f := &jsontext.Writer{B: append(b, '{')}
	t := &e.Truth
	shape(f, &e.Job)
	f.Key("work") // 0 s, too: without it nothing would be told
	f.B = unit.AppendSeconds(f.B, t.Work)
	if t.Attempts != nil {
		f.Times("attempts", t.Attempts)
	}
	if t.Outcome != Passed {
		f.Text("outcome", t.Outcome.String())
	}
	if t.HasWait {
		f.Key("wait")
		f.B = unit.AppendSeconds(f.B, t.Wait)
	}
	f.Bool("at_least", t.AtLeast)
	f.Int("true_gpu_mem", int64(t.GPUMemory))
	course(f, t.Course)
	details(f, &e.Job)
	return append(f.B, "}\n"...), f.Err
}

// AppendJob writes a job as a JSON object, as JobText reads it. It fails on a
// number that JSON cannot carry.
func AppendJob(b []byte, j *job.Job) ([]byte, error) {
	f := &jsontext.Writer{B: append(b, '{')}
	shape(f, j)
	details(f, j)
	return append(f.B, '}'), f.Err
}

// shape writes what a job is called and what it asks for.
func shape(f *jsontext.Writer, j *job.Job) {
	f.Text("job", j.Key)
	f.Time("submit", j.Submit)
	demand(f, j.Demand)
}

// details writes all else that a user told of a job.
func details(f *jsontext.Writer, j *job.Job) {
	f.Text("name", j.Name)
	f.Text("user", j.User)
	f.Text("tenant", j.Tenant)
	f.Text("partition", j.Partition)
	f.Text("app", j.App)
	if j.Kind != job.Training {
		f.Text("kind", j.Kind.String())
	}
	f.Text("model", j.Model)
	f.Text("backbone", j.Backbone)
	f.Text("dataset", j.Dataset)
	f.Bool("share", j.Share)
	f.Int("batch", int64(j.Batch))
	f.Float("units", j.Units)
	f.Text("unit", j.Unit)
	f.Int("priority", int64(j.Priority))
	f.Time("deadline", j.Deadline)
	f.Bool("soft", j.Soft)
	f.Time("estimate", j.Estimate)
	if j.Tier != job.Basic {
		f.Text("tier", j.Tier.String())
	}
	if j.Stop != job.Checkpoint {
		f.Text("stop", j.Stop.String())
	}
	if j.Resize != job.ByRestart {
		f.Text("resize", j.Resize.String())
	}
	f.Int("retries", int64(j.Retries))
	if j.Hints != nil {
		f.Key("hints")
		f.B = append(f.B, '{')
		hints(f, j.Hints)
		f.B = append(f.B, '}')
	}
}

func demand(f *jsontext.Writer, d *job.Demand) {
	if d == nil {
		f.Err = errors.New("has no demand")
		return
	}
	f.Text("types", d.Types)
	f.Text("where", d.Where)
	f.Text("tolerate", d.Tolerate)
	f.Text("within", d.InWithin())
	if n := d.Roles[0].Tasks; d.Roles == job.GPUs(int(n)).Roles {
		f.Int("gpus", int64(n))
		return
	}
	last := job.MaxRoles
	for last > 1 && d.Roles[last-1] == (job.Role{}) {
		last--
	}
	f.Key("roles")
	f.B = append(f.B, '[')
	for i := range d.Roles[:last] {
		if i > 0 {
			f.B = append(f.B, ',')
		}
		f.B = append(f.B, '{')
		r := &d.Roles[i]
		f.Text("name", r.Name)
		f.Int("tasks", int64(r.Tasks))
		f.Int("min", int64(r.Min))
		f.Int("max", int64(r.Max))
		f.Milli("gpu", r.GPU)
		f.Int("gpu_mem", int64(r.GPUMemory))
		f.Milli("cpu", r.CPU)
		f.Int("mem", int64(r.Memory))
		slots(f, r.Slots)
		f.B = append(f.B, '}')
	}
	f.B = append(f.B, ']')
}

// slots writes counted resources as an object of amounts by name.
func slots(f *jsontext.Writer, s job.Slots) {
	if s == "" {
		return
	}
	f.Key("slots")
	f.B = append(f.B, '{')
	for name, n := range s.All() {
		f.Int(name, n)
	}
	f.B = append(f.B, '}')
}

func hints(f *jsontext.Writer, h *job.Hints) {
	f.Time("user_estimate", h.UserEstimate)
	f.Time("group_estimate", h.GroupEstimate)
	f.Time("group_gpu_estimate", h.GroupSizeEstimate)
	f.Text("group", h.Group)
	if h.HasRank {
		f.Key("rank")
		f.Number(h.Rank)
	}
	f.Time("iteration", h.Iteration)
	if h.Stages != ([3]time.Duration{}) {
		f.Times("stages", h.Stages[:])
	}
	f.Float("speed", h.Speed)
	f.Float("gpu_use", h.GPUUse)
	f.Float("memory_use", h.MemoryUse)
	f.Float("host_use", h.HostUse)
	f.Float("cpu_use", h.CPUUse)
	f.Int("gpu_mem", int64(h.GPUMemory))
	f.Bool("mixed", h.Mixed)
	if h.Shape != nil {
		f.Text("shape", h.Shape.String())
	}
	f.Float("weight", h.Weight)
	f.Text("qos", h.QoS)
	f.Text("sensitivity", h.Sensitivity)
	worth(f, h)
	f.Text("adapts", h.Adapts)
	f.Int("epochs", int64(h.Epochs))
	modes(f, h)
	f.Text("plan", h.Plan)
	f.Text("pattern", h.Pattern)
	f.Bool("sensitive", h.Sensitive)
	f.Text("bursts", h.Bursts.String())
	f.Float("least_utility", h.LeastUtility)
	f.Text("rungs", h.Rungs.String())
	f.Milli("cpu_per_gpu", h.CPUPerGPU)
	f.Float("latency", h.Latency)
	f.Time("cpu_time", h.CPUTime)
	f.Time("cpu_estimate", h.CPUEstimate)
	f.Milli("cpus", h.CPUs)
	f.Int("cpu_mem", int64(h.CPUMemory))
}

// course writes what a job trains with as it goes on.
func course(f *jsontext.Writer, turns []Turn) {
	if len(turns) == 0 {
		return
	}
	f.Key("course")
	f.B = append(f.B, '[')
	for i := range turns {
		x := &turns[i]
		if i > 0 {
			f.B = append(f.B, ',')
		}
		f.B = append(f.B, '{')
		f.Time("from", x.From)
		f.Int("batch", int64(x.Batch))
		f.Float("noise", x.Noise)
		f.Int("epoch", int64(x.Epoch))
		f.Float("pace", x.Pace)
		f.B = append(f.B, '}')
	}
	f.B = append(f.B, ']')
}

// modes writes the batch sizes with which a job may train.
func modes(f *jsontext.Writer, h *job.Hints) {
	if h.Modes[0] == (job.Mode{}) {
		return
	}
	f.Key("modes")
	f.B = append(f.B, '[')
	for i, m := range h.Modes {
		if m == (job.Mode{}) {
			break
		}
		if i > 0 {
			f.B = append(f.B, ',')
		}
		f.B = append(strconv.AppendInt(append(f.B, '['), int64(m.Batch), 10), ',')
		f.Number(m.Pace)
		f.B = append(f.B, ']')
	}
	f.B = append(f.B, ']')
}

func worth(f *jsontext.Writer, h *job.Hints) {
	last := len(h.Worth)
	for last > 0 && h.Worth[last-1] == (job.Worth{}) {
		last--
	}
	if last == 0 {
		return
	}
	f.Key("worth")
	f.B = append(f.B, '[')
	for i := range h.Worth[:last] {
		if i > 0 {
			f.B = append(f.B, ',')
		}
		f.B = append(f.B, '[')
		f.B = unit.AppendSeconds(f.B, h.Worth[i].By)
		f.B = append(f.B, ',')
		f.Number(h.Worth[i].Value)
		f.B = append(f.B, ']')
	}
	f.B = append(f.B, ']')
}
