package trace

import (
	"errors"
	"fmt"
	"strconv"
	"time"

	"github.com/norn-scheduler/norn/cluster"
	"github.com/norn-scheduler/norn/cluster/unit"
	"github.com/norn-scheduler/norn/internal/jsontext"
	"github.com/norn-scheduler/norn/job"
)

// nornJSON is Norn's own JSON Lines. The first line says what the file is; each
// further line is a job, carried exactly, with what is zero left out:
//
//	{"norn":"trace","version":1,"sorted":true,"origin":"2017-08-07T10:03:01Z"}
//	{"job":"17","submit":12.5,"gpus":8,"work":3600,"attempts":[30,500],"outcome":"failed"}
func nornJSON() Format {
	return Format{
		Name: "jsonl", Aliases: []string{"norn-jsonl"}, Title: "Norn's own JSON Lines, carries everything",
		Match: func(h *Head) int {
			line := h.Line(0)
			if len(line) == 0 || line[0] != '{' {
				return 0
			}
			if err := readTraceHeader(line, &traceHeader{}); err != nil && !errors.Is(err, errNewer) {
				return 0
			}
			return 1000
		},
		Decode: func(in *Input) (Source, error) {
			s := &jsonSource{in: in, rec: records{r: in.Body}}
			if err := s.rec.nextLine(); err != nil {
				return nil, err
			}
			var h traceHeader
			if err := readTraceHeader(s.rec.text, &h); err != nil {
				return nil, fmt.Errorf("line 1: %w", err)
			}
			if !h.origin.IsZero() {
				in.Origin(h.origin)
			}
			if h.sorted {
				in.InOrder()
			}
			return s, nil
		},
	}
}

// traceHeader is the first line.
type traceHeader struct {
	what    string
	version int64
	sorted  bool
	origin  time.Time
}

const traceVersion = 1

// errNewer is the error of a trace that a later version of this program has written.
var errNewer = errors.New("a newer norn is needed")

func readTraceHeader(line []byte, h *traceHeader) error {
	t := jsontext.NewReader(line)
	err := t.Object(func(key []byte) (err error) {
		var v []byte
		switch string(key) {
		case "norn":
			v, err = t.Text()
			h.what = string(v)
		case "version":
			h.version, err = t.Int(0, 1<<30)
		case "sorted":
			h.sorted, err = t.Bool()
		case "origin":
			if v, err = t.Text(); err == nil {
				h.origin, err = time.Parse(time.RFC3339Nano, string(v))
			}
		default:
			err = t.Skip()
		}
		return err
	})
	switch {
	case h.what == "trace" && h.version > traceVersion: // whatever else it tells
		return fmt.Errorf("is a trace of version %d, this program reads version %d: %w", h.version, traceVersion, errNewer)
	case err != nil:
		return err
	case h.what != "trace":
		return errors.New(`is no trace: it should begin with {"norn":"trace"`)
	case h.version != traceVersion:
		return fmt.Errorf("is a trace of version %d, this program reads version %d", h.version, traceVersion)
	}
	return t.End()
}

type jsonSource struct {
	in  *Input
	rec records
	job JobText
}

// line is where the last row was.
func (s *jsonSource) line() int { return s.rec.line }

// Next implements Source.
func (s *jsonSource) Next(e *Entry) error {
	if err := s.rec.nextLine(); err != nil {
		return err
	}
	s.in.Row()
	*e = Entry{}
	s.job.pool = s.in.pool
	s.job.text.Reset(s.rec.text)
	err := s.job.read(&e.Job, &e.Truth)
	if err == nil {
		err = s.job.text.End()
	}
	var at *jsontext.Error
	switch {
	case errors.As(err, &at):
		return s.in.Bad(s.rec.line, string(s.job.key), tail(s.rec.text, at.At), at.Want)
	case err != nil:
		return s.in.Bad(s.rec.line, string(s.job.key), nil, err.Error())
	}
	if err := s.inRange(&e.Job); err != nil {
		return err
	}
	if !s.job.worked {
		s.in.Empty("work", "0 s")
	}
	if e.Job.Demand, err = s.in.pool.whole(&s.job.d); err != nil {
		return s.in.Bad(s.rec.line, "", []byte(s.job.d.String()), "a demand that can be met: the job "+err.Error())
	}
	return nil
}

// inRange refuses numbers that no job can have. Times, amounts of the demand and
// what is no number are refused as they are read.
func (s *jsonSource) inRange(j *job.Job) error {
	for _, n := range []struct {
		name  string
		value int
		least int
		most  int
	}{{"batch", j.Batch, 0, mostBatch}, {"retries", int(j.Retries), -1, job.MaxTasks}} {
		if n.value < n.least || n.value > n.most {
			return s.in.Bad(s.rec.line, n.name, strconv.AppendInt(nil, int64(n.value), 10), fmt.Sprintf("a whole number from %d to %d", n.least, n.most))
		}
	}
	if err := s.amount("units", j.Units); err != nil || j.Hints == nil {
		return err
	}
	h := j.Hints
	if err := h.Bursts.Check(h.Iteration); err != nil {
		return s.in.Bad(s.rec.line, "bursts", []byte(h.Bursts.String()), "bursts within an iteration: job "+j.Key+" has "+err.Error())
	}
	if h.Shape != nil && j.Batch == 0 {
		return s.in.Bad(s.rec.line, "batch", []byte("0"), "a batch above 0, since job "+j.Key+" tells the shape of its model")
	}
	for _, a := range []struct {
		name  string
		value float64
	}{{"speed", h.Speed}, {"gpu_use", h.GPUUse}, {"memory_use", h.MemoryUse}, {"host_use", h.HostUse}, {"cpu_use", h.CPUUse}, {"weight", h.Weight}} {
		if err := s.amount(a.name, a.value); err != nil {
			return err
		}
	}
	return nil
}

func (s *jsonSource) amount(name string, v float64) error {
	if v >= 0 && v <= mostAmount {
		return nil
	}
	return s.in.Bad(s.rec.line, name, strconv.AppendFloat(nil, v, 'g', -1, 64), string(wantAmount))
}

// tail is the text from at on.
func tail(text []byte, at int) []byte { return text[min(at, len(text)):] }

// JobText reads jobs that are written as JSON objects, wherever they stand. Text
// that repeats from job to job is kept once.
type JobText struct {
	text   jsontext.Reader
	pool   *pool
	d      job.Demand
	key    []byte // of the last field
	worked bool   // work was told
}

// Read reads the job that stands at byte at of a text, as AppendJob has written it,
// and returns the byte behind it; errors name bytes of the text. The object must not
// tell how long the job really runs.
func (s *JobText) Read(text []byte, at int, j *job.Job) (end int, err error) {
	if s.pool == nil {
		s.pool = &pool{}
	}
	s.text.ResetAt(text, at)
	*j = job.Job{}
	if err = s.read(j, nil); err == nil {
		if j.Demand, err = s.pool.whole(&s.d); err != nil {
			err = fmt.Errorf("job %s: %w", j.Key, err)
		}
	}
	return s.text.At(), err
}

func (s *JobText) read(j *job.Job, t *Truth) error {
	s.d, s.worked = job.Demand{}, false
	return s.text.Object(func(key []byte) error { return s.jobField(j, t, key) })
}

func (s *JobText) jobField(j *job.Job, t *Truth, key []byte) error {
	s.key = append(s.key[:0], key...)
	switch string(key) {
	case "job":
		v, err := s.text.Text()
		j.Key = s.pool.unique(v)
		return err
	case "submit":
		return s.time(&j.Submit)
	case "name":
		return s.string(&j.Name)
	case "user":
		return s.string(&j.User)
	case "tenant":
		return s.string(&j.Tenant)
	case "partition":
		return s.string(&j.Partition)
	case "app":
		return s.string(&j.App)
	case "model":
		return s.string(&j.Model)
	case "backbone":
		return s.string(&j.Backbone)
	case "dataset":
		return s.string(&j.Dataset)
	case "share":
		return s.bool(&j.Share)
	case "unit":
		return s.string(&j.Unit)
	case "units":
		return s.float(&j.Units)
	case "deadline":
		return s.time(&j.Deadline)
	case "soft":
		return s.bool(&j.Soft)
	case "estimate":
		return s.time(&j.Estimate)
	case "batch":
		n, err := s.text.Int(-1<<53, 1<<53)
		j.Batch = int(n)
		return err
	case "priority":
		return s.int32(&j.Priority)
	case "retries":
		return s.int32(&j.Retries)
	case "kind":
		return parsed(s, &j.Kind, job.ParseKind, "a kind of job")
	case "tier":
		return parsed(s, &j.Tier, job.ParseTier, "a tier")
	case "stop":
		return parsed(s, &j.Stop, job.ParseStopMode, "a way to stop")
	case "resize":
		return parsed(s, &j.Resize, job.ParseResizeMode, "a way to resize")
	case "hints":
		j.Hints = &job.Hints{}
		return s.text.Object(func(key []byte) error {
			if string(key) == "shape" {
				return s.shape(j)
			}
			return s.hintField(j.Hints, key)
		})
	}
	if done, err := s.demandField(key); done {
		return err
	}
	if t == nil {
		return s.unknown(key)
	}
	return s.truthField(t, key)
}

// shape reads the shape of a job's model.
func (s *JobText) shape(j *job.Job) error {
	s.key = append(s.key[:0], "shape"...)
	v, err := s.text.Text()
	if err != nil {
		return err
	}
	if j.Hints.Shape, err = s.pool.shape(v); err != nil {
		return fmt.Errorf("the shape of a model; of job %s, %w", j.Key, err)
	}
	return nil
}

func (s *JobText) truthField(t *Truth, key []byte) error {
	switch string(key) {
	case "work":
		s.worked = true
		return s.time(&t.Work)
	case "attempts":
		t.Attempts = []time.Duration{}
		return s.text.Array(func() error {
			var d time.Duration
			err := s.time(&d)
			t.Attempts = append(t.Attempts, d)
			return err
		})
	case "outcome":
		return parsed(s, &t.Outcome, ParseOutcome, "passed, failed or killed")
	case "wait":
		t.HasWait = true
		return s.time(&t.Wait)
	case "at_least":
		return s.bool(&t.AtLeast)
	case "true_gpu_mem":
		return s.bytes(&t.GPUMemory)
	case "course":
		return s.course(t)
	}
	return s.unknown(key)
}

// course reads what a job trains with as it goes on.
func (s *JobText) course(t *Truth) error {
	return s.text.Array(func() error {
		var x Turn
		err := s.text.Object(func(key []byte) (err error) {
			switch string(key) {
			case "from":
				return s.time(&x.From)
			case "batch":
				return s.int32(&x.Batch)
			case "noise":
				return s.float(&x.Noise)
			case "epoch":
				return s.int32(&x.Epoch)
			case "pace":
				return s.float(&x.Pace)
			}
			return s.unknown(key)
		})
		if err == nil {
			err = x.Check()
		}
		if n := len(t.Course); err == nil && (n == 0) != (x.From == 0) || n > 0 && x.From <= t.Course[n-1].From {
			err = errors.New("a course begins with what holds from 0 on, and goes on in order of the work done")
		}
		t.Course = append(t.Course, x)
		return err
	})
}

// mode reads a batch size and the pace with it.
func (s *JobText) mode(m *job.Mode) error {
	n := 0
	err := s.text.Array(func() error {
		switch n++; n {
		case 1:
			return s.int32(&m.Batch)
		case 2:
			return s.float(&m.Pace)
		}
		return errors.New("a batch size and a pace")
	})
	if err == nil && (n != 2 || m.Batch < 1 || !(m.Pace > 0)) {
		err = errors.New("a batch size of 1 or more, and a pace above 0")
	}
	return err
}

func (s *JobText) unknown(key []byte) error {
	return fmt.Errorf("no field %q", key)
}

// demandField reads what makes up the demand.
func (s *JobText) demandField(key []byte) (done bool, err error) {
	switch string(key) {
	case "gpus":
		n, err := s.text.Int(1, job.MaxTasks)
		s.d.Roles[0] = job.Role{Tasks: int32(n), GPU: unit.One}
		return true, err
	case "types":
		return true, s.string(&s.d.Types)
	case "where":
		return true, s.condition(s.d.SetWhere)
	case "tolerate":
		return true, s.condition(s.d.SetTolerate)
	case "within":
		return true, s.condition(s.d.SetWithin)
	case "roles":
		n := 0
		return true, s.text.Array(func() error {
			if n == job.MaxRoles {
				return fmt.Errorf("%d roles at most", job.MaxRoles)
			}
			role := &s.d.Roles[n]
			n++
			*role = job.Role{}
			return s.text.Object(func(key []byte) error { return s.roleField(role, key) })
		})
	}
	return false, nil
}

// condition reads a text that says where the job may be.
func (s *JobText) condition(set func(string) error) error {
	var text string
	if err := s.string(&text); err != nil {
		return err
	}
	return set(text)
}

func (s *JobText) roleField(r *job.Role, key []byte) error {
	s.key = append(s.key[:0], key...)
	switch string(key) {
	case "name":
		return s.string(&r.Name)
	case "tasks":
		return s.int32(&r.Tasks)
	case "min":
		return s.int32(&r.Min)
	case "max":
		return s.int32(&r.Max)
	case "gpu":
		return s.milli(&r.GPU)
	case "cpu":
		return s.milli(&r.CPU)
	case "mem":
		return s.bytes(&r.Memory)
	case "gpu_mem":
		return s.bytes(&r.GPUMemory)
	case "slots":
		return s.slots(&r.Slots)
	}
	return s.unknown(key)
}

// slots reads an object of amounts of counted resources by name.
func (s *JobText) slots(to *job.Slots) (err error) {
	amounts := map[string]int64{}
	err = s.text.Object(func(key []byte) error {
		n, err := s.text.Int(0, cluster.MostSlots)
		amounts[string(key)] = n
		return err
	})
	if err == nil {
		*to, err = job.SlotsOf(amounts)
	}
	return err
}

func (s *JobText) hintField(h *job.Hints, key []byte) error {
	s.key = append(s.key[:0], key...)
	switch string(key) {
	case "user_estimate":
		return s.time(&h.UserEstimate)
	case "group_estimate":
		return s.time(&h.GroupEstimate)
	case "group_gpu_estimate":
		return s.time(&h.GroupSizeEstimate)
	case "group":
		return s.string(&h.Group)
	case "rank":
		h.HasRank = true
		return s.float(&h.Rank)
	case "iteration":
		return s.time(&h.Iteration)
	case "stages":
		n := 0
		return s.text.Array(func() error {
			if n++; n > len(h.Stages) {
				return fmt.Errorf("%d stages at most", len(h.Stages))
			}
			return s.time(&h.Stages[n-1])
		})
	case "speed":
		return s.float(&h.Speed)
	case "gpu_use":
		return s.float(&h.GPUUse)
	case "memory_use":
		return s.float(&h.MemoryUse)
	case "host_use":
		return s.float(&h.HostUse)
	case "cpu_use":
		return s.float(&h.CPUUse)
	case "gpu_mem":
		return s.bytes(&h.GPUMemory)
	case "mixed":
		return s.bool(&h.Mixed)
	case "weight":
		at := s.text.At()
		if err := s.float(&h.Weight); err != nil || h.Weight > 0 {
			return err
		}
		return &jsontext.Error{At: at, Want: string(wantWeight)}
	}
	return s.moreHints(h, key)
}

func (s *JobText) moreHints(h *job.Hints, key []byte) error {
	switch string(key) {
	case "qos":
		return s.string(&h.QoS)
	case "sensitivity":
		return s.string(&h.Sensitivity)
	case "adapts":
		return s.string(&h.Adapts)
	case "plan":
		return s.string(&h.Plan)
	case "pattern":
		return s.string(&h.Pattern)
	case "sensitive":
		return s.bool(&h.Sensitive)
	case "bursts":
		return parsed(s, &h.Bursts, func(text string) (job.Bursts, bool) {
			b, err := job.ParseBursts(text)
			return b, err == nil
		}, "bursts of an iteration, such as 50ms-100ms@5+120ms-130ms@2.5")
	case "least_utility":
		at := s.text.At()
		if err := s.float(&h.LeastUtility); err != nil || h.LeastUtility >= 0 && h.LeastUtility <= 1 {
			return err
		}
		return &jsontext.Error{At: at, Want: "a utility from 0 to 1"}
	case "rungs":
		return parsed(s, &h.Rungs, func(text string) (job.Rungs, bool) {
			r, err := job.ParseRungs(text)
			return r, err == nil
		}, "rungs of a search, such as 4x8+2x16+1x36")
	case "epochs":
		return s.int32(&h.Epochs)
	case "modes":
		n := 0
		return s.text.Array(func() error {
			if n++; n > len(h.Modes) {
				return fmt.Errorf("%d batch sizes at most", len(h.Modes))
			}
			return s.mode(&h.Modes[n-1])
		})
	case "worth":
		n := 0
		return s.text.Array(func() error {
			if n++; n > len(h.Worth) {
				return fmt.Errorf("%d deadlines at most", len(h.Worth))
			}
			return s.worth(&h.Worth[n-1])
		})
	case "cpu_per_gpu":
		return s.milli(&h.CPUPerGPU)
	case "latency":
		at := s.text.At()
		if err := s.float(&h.Latency); err != nil || h.Latency >= 1 {
			return err
		}
		return &jsontext.Error{At: at, Want: string(wantLatency)}
	case "cpu_time":
		return s.time(&h.CPUTime)
	case "cpu_estimate":
		return s.time(&h.CPUEstimate)
	case "cpus":
		return s.milli(&h.CPUs)
	case "cpu_mem":
		return s.bytes(&h.CPUMemory)
	}
	return s.unknown(key)
}

// worth reads [moment, value].
func (s *JobText) worth(w *job.Worth) error {
	n := 0
	return s.text.Array(func() error {
		switch n++; n {
		case 1:
			return s.time(&w.By)
		case 2:
			return s.float(&w.Value)
		}
		return errors.New("a moment and a value")
	})
}

func (s *JobText) time(to *time.Duration) error {
	n, err := s.text.Scaled(int64(time.Second))
	*to = time.Duration(n)
	return err
}

func (s *JobText) milli(to *unit.Milli) error {
	n, err := s.text.Scaled(1000)
	*to = unit.Milli(n)
	return err
}

func (s *JobText) bytes(to *unit.Bytes) error {
	n, err := s.text.Int(0, unit.MaxScaled)
	*to = unit.Bytes(n)
	return err
}

func (s *JobText) int32(to *int32) error {
	n, err := s.text.Int(-1<<31, 1<<31-1)
	*to = int32(n)
	return err
}

func (s *JobText) float(to *float64) (err error) {
	*to, err = s.text.Float()
	return err
}

func (s *JobText) bool(to *bool) (err error) {
	*to, err = s.text.Bool()
	return err
}

func (s *JobText) string(to *string) error {
	v, err := s.text.Text()
	*to = s.pool.text(v)
	return err
}

// parsed reads a string that names a T.
func parsed[T any](s *JobText, to *T, parse func(string) (T, bool), want string) error {
	at := s.text.At()
	v, err := s.text.Text()
	if err != nil {
		return err
	}
	value, ok := parse(string(v))
	if !ok {
		return &jsontext.Error{At: at, Want: want}
	}
	*to = value
	return nil
}
