// Package pairs solves the programs of package blocks with one thing more: variables
// that belong to two blocks at once, such as the time for which two jobs share a
// device:
//
//	maximise    Σ gain·x + level·t
//	subject to  Σ x <= cap                  in each block, with all its pairs
//	            Σ rate·x >= floor + step·t  in each block that has a goal, with all its pairs
//	            Σ use·x <= limit            over all blocks and pairs, for each joint row
//	            x, t >= 0
//
// Nouns: those of package blocks; a Pair is a variable of two blocks, or of one block
// twice. The prices of all rows are part of the answer, so that who knows of more pairs
// can tell which of them would make it better (Solution.Worth), and ask again.
//
// The method is Mehrotra's interior-point method on the normal equations, which
// are sparse: two blocks meet in them only where there is a pair of them.
// Blocks are eliminated in the order of least degree, the joint rows and t
// last. Normal equations lose the digits of a variable that is settled by its
// rows alone. An example is a job that must have all of its time on its one
// type to reach the level. Where that shows, they are solved with twice as many
// digits.
//
// Sources: Mehrotra, SIAM Journal on Optimization 2, 1992; George and Liu, "The
// evolution of the minimum degree ordering algorithm", SIAM Review 31, 1989; Dekker, "A
// floating-point technique for extending the available precision", Numerische Mathematik
// 18, 1971.
package pairs

import (
	"fmt"
	"math"

	"github.com/norn-scheduler/norn/solve/blocks"
)

// Program is a program in blocks and pairs of them.
type Program struct {
	Limits []float64 // of the joint rows, above 0
	Blocks []blocks.Block
	Pairs  []Pair
	Level  float64 // what t is worth; 0: there is no t
}

// Pair is a variable of two blocks. Where A and B are the same block it counts twice
// against its cap, and both rates count for its goal.
type Pair struct {
	A, B         int // blocks
	Row          int // the joint row that it takes part in
	Use          float64
	Gain         float64
	RateA, RateB float64 // what it does for the goals of A and B
}

// Solution is an optimum.
type Solution struct {
	Values     [][]float64 // by block and variable
	Pairs      []float64   // by pair
	Level      float64     // t
	Objective  float64
	Prices     []float64 // by block: what it costs to raise the floor of its goal by one
	Caps       []float64 // by block: what one more of its cap is worth
	Limits     []float64 // by joint row: what one more of its limit is worth
	Slacks     []float64 // by block: by how much it exceeds its goal
	Iterations int
}

// ErrNoAnswer tells that a program has no optimum, or none that could be found.
var ErrNoAnswer = blocks.ErrNoAnswer

const (
	maxIterations = 100
	precision     = 1e-9  // of what is asked for, relative
	passable      = 1e-5  // of what is taken when no more can be had
	middle        = 1e-10 // what variables times reduced costs are in the middle
	centrings     = 12    // steps to the middle, at most
	mendings      = 4     // of a direction, at most
	fine          = 1e-3  // of how far off an iterate is: what may be lost of a direction
)

// Solve finds an optimum, to within one part in a thousand million where rough is
// false and in a thousand where it is true. It fails on numbers that make no sense, and
// where there is no optimum.
func Solve(p *Program, rough bool) (*Solution, error) {
	if err := p.check(); err != nil {
		return nil, err
	}
	m := newMethod(p)
	enough, least := precision, passable
	if rough {
		enough, least = 1e-3, 1e-2
	}
	best, n := math.Inf(1), 0
	for ; n < maxIterations; n++ {
		off := m.measure()
		if off < best {
			best = off
			m.keep()
		}
		lost := !(off < math.Inf(1)) || best <= least && off > 10*best // in the arithmetic
		if off <= enough || lost || !m.step() {
			break
		}
	}
	if !(best <= least) {
		return nil, ErrNoAnswer
	}
	if !rough {
		m.centre()
	}
	s := m.solution()
	s.Iterations = n
	return s, nil
}

// Worth is by how much a pair would make the objective better for each unit of it, at
// the prices of a solution; above 0 where it is worth adding.
func (s *Solution) Worth(p *Pair) float64 {
	return p.Gain + s.Prices[p.A]*p.RateA + s.Prices[p.B]*p.RateB - s.Caps[p.A] - s.Caps[p.B] - p.Use*s.Limits[p.Row]
}

func (p *Program) check() error {
	plain := blocks.Program{Limits: p.Limits, Blocks: p.Blocks, Level: p.Level}
	if err := plain.Check(); err != nil {
		return err
	}
	bad := func(v float64) bool { return v != v || math.IsInf(v, 0) }
	for i := range p.Pairs {
		v := &p.Pairs[i]
		if v.A < 0 || v.A >= len(p.Blocks) || v.B < 0 || v.B >= len(p.Blocks) || v.Row < 0 || v.Row >= len(p.Limits) ||
			bad(v.Use) || v.Use <= 0 || bad(v.Gain) || bad(v.RateA) || bad(v.RateB) {
			return fmt.Errorf("pair %d is %+v", i, *v)
		}
	}
	return nil
}
