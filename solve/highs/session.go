package highs

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/tetratelabs/wazero/api"

	"github.com/norn-scheduler/norn/solve"
)

// Numbers of the C interface of HiGHS.
const (
	rowWise = 2

	statusError = -1

	modelOptimal     = 7
	modelInfeasible  = 8
	modelEither      = 9 // infeasible or unbounded
	modelUnbounded   = 10
	modelTime        = 13
	modelIterations  = 14
	modelSolutions   = 16 // also: nodes
	pointFeasible    = 2
	noLimit          = math.MaxInt32
	absoluteGap      = 1e-9 // where the gap asked for is 0
	smallCoefficient = 1e-12
)

// session is one model in one instance.
type session struct {
	in    *instance
	model *solve.Model // not to be read once it has been passed on: its owner may change it then
	o     *solve.Options
	highs uint64 // HiGHS's own object

	vars, rows int
	integer    []bool // nil without integer variables
	whole      bool   // there are some
	better     int    // sign of a better objective
	passed     bool   // HiGHS has the model
}

// solve solves a model that Precheck has passed.
func (in *instance) solve(m *solve.Model, o *solve.Options, halt *brake) (*solve.Solution, error) {
	in.halt, in.steps, in.limit, in.late, in.said = halt, 0, o.Steps, 0, in.said[:0]
	in.since = math.MaxInt64
	defer func() { in.halt = nil }()
	s := &session{in: in, model: m, o: o, vars: m.Vars(), rows: m.Rows(), whole: m.Integers() > 0, better: -1}
	if m.Sense() == solve.Maximize {
		s.better = 1
	}
	if s.whole {
		s.integer = slices.Clone(m.Arrays().Integer)
	}
	sol, err := s.run()
	if !s.passed {
		halt.end()
	}
	var fault *solve.Error
	switch {
	case err == nil || errors.As(err, &fault):
		return sol, err
	case errors.Is(err, errSpun):
		return nil, m.Fault(solve.OutOfLimits, "%v", err)
	case errors.Is(err, errKilled):
		return nil, m.Fault(solve.Interrupted, "the search was given up")
	default:
		in.broken = true
		said, _, _ := strings.Cut(strings.TrimSpace(string(in.said)), "\n")
		return nil, m.Fault(solve.Failed, "%v %s", err, said)
	}
}

func (s *session) run() (*solve.Solution, error) {
	var err error
	if s.highs, err = s.in.call("Highs_create"); err != nil {
		return nil, err
	}
	if err := s.settings(); err != nil {
		return nil, err
	}
	if err := s.pass(); err != nil {
		return nil, err
	}
	s.passed = true
	s.in.halt.end()
	status, err := s.search()
	if err != nil {
		return nil, err
	}
	sol, err := s.result(status)
	if err != nil {
		return nil, err
	}
	_, err = s.in.call("Highs_destroy", s.highs)
	return sol, err
}

// settings sets the options of HiGHS.
func (s *session) settings() error {
	limit := func(n int) uint64 {
		if n == 0 || n > noLimit {
			return noLimit
		}
		return uint64(n)
	}
	// In a fixed order: what is asked of the memory in another order lies elsewhere.
	for _, o := range []struct {
		kind, name string
		value      uint64
	}{
		{"Bool", "output_flag", 0},
		{"Bool", "log_to_console", 0},
		{"Int", "threads", 1},
		{"Int", "random_seed", 0},
		{"Int", "simplex_iteration_limit", limit(s.o.Iterations)},
		{"Int", "mip_max_nodes", limit(s.o.Nodes)},
		{"Double", "time_limit", api.EncodeF64(timeLimit)},
		{"Double", "mip_rel_gap", api.EncodeF64(s.o.Gap)},
		{"Double", "mip_abs_gap", api.EncodeF64(absoluteGap)},
		{"Double", "small_matrix_value", api.EncodeF64(smallCoefficient)},
	} {
		if err := s.set("Highs_set"+o.kind+"OptionValue", o.name, o.value); err != nil {
			return err
		}
	}
	return nil
}

func (s *session) set(function, name string, value uint64) error {
	b, err := s.block(len(name) + 1)
	if err != nil {
		return err
	}
	at := b.text(name)
	if err := s.do(function, s.highs, at, value); err != nil {
		return fmt.Errorf("option %s: %w", name, err)
	}
	return b.free()
}

// do calls a function that tells whether it succeeded.
func (s *session) do(name string, args ...uint64) error {
	status, err := s.in.call(name, args...)
	if err == nil && api.DecodeI32(status) == statusError {
		err = fmt.Errorf("%s was refused", name)
	}
	return err
}

// pass hands over the model, and where to begin.
func (s *session) pass() error {
	a, n, rows := s.model.Arrays(), s.vars, s.rows
	terms := len(a.Index)
	b, err := s.block(8*(3*n+2*rows+terms) + 4*(rows+1+terms+n) + 8*(2*n+2*rows) + 64)
	if err != nil {
		return err
	}
	sense := api.EncodeI32(int32(-s.better)) // 1 minimises
	args := []uint64{s.highs, uint64(n), uint64(rows), uint64(terms), rowWise, sense, api.EncodeF64(a.Offset),
		b.floats(a.Cost), b.floats(a.Lower), b.floats(a.Upper), b.floats(a.RowLower), b.floats(a.RowUpper), b.ints(a.Start), b.ints(a.Index), b.floats(a.Value)}
	if !s.whole {
		err = s.do("Highs_passLp", args...)
	} else {
		kinds := make([]int32, n)
		for v, whole := range a.Integer {
			if whole {
				kinds[v] = 1
			}
		}
		err = s.do("Highs_passMip", append(args, b.ints(kinds))...)
	}
	if err != nil {
		return err
	}
	switch {
	case !s.whole && s.o.Basis != nil:
		err = s.do("Highs_setBasis", s.highs, b.stands(s.o.Basis.Vars), b.stands(s.o.Basis.Rows))
		if err != nil && !s.in.broken { // not a basis: HiGHS begins where it likes
			err = nil
		}
	case s.whole && s.o.Start != nil && s.model.Violation(s.o.Start) <= 1e-6:
		amounts := make([]float64, rows)
		for r := range amounts {
			amounts[r] = s.model.Amount(solve.Row(r), s.o.Start)
		}
		err = s.do("Highs_setSolution", s.highs, b.floats(s.o.Start), b.floats(amounts), 0, 0)
	}
	if err != nil {
		return err
	}
	return b.free()
}

// search runs HiGHS and says how it ended.
func (s *session) search() (int32, error) {
	s.in.since = s.in.steps + startReads
	if err := s.do("Highs_run", s.highs); err != nil {
		return 0, err
	}
	return s.status()
}

func (s *session) status() (int32, error) {
	status, err := s.in.call("Highs_getModelStatus", s.highs)
	return api.DecodeI32(status), err
}

// result makes a Solution or an Error of what HiGHS has found.
func (s *session) result(status int32) (*solve.Solution, error) {
	switch status {
	case modelInfeasible:
		return nil, s.fault(solve.Infeasible, "")
	case modelUnbounded:
		return nil, s.fault(solve.Unbounded, "")
	case modelEither:
		return nil, s.decide()
	case modelOptimal, modelTime, modelIterations, modelSolutions:
	default:
		return nil, fmt.Errorf("HiGHS ended with the status %d", status)
	}
	point, err := s.infoInt("primal_solution_status")
	if err != nil {
		return nil, err
	}
	if point != pointFeasible {
		return nil, s.fault(solve.OutOfLimits, fmt.Sprintf("%d steps were taken", s.in.steps))
	}
	return s.solution(status)
}

// fault frees what HiGHS has of the model, and makes an Error.
func (s *session) fault(r solve.Reason, detail string) error {
	if _, err := s.in.call("Highs_destroy", s.highs); err != nil {
		return err
	}
	return s.model.Fault(r, "%s", detail)
}

// decide tells an infeasible model from an unbounded one where HiGHS stopped at
// finding that it is one of both: it is solved again without an objective.
func (s *session) decide() error {
	n := s.vars
	b, err := s.block(8 * n)
	if err != nil {
		return err
	}
	zero := b.floats(make([]float64, n))
	if err := s.do("Highs_changeColsCostByRange", s.highs, 0, uint64(n-1), zero); err != nil {
		return err
	}
	if err := b.free(); err != nil {
		return err
	}
	status, err := s.search()
	switch {
	case err != nil:
		return err
	case status == modelInfeasible || status == modelEither:
		return s.fault(solve.Infeasible, "")
	case status == modelOptimal:
		return s.fault(solve.Unbounded, "")
	}
	return s.fault(solve.OutOfLimits, "it is infeasible or unbounded")
}

func (s *session) infoInt(name string) (int64, error) {
	v, err := s.info("Highs_getIntInfoValue", name)
	return int64(int32(v)), err
}

// info reads one number that HiGHS tells of its solution, as bits.
func (s *session) info(function, name string) (uint64, error) {
	b, err := s.block(len(name) + 1 + 24)
	if err != nil {
		return 0, err
	}
	at, to := b.text(name), b.room(8)
	if err := s.do(function, s.highs, at, to); err != nil {
		return 0, fmt.Errorf("%s: %w", name, err)
	}
	v := binary.LittleEndian.Uint64(b.read(to, 8))
	return v, b.free()
}
