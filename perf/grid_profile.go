package perf

import (
	"errors"
	"slices"
	"time"

	"github.com/norn-scheduler/norn/cluster/unit"
	"github.com/norn-scheduler/norn/job"
)

// GridProfile is how a Grid is measured at little cost, before a job is
// scheduled (optimistic profiling, Synergy, section 3.1). The job runs with all
// the memory of a server and fewer and fewer of its cores, for some iterations
// each. The effect of less memory is computed, since a cache keeps a part of
// the data set that does not change from epoch to epoch.
type GridProfile struct {
	GPUs  int // of the job
	Cores int // of the server

	Iterations int        // in an epoch
	Dataset    unit.Bytes // that an epoch reads
	Cache      float64    // bytes a second that are read from memory
	Disk       float64    // bytes a second that are read from the disk
}

// GridPoint is a measurement: how long an iteration takes with so many cores in all.
type GridPoint struct {
	Cores     int
	Iteration time.Duration
}

// saturated is up to what part of its time an iteration may change and is still taken
// to be as fast.
const saturated = 0.1

// Explore measures a job with all cores, after a warm-up run of the same, and
// then with fewer. It halves the cores if the last step made no difference, and
// otherwise takes one less for each GPU. Points come with the most cores first.
// measure is asked how long an iteration takes.
func (p *GridProfile) Explore(measure func(cores int) time.Duration) []GridPoint {
	var points []GridPoint
	last := measure(p.Cores)
	for cores := p.Cores; cores >= 1; {
		now := measure(cores)
		points = append(points, GridPoint{cores, now})
		if last <= 0 || float64((now-last).Abs()) < saturated*float64(last) {
			cores /= 2
		} else {
			cores -= max(1, p.GPUs)
		}
		last = now
	}
	return points
}

// Measurable is a Sensitive that knows of which jobs a measurement would teach it
// something.
type Measurable interface {
	Sensitive
	// Unmeasured tells whether it is worth to measure a job with so many cores for each
	// GPU.
	Unmeasured(j *job.Job, cores unit.Milli) bool
}

// Fetch is how long it takes to read the data of an epoch when so much memory, in
// all, holds a part of it.
func (p *GridProfile) Fetch(memory unit.Bytes) time.Duration {
	cached := min(p.Dataset, memory)
	return seconds(over(cached, p.Cache) + over(p.Dataset-cached, p.Disk))
}

// over is how many seconds so many bytes take.
func over(b unit.Bytes, speed float64) float64 {
	if b <= 0 || speed <= 0 {
		return 0
	}
	return float64(b) / speed
}

func seconds(s float64) time.Duration { return time.Duration(min(s, 1e9) * float64(time.Second)) }

// Storage is how many bytes a second of the disk a job needs whose epochs take compute
// when nothing holds them up: all where it reads longer than it computes.
func (p *GridProfile) Storage(compute time.Duration, memory unit.Bytes) float64 {
	if p.Fetch(memory) > compute {
		return p.Disk
	}
	cached := min(p.Dataset, memory)
	left := compute.Seconds() - over(cached, p.Cache)
	if p.Dataset == cached || left <= 0 {
		return 0
	}
	return min(p.Disk, float64(p.Dataset-cached)/left)
}

// Grid is the grid of a job from what was measured of it, for some amounts of memory
// for each GPU, in increasing order. Its rates are relative to the highest, and what is
// saturated is its slack: measurements differ by as much. A point at which a job with more
// cores was slower is taken to be as fast as with fewer.
func (p *GridProfile) Grid(points []GridPoint, memory []unit.Bytes) (*Grid, error) {
	if p.GPUs < 1 || p.Iterations < 1 || len(points) == 0 {
		return nil, errors.New("a job must have a GPU, iterations and measurements, for a grid to be made of them")
	}
	points = slices.Clone(points)
	slices.SortStableFunc(points, func(a, b GridPoint) int { return a.Cores - b.Cores })
	points = slices.CompactFunc(points, func(a, b GridPoint) bool { return a.Cores == b.Cores })
	g := &Grid{Memory: slices.Clone(memory), Slack: saturated}
	epoch := time.Duration(0)
	for _, at := range points {
		if at.Iteration <= 0 {
			return nil, errors.New("an iteration was measured to take no time")
		}
		if epoch == 0 || at.Iteration*time.Duration(p.Iterations) < epoch {
			epoch = at.Iteration * time.Duration(p.Iterations)
		}
		row := make([]float64, len(memory))
		for k, m := range memory {
			row[k] = 1 / max(epoch, p.Fetch(m*unit.Bytes(p.GPUs))).Seconds()
		}
		g.CPUs, g.Rates = append(g.CPUs, unit.Milli(at.Cores)*unit.One/unit.Milli(p.GPUs)), append(g.Rates, row)
	}
	if len(memory) > 0 {
		most := g.Most()
		for _, row := range g.Rates {
			for k := range row {
				row[k] /= most
			}
		}
	}
	return g, g.Check()
}
