package shockwave_test

import (
	"math"
	"slices"
	"testing"

	"github.com/norn-scheduler/norn/policy/shockwave"
)

func near(t *testing.T, what string, got, want float64) {
	t.Helper()
	if math.Abs(got-want) > 1e-5*max(1, math.Abs(want)) {
		t.Errorf("%s is %v, want %v", what, got, want)
	}
}

// The Dirichlet posterior by hand: 10 epochs of 100 s or of 60 s, of which three are
// done and the fourth runs, all of the first kind.
func TestForecast(t *testing.T) {
	f := shockwave.Forecast{Epochs: 10, Done: 3, Modes: []shockwave.Mode{{Epoch: 100, Seen: 4}, {Epoch: 60}}}
	near(t, "time left", f.Left(false), 457.142857)
	near(t, "unbiased time left", f.Left(true), 533.333333)
	near(t, "what is due", (300+f.Left(false))*2, 1514.285714)
}

// TestStatic: a job that never changes has an epoch less to do with each that it has
// done.
func TestStatic(t *testing.T) {
	last := math.Inf(1)
	for done := range 10 {
		f := shockwave.Forecast{Epochs: 10, Done: done, Modes: []shockwave.Mode{{Epoch: 100, Seen: done + 1}}}
		if left := f.Left(false); left > last {
			t.Errorf("after %d epochs %v s are left, before %v", done, left, last)
		} else {
			last = left
		}
		if left := f.Left(true); left != float64(10-done)*100 {
			t.Errorf("after %d epochs %v s are left", done, left)
		}
	}
}

// The due time: an average weighted by how long each value held, and a tenth of
// the last.
func TestDue(t *testing.T) {
	d := shockwave.NewDue(0, 800)
	near(t, "at once", d.At(0), 800)
	d.Add(10, 1000)
	near(t, "in round 20", d.At(20), 910)
	d.Add(20, 500)
	d.Add(20, 700)
	near(t, "in round 30, two values in one round", d.At(30), 0.9*(800+1000+700)/3+70)
}

func two(due ...float64) []shockwave.Job {
	return []shockwave.Job{
		{GPUs: 1, Epochs: 4, Done: 1, Epoch: 100, Left: 300, Due: due[0]}, {GPUs: 1, Epochs: 2, Epoch: 100, Left: 200, Due: due[1]},
	}
}

func rounds(runs []bool) (n int) {
	for _, r := range runs {
		if r {
			n++
		}
	}
	return n
}

// The program by hand: one GPU, three rounds of 100 s, A with 1 of 4 epochs done and
// B with none of 2.
func TestPlan(t *testing.T) {
	w := shockwave.Window{GPUs: 1, Rounds: 3, Length: 100, K: 1e-3, Lambda: 2, RhoMax: 1}
	for _, c := range []struct {
		name      string
		jobs      []shockwave.Job
		a, b      int
		objective float64
		relaxed   bool
	}{
		{"nothing is due", two(1e9, 1e9), 2, 1, -0.26810, false},
		{"due at 800 and 400", two(800, 400), 1, 2, -0.31893, false},
		{"due at 500 and 300", two(500, 300), 1, 2, -0.37125, true},
	} {
		p := w.Make(c.jobs)
		if a, b := rounds(p.Runs[0]), rounds(p.Runs[1]); a != c.a || b != c.b || p.Relaxed != c.relaxed {
			t.Errorf("%s: %d rounds for A and %d for B (relaxed %v), want %d and %d", c.name, a, b, p.Relaxed, c.a, c.b)
		}
		near(t, c.name+": the objective", p.Objective, c.objective)
		if c.relaxed && !slices.Equal(p.Runs[0], []bool{true, false, false}) {
			t.Errorf("%s: A runs in %v, want the first round", c.name, p.Runs[0])
		}
	}
}
