package gavel

import (
	"errors"
	"slices"

	"github.com/norn-scheduler/norn/internal/published/ecos"
	policies "github.com/norn-scheduler/norn/policy/gavel"
)

// The programs of the published code as cvxpy hands them to ECOS, variable by variable
// and row by row, for policies whose decisions hang on which of many optima is found.
// Where ECOS fails, the program of package policy/gavel answers.

// written is a program with a variable for each job and type, type by type.
type written struct {
	p     *policies.Problem
	first int // of these variables
	cost  []float64
	rows  []ecos.Row
	cones []int // of the last rows
}

// write begins a program with so many variables before those of jobs and types, and so
// many behind them.
func write(p *policies.Problem, before, behind int) *written {
	return &written{p: p, first: before, cost: make([]float64, before+len(p.Jobs)*len(p.Capacity)+behind)}
}

// share is the variable of a job and a type.
func (w *written) share(m, t int) int { return w.first + t*len(w.p.Jobs) + m }

// base writes the constraints that all programs have.
func (w *written) base() {
	for i := range len(w.p.Jobs) * len(w.p.Capacity) {
		w.rows = append(w.rows, ecos.Row{Index: []int{w.first + i}, Value: []float64{-1}})
	}
	for t, gpus := range w.p.Capacity {
		r := ecos.Row{Limit: gpus}
		for m := range w.p.Jobs {
			r.Index, r.Value = append(r.Index, w.share(m, t)), append(r.Value, w.p.Jobs[m].Size)
		}
		w.rows = append(w.rows, r)
	}
	for m := range w.p.Jobs {
		r := ecos.Row{Limit: 1}
		for t := range w.p.Capacity {
			r.Index, r.Value = append(r.Index, w.share(m, t)), append(r.Value, 1)
		}
		w.rows = append(w.rows, r)
	}
}

// minus is a row with a coefficient of each type for a job, its sign turned.
func (w *written) minus(m int, of func(t int) float64) (r ecos.Row) {
	for t := range w.p.Capacity {
		if v := of(t); v != 0 {
			r.Index, r.Value = append(r.Index, w.share(m, t)), append(r.Value, -v)
		}
	}
	return r
}

// solve solves, and clips shares to what they can be.
func (w *written) solve() (policies.Allocation, error) {
	x, err := ecos.Solve(w.cost, w.rows, w.cones...)
	if err != nil && !errors.Is(err, ecos.ErrInaccurate) {
		return nil, err
	}
	a := make(policies.Allocation, len(w.p.Jobs))
	for m := range a {
		for t := range w.p.Capacity {
			a[m] = append(a[m], min(max(x[w.share(m, t)], 0), 1))
		}
	}
	return a, nil
}

// MaxMin is max_min_fairness. Its coefficients are computed as numpy does.
func MaxMin(p *policies.Problem) (policies.Allocation, error) {
	w := write(p, 1, 0)
	w.cost[0] = -1
	part, sum := make([]float64, len(p.Capacity)), 0.0
	for t, gpus := range p.Capacity {
		part[t] = gpus / float64(len(p.Jobs))
		sum += part[t]
	}
	for m := range p.Jobs {
		j := &p.Jobs[m]
		alone := 0.0
		for t, x := range part {
			alone += float64(j.Speed[t] * (x / sum))
		}
		rate := 1 / j.Weight * (1 / alone)
		r := w.minus(m, func(t int) float64 { return j.Speed[t] * rate * j.Size })
		r.Index, r.Value = slices.Insert(r.Index, 0, 0), slices.Insert(r.Value, 0, 1)
		w.rows = append(w.rows, r)
	}
	w.base()
	if a, err := w.solve(); err == nil {
		return a, nil
	}
	return policies.MaxMin(p)
}

// Throughput is max_sum_throughput.
func Throughput(p *policies.Problem) (policies.Allocation, error) {
	w := write(p, 0, 0)
	for m := range p.Jobs {
		for t, s := range p.Jobs[m].Speed {
			w.cost[w.share(m, t)] = -s
		}
	}
	w.base()
	if a, err := w.solve(); err == nil {
		return a, nil
	}
	return policies.Throughput(p)
}

// FinishTimes is finish_time_fairness.
func FinishTimes(p *policies.Problem) (policies.Allocation, error) {
	if a, err := finishTimes(p).solve(); err == nil {
		return a, nil
	}
	return policies.FinishTimes(p)
}

// finishTimes has, beside the level, a variable for each job: the time that a step takes,
// which is above 1/throughput by a cone. One job has no level.
func finishTimes(p *policies.Problem) *written {
	n := len(p.Jobs)
	w := write(p, 1, n)
	step := func(m int) int { return len(w.cost) - n + m }
	if n == 1 {
		w = write(p, 1, 0)
		step = func(int) int { return 0 }
	}
	w.cost[0] = 1
	for m := range p.Jobs {
		j := &p.Jobs[m]
		alone := 0.0
		for t, x := range p.Share(j, n) {
			alone += float64(j.Speed[t] * x)
		}
		part := 1 / (j.Isolated + j.Left/alone) // cvxpy divides once, and multiplies
		if n == 1 {
			w.cost[0] = part * j.Left
			continue
		}
		w.rows = append(w.rows, ecos.Row{Index: []int{0, step(m)}, Value: []float64{-1, part * j.Left}, Limit: -(part * j.Age)})
	}
	w.base()
	for m := range p.Jobs {
		w.inverse(m, step(m))
	}
	return w
}

// inverse demands that a variable is at least 1 over the throughput of a job: the length
// of (throughput - variable, 2) is at most their sum.
func (w *written) inverse(m, variable int) {
	for _, sign := range []float64{-1, 1} {
		r := w.minus(m, func(t int) float64 { return w.p.Jobs[m].Speed[t] })
		at := len(r.Index)
		if variable < w.first {
			at = 0
		}
		r.Index, r.Value = slices.Insert(r.Index, at, variable), slices.Insert(r.Value, at, sign)
		w.rows = append(w.rows, r)
	}
	w.rows = append(w.rows, ecos.Row{Limit: 2})
	w.cones = append(w.cones, 3)
}

// within is the point at which ECOS stops among all allocations with which every job
// ends within a time.
func within(p *policies.Problem, seconds float64) (policies.Allocation, error) {
	w := write(p, 0, 0)
	w.base()
	for m := range p.Jobs {
		r := w.minus(m, func(t int) float64 { return p.Jobs[m].Speed[t] })
		r.Limit = -(p.Jobs[m].Left / seconds)
		w.rows = append(w.rows, r)
	}
	if a, err := w.solve(); err == nil {
		return a, nil
	}
	return policies.Within(p, seconds)
}
