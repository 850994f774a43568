package sia

import (
	"fmt"
	"slices"
	"strings"

	"github.com/norn-scheduler/norn/cluster/unit"
	"github.com/norn-scheduler/norn/job"
	"github.com/norn-scheduler/norn/perf"
)

// The values of a measurement: examples on each GPU in a pass, seconds of a pass, and seconds
// of a step, which is a pass and the exchange of gradients.
const (
	Local = "local"
	Pass  = "pass"
	Step  = "step"
)

// Believer makes what the scheduler believes of step times from what is measured of jobs as
// they run. It learns nothing where jobs do not tell their batches and their noise, and is
// nil where everything is known.
func (c *Config) Believer(prior perf.Prior) perf.Believer {
	if c.Profiles == Oracle {
		return nil
	}
	if reporter, ok := prior.Speeds.(perf.TypeReporter); ok {
		return &believer{TypeReporter: reporter, jobs: map[int64][]mean{}}
	}
	return deaf{}
}

// deaf believes nothing.
type deaf struct{}

// Observe implements perf.Believer.
func (deaf) Observe(*job.Job, *perf.Reading) {}

// believer is what was measured of jobs. The declarations of jobs and the profiles of one
// replica are those of the prior.
type believer struct {
	perf.TypeReporter
	jobs map[int64][]mean // by perf.SerialOf, in order of first measurements
}

// mean is the mean of measurements in one configuration.
type mean struct {
	on string // GPU type
	perf.Measurement
	times int
}

// Observe implements perf.Believer.
func (b *believer) Observe(j *job.Job, m *perf.Reading) {
	local, ok := m.Figure(Local)
	pass, timed := m.Figure(Pass)
	step, both := m.Figure(Step)
	if !ok || !timed || !both || local < 1 || pass <= 0 || step < pass {
		return
	}
	id, gpus := perf.SerialOf(j), int(j.Demand.Milli(int32(m.Setup.Tasks))/unit.One)
	seen := mean{m.Setup.Type, perf.Measurement{Replicas: gpus, Spread: m.Setup.Spread, Local: int(local), Pass: pass, Step: step}, 1}
	all := b.jobs[id]
	i := slices.IndexFunc(all, func(o mean) bool {
		return o.on == seen.on && o.Replicas == gpus && o.Spread == seen.Spread && o.Local == seen.Local
	})
	if i < 0 {
		b.jobs[id] = append(all, seen)
		return
	}
	o := &all[i]
	o.times++
	o.Pass += (pass - o.Pass) / float64(o.times)
	o.Step += (step - o.Step) / float64(o.times)
}

// seen is what was measured of a job on a GPU type.
func (b *believer) seen(j *job.Job, on string) (all []perf.Measurement) {
	for _, o := range b.jobs[perf.SerialOf(j)] {
		if o.on == on {
			all = append(all, o.Measurement)
		}
	}
	return all
}

// known is how often a job was measured, and the most GPUs with which it was.
func (b *believer) known(j *job.Job) (times, gpus int) {
	for _, o := range b.jobs[perf.SerialOf(j)] {
		times, gpus = times+o.times, max(gpus, o.Replicas)
	}
	return times, gpus
}

// Grounds implements perf.Telling.
func (b *believer) Grounds(j *job.Job) []string {
	var types []string
	sizes := map[string]int{}
	for _, o := range b.jobs[perf.SerialOf(j)] {
		if sizes[o.on]++; sizes[o.on] == 1 {
			types = append(types, o.on)
		}
	}
	if len(types) == 0 {
		return nil
	}
	for i, on := range types {
		types[i] = fmt.Sprintf("%s of %s", unit.Count(sizes[on], "configuration"), on)
	}
	return []string{"its goodputs are fitted to steps that were measured in " + strings.Join(types, ", ")}
}

// GainGrounds implements perf.Telling.
func (b *believer) GainGrounds(*job.Job, *job.Job) string { return "" }

var _ perf.Telling = (*believer)(nil)
