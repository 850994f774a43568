package highs

import (
	"math"

	"github.com/norn-scheduler/norn/solve"
)

// solution reads what HiGHS has found.
func (s *session) solution(status int32) (*solve.Solution, error) {
	n, rows := s.vars, s.rows
	b, err := s.block(8 * (2*n + 2*rows))
	if err != nil {
		return nil, err
	}
	values, reduced, amounts, prices := b.room(8*n), b.room(8*n), b.room(8*rows), b.room(8*rows)
	if err := s.do("Highs_getSolution", s.highs, values, reduced, amounts, prices); err != nil {
		return nil, err
	}
	sol := &solve.Solution{Values: b.readFloats(values, n), Rows: b.readFloats(amounts, rows)}
	if status != modelOptimal {
		sol.Status = solve.Feasible
	}
	if !s.whole && status == modelOptimal {
		sol.Reduced, sol.Prices = b.readFloats(reduced, n), b.readFloats(prices, rows)
	}
	if err := b.free(); err != nil {
		return nil, err
	}
	if !s.whole {
		if sol.Basis, err = s.basis(); err != nil {
			return nil, err
		}
	}
	for v, whole := range s.integer {
		if whole {
			sol.Values[v] = math.Round(sol.Values[v]) + 0 // no negative zero
		}
	}
	return sol, s.figures(sol)
}

// figures reads the objective, its bound, and what the search cost.
func (s *session) figures(sol *solve.Solution) error {
	objective, err := s.info("Highs_getDoubleInfoValue", "objective_function_value")
	if err != nil {
		return err
	}
	sol.Objective = math.Float64frombits(objective)
	sol.Bound = sol.Objective
	if sol.Status != solve.Optimal {
		sol.Bound = math.Inf(s.better)
	}
	if s.whole {
		bound, err := s.info("Highs_getDoubleInfoValue", "mip_dual_bound")
		if err != nil {
			return err
		}
		nodes, err := s.info("Highs_getInt64InfoValue", "mip_node_count")
		if err != nil {
			return err
		}
		sol.Bound, sol.Nodes = math.Float64frombits(bound), max(0, int64(nodes))
	}
	iterations, err := s.infoInt("simplex_iteration_count")
	if err != nil {
		return err
	}
	sol.Iterations, sol.Steps = max(0, iterations), s.in.steps
	return nil
}

// basis reads the basis, or nothing where HiGHS has none.
func (s *session) basis() (*solve.Basis, error) {
	valid, err := s.infoInt("basis_validity")
	if err != nil || valid == 0 {
		return nil, err
	}
	b, err := s.block(4 * (s.vars + s.rows))
	if err != nil {
		return nil, err
	}
	vars, rows := b.room(4*s.vars), b.room(4*s.rows)
	if err := s.do("Highs_getBasis", s.highs, vars, rows); err != nil {
		return nil, err
	}
	out := &solve.Basis{Vars: b.readStands(vars, s.vars), Rows: b.readStands(rows, s.rows)}
	return out, b.free()
}
