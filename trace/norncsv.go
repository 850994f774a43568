package trace

import (
	"bytes"
	"time"

	"github.com/norn-scheduler/norn/cluster/unit"
	"github.com/norn-scheduler/norn/job"
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

// ownCSV is what counts for all rows of a file.
type ownCSV struct {
	times durations
	clock clockKind
	zero  bool // a row without a submission has been read: it is at zero
	since bool // a row with a submission since 1970 has been read
}

// ownRow is what several columns of a row say together.
type ownRow struct {
	submitted, told bool // there is a submission, a duration
	attempts        []time.Duration
	relative        bool          // the deadline is after the submission,
	after           time.Duration // by so much
	shape           []byte        // of the model, as it stands in the row
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
		Opt("job", Key).Or("the number of the row"),
		Opt("id", Key).Or("the number of the row"),
		Opt("name", Name).Or("none"),
		Opt("user", User).Or("none"),
		Opt("tenant", Tenant).Or("none"),
		Opt("partition", Partition).Or("that of its tenant"),
		Opt("app", func(r *Row, v []byte) error { r.Job.App = r.Text(v); return nil }).Or("none"),
		Opt("kind", setKind).Or("training"),
		Opt("model", Model).Or("none"),
		Opt("backbone", backbone).Or("none"),
		Opt("dataset", Dataset).Or("none"),
		Opt("share", Flag(func(r *Row) *bool { return &r.Job.Share })).Or("no"),
		Opt("batch", Batch).Or("unknown"),
		Opt("units", Units("")).Or("unknown"),
		Opt("unit", func(r *Row, v []byte) error { r.Job.Unit = r.Text(v); return nil }).Or("none"),
		Opt("priority", Priority).Or("0"),
		Opt("stop", setStop).Or("checkpoint"),
		Opt("resize", setResize).Or("restart"),
		Opt("retries", setRetries).Or("0"),
		Col("gpus", GPUs).Or("0"),
		Opt("tasks", Tasks).Or("one for each whole GPU, otherwise one"),
		Opt("min_tasks", func(r *Row, v []byte) error { return setCount(&r.Shape.Min, v) }).Or("tasks"),
		Opt("max_tasks", func(r *Row, v []byte) error { return setCount(&r.Shape.Max, v) }).Or("tasks"),
		Opt("cpus", CPUs).Or("not accounted"),
		Opt("mem", func(r *Row, v []byte) error { return setBytes(&r.Shape.Memory, v) }).Or("not accounted"),
		Opt("gpu_mem", func(r *Row, v []byte) error { return setBytes(&r.Shape.GPUMemory, v) }).Or("unknown"),
		Opt("gpu_type", Types).Or("any type"),
		Opt("slots", setSlots).Or("none"),
		Opt("where", Where).Or("any node"),
		Opt("tolerate", Tolerate).Or("no taint"),
		Opt("within", Within).Or("anywhere"),
		Opt("outcome", Ended).Or("passed"),
		Opt("true_gpu_mem", func(r *Row, v []byte) error { return setBytes(&r.Truth.GPUMemory, v) }).Or("gpu_mem"),
		Opt("at_least", Flag(func(r *Row) *bool { return &r.Truth.AtLeast })).Or("no"),
		Opt("group", hintText(func(h *job.Hints) *string { return &h.Group })).Or("none"),
		Opt("qos", hintText(func(h *job.Hints) *string { return &h.QoS })).Or("none"),
		Opt("sensitivity", hintText(func(h *job.Hints) *string { return &h.Sensitivity })).Or("that of the model"),
		Opt("rank", Rank).Or("none"),
		Opt("weight", func(r *Row, v []byte) error { return setWeight(&r.Hints().Weight, v) }).Or("none"),
		Opt("cpu_per_gpu", func(r *Row, v []byte) error { return setMilli(&r.Hints().CPUPerGPU, v, mostCPUs, wantCores) }).Or("it does not mind"),
		Opt("latency", func(r *Row, v []byte) error { return setLatency(&r.Hints().Latency, v) }).Or("no target"),
		Opt("rungs", setRungs).Or("none"),
		Opt("shape", func(r *Row, v []byte) error { RowState[ownRow](r).shape = v; return nil }).Or("unknown"),
	)
}

func (c *ownCSV) timeColumns() []Column {
	hint := func(name string, to func(h *job.Hints) *time.Duration) Column {
		return Opt(name, func(r *Row, v []byte) error { return setDuration(to(r.Hints()), v) }).Or("none")
	}
	return []Column{
		Opt("submit", c.submit).Or("0"),
		Col("duration", func(r *Row, v []byte) error {
			RowState[ownRow](r).told = true
			return setDuration(&r.Truth.Work, v)
		}).Or("the last of attempts"),
		Opt("attempts", c.attempts).Or("none"),
		Opt("wait", func(r *Row, v []byte) error {
			r.Truth.HasWait = true
			return setDuration(&r.Truth.Wait, v)
		}).Or("unknown"),
		Opt("tier", setTier).Or("basic"),
		Opt("deadline", c.deadline).Or("none"),
		Opt("soft", Flag(func(r *Row) *bool { return &r.Job.Soft })).Or("no"),
		Opt("estimate", func(r *Row, v []byte) error { return setDuration(&r.Job.Estimate, v) }).Or("none"),
		hint("user_estimate", func(h *job.Hints) *time.Duration { return &h.UserEstimate }),
		hint("group_estimate", func(h *job.Hints) *time.Duration { return &h.GroupEstimate }),
		hint("group_gpu_estimate", func(h *job.Hints) *time.Duration { return &h.GroupSizeEstimate }),
	}
}

func (c *ownCSV) finish(r *Row) error {
	s := RowState[ownRow](r)
	c.zero = c.zero || !s.submitted
	if c.zero && (c.since || c.clock == byDay) {
		return r.Wrong("submit", "a submission in all rows, where some tell the time of day or seconds since 1970")
	}
	if !s.told {
		last := len(s.attempts) - 1
		if last < 0 {
			return r.Wrong("duration", "a duration, or the run times of all attempts")
		}
		r.Truth.Work = s.attempts[last]
		s.attempts = s.attempts[:last]
	}
	if len(s.attempts) > 0 {
		r.Truth.Attempts = s.attempts
	}
	if s.relative {
		r.Job.Deadline = r.Job.Submit + s.after
	}
	return setShape(r, s.shape)
}

// setShape reads the shape of a job's model, when all else of the job is known.
func setShape(r *Row, text []byte) error {
	if len(text) == 0 {
		return nil
	}
	shape, err := r.In.pool.shape(text)
	switch {
	case err != nil:
		return r.Wrong("shape", "the shape of a model; of job "+r.Job.Key+", "+err.Error())
	case r.Job.Batch == 0:
		return r.Wrong("batch", "a batch above 0, since job "+r.Job.Key+" tells the shape of its model")
	}
	r.Hints().Shape = shape
	return nil
}

const wantMoment Want = "seconds, or a time of day since September 2001 such as 2006-01-02 15:04:05, in all rows the same"

func (c *ownCSV) submit(r *Row, v []byte) error {
	RowState[ownRow](r).submitted = true
	err := c.moment(&r.Job.Submit, v)
	c.since = c.since || r.Job.Submit >= aBillion
	return err
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
	if v[0] == '+' {
		s := RowState[ownRow](r)
		s.relative = true
		return setDuration(&s.after, v[1:])
	}
	return c.moment(&r.Job.Deadline, v)
}

// attempts reads the run times of the failed attempts.
func (c *ownCSV) attempts(r *Row, v []byte) error {
	all, err := c.times.list(v)
	RowState[ownRow](r).attempts = all
	return err
}

// setDuration reads seconds, or 90s, 1h30m, 2d.
func setDuration(to *time.Duration, v []byte) error {
	d, ok := ParseTimes(v, time.Second)
	if !ok {
		var err error
		if d, err = unit.ParseSeconds(string(v)); err != nil {
			return Want("a time: seconds, or 90s, 1h30m, 2d")
		}
	}
	if d < 0 || d > century {
		return wantDuration
	}
	*to = d
	return nil
}

func setBytes(to *unit.Bytes, v []byte) error {
	n, ok := ParseInt(v)
	if !ok {
		b, err := unit.ParseBytes(string(v))
		if err != nil {
			return wantBytes
		}
		n = int64(b)
	}
	if n < 0 || unit.Bytes(n) > mostMemory {
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

func setResize(r *Row, v []byte) error {
	m, ok := job.ParseResizeMode(string(bytes.TrimSpace(v)))
	if !ok {
		return Want("restart, in-place or time-sliced")
	}
	r.Job.Resize = m
	return nil
}

func setTier(r *Row, v []byte) error {
	t, ok := job.ParseTier(string(bytes.TrimSpace(v)))
	if !ok {
		return Want("basic, standard or premium")
	}
	r.Job.Tier = t
	return nil
}

func setStop(r *Row, v []byte) error {
	m, ok := job.ParseStopMode(string(bytes.TrimSpace(v)))
	if !ok {
		return Want("checkpoint, freeze, restart, never or last-save")
	}
	r.Job.Stop = m
	return nil
}

func setRetries(r *Row, v []byte) error {
	n, ok := ParseInt(v)
	if !ok || n < -1 || n > job.MaxTasks {
		return Want("a number of retries, 1000000 at most, -1 for always")
	}
	r.Job.Retries = int32(n)
	return nil
}
