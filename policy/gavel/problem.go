package gavel

import (
	"math"
	"slices"

	"github.com/norn-scheduler/norn/solve"
	"github.com/norn-scheduler/norn/solve/blocks"
)

// Problem is what is to be shared at one moment.
type Problem struct {
	Capacity []float64 // by type: GPUs
	Prices   []float64 // by type: of one GPU for an hour; empty: all the same
	Jobs     []Job     // in order of arrival
	Entities []Entity  // for Hierarchical

	// Beside is how fast a job of one kind is next to one of another on the same GPUs,
	// as a part of its speed alone: by its kind, the kind of the other, and type; 0: they
	// cannot share. Empty: no two jobs share GPUs.
	Beside [][][]float64
	// Pairs are those that programs have found worth looking at. They are the rows of an
	// Allocation behind those of the jobs.
	Pairs []Pair

	// Rooms are for gangs that are faster together on one node than spread over several; in
	// none of the sizes that are not there can more fit than the GPUs of the type allow. With
	// them an Allocation has two columns for each type.
	Rooms []Room

	// Traces keeps shares that are zero but for the arithmetic. On the way to an
	// optimum they tell who comes nearest to having one.
	Traces bool

	// Each has independent programs solved, perhaps side by side; nil: one after the other.
	Each solve.Each
}

// Job is a job as the objectives see it. A step is whatever its speeds count.
type Job struct {
	ID       int64     // its number for life
	Size     float64   // GPUs, above 0
	Speed    []float64 // by type: steps per second of the whole job; 0: it cannot run there
	Spread   []float64 // by type: the same where it may be spread over nodes, at most Speed; empty: that makes no difference
	Weight   float64   // above 0
	Left     float64   // steps to go
	Age      float64   // seconds since it came
	Isolated float64   // seconds that its past steps would have taken with an equal share
	Due      float64   // seconds until it is to be done; not above 0: whenever
	Entity   int       // place in Problem.Entities
	Kind     int       // place in Problem.Beside; below 0: it shares with nobody
}

// Entity is a tenant for Hierarchical.
type Entity struct {
	Weight float64 // above 0
	FIFO   bool    // its first job goes first, instead of equal shares by weight
}

// Allocation is the share of its time that each job shall run on each type, and, where
// jobs may share, behind that each of Problem.Pairs, as far as there are rows. Where there are
// Problem.Rooms, behind the types come shares of time spread over nodes, by type.
type Allocation [][]float64

// Program finds an allocation.
type Program func(p *Problem) (Allocation, error)

// total is the number of GPUs.
func (p *Problem) total() float64 {
	sum := 0.0
	for _, w := range p.Capacity {
		sum += w
	}
	return sum
}

// throughput is the steps per second of a job with a share of each type.
func (j *Job) throughput(x []float64) float64 {
	sum := 0.0
	for t, s := range j.Speed {
		sum += s * x[t]
	}
	for t, v := range x[len(j.Speed):] {
		if v > 0 {
			sum += j.Spread[t] * v
		}
	}
	return sum
}

// fits tells whether a job can run on a type at all.
func (p *Problem) fits(j *Job, t int) bool { return j.Speed[t] > 0 && j.Size <= p.Capacity[t] }

// fastest is the speed of a job on the best of the types that can hold it.
func (p *Problem) fastest(j *Job) float64 {
	best := 0.0
	for t := range j.Speed {
		if p.fits(j, t) {
			best = max(best, j.Speed[t])
		}
	}
	return best
}

// Equal is the throughput of a job with the proportional share X_eq: a part of each
// type in proportion to its GPUs, all parts together the whole of its time.
func (p *Problem) Equal(j *Job) float64 {
	sum := 0.0
	for t, w := range p.Capacity {
		sum += j.Speed[t] * w
	}
	return sum / p.total()
}

// Share is the isolated share X_iso of a job among so many: an n-th of the GPUs of
// each type, and no more than all of its time.
func (p *Problem) Share(j *Job, n int) []float64 {
	x := make([]float64, len(p.Capacity))
	sum := 0.0
	for t, w := range p.Capacity {
		x[t] = w / (float64(n) * j.Size)
		sum += x[t]
	}
	for t := range x {
		x[t] /= max(1, sum)
	}
	return x
}

// Isolated gives every job its isolated share: the reference, and what is left when
// an objective cannot be settled.
func Isolated(p *Problem) (Allocation, error) {
	a := p.parts()
	p.Cut(a)
	return a, nil
}

// parts are isolated shares as if all time could be together.
func (p *Problem) parts() Allocation {
	a := p.nothing()
	for m := range p.Jobs {
		j := &p.Jobs[m]
		for t, x := range p.Share(j, len(p.Jobs)) {
			if p.fits(j, t) {
				a[m][t] = x
			}
		}
	}
	return a
}

// plenty gives every job all of its time on its fastest type, alone. Where there are
// enough GPUs for that, no objective that goes by throughputs alone could ask for more, and
// there is nothing to be solved.
func (p *Problem) plenty() (a Allocation, ok bool) {
	left := slices.Clone(p.Capacity)
	a = p.nothing()
	for m := range p.Jobs {
		j := &p.Jobs[m]
		most, on := p.fastest(j), -1
		if most == 0 {
			continue
		}
		for t, s := range j.Speed {
			if s == most && j.Size <= left[t] && (on < 0 || left[t] > left[on]) {
				on = t
			}
		}
		if on < 0 {
			return nil, false
		}
		left[on] -= j.Size
		a[m][on] = 1
	}
	return a, p.roomy(a)
}

// nothing is an allocation in which nobody has anything.
func (p *Problem) nothing() Allocation {
	n := p.columns()
	flat := make([]float64, len(p.Jobs)*n)
	a := make(Allocation, len(p.Jobs))
	for m := range a {
		a[m] = flat[m*n : (m+1)*n : (m+1)*n]
	}
	return a
}

// goal is what a job is to have of an objective: rate times its throughput at least
// floor, plus step times the common level.
type goal struct {
	rate, floor, step float64
	none              bool
}

// outcome is an optimum in the terms of a problem.
type outcome struct {
	Allocation
	level  float64
	prices []float64 // by job
	slacks []float64
}

// program writes the constraints that all objectives have and solves: gain is what
// a step per second of a job is worth on a type, goals what jobs must have.
func (p *Problem) program(level float64, gain func(j *Job, t int) float64, goals func(m int) goal) (*outcome, error) {
	if len(p.Beside) > 0 {
		return p.packed(level, gain, goals)
	}
	lp := blocks.Program{Level: level}
	row := make([]int, len(p.Capacity)) // of each type
	for t, w := range p.Capacity {
		row[t] = -1
		if w > 0 {
			row[t] = len(lp.Limits)
			lp.Limits = append(lp.Limits, w)
		}
	}
	rooms := p.rows(&lp)
	var jobs []int
	var asked []goal // of the jobs
	var types []int  // columns of the variables, one after the other
	for m := range p.Jobs {
		j := &p.Jobs[m]
		b := blocks.Block{Cap: 1}
		g := goal{none: true}
		if goals != nil {
			g = goals(m)
		}
		b.Goal, b.Floor, b.Step = !g.none, g.floor, g.step
		for t := range p.Capacity {
			if row[t] < 0 || !p.fits(j, t) {
				continue
			}
			v := blocks.Var{Row: row[t], Use: j.Size, Rate: g.rate * j.Speed[t]}
			if gain != nil {
				v.Gain = gain(j, t) * j.Speed[t]
			}
			types = p.vary(&b, v, j, t, rooms, types)
		}
		if len(b.Vars) > 0 {
			jobs = append(jobs, m)
			asked = append(asked, g)
			lp.Blocks = append(lp.Blocks, b)
		}
	}
	out := &outcome{Allocation: p.nothing(), prices: make([]float64, len(p.Jobs)), slacks: make([]float64, len(p.Jobs))}
	if len(jobs) == 0 {
		return out, nil
	}
	s, err := blocks.Solve(&lp)
	if err != nil {
		return nil, err
	}
	out.level = s.Level
	for k, m := range jobs {
		out.prices[m], out.slacks[m] = s.Prices[k], s.Slacks[k]
		none := p.trace(&p.Jobs[m], asked[k], s.Level)
		for i, x := range s.Values[k] {
			if x > none || p.Traces {
				out.Allocation[m][types[i]] = x
			}
		}
		types = types[len(s.Values[k]):]
	}
	return out, nil
}

// tiny is a share of time that is none: what the method leaves of one that is zero.
const tiny = 1e-7

// trace is a share of its time that is none for a job with a goal, at a level: where little
// is needed of its best type, no more than a millionth of that.
func (p *Problem) trace(j *Job, g goal, level float64) float64 {
	need, most := g.floor+g.step*level, g.rate*p.fastest(j)
	if g.none || !(need > 0) {
		return tiny
	}
	return min(tiny, 1e-6*need/most)
}

// steps is what a job has to go, a little at least, so that nothing is divided by
// nothing.
func (p *Problem) steps(j *Job) float64 { return math.Max(j.Left, 1e-6*max(p.fastest(j), 1e-6)) }
