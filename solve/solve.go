// Package solve holds linear and mixed-integer programs: how a policy writes one
// down, and what it gets back. Solving is behind the interface Solver, which a
// policy is handed; package solve/highs has one.
//
// Nouns: a Model has variables (each with bounds, a kind and a cost) and rows
// (linear expressions with a lower and an upper limit) and is minimised or
// maximised. A Solution has a value for each variable, and, for a model without
// integer variables, prices and a Basis from which a model of the same shape can
// be solved again faster. Numbers have whatever units the caller gives them.
//
// A Solver is deterministic: the same model and options give the same bits, on
// every machine, however fast. Limits are therefore counted in iterations,
// nodes and steps and not in seconds. A caller that must have an answer by the
// wall clock takes a Solver that is bound to one (highs.Engine.Within) and has
// an answer of its own for when that fails.
//
// Where a problem has a shape of its own, an exact method is simpler and faster
// than a program: solve/assign, solve/flow, solve/choose, solve/match, solve/fair.
package solve

import (
	"fmt"
	"math"
)

// Solver solves models.
type Solver interface {
	// Solve finds the best solution of a model. Without limits, and with Gap 0,
	// that is an optimum. Errors are of type *Error. The model is not changed and
	// not kept, but for an *Error, which points to it.
	Solve(m *Model, o Options) (*Solution, error)
}

// Options say how to solve a model. The zero Options have no limits and ask for
// a proven optimum.
type Options struct {
	// Gap is how far from the optimum a solution of a model with integer variables
	// may be, relative to its objective: 0.01 is within one per cent.
	Gap float64

	// Iterations, Nodes and Steps end the search when they are used up; 0 is no
	// limit. Iterations are those of the simplex method, for a model without integer
	// variables; Nodes are those of branch and bound, for one with them. Steps hold
	// for every part of a solve, also for those before the first node: one step is
	// one question of the solver whether it may go on. They are passed by a few: the
	// solver ends what it is at.
	Iterations, Nodes int
	Steps             int64

	// Basis is where to begin, for a model without integer variables: that of the
	// solution of a model with as many rows and variables. It changes how long it
	// takes, and which of several optima is found.
	Basis *Basis

	// Start is a solution to improve upon, for a model with integer variables: one
	// value for each variable. One that is not feasible is ignored.
	Start []float64
}

// Status says how good a solution is.
type Status uint8

const (
	Optimal  Status = iota // proven, within the gap that was asked for
	Feasible               // a limit ended the search; the best that was found by then
)

func (s Status) String() string {
	if s == Optimal {
		return "optimal"
	}
	return "feasible"
}

// Solution is what a Solver found.
type Solution struct {
	Status    Status
	Objective float64
	Bound     float64   // no solution is better than this
	Values    []float64 // by variable; exact integers where the kind says so
	Rows      []float64 // what each row amounts to

	// For a model without integer variables: Prices is by how much the objective
	// changes per unit that a row's active limit is raised, Reduced the same for
	// the bounds of a variable. Nil otherwise, and when a limit ended the search.
	Prices, Reduced []float64
	Basis           *Basis

	Iterations, Nodes int64
	Steps             int64 // what it cost, in the unit of Options.Steps
}

// Value is the value of a variable.
func (s *Solution) Value(v Var) float64 { return s.Values[v] }

// Row is what a row amounts to.
func (s *Solution) Row(r Row) float64 { return s.Rows[r] }

// Price is by how much the objective changes per unit that the limit of a row
// is raised; 0 without Prices.
func (s *Solution) Price(r Row) float64 {
	if s.Prices == nil {
		return 0
	}
	return s.Prices[r]
}

// Gap is how far from the bound the objective is, relative to the objective.
func (s *Solution) Gap() float64 {
	switch d := math.Abs(s.Objective - s.Bound); {
	case d == 0:
		return 0
	case s.Objective == 0:
		return math.Inf(1)
	default:
		return d / math.Abs(s.Objective)
	}
}

// Basis is a vertex of the feasible set, as a solver sees it: where each variable
// and each row stands. It fits every model with as many of both.
type Basis struct {
	Vars, Rows []Stand
}

// Stand is where a variable or a row stands in a basis.
type Stand uint8

const (
	AtLower Stand = iota
	Basic
	AtUpper
	Zero     // free, and at zero
	Nonbasic // at a bound, the solver knows which
)

// Reason is why there is no solution. Each is an error to compare with errors.Is.
type Reason uint8

const (
	Invalid     Reason = iota // the model or the options make no sense
	Infeasible                // no values satisfy all rows and bounds
	Unbounded                 // the objective has no end
	OutOfLimits               // a limit was used up before a solution was found
	Interrupted               // the deadline or the caller ended the search
	Failed                    // the solver broke: its memory or its arithmetic
)

var reasons = [...]string{"is invalid", "is infeasible", "is unbounded", "has no solution within the limits",
	"was interrupted", "could not be solved"}

func (r Reason) Error() string {
	if int(r) >= len(reasons) {
		return "has an unknown fault"
	}
	return reasons[r]
}

// Error tells that a model has no solution, or none that could be found.
type Error struct {
	Reason Reason
	Model  *Model // as it is now: its owner may have changed it since
	Detail string // more, or nothing
}

func (e *Error) Error() string {
	text := fmt.Sprintf("model %q (%d rows, %d variables, %d of them integer) %s", e.Model.name, e.Model.Rows(), e.Model.Vars(), e.Model.Integers(), e.Reason)
	if e.Detail != "" {
		text += ": " + e.Detail
	}
	return text
}

func (e *Error) Unwrap() error { return e.Reason }

// Fault makes an Error, for a Solver.
func (m *Model) Fault(r Reason, format string, args ...any) *Error {
	return &Error{Reason: r, Model: m, Detail: fmt.Sprintf(format, args...)}
}
