package trace

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"math"
	"time"

	"github.com/norn-scheduler/norn/cluster/unit"
	"github.com/norn-scheduler/norn/job"
)

// allox is the input of the simulator of AlloX (EuroSys 2020). A job is four or
// more lines:
//
//	# name
//	stages number iterations arrival queue
//	name -1 CPUs memory CPU-time GPUs memory GPU-time tasks CPU-error GPU-error
//	edges between stages
//
// Times are in seconds, memory in GiB. A job can run on its CPUs or on its
// GPUs; the errors, which may be missing, are relative ones of what its user
// believes the times to be. Only jobs of one stage are read.
func allox() Format {
	return Format{
		Name: "allox", Title: "AlloX simulator, jobs for CPUs or GPUs (EuroSys 2020)",
		Match: func(h *Head) int {
			head, stage := bytes.Fields(h.Line(1)), bytes.Fields(h.Line(2))
			if !bytes.HasPrefix(h.Line(0), []byte("# ")) || len(head) != 5 || len(stage) < 9 {
				return 0
			}
			for _, v := range append(head[:4:4], stage[1:9]...) {
				if _, ok := ParseFloat(v); !ok {
					return 0
				}
			}
			return len(stage)
		},
		Decode: func(in *Input) (Source, error) {
			return &alloxSource{in: in, rec: records{r: in.Body}}, nil
		},
	}
}

type alloxSource struct {
	in  *Input
	rec records
}

// Next implements Source.
func (s *alloxSource) Next(e *Entry) error {
	*e = Entry{}
	if err := s.title(e); err != nil {
		return err
	}
	s.in.Row()
	head, err := s.fields(5)
	if err != nil {
		return err
	}
	stages, ok1 := ParseInt(head[0])
	arrival, ok2 := ParseTimes(head[3], time.Second)
	if !ok1 || !ok2 || arrival < 0 {
		return s.fatal("stages, number, iterations, arrival and queue of a job")
	}
	e.Job.Key, e.Job.Tenant, e.Job.Submit = s.in.Unique(head[1]), s.in.Text(head[4]), arrival
	if stages != 1 {
		return s.fatal("a job of one stage")
	}
	stage, err := s.fields(9)
	if err != nil {
		return err
	}
	bad := s.stage(e, stage)
	edges, err := s.fields(1)
	if err != nil {
		return err
	}
	if n, ok := ParseInt(edges[0]); !ok || n != 0 {
		return s.fatal("0, for a job of one stage has no edges")
	}
	return bad
}

// title passes over the line with the name.
func (s *alloxSource) title(e *Entry) error {
	if err := s.rec.nextLine(); err != nil {
		return err
	}
	name, found := bytes.CutPrefix(s.rec.text, []byte{'#'})
	if !found {
		return s.fatal("# and the name of a job")
	}
	e.Job.Name = s.in.Text(bytes.TrimSpace(name))
	return nil
}

// fields reads a line of at least so many fields.
func (s *alloxSource) fields(least int) ([][]byte, error) {
	err := s.rec.nextLine()
	if errors.Is(err, io.EOF) {
		return nil, fmt.Errorf("line %d: the file ends in the middle of a job", s.rec.lines)
	}
	if err != nil {
		return nil, err
	}
	f := bytes.Fields(s.rec.text)
	if len(f) < least {
		return nil, s.fatal(fmt.Sprintf("%d fields or more", least))
	}
	return f, nil
}

// fatal is an error after which the lines of the next job cannot be told.
func (s *alloxSource) fatal(want string) error {
	return fmt.Errorf("line %d: found %s, expected %s", s.rec.line, quote(s.rec.text), want)
}

// alloxLimits bound the numbers of a stage.
var alloxLimits = [...]struct {
	what        string
	least, most float64
	whole       bool
}{
	{"a number of CPUs", 0, 1e6, false}, {"GiB", 0, 1e5, false}, {"seconds", 0, 1e8, false},
	{"a number of GPUs", 0, 1000, false}, {"GiB", 0, 1e5, false}, {"seconds", 0, 1e8, false},
	{"a whole number of tasks", 1, job.MaxTasks, true}, {"a relative error", -1e6, 1e6, false}, {"a relative error", -1e6, 1e6, false},
}

// line is where the last row was.
func (s *alloxSource) line() int { return s.rec.line }

func (s *alloxSource) stage(e *Entry, f [][]byte) error {
	var v [10]float64 // CPUs, memory, CPU time, GPUs, memory, GPU time, tasks, errors
	for i := range min(len(f)-2, 9) {
		x, ok := ParseFloat(f[i+2])
		if limit := alloxLimits[i]; !ok || x < limit.least || x > limit.most || limit.whole && x != math.Trunc(x) {
			return s.in.Bad(s.rec.line, "field "+fmt.Sprint(i+3), f[i+2], fmt.Sprintf("%s from %g to %g", limit.what, limit.least, limit.most))
		}
		v[i] = x
	}
	gib := func(x float64) unit.Bytes { return unit.Bytes(x * float64(unit.GiB)) }
	d, err := s.in.pool.whole(&job.Demand{Roles: [job.MaxRoles]job.Role{{
		Tasks: int32(v[6]), GPU: unit.Milli(v[3] * 1000), Memory: gib(v[4]),
	}}})
	if err != nil {
		return s.in.Bad(s.rec.line, "", s.rec.text, "a demand that can be met, not a job that "+err.Error())
	}
	e.Job.Demand = d
	e.Truth.Work = seconds(v[5])
	e.Job.Estimate = seconds(v[5] * max(0, 1+v[8]))
	e.Job.Hints = &job.Hints{
		CPUs: unit.Milli(v[0] * 1000), CPUMemory: gib(v[1]),
		CPUTime: seconds(v[2]), CPUEstimate: seconds(v[2] * max(0, 1+v[7])),
	}
	return nil
}

// seconds is a time known to be in range, to the microsecond.
func seconds(v float64) time.Duration {
	return time.Duration(round(min(v, 3e9)*1e6, 1)) * time.Microsecond
}
