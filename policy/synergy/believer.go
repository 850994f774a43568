package synergy

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/norn-scheduler/norn/cluster"
	"github.com/norn-scheduler/norn/cluster/unit"
	"github.com/norn-scheduler/norn/job"
	"github.com/norn-scheduler/norn/perf"
)

// Believer makes what the scheduler believes of cores and memory from what is measured of
// jobs.
func (c *Config) Believer(prior perf.Prior) perf.Believer {
	b := &believer{profiles: map[string]*profile{}}
	b.of.Of = prior.Speeds
	if g, ok := prior.Speeds.(*perf.Grids); ok { // of which the grids are what is to be learnt
		b.of.Of, b.of.Share = g.Of, g.Share
	}
	b.of.Models = map[string]*perf.Grid{}
	b.share = perf.FairShare()
	if b.of.Share != (perf.Ration{}) {
		b.share = b.of.Share
	}
	b.plain = &perf.Grid{CPUs: []unit.Milli{b.share.CPU}, Memory: []unit.Bytes{b.share.Memory}, Rates: [][]float64{{1}}}
	return b
}

// believer is what is believed of models from optimistic profiling. It is a perf.Speeds
// with the grids that were measured; a job of another model is believed to be as fast as it
// can be with its proportional share.
type believer struct {
	of       perf.Grids
	share    perf.Ration
	plain    *perf.Grid // of a model that was not measured
	profiles map[string]*profile
}

// profile is the latest measurement of a model with the most cores.
type profile struct {
	perf.GridProfile
	grid   *perf.Grid
	points []perf.GridPoint
	more   bool // it was still faster with the most cores than with fewer
}

// The values of a measurement: cores of all tasks, seconds of an iteration with them; the
// iterations and bytes of an epoch, and bytes a second from the disk.
const (
	Cores      = "cores"
	Iteration  = "iteration"
	Iterations = "iterations"
	Dataset    = "dataset"
	Disk       = "disk"
)

// model is by what jobs are taken to be alike.
func model(j *job.Job) string { return strings.ToLower(j.Model) }

// Observe implements perf.Believer.
func (b *believer) Observe(j *job.Job, m *perf.Reading) {
	cores, times := m.Series(Cores), m.Series(Iteration)
	if m.When != perf.InProfile || j.Model == "" || len(cores) == 0 || len(cores) != len(times) {
		return
	}
	p := &profile{GridProfile: perf.GridProfile{GPUs: m.Setup.Tasks, Cores: int(cores[0])}}
	for i := range cores {
		p.points = append(p.points, perf.GridPoint{Cores: int(cores[i]), Iteration: time.Duration(times[i] * float64(time.Second))})
	}
	figure := func(name string) float64 { x, _ := m.Figure(name); return x }
	p.Iterations, p.Dataset, p.Disk = int(figure(Iterations)), unit.Bytes(figure(Dataset)), figure(Disk)
	var memory []unit.Bytes
	for _, times := range []float64{1.0 / 3, 1, 2, 3, 4} {
		memory = append(memory, unit.Bytes(times*float64(b.share.Memory)))
	}
	grid, err := p.Grid(p.points, memory)
	if err != nil {
		return // what makes no sense teaches nothing
	}
	p.grid = grid
	p.more = p.gains()
	if was := b.profiles[model(j)]; was == nil || p.Cores*was.GPUs >= was.Cores*p.GPUs {
		b.profiles[model(j)], b.of.Models[model(j)] = p, grid
	}
}

// gains tells whether a job was faster with the most cores than with the next fewer.
func (p *profile) gains() bool {
	return len(p.points) > 1 && float64(p.points[1].Iteration) > (1+p.grid.Slack)*float64(p.points[0].Iteration)
}

// On implements perf.Typed.
func (b *believer) On(j *job.Job, c *cluster.Cluster, t cluster.TypeID, tasks int, spread bool) float64 {
	return b.of.On(j, c, t, tasks, spread)
}

// Speed implements perf.Model.
func (b *believer) Speed(j *job.Job, c *cluster.Cluster, a *cluster.Alloc) float64 {
	return b.of.Speed(j, c, a)
}

// Grid implements perf.Sensitive.
func (b *believer) Grid(j *job.Job) *perf.Grid {
	if g := b.of.Grid(j); g != nil || j.Model == "" {
		return g
	}
	return b.plain
}

// Unmeasured implements perf.Measurable.
func (b *believer) Unmeasured(j *job.Job, cores unit.Milli) bool {
	p := b.profiles[model(j)]
	if j.Hints != nil && j.Hints.CPUPerGPU > 0 {
		return false // it tells
	}
	return j.Model != "" && (p == nil || p.more && cores > unit.Milli(p.Cores)*unit.One/unit.Milli(p.GPUs))
}

// Grounds implements perf.Telling.
func (b *believer) Grounds(j *job.Job) []string {
	p := b.profiles[model(j)]
	if p == nil || j.Model == "" {
		return nil
	}
	best, all := p.grid.Best(), make([]string, len(p.points))
	for i, at := range p.points {
		all[i] = fmt.Sprint(at.Cores)
	}
	slices.Reverse(all)
	text := fmt.Sprintf("it is believed to be fastest with %v cores and %v of memory for each GPU, from a job of its model that was measured on %s with %s cores",
		best.CPU, best.Memory, unit.Count(p.GPUs, "GPU"), strings.Join(all, ", "))
	if disk := p.Storage(p.epoch(), best.Memory*unit.Bytes(p.GPUs)); disk > 0 {
		text += fmt.Sprintf("; it then reads %v a second from the disk", unit.Bytes(disk))
	}
	return []string{text}
}

// GainGrounds implements perf.Telling: jobs learn nothing from each other here.
func (b *believer) GainGrounds(_, _ *job.Job) string { return "" }

// epoch is how long an epoch takes with the most cores when no data are waited for.
func (p *profile) epoch() time.Duration { return p.points[0].Iteration * time.Duration(p.Iterations) }
