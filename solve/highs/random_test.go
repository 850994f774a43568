package highs

import (
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"github.com/norn-scheduler/norn/internal/longtest"
	"github.com/norn-scheduler/norn/solve"
)

// random makes a small model with small whole numbers, so that ties, degenerate
// vertices, empty and unbounded sets are common.
func random(rng *rand.Rand, integers float64) *solve.Model {
	m := solve.NewModel("random", solve.Sense(rng.IntN(2)))
	vars, rows := 1+rng.IntN(9), rng.IntN(9)
	number := func(n int) float64 { return float64(rng.IntN(2*n+1) - n) }
	for range vars {
		lower, upper := number(3), 3+float64(rng.IntN(6))
		switch rng.IntN(12) {
		case 0:
			lower = -solve.Inf()
		case 1, 2:
			upper = solve.Inf()
		case 3:
			upper = lower
		}
		if rng.Float64() < integers {
			m.Int(lower, upper, number(6))
		} else {
			m.Real(lower, upper, number(6))
		}
	}
	for range rows {
		var terms []solve.Term
		for v := range vars {
			if rng.IntN(3) > 0 {
				terms = append(terms, solve.Var(v).Times(number(4)))
			}
		}
		limit := number(12) + 4
		switch rng.IntN(5) {
		case 0:
			m.AtLeast(-limit, terms...)
		case 1:
			m.Row(-limit-3, -limit+float64(rng.IntN(9)), terms...)
		case 2:
			m.Equal(limit/2, terms...)
		default:
			m.AtMost(limit, terms...)
		}
	}
	if rng.IntN(3) == 0 {
		m.Offset(number(9))
	}
	return m
}

var objectiveLine = regexp.MustCompile(`(?m)^Objective:\s+\S+ = (\S+)`)

// glpk solves a model with GLPK's own program.
func glpk(t *testing.T, program, dir string, m *solve.Model) (objective float64, reason error) {
	t.Helper()
	in, out := filepath.Join(dir, "model.lp"), filepath.Join(dir, "model.sol")
	if err := os.WriteFile(in, m.AppendLP(nil), 0o600); err != nil {
		t.Fatal(err)
	}
	said, err := exec.Command(program, "--lp", in, "--nopresol", "-o", out).CombinedOutput()
	if err != nil {
		t.Fatalf("%v: %s\n%s", err, said, m.AppendLP(nil))
	}
	text, err := os.ReadFile(out)
	if err != nil {
		t.Fatal(err)
	}
	switch {
	case strings.Contains(string(said), "HAS UNBOUNDED"), strings.Contains(string(said), "NO DUAL FEASIBLE"):
		return 0, solve.Unbounded
	case strings.Contains(string(said), "NO PRIMAL FEASIBLE"), strings.Contains(string(said), "NO FEASIBLE"), strings.Contains(string(said), "NO INTEGER FEASIBLE"):
		return 0, solve.Infeasible
	case !strings.Contains(string(said), "OPTIMAL"):
		t.Fatalf("GLPK says %s\n%s", said, m.AppendLP(nil))
	}
	found := objectiveLine.FindSubmatch(text)
	if found == nil {
		t.Fatalf("no objective in %s", text)
	}
	objective, err = strconv.ParseFloat(string(found[1]), 64)
	if err != nil {
		t.Fatal(err)
	}
	return objective, nil
}

// TestAgainstGLPK holds a few hundred random models to another solver.
func TestAgainstGLPK(t *testing.T) {
	longtest.Skip(t)
	program, err := exec.LookPath("glpsol")
	if err != nil {
		if os.Getenv("CI") != "" {
			t.Fatal("glpsol is not installed (Debian: glpk-utils)")
		}
		t.Skip("glpsol is not installed (Debian: glpk-utils)")
	}
	dir := t.TempDir()
	rng := rand.New(rand.NewPCG(1, 6))
	count := map[string]int{}
	for n := range 400 {
		m := random(rng, []float64{0, 0.5, 1}[n%3])
		s, err := Shared().Solve(m, solve.Options{})
		want, reason := glpk(t, program, dir, m)
		switch {
		case m.Integers() > 0 && errors.Is(reason, solve.Unbounded) && errors.Is(err, solve.Infeasible):
			// GLPK speaks of the model as if its numbers need not be whole.
		case !errors.Is(err, reason):
			t.Errorf("model %d: have %v, GLPK has %v\n%s", n, err, reason, m.AppendLP(nil))
		case reason != nil:
		case math.Abs(s.Objective-want) > 1e-4*(1+math.Abs(want)): // GLPK writes six digits or so
			t.Errorf("model %d: have %v, GLPK has %v\n%s", n, s.Objective, want, m.AppendLP(nil))
		default:
			if err := solve.Verify(m, s, 1e-6); err != nil {
				t.Error(err)
			}
		}
		count[fmt.Sprint(reason)]++
	}
	t.Log(count)
	if count["<nil>"] < 100 || count[solve.Infeasible.Error()] < 20 || count[solve.Unbounded.Error()] < 10 {
		t.Errorf("the models are of too few sorts: %v", count)
	}
}

// brute tries all whole values within the bounds.
func brute(m *solve.Model) (best float64, found bool) {
	a := m.Arrays()
	x := make([]float64, m.Vars())
	var walk func(v int)
	walk = func(v int) {
		if v == len(x) {
			if m.Violation(x) == 0 {
				o := m.Objective(x)
				if !found || (m.Sense() == solve.Maximize) == (o > best) {
					best, found = o, true
				}
			}
			return
		}
		for x[v] = a.Lower[v]; x[v] <= a.Upper[v]; x[v]++ {
			walk(v + 1)
		}
		x[v] = 0
	}
	walk(0)
	return best, found
}

func TestAgainstBruteForce(t *testing.T) {
	rng := rand.New(rand.NewPCG(2, 6))
	for n := range 300 {
		m := solve.NewModel("whole", solve.Sense(n%2))
		vars := 1 + rng.IntN(5)
		for range vars {
			low := float64(rng.IntN(5) - 2)
			m.Int(low, low+float64(rng.IntN(5)), float64(rng.IntN(21)-10))
		}
		for range rng.IntN(5) {
			var terms []solve.Term
			for v := range vars {
				terms = append(terms, solve.Var(v).Times(float64(rng.IntN(11)-5)))
			}
			at := float64(rng.IntN(20) - 8)
			m.Row(at-float64(rng.IntN(12)), at, terms...)
		}
		want, ok := brute(m)
		s, err := Shared().Solve(m, solve.Options{})
		switch {
		case !ok && !errors.Is(err, solve.Infeasible):
			t.Errorf("model %d: have %v, want infeasible", n, err)
		case ok && err != nil:
			t.Errorf("model %d: %v, brute force has %v", n, err, want)
		case ok && math.Abs(s.Objective-want) > 1e-6:
			t.Errorf("model %d: have %v, want %v", n, s.Objective, want)
		case ok:
			if err := solve.Verify(m, s, 1e-6); err != nil {
				t.Error(err)
			}
		}
	}
}

// TestSameBits solves each model in a new instance and in one that has solved
// others before, and compares all that comes back.
func TestSameBits(t *testing.T) {
	p, err := Shared().load()
	if err != nil {
		t.Fatal(err)
	}
	used, err := p.instantiate()
	if err != nil {
		t.Fatal(err)
	}
	defer used.close()
	rng := rand.New(rand.NewPCG(3, 6))
	models := []*solve.Model{maxMin(60, 3, 1), sia(12, 32, 1), shockwave(8, 6, 10, 1), maxMin(30, 6, 2), sia(20, 16, 2)}
	for n := range 60 {
		models = append(models, random(rng, float64(n%3)/2))
	}
	show := func(s *solve.Solution, err error) string {
		if err != nil {
			return err.Error()
		}
		text := fmt.Sprintf("%v %x %x %x %x %x %x %d %d %d", s.Status, s.Objective, s.Bound, s.Values, s.Rows, s.Prices, s.Reduced, s.Iterations, s.Nodes, s.Steps)
		if s.Basis != nil {
			text += fmt.Sprint(*s.Basis)
		}
		return text
	}
	for n, m := range models {
		fresh, err := p.instantiate()
		if err != nil {
			t.Fatal(err)
		}
		first := show(fresh.solve(m, &solve.Options{}, nil))
		fresh.close()
		if second := show(used.solve(m, &solve.Options{}, nil)); first != second {
			t.Errorf("model %d (%s):\n%s\n%s", n, m.Name(), first, second)
		}
	}
}
