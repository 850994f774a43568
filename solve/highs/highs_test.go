package highs

import (
	"crypto/sha256"
	"errors"
	"fmt"
	"testing"

	"github.com/norn-scheduler/norn/solve"
)

// TestPinned holds the wasm file to the hash that the names of its functions are
// for, and the names to what the file has.
func TestPinned(t *testing.T) {
	wasm, err := unpack()
	if err != nil {
		t.Fatal(err)
	}
	if got := fmt.Sprintf("%x", sha256.Sum256(wasm)); got != wasmSHA256 {
		t.Fatalf("highs.wasm hashes to %s, exports.go is for %s", got, wasmSHA256)
	}
	p, err := Shared().load()
	if err != nil {
		t.Fatal(err)
	}
	functions := p.code.ExportedFunctions()
	for name, short := range exported {
		if _, ok := functions[short]; !ok && name != "memory" {
			t.Errorf("%s is said to be %q, which the file does not export", name, short)
		}
	}
	if n := len(p.code.ImportedFunctions()); n != len(imported) || n != len(bodies()) {
		t.Errorf("the file imports %d functions, exports.go names %d, and %d have a body", n, len(imported), len(bodies()))
	}
}

func TestSmall(t *testing.T) {
	m := solve.NewModel("small", solve.Maximize)
	x, y := m.Real(0, 4, 3), m.Real(0, solve.Inf(), 2)
	r := m.AtMost(6, x.Times(1), y.Times(1))
	s, err := Shared().Solve(m, solve.Options{})
	if err != nil {
		t.Fatal(err)
	}
	if s.Objective != 16 || s.Value(x) != 4 || s.Value(y) != 2 || s.Price(r) != 2 || s.Reduced[x] != 1 || s.Bound != 16 {
		t.Errorf("have %+v", s)
	}
	if err := solve.Verify(m, s, 1e-9); err != nil {
		t.Error(err)
	}
}

func TestReasons(t *testing.T) {
	for _, whole := range []bool{false, true} {
		add := func(m *solve.Model, lower, upper, cost float64) solve.Var {
			if whole {
				return m.Int(lower, upper, cost)
			}
			return m.Real(lower, upper, cost)
		}
		m := solve.NewModel("no room", solve.Minimize)
		x, y := add(m, 0, 10, 1), add(m, 0, 10, 1)
		m.AtLeast(8, x.Times(1), y.Times(1))
		m.AtMost(3, x.Times(1), y.Times(2))
		m.Equal(1, x.Times(2), y.Times(3))
		_, err := Shared().Solve(m, solve.Options{})
		if !errors.Is(err, solve.Infeasible) {
			t.Errorf("integer %v: have %v, want infeasible", whole, err)
		}
		m = solve.NewModel("no end", solve.Maximize)
		x, y = add(m, 0, solve.Inf(), 1), add(m, 0, solve.Inf(), 1)
		m.AtMost(1, x.Times(1), y.Times(-1))
		_, err = Shared().Solve(m, solve.Options{})
		if !errors.Is(err, solve.Unbounded) {
			t.Errorf("integer %v: have %v, want unbounded", whole, err)
		}
	}
}
