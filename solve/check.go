package solve

import (
	"fmt"
	"math"
)

// Objective is what the objective is at x, which has a value for each variable;
// NaN when it does not.
func (m *Model) Objective(x []float64) float64 {
	if len(x) != m.Vars() {
		return math.NaN()
	}
	sum := m.arrays.Offset
	for v, c := range m.arrays.Cost {
		sum += c * x[v]
	}
	return sum
}

// Amount is what a row amounts to at x; NaN when x has not a value for each
// variable or there is no such row.
func (m *Model) Amount(r Row, x []float64) float64 {
	if len(x) != m.Vars() || r < 0 || int(r) >= m.Rows() {
		return math.NaN()
	}
	sum := 0.0
	a := &m.arrays
	for k := a.Start[r]; k < a.Start[r+1]; k++ {
		sum += a.Value[k] * x[a.Index[k]]
	}
	return sum
}

// Violation is by how much x misses the bound, the row or the whole number that
// it misses most, in the units of that row or variable: 0 at a feasible point.
func (m *Model) Violation(x []float64) float64 {
	if len(x) != m.Vars() {
		return Inf()
	}
	worst := 0.0
	miss := func(v, lower, upper float64) {
		if v != v {
			worst = Inf()
		}
		worst = max(worst, lower-v, v-upper)
	}
	a := &m.arrays
	for v, value := range x {
		miss(value, a.Lower[v], a.Upper[v])
		if a.Integer[v] {
			miss(value, math.Round(value), math.Round(value))
		}
	}
	for r := range Row(m.Rows()) {
		miss(m.Amount(r, x), a.RowLower[r], a.RowUpper[r])
	}
	return worst
}

// mostWhole is the largest number up to which a float64 has every whole number.
const mostWhole = 1 << 53

// Precheck is what a Solver does first: it refuses a model with mistakes, and
// options that do not fit, tells when bounds contradict each other, and solves a
// model that has no variables. It returns nothing when there is work to do.
func Precheck(m *Model, o *Options) (*Solution, error) {
	if m.err != nil {
		return nil, m.err
	}
	switch {
	case !(o.Gap >= 0):
		return nil, m.Fault(Invalid, "the gap asked for is %v", o.Gap)
	case o.Iterations < 0 || o.Nodes < 0 || o.Steps < 0:
		return nil, m.Fault(Invalid, "a limit is negative: %d iterations, %d nodes, %d steps", o.Iterations, o.Nodes, o.Steps)
	case o.Basis != nil && (len(o.Basis.Vars) != m.Vars() || len(o.Basis.Rows) != m.Rows()):
		return nil, m.Fault(Invalid, "the basis is of a model with %d rows and %d variables", len(o.Basis.Rows), len(o.Basis.Vars))
	case o.Start != nil && len(o.Start) != m.Vars():
		return nil, m.Fault(Invalid, "the start has %d values", len(o.Start))
	}
	a := &m.arrays
	for v := range a.Cost {
		for _, bound := range []float64{a.Lower[v], a.Upper[v]} {
			if a.Integer[v] && !math.IsInf(bound, 0) && math.Abs(bound) > mostWhole {
				return nil, m.Fault(Invalid, "variable %s is a whole number, and its bound of %v is beyond those that can be told apart (2^53)", m.VarName(Var(v)), bound)
			}
		}
		if a.Lower[v] > a.Upper[v] {
			return nil, m.Fault(Infeasible, "variable %s is to be at least %v and at most %v", m.VarName(Var(v)), a.Lower[v], a.Upper[v])
		}
	}
	for r := range a.RowLower {
		lower, upper := a.RowLower[r], a.RowUpper[r]
		if lower > upper {
			return nil, m.Fault(Infeasible, "row %s is to be at least %v and at most %v", m.RowName(Row(r)), lower, upper)
		}
		if a.Start[r] == a.Start[r+1] && (lower > 0 || upper < 0) {
			return nil, m.Fault(Infeasible, "row %s has no terms and is to be at least %v and at most %v", m.RowName(Row(r)), lower, upper)
		}
	}
	if m.Vars() > 0 {
		return nil, nil
	}
	s := &Solution{Objective: a.Offset, Bound: a.Offset, Values: []float64{}, Rows: make([]float64, m.Rows()), Prices: make([]float64, m.Rows()),
		Reduced: []float64{}, Basis: &Basis{Vars: []Stand{}, Rows: make([]Stand, m.Rows())}}
	for r := range s.Basis.Rows {
		s.Basis.Rows[r] = Basic
	}
	return s, nil
}

// Verify checks the claims of a solution, each comparison within tol. It must
// be feasible, and its objective must be right and not beyond its bound. For an
// optimum with prices, these must prove it: no reduced cost points into the
// feasible set, and a price belongs to a row at its limit.
func Verify(m *Model, s *Solution, tol float64) error {
	a := &m.arrays
	if miss := m.Violation(s.Values); !(miss <= tol) {
		return fmt.Errorf("model %q: the solution misses a bound or row by %v", m.name, miss)
	}
	scale := max(1, math.Abs(s.Objective))
	if got := m.Objective(s.Values); !(math.Abs(got-s.Objective) <= tol*scale) {
		return fmt.Errorf("model %q: the objective is %v, not %v", m.name, got, s.Objective)
	}
	sign := 1.0 // of what makes things worse
	if m.sense == Maximize {
		sign = -1
	}
	if !(sign*(s.Bound-s.Objective) <= tol*scale) {
		return fmt.Errorf("model %q: the objective %v is beyond its bound %v", m.name, s.Objective, s.Bound)
	}
	if s.Prices == nil || s.Status != Optimal {
		return nil
	}
	reduced := append([]float64(nil), a.Cost...)
	for r := range a.RowLower {
		for k := a.Start[r]; k < a.Start[r+1]; k++ {
			reduced[a.Index[k]] -= s.Prices[r] * a.Value[k]
		}
		if why := complement(s.Rows[r], a.RowLower[r], a.RowUpper[r], sign*s.Prices[r], tol); why != "" {
			return fmt.Errorf("model %q: row %s has the price %v %s", m.name, m.RowName(Row(r)), s.Prices[r], why)
		}
	}
	for v := range a.Cost {
		if why := complement(s.Values[v], a.Lower[v], a.Upper[v], sign*reduced[v], tol); why != "" {
			return fmt.Errorf("model %q: variable %s has the reduced cost %v %s", m.name, m.VarName(Var(v)), reduced[v], why)
		}
	}
	return nil
}

// complement checks one pair of the conditions of optimality, as of a model that
// is minimised: a price above zero belongs to the lower limit, one below to the upper.
func complement(v, lower, upper, price, tol float64) string {
	near := tol * max(1, math.Abs(v))
	switch {
	case price > tol && !(v-lower <= near):
		return fmt.Sprintf("but %v is not at its lower limit %v", v, lower)
	case price < -tol && !(upper-v <= near):
		return fmt.Sprintf("but %v is not at its upper limit %v", v, upper)
	}
	return ""
}
