package solve

import (
	"math"
)

// Sense is which way the objective is to go.
type Sense uint8

const (
	Minimize Sense = iota
	Maximize
)

// Var is a variable of a model, Row a row; both are counted from zero.
type (
	Var int32
	Row int32
)

// Term is a variable times a number.
type Term struct {
	Var  Var
	Coef float64
}

// Times makes a term.
func (v Var) Times(coef float64) Term { return Term{v, coef} }

// Inf is the bound of what has none.
func Inf() float64 { return math.Inf(1) }

// Numbers beyond these are mistakes, or would be lost in the arithmetic of a
// solver. Coefficients below 1e-12 are lost in it too, and are taken to be zero.
const (
	maxCoef = 1e15
	maxCost = 1e20
	endless = 1e20 // bounds beyond are none
)

// Model is a linear or mixed-integer program that is being written. Mistakes
// (numbers that are none, variables that do not exist) are kept, the first of
// them is what Err and every Solver return; no method panics. A model may be
// changed and solved again. It must not be used by two goroutines at once.
type Model struct {
	name     string
	sense    Sense
	arrays   Arrays
	integers int
	varName  map[Var]string
	rowName  map[Row]string
	seen     []int32 // by variable: 1 + the place of its term in the row that is being written, or less
	err      *Error
}

// Arrays are the numbers of a model, for those who solve it: to be read only.
type Arrays struct {
	Offset             float64 // of the objective
	Cost, Lower, Upper []float64
	Integer            []bool
	RowLower, RowUpper []float64
	Start              []int32 // by row, where its terms begin in Index and Value; one more for the end
	Index              []int32
	Value              []float64
}

// NewModel begins a model. The name is for errors and dumps.
func NewModel(name string, s Sense) *Model {
	m := &Model{}
	m.Reset(name, s)
	return m
}

// Reset begins another model in the memory of this one.
func (m *Model) Reset(name string, s Sense) {
	a := &m.arrays
	*m = Model{name: name, sense: s, seen: m.seen[:0], arrays: Arrays{
		Cost: a.Cost[:0], Lower: a.Lower[:0], Upper: a.Upper[:0], Integer: a.Integer[:0], RowLower: a.RowLower[:0], RowUpper: a.RowUpper[:0],
		Start: append(a.Start[:0], 0), Index: a.Index[:0], Value: a.Value[:0],
	}}
	if s > Maximize {
		m.fault("objective is neither minimised nor maximised")
	}
}

// Name is the name of the model.
func (m *Model) Name() string { return m.name }

// Sense is which way the objective is to go.
func (m *Model) Sense() Sense { return m.sense }

// Vars, Rows and Integers are how many variables, rows and integer variables
// there are.
func (m *Model) Vars() int     { return len(m.arrays.Cost) }
func (m *Model) Rows() int     { return len(m.arrays.RowLower) }
func (m *Model) Integers() int { return m.integers }

// Arrays are the numbers of the model, to be read only.
func (m *Model) Arrays() *Arrays { return &m.arrays }

// Err is the first mistake that was made in writing the model, or nil.
func (m *Model) Err() error {
	if m.err == nil {
		return nil
	}
	return m.err
}

func (m *Model) fault(format string, args ...any) {
	if m.err == nil {
		m.err = m.Fault(Invalid, format, args...)
	}
}

// Real adds a variable that takes any value between its bounds, which may be
// infinite.
func (m *Model) Real(lower, upper, cost float64) Var { return m.add(lower, upper, cost, false) }

// Int adds a variable that takes whole values only.
func (m *Model) Int(lower, upper, cost float64) Var { return m.add(lower, upper, cost, true) }

// Bool adds a variable that is 0 or 1.
func (m *Model) Bool(cost float64) Var { return m.add(0, 1, cost, true) }

func (m *Model) add(lower, upper, cost float64, whole bool) Var {
	v := Var(m.Vars())
	a := &m.arrays
	a.Cost, a.Lower, a.Upper, a.Integer = append(a.Cost, 0), append(a.Lower, 0), append(a.Upper, 0), append(a.Integer, whole)
	m.seen = append(m.seen, 0)
	if whole {
		m.integers++
	}
	m.SetCost(v, cost)
	m.SetBounds(v, lower, upper)
	return v
}

// Offset adds a constant to the objective.
func (m *Model) Offset(by float64) {
	if !finite(by, maxCost) {
		m.fault("constant of the objective is %v", by)
		return
	}
	m.arrays.Offset += by
}

// SetCost changes what a unit of a variable adds to the objective.
func (m *Model) SetCost(v Var, cost float64) {
	switch {
	case !m.has(v, "cost"):
	case !finite(cost, maxCost):
		m.fault("cost of variable %s is %v", m.VarName(v), cost)
	default:
		m.arrays.Cost[v] = cost
	}
}

// SetBounds changes the bounds of a variable. A lower one above the upper one
// makes the model infeasible, not invalid.
func (m *Model) SetBounds(v Var, lower, upper float64) {
	switch {
	case !m.has(v, "bounds"):
	case !limits(lower, upper):
		m.fault("bounds of variable %s are %v and %v", m.VarName(v), lower, upper)
	default:
		m.arrays.Lower[v], m.arrays.Upper[v] = open(lower), open(upper)
	}
}

// Row adds a row whose terms must amount to at least lower and at most upper.
// Terms of the same variable are added up. The slice is not kept.
func (m *Model) Row(lower, upper float64, terms ...Term) Row {
	r := Row(m.Rows())
	a := &m.arrays
	first := len(a.Index)
	a.RowLower, a.RowUpper = append(a.RowLower, 0), append(a.RowUpper, 0)
	for _, t := range terms {
		switch {
		case !m.has(t.Var, "term"):
		case !finite(t.Coef, maxCoef):
			m.fault("row %s has %v times variable %s", m.RowName(r), t.Coef, m.VarName(t.Var))
		case int(m.seen[t.Var]) > first:
			a.Value[m.seen[t.Var]-1] += t.Coef
		case t.Coef != 0:
			a.Index, a.Value = append(a.Index, int32(t.Var)), append(a.Value, t.Coef)
			m.seen[t.Var] = int32(len(a.Index))
		}
	}
	a.Start = append(a.Start, int32(len(a.Index)))
	m.SetRange(r, lower, upper)
	return r
}

// AtMost adds a row whose terms must amount to at most limit.
func (m *Model) AtMost(limit float64, terms ...Term) Row { return m.Row(-Inf(), limit, terms...) }

// AtLeast adds a row whose terms must amount to at least limit.
func (m *Model) AtLeast(limit float64, terms ...Term) Row { return m.Row(limit, Inf(), terms...) }

// Equal adds a row whose terms must amount to a number.
func (m *Model) Equal(to float64, terms ...Term) Row { return m.Row(to, to, terms...) }

// SetRange changes the limits of a row. A lower one above the upper one makes
// the model infeasible, not invalid.
func (m *Model) SetRange(r Row, lower, upper float64) {
	switch {
	case !m.hasRow(r, "limits"):
	case !limits(lower, upper):
		m.fault("limits of row %s are %v and %v", m.RowName(r), lower, upper)
	default:
		m.arrays.RowLower[r], m.arrays.RowUpper[r] = open(lower), open(upper)
	}
}

// SetCoef changes the number that a row has with a variable. The row must have
// one already, so that the shape of the model remains.
func (m *Model) SetCoef(r Row, v Var, coef float64) {
	if !m.hasRow(r, "term") || !m.has(v, "term") {
		return
	}
	if !finite(coef, maxCoef) {
		m.fault("row %s has %v times variable %s", m.RowName(r), coef, m.VarName(v))
		return
	}
	for k := m.arrays.Start[r]; k < m.arrays.Start[r+1]; k++ {
		if m.arrays.Index[k] == int32(v) {
			m.arrays.Value[k] = coef
			return
		}
	}
	m.fault("row %s has no term with variable %s that could be changed", m.RowName(r), m.VarName(v))
}

func (m *Model) has(v Var, what string) bool {
	if v < 0 || int(v) >= m.Vars() {
		m.fault("%s of variable %d, which does not exist", what, v)
		return false
	}
	return true
}

func (m *Model) hasRow(r Row, what string) bool {
	if r < 0 || int(r) >= m.Rows() {
		m.fault("%s of row %d, which does not exist", what, r)
		return false
	}
	return true
}

// finite also refuses NaN, which is not below anything.
func finite(v, limit float64) bool { return math.Abs(v) <= limit }

func limits(lower, upper float64) bool { return lower < endless && upper > -endless }

// open makes a bound that is beyond all numbers infinite.
func open(bound float64) float64 {
	if math.Abs(bound) >= endless {
		return math.Copysign(Inf(), bound)
	}
	return bound
}
