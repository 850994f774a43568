package trace

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"math"
	"slices"
	"strconv"
	"time"

	"github.com/norn-scheduler/norn/cluster/unit"
	"github.com/norn-scheduler/norn/job"
	"github.com/norn-scheduler/norn/perf"
)

// mostGPUsMeasured bounds the GPUs of a sort of jobs that was measured on sockets.
const mostGPUsMeasured = 1024

// socketsFile is a profile as it was published with the topology-aware scheduler: model -> batch size ->
// num_gpus -> GPUs, in it run times alone by place, and beside model -> batch size -> num_gpus -> GPUs.
type socketsFile struct {
	Solo        bySort[map[string]float64]
	Collocation bySort[bySort[float64]]
}

// bySort is something of sorts of jobs.
type bySort[T any] map[string]map[string]struct {
	GPUs map[string]T `json:"num_gpus"`
}

// each visits the sorts, in order of their names.
func (b bySort[T]) each(visit func(k perf.Sized, of T) error) error {
	for _, model := range slices.Sorted(maps.Keys(b)) {
		for _, size := range slices.Sorted(maps.Keys(b[model])) {
			batch, err := strconv.Atoi(size)
			if err != nil || batch < 0 {
				return fmt.Errorf("%s: the batch size %q is no whole number from 0 on", model, size)
			}
			of := b[model][size].GPUs
			for _, n := range slices.Sorted(maps.Keys(of)) {
				gpus, err := strconv.Atoi(n)
				if err != nil || gpus < 1 || gpus > mostGPUsMeasured {
					return fmt.Errorf("%s, batch size %s: num_gpus %q is no whole number from 1 to %d", model, size, n, mostGPUsMeasured)
				}
				if err := visit(perf.Sized{Model: model, Batch: batch, GPUs: gpus}, of[n]); err != nil {
					return err
				}
			}
		}
	}
	return nil
}

// ReadSockets reads run times of jobs alone and beside others on a CPU socket (JSON), as they were published
// with the topology-aware scheduler; the file may be packed. Times are seconds, and 0 where nothing was measured.
// An error names the file, and the sort of jobs that it is about.
func ReadSockets(path string) (*perf.Sockets, error) {
	content, err := readPacked(path)
	if err != nil {
		return nil, err
	}
	s, err := ParseSockets(content)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	return s, nil
}

// ParseSockets reads what ReadSockets does from its content.
func ParseSockets(content []byte) (*perf.Sockets, error) {
	var f socketsFile
	if err := json.Unmarshal(content, &f); err != nil {
		return nil, fmt.Errorf("no run times on sockets (JSON with solo and collocation; see norn docs formats): %w", err)
	}
	s := &perf.Sockets{}
	err := f.Solo.each(func(k perf.Sized, places map[string]float64) error {
		within, across := places["intra-socket"], places["inter-socket"]
		if err := checkTimes(k, within, across); err != nil {
			return err
		}
		if within == 0 {
			return nil
		}
		s.Alone(k, within, across)
		return nil
	})
	if err == nil {
		err = f.Collocation.each(func(k perf.Sized, others bySort[float64]) error {
			return others.each(func(other perf.Sized, seconds float64) error {
				s.Beside(k, other, seconds)
				return checkTimes(k, seconds)
			})
		})
	}
	if err == nil && s.Len() == 0 {
		err = errors.New("has no run times of jobs alone (solo)")
	}
	return s, err
}

// checkTimes says what is wrong with run times.
func checkTimes(k perf.Sized, times ...float64) error {
	for _, t := range times {
		if !(t >= 0) || math.IsInf(t, 1) || t > century.Seconds() {
			return fmt.Errorf("%s, batch size %d, %d GPUs: %v is no run time in seconds", k.Model, k.Batch, k.GPUs, t)
		}
	}
	return nil
}

// topologyAware is the job file of the topology-aware scheduler: an object of jobs by their numbers.
func topologyAware() Format {
	return Format{
		Name: "topology-aware", Title: "Topology-aware scheduler, generated Caffe jobs (SC 2017)", Order: Unsorted,
		Profile: "run times alone and beside others (profiles/prof_from_experiments.json)",
		Match: func(h *Head) int {
			if text := bytes.TrimSpace(h.Text); len(text) > 0 && text[0] == '{' && bytes.Contains(text, []byte(`"minimal_utility"`)) {
				return 600
			}
			return 0
		},
		Decode: func(in *Input) (Source, error) {
			if in.Options.Profile == "" {
				return nil, errors.New("its jobs tell no run times: name the file that has them (profiles/prof_from_experiments.json) with --profile")
			}
			s, err := ReadSockets(in.Options.Profile)
			if err != nil {
				return nil, err
			}
			return &topologyAwareSource{in: in, text: json.NewDecoder(in.Body), measured: s}, nil
		},
	}
}

type topologyAwareSource struct {
	in       *Input
	text     *json.Decoder
	measured *perf.Sockets
	began    bool
}

// topologyAwareJob is a job as it is written there.
type topologyAwareJob struct {
	ID      int64   `json:"id"`
	Arrival float64 `json:"arrival"`
	GPUs    int     `json:"gpus"`
	Tasks   int     `json:"tasks"`
	Size    string  `json:"size"`
	Type    string  `json:"type"`
	Least   float64 `json:"minimal_utility"`
}

// Next implements Source.
func (s *topologyAwareSource) Next(e *Entry) error {
	if !s.began {
		s.began = true
		if _, err := s.text.Token(); err != nil {
			return err
		}
	}
	if !s.text.More() {
		_, err := s.text.Token()
		if err == nil {
			err = io.EOF
		}
		return brokenOff(err)
	}
	key, err := s.text.Token()
	if err != nil {
		return err
	}
	s.in.Row()
	name, _ := key.(string) // a key of an object is text
	var j topologyAwareJob
	if err := s.text.Decode(&j); err != nil {
		var wrong *json.UnmarshalTypeError
		if errors.As(err, &wrong) {
			return s.in.Bad(0, name, nil, "a job; "+err.Error())
		}
		return err
	}
	return s.entry(name, &j, e)
}

func (s *topologyAwareSource) entry(name string, j *topologyAwareJob, e *Entry) error {
	*e = Entry{}
	batch, err := strconv.Atoi(j.Size)
	switch {
	case err != nil || batch < 0:
		return s.in.Bad(0, name, []byte(j.Size), "a batch size (size)")
	case j.GPUs < 1 || j.GPUs > mostGPUsMeasured:
		return s.in.Bad(0, name, fmt.Append(nil, j.GPUs), fmt.Sprintf("from 1 to %d GPUs", mostGPUsMeasured))
	case !(j.Arrival >= 0 && j.Arrival <= century.Seconds()):
		return s.in.Bad(0, name, fmt.Append(nil, j.Arrival), "an arrival in seconds")
	case !(j.Least >= 0 && j.Least <= 1):
		return s.in.Bad(0, name, fmt.Append(nil, j.Least), "a minimal_utility from 0 to 1")
	}
	takes := s.measured.Solo(perf.Sized{Model: j.Type, Batch: batch, GPUs: j.GPUs}, false)
	if takes == 0 {
		return s.in.Bad(0, name, fmt.Appendf(nil, "%s, batch size %d, %d GPUs", j.Type, batch, j.GPUs), "a job that was measured")
	}
	d := job.GPUs(j.GPUs)
	if e.Job.Demand, err = s.in.pool.whole(&d); err != nil {
		return s.in.Bad(0, name, nil, "a demand that can be met: it "+err.Error())
	}
	e.Job.Key, e.Job.Model, e.Job.Batch = name, s.in.Text([]byte(j.Type)), batch
	e.Job.Submit = time.Duration(j.Arrival * float64(time.Second))
	e.Job.Hints = &job.Hints{LeastUtility: j.Least}
	e.Truth.Work, err = unit.Seconds(takes)
	return err
}
