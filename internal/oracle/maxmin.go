// Package oracle has slow and general methods, against which tests hold the fast and
// special ones of Norn. Only tests import it.
//
// Source of MaxMin: Radunović and Le Boudec, "A unified framework for max-min and
// min-max fairness with applications", IEEE/ACM Transactions on Networking 15, 2007.
package oracle

import (
	"fmt"
	"math"
	"slices"

	"github.com/norn-scheduler/norn/solve"
)

// Goal is what somebody gets from a program, as an expression over its variables.
type Goal struct {
	Terms  []solve.Term
	Weight float64 // above zero
	Cap    float64 // the level beyond which she need not rise; 0: none
}

// Result is a fair division.
type Result struct {
	Levels   []float64 // by goal
	Solution *solve.Solution
	Rounds   int // programs that were solved
}

// MaxMin finds the max-min fair levels over the feasible set of a model without
// integer variables, by progressive filling: those who can rise no more stay, the
// others rise on. The model is changed: its objective is replaced, and it gets
// a variable, and a row for each goal.
//
// After each round those whose price is above zero, which proves that they can
// rise no more while nobody falls, are held where they are. tol is how much a
// level may be off, relative to the greatest; 0: a billionth.
func MaxMin(s solve.Solver, m *solve.Model, goals []Goal, o solve.Options, tol float64) (Result, error) {
	if tol == 0 {
		tol = 1e-9
	}
	f, err := newFilling(m, goals, tol)
	if err != nil {
		return Result{}, err
	}
	res := Result{Levels: f.levels}
	for f.left > 0 {
		f.m.SetBounds(f.level, math.Inf(-1), f.lowestCap())
		sol, err := s.Solve(m, o)
		if err != nil {
			return Result{}, fmt.Errorf("round %d: %w", res.Rounds+1, err)
		}
		if sol.Status != solve.Optimal {
			return Result{}, m.Fault(solve.OutOfLimits, "round %d of filling has no optimum", res.Rounds+1)
		}
		res.Rounds++
		res.Solution = sol
		o.Basis = sol.Basis
		if !f.hold(sol) {
			return Result{}, m.Fault(solve.Failed, "round %d of filling has no prices that say who cannot rise", res.Rounds)
		}
	}
	return res, nil
}

// filling is a division in progress.
type filling struct {
	m      *solve.Model
	goals  []Goal
	level  solve.Var // of all that still rise
	rows   []solve.Row
	levels []float64
	held   []bool
	left   int
	tol    float64
}

func newFilling(m *solve.Model, goals []Goal, tol float64) (*filling, error) {
	if m.Integers() > 0 {
		return nil, m.Fault(solve.Invalid, "filling needs a model without integer variables")
	}
	for i, g := range goals {
		if !(g.Weight > 0) || !(g.Cap >= 0) {
			return nil, m.Fault(solve.Invalid, "goal %d has the weight %v and the cap %v", i, g.Weight, g.Cap)
		}
	}
	f := &filling{m: m, goals: goals, left: len(goals), tol: tol, rows: make([]solve.Row, len(goals)), levels: make([]float64, len(goals)), held: make([]bool, len(goals))}
	for v := range m.Vars() {
		m.SetCost(solve.Var(v), 0)
	}
	up := 1.0
	if m.Sense() == solve.Minimize {
		up = -1
	}
	f.level = m.Real(math.Inf(-1), solve.Inf(), up)
	for i, g := range goals {
		terms := append(slices.Clone(g.Terms), f.level.Times(-g.Weight))
		f.rows[i] = m.AtLeast(0, terms...)
	}
	return f, m.Err()
}

// lowestCap is the lowest cap of those who still rise.
func (f *filling) lowestCap() float64 {
	low := solve.Inf()
	for i, g := range f.goals {
		if !f.held[i] && g.Cap > 0 {
			low = min(low, g.Cap)
		}
	}
	return low
}

// hold keeps those where they are who cannot or need not rise. It tells whether
// there were any.
func (f *filling) hold(sol *solve.Solution) bool {
	before := f.left
	at := sol.Value(f.level)
	eps := f.tol * max(1, math.Abs(at))
	most := 0.0
	for i := range f.goals {
		if !f.held[i] {
			most = max(most, math.Abs(sol.Price(f.rows[i]))*f.goals[i].Weight)
		}
	}
	for i, g := range f.goals {
		if f.held[i] {
			continue
		}
		price := math.Abs(sol.Price(f.rows[i])) * g.Weight
		full := g.Cap > 0 && g.Cap <= at+eps
		// Prices of those who rise add up to one unless a cap ends the round.
		if full || price > 1e-7 && price >= most*1e-6 {
			f.held[i] = true
			f.levels[i] = at
			f.left--
			f.m.SetCoef(f.rows[i], f.level, 0)
			f.m.SetRange(f.rows[i], g.Weight*(at-eps), solve.Inf())
		}
	}
	return f.left < before
}
