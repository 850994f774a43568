package highs

import (
	"context"
	"errors"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/norn-scheduler/norn/solve"
)

func must(t *testing.T, m *solve.Model, o solve.Options) *solve.Solution {
	t.Helper()
	s, err := Shared().Solve(m, o)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func TestEmpty(t *testing.T) {
	m := solve.NewModel("nothing", solve.Maximize)
	m.Offset(3)
	if s := must(t, m, solve.Options{}); s.Objective != 3 || s.Status != solve.Optimal || len(s.Values) != 0 {
		t.Errorf("no variables: %+v", s)
	}
	r := m.AtMost(1)
	if s := must(t, m, solve.Options{}); s.Row(r) != 0 {
		t.Errorf("an empty row: %+v", s)
	}
	m.SetRange(r, 1, 2)
	if _, err := Shared().Solve(m, solve.Options{}); !errors.Is(err, solve.Infeasible) {
		t.Errorf("an empty row that must be one: %v", err)
	}
	for _, whole := range []bool{false, true} {
		m = solve.NewModel("no rows", solve.Minimize)
		add := m.Real
		if whole {
			add = m.Int
		}
		x := add(-2, 5, 1)
		if s := must(t, m, solve.Options{}); s.Value(x) != -2 || s.Objective != -2 || s.Bound != -2 {
			t.Errorf("no rows, integer %v: %+v", whole, s)
		}
		empty := m.AtMost(0)
		if s := must(t, m, solve.Options{}); s.Value(x) != -2 || s.Row(empty) != 0 {
			t.Errorf("an empty row, integer %v: %+v", whole, s)
		}
		m.SetBounds(x, 3, 2)
		if _, err := Shared().Solve(m, solve.Options{}); !errors.Is(err, solve.Infeasible) {
			t.Errorf("bounds that contradict each other, integer %v: %v", whole, err)
		}
		m.SetBounds(x, math.Inf(-1), 5)
		if _, err := Shared().Solve(m, solve.Options{}); !errors.Is(err, solve.Unbounded) {
			t.Errorf("no lower bound, integer %v: %v", whole, err)
		}
	}
	m = solve.NewModel("no whole number", solve.Minimize)
	m.Int(0.2, 0.8, 1)
	if _, err := Shared().Solve(m, solve.Options{}); !errors.Is(err, solve.Infeasible) {
		t.Errorf("no whole number between the bounds: %v", err)
	}
}

// TestLimits shows that each limit ends a search, with the same answer each time,
// and that what is then said of the bound is true.
func TestLimits(t *testing.T) {
	lp := maxMin(60, 3, 3)
	full := must(t, lp, solve.Options{})
	_, err := Shared().Solve(lp, solve.Options{Iterations: 3})
	s, steps := full, full.Steps
	if err == nil {
		t.Error("three iterations were enough")
	} else if !errors.Is(err, solve.OutOfLimits) {
		t.Error(err)
	}
	if steps < 2 {
		t.Fatalf("the clock was read %d times", steps)
	}
	mip := shockwave(8, 6, 10, 3)
	best := must(t, mip, solve.Options{})
	for _, o := range []solve.Options{{Nodes: 1}, {Steps: best.Steps / 2}, {Steps: best.Steps / 4}} {
		if s, err = Shared().Solve(mip, o); err != nil {
			if !errors.Is(err, solve.OutOfLimits) {
				t.Errorf("%+v: %v", o, err)
			}
			continue
		}
		if s.Objective > best.Objective+1e-6 || s.Bound < best.Objective-1e-6 {
			t.Errorf("%+v: %v up to %v, the best is %v", o, s.Objective, s.Bound, best.Objective)
		}
		if err := solve.Verify(mip, s, 1e-6); err != nil {
			t.Errorf("%+v: %v", o, err)
		}
		again := must(t, mip, o)
		if again.Objective != s.Objective || again.Bound != s.Bound || again.Steps != s.Steps {
			t.Errorf("%+v: %v and %v", o, s.Objective, again.Objective)
		}
		if s.Status == solve.Feasible && s.Gap() == 0 {
			t.Errorf("%+v: a limit ended the search, but the gap is zero", o)
		}
	}
	if s := must(t, mip, solve.Options{Gap: 0.05}); s.Gap() > 0.05 || s.Status != solve.Optimal {
		t.Errorf("gap of five per cent: %v, %v", s.Gap(), s.Status)
	}
	if _, err := Shared().Solve(mip, solve.Options{Steps: 1}); !errors.Is(err, solve.OutOfLimits) {
		t.Errorf("one step: %v", err)
	}
}

// TestBasis solves a model again after a small change.
func TestBasis(t *testing.T) {
	m := maxMin(100, 3, 4)
	first := must(t, m, solve.Options{})
	again := must(t, m, solve.Options{Basis: first.Basis})
	if again.Iterations != 0 || math.Abs(again.Objective-first.Objective) > 1e-9 {
		t.Errorf("from the optimal basis it took %d iterations to %v, not %v", again.Iterations, again.Objective, first.Objective)
	}
	m.SetRange(solve.Row(m.Rows()-1), 0, 49)
	cold, warm := must(t, m, solve.Options{}), must(t, m, solve.Options{Basis: first.Basis})
	if math.Abs(cold.Objective-warm.Objective) > 1e-9 || warm.Iterations >= cold.Iterations {
		t.Errorf("from the basis: %v in %d iterations; without: %v in %d", warm.Objective, warm.Iterations, cold.Objective, cold.Iterations)
	}
	// An invalid basis does no harm.
	bad := &solve.Basis{Vars: make([]solve.Stand, m.Vars()), Rows: make([]solve.Stand, m.Rows())}
	if s := must(t, m, solve.Options{Basis: bad}); math.Abs(s.Objective-cold.Objective) > 1e-9 {
		t.Errorf("from no basis: %v, want %v", s.Objective, cold.Objective)
	}
	bad.Vars[0] = 77
	if s := must(t, m, solve.Options{Basis: bad}); math.Abs(s.Objective-cold.Objective) > 1e-9 {
		t.Errorf("from a wrong basis: %v, want %v", s.Objective, cold.Objective)
	}
}

// TestStart begins with a solution and stops at once: it is what comes back, or
// a better one.
func TestStart(t *testing.T) {
	m := shockwave(8, 6, 10, 5)
	best := must(t, m, solve.Options{})
	s := must(t, m, solve.Options{Start: best.Values, Nodes: 1, Steps: 40})
	if s.Objective < best.Objective-1e-6 {
		t.Errorf("began with %v, have %v", best.Objective, s.Objective)
	}
	wrong := make([]float64, m.Vars())
	wrong[0] = 1e6
	if s := must(t, m, solve.Options{Start: wrong}); math.Abs(s.Objective-best.Objective) > 1e-6 {
		t.Errorf("from a start that is not feasible: %v, want %v", s.Objective, best.Objective)
	}
}

// TestInterrupted ends searches from outside: the caller has its answer, and the
// engine is as good as new.
func TestInterrupted(t *testing.T) {
	e := New(Options{})
	if err := e.Load(); err != nil {
		t.Fatal(err)
	}
	big, small := shockwave(60, 20, 48, 6), maxMin(20, 3, 6)
	ended, cancel := context.WithCancel(context.Background())
	cancel()
	if _, err := e.SolveContext(ended, big, solve.Options{}); !errors.Is(err, solve.Interrupted) {
		t.Errorf("ended before it began: %v", err)
	}
	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Millisecond)
	defer cancel()
	_, err := e.SolveContext(ctx, big, solve.Options{})
	if !errors.Is(err, solve.Interrupted) {
		t.Errorf("after its deadline: %v", err)
	}
	big.Reset("another", solve.Minimize) // the search that was left behind must not care
	if _, err := e.Within(time.Nanosecond).Solve(small, solve.Options{}); !errors.Is(err, solve.Interrupted) {
		t.Errorf("no time: %v", err)
	}
	want := must(t, small, solve.Options{})
	for _, s := range []solve.Solver{e, e.Within(time.Hour)} {
		got, err := s.Solve(small, solve.Options{})
		if err != nil || got.Objective != want.Objective {
			t.Errorf("after interruptions: %v, %v; want %v", got, err, want.Objective)
		}
	}
	got, err := e.SolveContext(context.Background(), small, solve.Options{})
	if err != nil || got.Objective != want.Objective {
		t.Errorf("with a context without end: %v, %v", got, err)
	}
}

// TestStop asks a search for what it has.
func TestStop(t *testing.T) {
	p, err := Shared().load()
	if err != nil {
		t.Fatal(err)
	}
	in, err := p.instantiate()
	if err != nil {
		t.Fatal(err)
	}
	defer in.close()
	m := shockwave(8, 6, 10, 3)
	halt := &brake{read: make(chan struct{})}
	halt.begin()
	halt.stop.Store(true)
	if _, err := in.solve(m, &solve.Options{}, halt); !errors.Is(err, solve.OutOfLimits) || in.broken {
		t.Errorf("stopped at once: %v, broken %v", err, in.broken)
	}
	halt = &brake{read: make(chan struct{})}
	halt.begin()
	halt.kill.Store(true)
	if _, err := in.solve(m, &solve.Options{}, halt); !errors.Is(err, solve.Interrupted) || !in.broken {
		t.Errorf("killed at once: %v, broken %v", err, in.broken)
	}
}

// TestTogether has several goroutines share an engine.
func TestTogether(t *testing.T) {
	var group sync.WaitGroup
	for g := range 4 {
		group.Go(func() {
			rng := rand.New(rand.NewPCG(uint64(g), 7))
			for range 10 {
				m := random(rng, 0.5)
				s, err := Shared().Solve(m, solve.Options{})
				if err == nil {
					err = solve.Verify(m, s, 1e-6)
				}
				if err != nil && !errors.Is(err, solve.Infeasible) && !errors.Is(err, solve.Unbounded) {
					t.Error(err)
				}
			}
		})
	}
	group.Wait()
}

// TestMemory shows that a model that is too large for the memory fails, and that
// a smaller one is solved after it.
func TestMemory(t *testing.T) {
	e := New(Options{Memory: 21 << 20})
	_, err := e.Solve(maxMin(20000, 3, 1), solve.Options{})
	if !errors.Is(err, solve.Failed) {
		t.Errorf("have %v, want a failure", err)
	}
	if _, err := e.Solve(maxMin(10, 3, 1), solve.Options{}); err != nil {
		t.Error(err)
	}
}

// TestCache names a folder for compiled code, one that cannot be used, and none.
func TestCache(t *testing.T) {
	dir := t.TempDir()
	if New(Options{CacheDir: dir}).cache() == nil {
		t.Error("a folder that can be used is not")
	}
	file := filepath.Join(dir, "file")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	for _, o := range []Options{{CacheDir: file}, {NoCache: true}} {
		if New(o).cache() != nil {
			t.Errorf("%+v has a cache", o)
		}
	}
}
