package topoaware

import (
	"cmp"
	"encoding/json"
	"fmt"
	"maps"
	"math"
	"path/filepath"
	"slices"
	"strconv"

	"github.com/norn-scheduler/norn/cluster/unit"
	"github.com/norn-scheduler/norn/internal/published/harness"
	"github.com/norn-scheduler/norn/job"
	"github.com/norn-scheduler/norn/trace"
)

// places is run times alone, by place.
type places struct {
	Within float64 `json:"intra-socket"`
	Across float64 `json:"inter-socket"`
}

// byGPUs is something by number of GPUs.
type byGPUs[T any] struct {
	GPUs map[string]T `json:"num_gpus"`
}

// profile is run times by model, batch size and number of GPUs, beside others again by these.
type profile struct {
	Solo        map[string]map[string]byGPUs[places]
	Collocation map[string]map[string]byGPUs[map[string]map[string]byGPUs[float64]]
}

// alone is the run time of a job on so many GPUs; 0 where there is none.
func (p *profile) alone(t *task, gpus int, across bool) float64 {
	x := p.Solo[t.model][t.size].GPUs[strconv.Itoa(gpus)]
	if across {
		return x.Across
	}
	return x.Within
}

// beside is the run time of a job on so many GPUs beside another on so many; 0 where there is none.
func (p *profile) beside(t *task, gpus int, other *task, others int) float64 {
	return p.Collocation[t.model][t.size].GPUs[strconv.Itoa(gpus)][other.model][other.size].GPUs[strconv.Itoa(others)]
}

// workload is a trace with run times.
type workload struct {
	profile *profile
	tasks   []task // by number
}

// readFiles reads a trace, an object of jobs by their numbers, and run times.
func readFiles(tracePath, profilePath string) (*workload, error) {
	text, err := harness.ReadFile(profilePath)
	if err != nil {
		return nil, err
	}
	w := &workload{profile: &profile{}}
	if err := json.Unmarshal([]byte(text), w.profile); err != nil {
		return nil, fmt.Errorf("%s: %w", filepath.Base(profilePath), err)
	}
	if text, err = harness.ReadFile(tracePath); err != nil {
		return nil, err
	}
	if err := w.read(text); err != nil {
		return nil, fmt.Errorf("%s: %w", filepath.Base(tracePath), err)
	}
	return w, nil
}

// read reads a trace. Jobs are numbered by their arrival.
func (w *workload) read(text string) error {
	var all map[string]struct {
		ID      int     `json:"id"`
		Arrival int64   `json:"arrival"`
		GPUs    int     `json:"gpus"`
		Size    string  `json:"size"`
		Type    string  `json:"type"`
		Least   float64 `json:"minimal_utility"`
	}
	if err := json.Unmarshal([]byte(text), &all); err != nil {
		return err
	}
	for _, key := range slices.Sorted(maps.Keys(all)) {
		j := all[key]
		t := task{id: j.ID, model: j.Type, size: j.Size, gpus: j.GPUs, arrival: j.Arrival, least: j.Least}
		switch {
		case j.GPUs < 1 || j.GPUs >= perMachine:
			return fmt.Errorf("job %s asks for %d GPUs: 1 to %d are known", key, j.GPUs, perMachine-1)
		case j.Arrival < 0 || j.Arrival > harness.MaxSeconds:
			return fmt.Errorf("job %s: arrival %d is no time in seconds", key, j.Arrival)
		}
		if t.needs = w.profile.alone(&t, t.gpus, false); t.needs <= 0 {
			return fmt.Errorf("job %s: no run time of %s with batches of %s on %d GPUs", key, j.Type, j.Size, j.GPUs)
		}
		t.comes = stepOf(float64(j.Arrival))
		w.tasks = append(w.tasks, t)
	}
	slices.SortStableFunc(w.tasks, func(a, b task) int { return cmp.Or(cmp.Compare(a.arrival, b.arrival), cmp.Compare(a.id, b.id)) })
	for i := range w.tasks {
		t := &w.tasks[i]
		if t.id != i {
			return fmt.Errorf("job %d is the %dth to arrive: jobs must be numbered from 0 on by their arrival", t.id, i+1)
		}
	}
	return nil
}

// of are the jobs, each of which asks for a part of each of its GPUs. They end when the scheduler says so.
func (w *workload) of(part unit.Milli) (jobs harness.Jobs) {
	var shapes job.Interner
	for i := range w.tasks {
		t := &w.tasks[i]
		d := job.GPUs(t.gpus)
		d.Roles[0].GPU = part
		jobs = append(jobs, trace.Entry{
			Job:   job.Job{ID: job.ID(i), Key: strconv.Itoa(t.id), Demand: shapes.Get(d), Submit: harness.Seconds(t.arrival), Retries: -1},
			Truth: trace.Truth{Work: harness.Seconds(harness.MaxSeconds)},
		})
	}
	return jobs
}

// stepOf is the step of an arrival, rounded to one digit.
func stepOf(arrival float64) float64 {
	rest := math.Mod(arrival, period)
	s := arrival - rest
	if rest != 0 {
		s += period
	}
	return math.Round(s*10) / 10
}
