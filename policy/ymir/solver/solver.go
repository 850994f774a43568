// Package solver divides GPUs among jobs, some of which may be merged in pairs, at
// the least cost: exactly for a few jobs, in two stages for many.
//
// Nouns:
//   - An Entity holds GPUs together. It is a job alone or a pair.
//   - Its Cost is by size, and the sizes are the same for all.
//   - A job that gets nothing is queued, which costs Queued.
//   - Merges says what pairs there may be.
//   - The gain of a pair is what it saves at a fair share. Jobs are matched by
//     it. Costs are numbers without a unit.
//
// Source: "Ymir: A Scheduler for Foundation Model Fine-tuning Workloads in
// Datacenters", ICS 2024, section 5; the exact search prices GPUs (Lagrange) to
// bound what is left; the second stage is the dynamic program of the
// multiple-choice knapsack.
package solver

import (
	"errors"
	"math"
)

// Entity is a job alone or a pair.
type Entity struct {
	Cost   []float64 // at each of the sizes; +Inf: not at that size
	Queued float64   // without GPUs; +Inf: it must get some
}

// Way is a pair in one of the ways to merge it.
type Way struct {
	Entity
	Tag int // of the caller, handed back
}

// Merges says which jobs may be merged. Jobs are named by their place in
// Problem.Jobs, the smaller one first.
type Merges interface {
	// Fresh tells whether a job may be merged with those that are not fresh. Of any pair
	// that has a gain one is fresh.
	Fresh(i int) bool
	// Gain is what it saves to merge two jobs at a fair share; 0 or less: they
	// may not be merged, or it is not worth it.
	Gain(i, j int) float64
	// Ways adds the ways to merge two jobs that have a gain.
	Ways(i, j int, to []Way) []Way
}

// Problem is what is to be divided among whom.
type Problem struct {
	GPUs   int
	Sizes  []int // that anybody may get, increasing, above 0
	Jobs   []Entity
	Merges Merges // nil: none
}

// Choice is what came of a job.
type Choice struct {
	GPUs int // that it gets, together with its mate
	Mate int // with whom it is merged, or None
	Tag  int // of the way, for a pair
}

// None is the mate of a job that is alone.
const None = -1

// Solution is a choice for each job.
type Solution struct {
	Jobs []Choice
	Cost float64
}

var (
	errSizes = errors.New("sizes must be above 0 and increasing")
	errCosts = errors.New("a job must have as many costs as there are sizes, none of them negative or no number, and can be queued")
)

func (p *Problem) check() error {
	last := 0
	for _, s := range p.Sizes {
		if s <= last {
			return errSizes
		}
		last = s
	}
	for i := range p.Jobs {
		e := &p.Jobs[i]
		if len(e.Cost) != len(p.Sizes) || !(e.Queued >= 0) || math.IsInf(e.Queued, 1) {
			return errCosts
		}
		for _, c := range e.Cost {
			if !(c >= 0) {
				return errCosts
			}
		}
	}
	return nil
}

// option is a size worth choosing and its cost.
type option struct {
	gpus int
	cost float64
	tag  int
}

// options adds what an entity may get that costs less than anything smaller, the
// smallest first.
func (p *Problem) options(e *Entity, tag int, to []option) []option {
	least := math.Inf(1)
	if e.Queued < least {
		least = e.Queued
		to = append(to, option{0, least, tag})
	}
	for i, gpus := range p.Sizes {
		if gpus > p.GPUs {
			break
		}
		if c := e.Cost[i]; c < least {
			least = c
			to = append(to, option{gpus, c, tag})
		}
	}
	return to
}

// pairOptions are the options of a pair over all its ways: at each size the
// cheapest way, and no size that costs more than a smaller one.
func (p *Problem) pairOptions(ways []Way) []option {
	var out []option
	least := math.Inf(1)
	better := func(gpus int, cost float64, tag int) {
		if cost < least {
			least = cost
			if n := len(out); n > 0 && out[n-1].gpus == gpus {
				out = out[:n-1]
			}
			out = append(out, option{gpus, cost, tag})
		}
	}
	for _, w := range ways {
		better(0, w.Queued, w.Tag)
	}
	for i, gpus := range p.Sizes {
		if gpus > p.GPUs {
			break
		}
		for _, w := range ways {
			better(gpus, w.Cost[i], w.Tag)
		}
	}
	return out
}

// Literal is the objective as the paper prints it, as a sum of speedups that is to
// be as large as possible, turned into costs: what a speedup falls short of a
// number that none of them exceeds. It is for study.
func Literal(speedup, top float64) float64 { return max(0, top-speedup) }
