// Package dag simulates executors that carry out jobs which are graphs of stages, under the policies of
// package policy/stages, and trains the network of one of them.
//
// Nouns are those of package stages, and these:
//   - A trace is jobs with their moments of arrival. Jobs of the same form share a template.
//   - A wave is a kind of task: fresh, the first one of an executor after it moved to the job; first, its
//     first one of a stage; rest, a further one of the same stage.
//   - A level is measured run times of the tasks of a stage, by wave, on so many executors.
//
// A run is a function of its trace, options, seed and policy.
//
// Source: Mao et al., SIGCOMM 2019, and its published simulator for what the paper leaves open.
package dag

import (
	"bufio"
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"math"
	"os"
	"slices"
	"time"

	"github.com/norn-scheduler/norn/policy/stages"
)

// Level is run times of tasks in seconds, on so many executors.
type Level struct {
	Executors int       `json:"executors"`
	Fresh     []float64 `json:"fresh,omitempty"`
	First     []float64 `json:"first,omitempty"`
	Rest      []float64 `json:"rest,omitempty"`
}

// Stage is a stage in a trace. It has levels, by ascending executors.
type Stage struct {
	Name    string  `json:"name,omitempty"`
	Parents []int   `json:"parents,omitempty"`
	Tasks   int     `json:"tasks"`
	Seconds float64 `json:"seconds,omitempty"` // of each task; instead of levels
	Levels  []Level `json:"levels,omitempty"`
}

// Template is the stages of jobs of one form.
type Template struct {
	Name   string
	Stages []Stage
	known  []stages.Stage // what policies know
}

// Job is a job of a trace.
type Job struct {
	ID      string
	Arrived time.Duration
	*Template
}

// line is a line of a trace: a template, or a job with one or with stages of its own.
type line struct {
	ID       string  `json:"id,omitempty"`
	Arrival  float64 `json:"arrival,omitempty"`
	Template string  `json:"template,omitempty"`
	Stages   []Stage `json:"stages,omitempty"`
}

// The bounds of a trace.
const (
	mostStages = 1000
	mostTasks  = 1 << 20
	mostTime   = 1e9 // s
)

// NewTemplate checks stages and makes a template of them.
func NewTemplate(name string, all []Stage) (*Template, error) {
	t := &Template{Name: name, Stages: all}
	if len(all) == 0 || len(all) > mostStages {
		return nil, fmt.Errorf("has %d stages; write 1 to %d", len(all), mostStages)
	}
	for i := range all {
		s := &all[i]
		if s.Name == "" {
			s.Name = fmt.Sprint(i)
		}
		if s.Tasks < 1 || s.Tasks > mostTasks {
			return nil, fmt.Errorf("stage %s: %d tasks; write 1 to %d", s.Name, s.Tasks, mostTasks)
		}
		for _, p := range s.Parents {
			if p < 0 || p >= len(all) || p == i {
				return nil, fmt.Errorf("stage %s: parent %d is not another stage of the job; stages count from 0", s.Name, p)
			}
		}
		if s.Seconds > 0 && len(s.Levels) == 0 {
			s.Levels = []Level{{Executors: 1, First: []float64{s.Seconds}}}
		}
		if err := checkLevels(s); err != nil {
			return nil, fmt.Errorf("stage %s: %w", s.Name, err)
		}
		t.known = append(t.known, stages.Stage{Name: s.Name, Parents: s.Parents, Tasks: s.Tasks, Mean: s.mean()})
	}
	if !stages.Acyclic(t.known) {
		return nil, fmt.Errorf("its stages are a circle: one comes before itself")
	}
	return t, nil
}

func checkLevels(s *Stage) error {
	if len(s.Levels) == 0 {
		return fmt.Errorf("has no run times: write seconds, or levels")
	}
	for k := range s.Levels {
		l := &s.Levels[k]
		if l.Executors < 1 || k > 0 && l.Executors <= s.Levels[k-1].Executors {
			return fmt.Errorf("level %d: %d executors; levels ascend from 1", k, l.Executors)
		}
		if len(l.Fresh)+len(l.First)+len(l.Rest) == 0 {
			return fmt.Errorf("level of %d executors: has no run times", l.Executors)
		}
		for _, d := range slices.Concat(l.Fresh, l.First, l.Rest) {
			if !(d > 0) || d > mostTime {
				return fmt.Errorf("level of %d executors: a run time of %g s; write more than 0", l.Executors, d)
			}
		}
	}
	return nil
}

// mean is the mean run time of tasks in seconds on the level in the middle, where as many tasks as it has executors are of
// the first wave.
func (s *Stage) mean() float64 {
	l := &s.Levels[len(s.Levels)/2]
	early, late := average(l.First), average(l.Rest)
	switch {
	case len(l.First)+len(l.Rest) == 0:
		return average(l.Fresh)
	case len(l.First) == 0:
		return late
	case len(l.Rest) == 0:
		return early
	}
	part := float64(min(s.Tasks, l.Executors)) / float64(s.Tasks)
	return part*early + (1-part)*late
}

func average(list []float64) float64 {
	sum := 0.0
	for _, v := range list {
		sum += v
	}
	return sum / float64(max(1, len(list)))
}

// IsTrace tells whether a file is a trace of graphs of stages, by its first line. It is false for what cannot be read.
func IsTrace(path string) bool {
	f, err := os.Open(path)
	if err != nil {
		return false
	}
	defer f.Close()
	if st, err := f.Stat(); err != nil || !st.Mode().IsRegular() {
		return false
	}
	head := make([]byte, 4096)
	n, _ := io.ReadFull(f, head)
	first, _, _ := bytes.Cut(head[:n], []byte("\n"))
	return bytes.HasPrefix(first, []byte("{")) && bytes.Contains(first, []byte(`"stages":[{`))
}

// Open reads a trace: a JSON object on each line, in any order of arrival. The result is in the order of time.
func Open(path string) ([]Job, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	return Read(f, path)
}

// Read is Open for what a reader holds. The name is for messages.
func Read(in io.Reader, name string) ([]Job, error) {
	lines := bufio.NewScanner(in)
	lines.Buffer(nil, 64<<20)
	known := map[string]*Template{}
	ids := map[string]bool{}
	var all []Job
	for n := 1; lines.Scan(); n++ {
		if len(bytes.TrimSpace(lines.Bytes())) == 0 {
			continue
		}
		var l line
		d := json.NewDecoder(bytes.NewReader(lines.Bytes()))
		d.DisallowUnknownFields()
		if err := d.Decode(&l); err != nil {
			return nil, fmt.Errorf("%s:%d: %w", name, n, err)
		}
		t := known[l.Template]
		if len(l.Stages) > 0 {
			var err error
			if t, err = NewTemplate(l.Template, l.Stages); err != nil {
				return nil, fmt.Errorf("%s:%d: %w", name, n, err)
			}
			if l.Template != "" {
				known[l.Template] = t
			}
		}
		switch {
		case t == nil:
			return nil, fmt.Errorf("%s:%d: template %q is not known: write its stages on a line before", name, n, l.Template)
		case l.ID == "" && l.Template != "" && len(l.Stages) > 0:
			continue // a template alone
		case l.ID == "" || ids[l.ID]:
			return nil, fmt.Errorf("%s:%d: id %q: write one that no other job has", name, n, l.ID)
		case !(l.Arrival >= 0) || l.Arrival > mostTime:
			return nil, fmt.Errorf("%s:%d: arrival %g: write seconds since the trace begins", name, n, l.Arrival)
		}
		ids[l.ID] = true
		all = append(all, Job{ID: l.ID, Arrived: seconds(l.Arrival), Template: t})
	}
	if err := lines.Err(); err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	slices.SortStableFunc(all, func(a, b Job) int { return int(min(1, max(-1, a.Arrived-b.Arrived))) })
	return all, nil
}

// Write writes a trace as Open reads it.
func Write(w io.Writer, all []Job) error {
	out := json.NewEncoder(w)
	written := map[*Template]bool{}
	for i := range all {
		l := line{ID: all[i].ID, Arrival: all[i].Arrived.Seconds(), Template: all[i].Template.Name}
		if !written[all[i].Template] {
			l.Stages = all[i].Template.Stages
			written[all[i].Template] = true
		}
		if err := out.Encode(&l); err != nil {
			return err
		}
	}
	return nil
}

func seconds(s float64) time.Duration { return time.Duration(math.Round(s * 1e9)) }
