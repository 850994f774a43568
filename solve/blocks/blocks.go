// Package blocks solves linear programs that fall into many small blocks which a
// few rows join, as those do that share a few sorts of devices among many jobs:
//
//	maximise    Σ gain·x + level·t
//	subject to  Σ x <= cap                  in each block
//	            Σ rate·x >= floor + step·t  in each block that has a goal
//	            Σ use·x <= limit            over all blocks, for each joint row
//	            x, t >= 0
//
// Nouns:
//   - A Program is such a program.
//   - A Block is one of its parts, whose variables (Var) take part in one joint
//     row each, or in More.
//   - t is the one variable that all blocks have in common, such as a level
//     that all are to reach.
//
// The method is Mehrotra's predictor-corrector interior-point method. The blocks
// are eliminated one by one, so that a step takes time in proportion to the number
// of variables, and thousands of blocks are solved in milliseconds; a general
// solver knows nothing of the blocks. The answer is the middle of all optima and
// not a vertex of them: nothing is left idle that some optimum would use, and a
// goal whose Price is above zero is one that no optimum exceeds.
//
// Source: Mehrotra, "On the implementation of a primal-dual interior point
// method", SIAM Journal on Optimization 2, 1992.
package blocks

import (
	"errors"
	"fmt"
	"math"
)

// Program is a program in blocks. A Program with goals that cannot be reached, or
// whose objective has no end, has no answer.
type Program struct {
	Limits []float64 // of the joint rows, above 0
	Blocks []Block
	Level  float64 // what t is worth; 0: there is no t
}

// Block is one part of a program.
type Block struct {
	Vars  []Var
	Cap   float64 // above 0
	Goal  bool    // it has a goal
	Floor float64
	Step  float64 // at least 0
}

// Var is a variable of a block.
type Var struct {
	Row  int     // the joint row that it takes part in
	Use  float64 // above 0
	Gain float64
	Rate float64
	More []Use // other joint rows that it takes part in
}

// Use is the part that a variable takes in a joint row.
type Use struct {
	Row int
	Use float64 // above 0
}

// Solution is an optimum.
type Solution struct {
	Values     [][]float64 // by block and variable
	Level      float64     // t
	Objective  float64
	Prices     []float64 // by block: what it costs, in the objective, to raise the floor of its goal by one
	Slacks     []float64 // by block: by how much it exceeds its goal
	Iterations int
}

// ErrNoAnswer tells that a program has no optimum, or none that could be found.
var ErrNoAnswer = errors.New("the program has no optimum")

const (
	maxIterations = 100
	precision     = 1e-9  // of what is asked for, relative
	passable      = 1e-6  // of what is taken when no more can be had
	middle        = 1e-10 // what variables times reduced costs are in the middle
	centrings     = 12    // steps to the middle, at most
)

// Solve finds the optimum. It fails on numbers that make no sense, and where there
// is no optimum.
func Solve(p *Program) (*Solution, error) {
	if err := p.Check(); err != nil {
		return nil, err
	}
	m := newMethod(p)
	best := math.Inf(1)
	n := 0
	for ; n < maxIterations; n++ {
		off := m.measure()
		if off < best {
			best = off
			m.keep()
		}
		lost := !(off < math.Inf(1)) || best <= passable && off > 10*best // in the arithmetic
		if off <= precision || lost || !m.step() {
			break
		}
	}
	if !(best <= passable) {
		return nil, ErrNoAnswer
	}
	n += m.centre()
	s := m.solution()
	s.Iterations = n
	return s, nil
}

// Check says what is wrong with the numbers of a program, or nil.
func (p *Program) Check() error {
	bad := func(v float64) bool { return v != v || math.IsInf(v, 0) }
	for k, l := range p.Limits {
		if bad(l) || l <= 0 {
			return fmt.Errorf("joint row %d has the limit %v", k, l)
		}
	}
	for i := range p.Blocks {
		b := &p.Blocks[i]
		if bad(b.Cap) || b.Cap <= 0 || bad(b.Floor) || bad(b.Step) || b.Step < 0 {
			return fmt.Errorf("block %d has the cap %v, the floor %v and the step %v", i, b.Cap, b.Floor, b.Step)
		}
		for _, v := range b.Vars {
			if v.Row < 0 || v.Row >= len(p.Limits) || bad(v.Use) || v.Use <= 0 || bad(v.Gain) || bad(v.Rate) {
				return fmt.Errorf("block %d has a variable of %+v", i, v)
			}
			for _, u := range v.More {
				if u.Row < 0 || u.Row >= len(p.Limits) || u.Row == v.Row || bad(u.Use) || u.Use <= 0 {
					return fmt.Errorf("block %d has a variable of %+v", i, v)
				}
			}
		}
	}
	if bad(p.Level) || p.Level < 0 {
		return fmt.Errorf("the common variable is worth %v", p.Level)
	}
	return nil
}
