package trace

import (
	"bytes"
	"time"

	"github.com/norn-scheduler/norn/job"
	"github.com/norn-scheduler/norn/unit"
)

// nornCSV is Norn's own CSV, for people to write by hand: a header in any
// order, gpus and duration being all that it needs.
func nornCSV() Format {
	f := CSV("csv", "Norn's own CSV, to write by hand", func(in *Input) *Table {
		c := &ownCSV{}
		return &Table{Comment: '#', AnyCase: true, Columns: c.columns(), Finish: c.finish}
	})
	f.Aliases = []string{"norn-csv"}
	f.Clock = Either
	return f
}

// ownCSV is what several columns of a row say together.
type ownCSV struct {
	list     phillyRow // reads lists of run times
	told     bool      // duration
	failed   []time.Duration
	clock    clockKind
	after    time.Duration // the deadline, after the submission
	relative bool
}

// clockKind is how a file tells moments; one file tells all in one way.
type clockKind uint8

const (
	noClock clockKind = iota
	bySeconds
	byDay
)

func (c *ownCSV) columns() []Column {
	return append(c.timeColumns(),
		Opt("job", Key),
		Opt("id", Key),
		Opt("name", Name),
		Opt("user", User),
		Opt("tenant", Tenant),
		Opt("kind", setKind),
		Opt("model", Model),
		Opt("backbone", func(r *Row, v []byte) error { r.Job.Backbone = r.Text(v); return nil }),
		Opt("dataset", Dataset),
		Opt("batch", Batch),
		Opt("units", Units("")),
		Opt("unit", func(r *Row, v []byte) error { r.Job.Unit = r.Text(v); return nil }),
		Opt("priority", Priority),
		Opt("stop", setStop),
		Opt("retries", setRetries),
		Col("gpus", GPUs),
		Opt("tasks", Tasks),
		Opt("min_tasks", func(r *Row, v []byte) error { return setCount(&r.Shape.Min, v) }),
		Opt("max_tasks", func(r *Row, v []byte) error { return setCount(&r.Shape.Max, v) }),
		Opt("cpus", CPUs),
		Opt("mem", func(r *Row, v []byte) error { return setBytes(&r.Shape.Memory, v) }),
		Opt("gpu_mem", func(r *Row, v []byte) error { return setBytes(&r.Shape.GPUMemory, v) }),
		Opt("gpu_type", Types),
		Opt("outcome", Ended),
		Opt("true_gpu_mem", func(r *Row, v []byte) error { return setBytes(&r.Truth.GPUMemory, v) }),
		Opt("at_least", func(r *Row, v []byte) error { r.Truth.AtLeast = string(v) == "1"; return nil }),
		Opt("group", hintText(func(h *job.Hints) *string { return &h.Group })),
		Opt("qos", hintText(func(h *job.Hints) *string { return &h.QoS })),
		Opt("rank", Rank),
		Opt("weight", Number(func(r *Row) *float64 { return &r.Hints().Weight })),
	)
}

func (c *ownCSV) timeColumns() []Column {
	hint := func(name string, to func(h *job.Hints) *time.Duration) Column {
		return Opt(name, func(r *Row, v []byte) error {
			if len(v) == 0 {
				return nil
			}
			return setDuration(to(r.Hints()), v)
		})
	}
	return []Column{
		Opt("submit", c.submit),
		Col("duration", func(r *Row, v []byte) error {
			c.told = len(v) > 0
			return setDuration(&r.Truth.Work, v)
		}),
		Opt("attempts", c.attempts),
		Opt("wait", func(r *Row, v []byte) error {
			r.Truth.HasWait = len(v) > 0
			return setDuration(&r.Truth.Wait, v)
		}),
		Opt("deadline", c.deadline),
		Opt("estimate", func(r *Row, v []byte) error { return setDuration(&r.Job.Estimate, v) }),
		hint("user_estimate", func(h *job.Hints) *time.Duration { return &h.UserEstimate }),
		hint("group_estimate", func(h *job.Hints) *time.Duration { return &h.GroupEstimate }),
		hint("group_gpu_estimate", func(h *job.Hints) *time.Duration { return &h.GroupSizeEstimate }),
	}
}

func (c *ownCSV) finish(r *Row) error {
	switch {
	case !c.told && len(c.failed) == 0:
		return Want("a duration, or the run times of all attempts")
	case !c.told:
		last := len(c.failed) - 1
		r.Truth.Work = c.failed[last]
		c.failed = c.failed[:last]
	}
	if len(c.failed) > 0 {
		r.Truth.Attempts = c.failed
	}
	c.failed = nil
	if c.relative {
		r.Job.Deadline = r.Job.Submit + c.after
		c.relative = false
	}
	return nil
}

const wantMoment Want = "seconds, or a time of day since September 2001 such as 2006-01-02 15:04:05, in all rows the same"

func (c *ownCSV) submit(r *Row, v []byte) error {
	if len(v) == 0 {
		v = []byte{'0'}
	}
	return c.moment(&r.Job.Submit, v)
}

// moment reads a time since the beginning or of the day.
func (c *ownCSV) moment(to *time.Duration, v []byte) error {
	kind := bySeconds
	at, ok := ParseTimes(v, time.Second)
	if !ok {
		kind = byDay
		if at, ok = ParseWall(v); ok && at < aBillion {
			ok = false
		}
	}
	if !ok || at < 0 || c.clock != noClock && c.clock != kind {
		return wantMoment
	}
	c.clock, *to = kind, at
	return nil
}

// deadline reads a moment, or a time after the submission with a plus before
// it.
func (c *ownCSV) deadline(r *Row, v []byte) error {
	if len(v) == 0 {
		return nil
	}
	if v[0] == '+' {
		c.relative = true
		return setDuration(&c.after, v[1:])
	}
	return c.moment(&r.Job.Deadline, v)
}

// attempts reads the run times of the failed attempts.
func (c *ownCSV) attempts(_ *Row, v []byte) error {
	c.failed = nil
	if len(v) == 0 {
		return nil
	}
	all, err := c.list.durations(v)
	c.failed = all
	return err
}

// setDuration reads seconds, or 90s, 1h30m, 2d.
func setDuration(to *time.Duration, v []byte) error {
	if len(v) == 0 {
		return nil
	}
	d, ok := ParseTimes(v, time.Second)
	if !ok {
		var err error
		if d, err = unit.ParseSeconds(string(v)); err != nil {
			return Want("a time: seconds, or 90s, 1h30m, 2d")
		}
	}
	if d < 0 {
		return wantDuration
	}
	*to = d
	return nil
}

func setBytes(to *unit.Bytes, v []byte) error {
	if len(v) == 0 {
		return nil
	}
	n, ok := ParseInt(v)
	if !ok {
		b, err := unit.ParseBytes(string(v))
		if err != nil {
			return wantBytes
		}
		n = int64(b)
	}
	if n < 0 {
		return wantBytes
	}
	*to = unit.Bytes(n)
	return nil
}

func setKind(r *Row, v []byte) error {
	k, ok := job.ParseKind(string(bytes.TrimSpace(v)))
	if !ok {
		return Want("training, fine-tuning, recommendation or inference")
	}
	r.Job.Kind = k
	return nil
}

func setStop(r *Row, v []byte) error {
	m, ok := job.ParseStopMode(string(bytes.TrimSpace(v)))
	if !ok {
		return Want("checkpoint, freeze, restart or never")
	}
	r.Job.Stop = m
	return nil
}

func setRetries(r *Row, v []byte) error {
	if len(v) == 0 {
		return nil
	}
	n, ok := ParseInt(v)
	if !ok || n < -1 || n > job.MaxTasks {
		return Want("a number of retries, -1 for always")
	}
	r.Job.Retries = int32(n)
	return nil
}

func hintText(to func(h *job.Hints) *string) Setter {
	return func(r *Row, v []byte) error {
		if len(v) > 0 {
			*to(r.Hints()) = r.Text(v)
		}
		return nil
	}
}
