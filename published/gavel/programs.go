package gavel

import (
	"fmt"

	policies "github.com/norn-scheduler/norn/policy/gavel"
	"github.com/norn-scheduler/norn/published/gavel/ecos"
)

// The programs of the published code as cvxpy hands them to ECOS, for policies whose
// decisions hang on which of many optima is found. Where ECOS fails, the program of
// package policy/gavel answers.

// written is a program with a variable for each job and type, by job.
type written struct {
	p     *policies.Problem
	cost  []float64
	rows  []ecos.Row
	cones []int                            // of the last rows
	more  func(j *policies.Job) [3]float64 // what of a job it depends on beside size, weight and speeds
}

// write writes the constraints that all programs have.
func write(p *policies.Problem, extra int) *written {
	types := len(p.Capacity)
	w := &written{p: p, cost: make([]float64, len(p.Jobs)*types+extra)}
	for i := range len(p.Jobs) * types {
		w.rows = append(w.rows, ecos.Row{Index: []int{i}, Value: []float64{-1}})
	}
	for t, gpus := range p.Capacity {
		r := ecos.Row{Limit: gpus}
		for m := range p.Jobs {
			r.Index, r.Value = append(r.Index, m*types+t), append(r.Value, p.Jobs[m].Size)
		}
		w.rows = append(w.rows, r)
	}
	for m := range p.Jobs {
		r := ecos.Row{Limit: 1}
		for t := range types {
			r.Index, r.Value = append(r.Index, m*types+t), append(r.Value, 1)
		}
		w.rows = append(w.rows, r)
	}
	return w
}

// least demands of a job that rate times its throughput is at least floor, or the
// last variable.
func (w *written) least(m int, rate, floor float64, level bool) {
	types := len(w.p.Capacity)
	r := ecos.Row{Limit: -floor}
	for t, s := range w.p.Jobs[m].Speed {
		if s != 0 {
			r.Index, r.Value = append(r.Index, m*types+t), append(r.Value, -rate*s)
		}
	}
	if level {
		r.Index, r.Value = append(r.Index, len(w.cost)-1), append(r.Value, 1)
	}
	w.rows = append(w.rows, r)
}

// solve solves, and clips shares to what they can be.
func (w *written) solve() (policies.Allocation, error) {
	x, err := ecos.Solve(w.cost, w.rows, w.cones...)
	if err != nil {
		return nil, err
	}
	types := len(w.p.Capacity)
	a := make(policies.Allocation, len(w.p.Jobs))
	for m := range a {
		a[m] = x[m*types : (m+1)*types]
		for t := range a[m] {
			a[m][t] = min(max(a[m][t], 0), 1)
		}
	}
	w.even(a)
	return a, nil
}

// even gives jobs for which the program is the same the same shares: they differ by
// what rounding left alone.
func (w *written) even(a policies.Allocation) {
	same := map[string][]int{}
	for m := range w.p.Jobs {
		j := &w.p.Jobs[m]
		key := fmt.Sprint(j.Size, j.Weight, j.Speed)
		if w.more != nil {
			key += fmt.Sprint(w.more(j))
		}
		same[key] = append(same[key], m)
	}
	for _, jobs := range same {
		for t := range w.p.Capacity {
			sum := 0.0
			for _, m := range jobs {
				sum += a[m][t]
			}
			for _, m := range jobs {
				a[m][t] = sum / float64(len(jobs))
			}
		}
	}
}

// MaxMin is max_min_fairness.
func MaxMin(p *policies.Problem) (policies.Allocation, error) {
	w := write(p, 1)
	for m := range p.Jobs {
		j := &p.Jobs[m]
		w.least(m, j.Size/(j.Weight*p.Equal(j)), 0, true)
	}
	w.cost[len(w.cost)-1] = -1
	if a, err := w.solve(); err == nil {
		return a, nil
	}
	return policies.MaxMin(p)
}

// Throughput is max_sum_throughput.
func Throughput(p *policies.Problem) (policies.Allocation, error) {
	w := write(p, 0)
	for m := range p.Jobs {
		for t, s := range p.Jobs[m].Speed {
			w.cost[m*len(p.Capacity)+t] = -s
		}
	}
	if a, err := w.solve(); err == nil {
		return a, nil
	}
	return policies.Throughput(p)
}

// FinishTimes is finish_time_fairness: beside the level there is a variable for each job, the
// time that a step takes, which is above 1/throughput by a cone.
func FinishTimes(p *policies.Problem) (policies.Allocation, error) {
	w := write(p, len(p.Jobs)+1)
	w.more = func(j *policies.Job) [3]float64 { return [3]float64{j.Left, j.Age, j.Isolated} }
	first, level := len(p.Jobs)*len(p.Capacity), len(w.cost)-1
	w.cost[level] = 1
	for m := range p.Jobs {
		j := &p.Jobs[m]
		alone := 0.0
		for t, x := range p.Share(j, len(p.Jobs)) {
			alone += j.Speed[t] * x
		}
		part := 1 / (j.Isolated + j.Left/alone) // cvxpy divides once, and multiplies
		w.rows = append(w.rows, ecos.Row{Index: []int{first + m, level}, Value: []float64{part * j.Left, -1}, Limit: -(part * j.Age)})
	}
	for m := range p.Jobs {
		w.inverse(m, first+m)
	}
	if a, err := w.solve(); err == nil {
		return a, nil
	}
	return policies.FinishTimes(p)
}

// inverse demands that a variable is at least 1 over the throughput of a job: the length
// of (throughput - variable, 2) is at most their sum.
func (w *written) inverse(m, variable int) {
	var sum, less ecos.Row
	for t, s := range w.p.Jobs[m].Speed {
		if s != 0 {
			i := m*len(w.p.Capacity) + t
			sum.Index, sum.Value = append(sum.Index, i), append(sum.Value, -s)
			less.Index, less.Value = append(less.Index, i), append(less.Value, -s)
		}
	}
	sum.Index, sum.Value = append(sum.Index, variable), append(sum.Value, -1)
	less.Index, less.Value = append(less.Index, variable), append(less.Value, 1)
	w.rows = append(w.rows, sum, less, ecos.Row{Limit: 2})
	w.cones = append(w.cones, 3)
}

// within is the point at which ECOS stops among all allocations with which every job
// ends within a time.
func within(p *policies.Problem, seconds float64) (policies.Allocation, error) {
	w := write(p, 0)
	w.more = func(j *policies.Job) [3]float64 { return [3]float64{j.Left} }
	for m := range p.Jobs {
		w.least(m, 1, p.Jobs[m].Left/seconds, false)
	}
	if a, err := w.solve(); err == nil {
		return a, nil
	}
	return policies.Within(p, seconds)
}
