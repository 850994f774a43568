package client

import (
	"encoding/json"
	"errors"
	"math"
	"time"

	"github.com/norn-scheduler/norn/api"
	"github.com/norn-scheduler/norn/jsontext"
)

// parseList reads a list of jobs by hand, several times as fast as package json
// does. What it does not understand, such as a field of a later version, it
// leaves to package json, list and all.
func parseList(text []byte) ([]api.Job, error) {
	p := newListParser(text)
	if err := p.list(); err == nil {
		return p.jobs, nil
	}
	var out struct {
		Jobs []api.Job `json:"jobs"`
	}
	err := json.Unmarshal(text, &out)
	return out.Jobs, err
}

// aboutJob is about the least length of a job in a list, in bytes.
const aboutJob = 240

type listParser struct {
	r     *jsontext.Reader
	text  []byte
	jobs  []api.Job
	known map[string]string // text that comes again and again, such as names of users
}

func newListParser(text []byte) *listParser {
	return &listParser{r: jsontext.NewReader(text), text: text, known: map[string]string{}}
}

var errStrange = errors.New("not understood")

func (p *listParser) list() error {
	p.jobs = make([]api.Job, 0, len(p.text)/aboutJob+1)
	err := p.r.Object(func(key []byte) error {
		if string(key) != "jobs" {
			return errStrange
		}
		return p.r.Array(func() error {
			p.jobs = append(p.jobs, api.Job{})
			j := &p.jobs[len(p.jobs)-1]
			return p.r.Object(func(key []byte) error {
				if p.r.Peek() == 'n' {
					return p.r.Skip() // null: nothing
				}
				return p.field(j, key)
			})
		})
	})
	if err != nil {
		return err
	}
	return p.r.End()
}

// field reads one field of a job.
func (p *listParser) field(j *api.Job, key []byte) error {
	switch string(key) {
	case "id":
		return p.own(&j.ID)
	case "name":
		return p.own(&j.Name)
	case "user":
		return p.shared(&j.User)
	case "tenant":
		return p.shared(&j.Tenant)
	case "state":
		return p.shared((*string)(&j.State))
	case "reason":
		return p.shared(&j.Reason)
	case "stop_mode":
		return p.shared(&j.StopMode)
	case "dir":
		return p.shared(&j.Dir)
	case "gpus":
		if p.r.Peek() != '"' {
			var n float64
			err := p.float(&n)
			j.GPUs = api.Fixed(n)
			return err
		}
	case "tasks":
		if p.r.Peek() != '"' {
			return p.int(&j.Tasks.N)
		}
	case "devices":
		return p.texts(&j.Devices)
	case "command":
		return p.texts(&j.Command)
	case "submitted", "started", "since", "ended", "expected_end", "deadline":
		return p.moment(moments(j, string(key)))
	case "wait", "ran", "gpu_seconds", "est", "limit":
		return p.float((*float64)(spans(j, string(key))))
	case "cpus":
		return p.float(&j.CPUs)
	case "gpus_held":
		return p.float(&j.Held)
	case "run":
		return p.int(&j.Run)
	case "preemptions":
		return p.int(&j.Preemptions)
	case "resizes":
		return p.int(&j.Resizes)
	case "failures":
		return p.int(&j.Failures)
	}
	return p.rest(j, key)
}

func moments(j *api.Job, key string) *time.Time {
	switch key {
	case "submitted":
		return &j.Submitted
	case "started":
		return &j.Started
	case "since":
		return &j.Since
	case "ended":
		return &j.Ended
	case "expected_end":
		return &j.ExpectEnd
	}
	return &j.Deadl
}

func spans(j *api.Job, key string) *api.Seconds {
	switch key {
	case "wait":
		return &j.Wait
	case "ran":
		return &j.Ran
	case "gpu_seconds":
		return &j.GPUTime
	case "est":
		return &j.Estimate
	}
	return &j.Limit
}

// rest reads fields that few jobs have.
func (p *listParser) rest(j *api.Job, key []byte) error {
	var to any
	switch string(key) {
	case "gpus":
		to = &j.GPUs
	case "tasks":
		to = &j.Tasks
	case "mem":
		to = &j.Memory
	case "priority":
		to = &j.Priority
	case "exit":
		to = &j.Exit
	case "progress":
		to = &j.Progress
	case "after":
		to = &j.After
	case "throttle":
		to = &j.Throttle
	case "speed":
		to = &j.Speed
	case "pty":
		to = &j.PTY
	default:
		return errStrange
	}
	from := p.r.At()
	if err := p.r.Skip(); err != nil {
		return err
	}
	return json.Unmarshal(p.text[from:p.r.At()], to)
}

// own reads text that is a job's own.
func (p *listParser) own(to *string) error {
	b, err := p.r.Text()
	*to = string(b)
	return err
}

// shared reads text that many jobs have, and keeps it once.
func (p *listParser) shared(to *string) error {
	b, err := p.r.Text()
	if err != nil {
		return err
	}
	s, ok := p.known[string(b)]
	if !ok {
		s = string(b)
		p.known[s] = s
	}
	*to = s
	return nil
}

func (p *listParser) texts(to *[]string) error {
	*to = []string{}
	return p.r.Array(func() error {
		var s string
		err := p.shared(&s)
		*to = append(*to, s)
		return err
	})
}

func (p *listParser) moment(to *time.Time) error {
	b, err := p.r.Text()
	if err != nil {
		return err
	}
	return to.UnmarshalText(b)
}

func (p *listParser) float(to *float64) (err error) {
	*to, err = p.r.Float()
	return err
}

func (p *listParser) int(to *int) error {
	n, err := p.r.Int(math.MinInt, math.MaxInt)
	*to = int(n)
	return err
}
