package perf

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/norn-scheduler/norn/cluster"
	"github.com/norn-scheduler/norn/cluster/unit"
	"github.com/norn-scheduler/norn/job"
)

// Ration is the cores and the memory of a node that a job has there for each of its
// GPUs.
type Ration struct {
	CPU    unit.Milli
	Memory unit.Bytes
}

// Least is the smaller of both in each part.
func (r Ration) Least(o Ration) Ration { return Ration{min(r.CPU, o.CPU), min(r.Memory, o.Memory)} }

// Within tells whether no part of r is larger than that of o.
func (r Ration) Within(o Ration) bool { return r.CPU <= o.CPU && r.Memory <= o.Memory }

// Grid is the measured speed of a job with different rations. More cores help
// while loading and preparing data holds the job up. More memory helps while
// the job reads data from a disk again that a larger cache would hold.
//
// Between measurements it is a straight line in each direction, beyond the outermost
// ones it is as there, and below the fewest cores it falls in proportion to them. A
// Grid must not change once it is used.
type Grid struct {
	CPUs   []unit.Milli // for each GPU, increasing
	Memory []unit.Bytes // for each GPU, increasing
	Rates  [][]float64  // by cores, then by memory; relative to each other, above 0
	Slack  float64      // the part of the highest rate that is worth no more cores or memory: see Best
}

// Check says what is wrong with a grid, or nil.
func (g *Grid) Check() error {
	switch {
	case len(g.CPUs) == 0 || len(g.Memory) == 0:
		return errors.New("a grid needs at least one number of cores and one amount of memory")
	case !increasing(g.CPUs) || !increasing(g.Memory):
		return errors.New("the cores and the memory of a grid must be above 0, and increase")
	case !(g.Slack >= 0 && g.Slack < 1):
		return fmt.Errorf("a grid has a slack of %v; it is from 0 to below 1", g.Slack)
	case len(g.Rates) != len(g.CPUs):
		return fmt.Errorf("a grid of %d numbers of cores has %d rows", len(g.CPUs), len(g.Rates))
	}
	for i, row := range g.Rates {
		if len(row) != len(g.Memory) {
			return fmt.Errorf("row %d of a grid has %d rates for %d amounts of memory", i+1, len(row), len(g.Memory))
		}
		for k, r := range row {
			switch {
			case !(r > 0 && r < 1e9):
				return fmt.Errorf("row %d of a grid: %v is not a rate", i+1, r)
			case i > 0 && r < g.Rates[i-1][k], k > 0 && r < row[k-1]:
				return fmt.Errorf("row %d of a grid: a job with more is slower (%v)", i+1, r)
			}
		}
	}
	return nil
}

func increasing[T unit.Milli | unit.Bytes](all []T) bool {
	for i, v := range all {
		if v <= 0 || i > 0 && v <= all[i-1] {
			return false
		}
	}
	return true
}

// Rate is the rate with a ration.
func (g *Grid) Rate(r Ration) float64 {
	scale := 1.0
	if first := g.CPUs[0]; r.CPU < first {
		scale = max(0, float64(r.CPU)/float64(first))
	}
	i, a := between(g.CPUs, r.CPU)
	k, b := between(g.Memory, r.Memory)
	next := func(row []float64) float64 {
		if b == 0 {
			return row[k]
		}
		return row[k] + (row[k+1]-row[k])*b
	}
	rate := next(g.Rates[i])
	if a > 0 {
		rate += (next(g.Rates[i+1]) - rate) * a
	}
	return rate * scale
}

// between finds the last entry that is not above v, and how far v is on the way to
// the next one, 0 at and beyond the ends.
func between[T unit.Milli | unit.Bytes](all []T, v T) (at int, part float64) {
	at, exact := slices.BinarySearch(all, v)
	switch {
	case exact || at == 0:
		return at, 0
	case at == len(all):
		return at - 1, 0
	}
	return at - 1, float64(v-all[at-1]) / float64(all[at]-all[at-1])
}

// Most is the highest rate.
func (g *Grid) Most() float64 { return g.Rates[len(g.CPUs)-1][len(g.Memory)-1] }

// Best is the smallest ration with which a job is as fast as it can be, except
// for the slack. It has the fewest cores of all, and the least memory with
// these.
func (g *Grid) Best() Ration { return g.Enough(g.Most() * (1 - g.Slack)) }

// Enough is the smallest measured ration that reaches a rate: the fewest cores, and
// the least memory with these; the largest ration when none does.
func (g *Grid) Enough(rate float64) Ration {
	for i, row := range g.Rates {
		for k, r := range row {
			if r >= rate {
				return Ration{g.CPUs[i], g.Memory[k]}
			}
		}
	}
	return Ration{g.CPUs[len(g.CPUs)-1], g.Memory[len(g.Memory)-1]}
}

// Sensitive is a Model of jobs whose speed depends on what they have of the cores
// and the memory of their nodes.
type Sensitive interface {
	Typed
	// Grid is what is known of a job; nil: nothing of that kind makes it faster or
	// slower.
	Grid(j *job.Job) *Grid
}

// Grids is the Model of jobs with measured grids, by the name of the model that they
// train. It comes on top of another one, which knows of GPU types, sizes and
// places: their factors are multiplied. A gang waits for the node where it has least
// for each GPU.
//
// A job that books no cores, or no memory, has its share for its GPUs, as Share
// says. A job without a grid is as fast with little as with much.
type Grids struct {
	Of     Typed            // nil: Analytic with no penalty
	Share  Ration           // with which the factor is 1; what is zero: as in FairShare
	Models map[string]*Grid // by name in lower case
}

// FairShare is what the servers of Synergy's measurements have for each GPU.
func FairShare() Ration { return Ration{3 * unit.One, gib(62.5)} }

func gib(v float64) unit.Bytes { return unit.Bytes(v * float64(unit.GiB)) }

// Grid implements Sensitive. A job that tells the cores that it needs for each of its GPUs has the
// grid of that (Needing); another one that of its model.
func (m *Grids) Grid(j *job.Job) *Grid {
	if j.Hints != nil && j.Hints.CPUPerGPU > 0 {
		return Needing(j.Hints.CPUPerGPU)
	}
	if g, ok := m.Models[j.Model]; ok || j.Model == "" {
		return g
	}
	return m.Models[strings.ToLower(j.Model)]
}

// Needing is the grid of a job whose batches are made by processors beside its GPUs, as the
// sampling of graphs is: with so many cores for each GPU both keep pace, and with fewer it is
// slower in proportion. Memory is worth nothing to it.
//
// Source: ByteGNN (VLDB 2022) has the two phases; that the rate is the least of both is ours.
func Needing(cores unit.Milli) *Grid {
	return &Grid{CPUs: []unit.Milli{cores}, Memory: []unit.Bytes{1}, Rates: [][]float64{{1}}}
}

// On implements Typed, for jobs that have their share of cores and memory.
func (m *Grids) On(j *job.Job, c *cluster.Cluster, t cluster.TypeID, tasks int, spread bool) float64 {
	return m.of().On(j, c, t, tasks, spread)
}

// Speed implements Model.
func (m *Grids) Speed(j *job.Job, c *cluster.Cluster, a *cluster.Alloc) float64 {
	speed := m.of().Speed(j, c, a)
	if g := m.Grid(j); g != nil {
		speed *= m.factor(g, a)
	}
	return speed
}

// factor is by how much a job is faster on an Alloc than with its share.
func (m *Grids) factor(g *Grid, a *cluster.Alloc) float64 {
	share := m.share()
	normal := g.Rate(share)
	slowest, shares := -1.0, a.Shares
	for i := range a.Pieces {
		p := &a.Pieces[i]
		milli := int64(0)
		for k := range shares[:p.Shares] {
			milli += int64(shares[k].Milli)
		}
		shares = shares[p.Shares:]
		if milli == 0 {
			continue // a task without a GPU, or a guest: nothing was measured
		}
		r := share
		if p.CPU > 0 {
			r.CPU = unit.Milli(int64(p.CPU) * 1000 / milli)
		}
		if p.Memory > 0 {
			r.Memory = unit.Bytes(float64(p.Memory) * 1000 / float64(milli))
		}
		if rate := g.Rate(r); slowest < 0 || rate < slowest {
			slowest = rate
		}
	}
	if slowest < 0 || normal <= 0 {
		return 1
	}
	return slowest / normal
}

func (m *Grids) share() Ration {
	share := m.Share
	if share.CPU == 0 {
		share.CPU = FairShare().CPU
	}
	if share.Memory == 0 {
		share.Memory = FairShare().Memory
	}
	return share
}

func (m *Grids) of() Typed {
	if m.Of == nil {
		return Analytic{Scaling: 1, Spread: 1}
	}
	return m.Of
}
