package shockwave

import (
	"fmt"
	"slices"
	"testing"

	"pgregory.net/rapid"

	policies "github.com/norn-scheduler/norn/policy/gavel"
	"github.com/norn-scheduler/norn/solve/assign"
)

// The pairs are those of SciPy 1.10.1; package solve/assign finds others that cost the
// same.
func TestPairTies(t *testing.T) {
	for _, c := range []struct {
		rows, cols int
		cost       []float64
		want       string
		same       bool // solve/assign finds them too
	}{
		{3, 3, []float64{1, 1, 1, 1, 1, 1, 1, 1, 1}, "[0 1 2]", true},
		{5, 6, []float64{0, 2, 3, 2, 0, 1, 0, 3, 2, 3, 2, 0, 3, 0, 0, 3, 0, 3, 2, 0, 0, 1, 0, 1, 2, 1, 0, 0, 0, 0}, "[0 5 1 2 3]", false},
		{5, 5, []float64{2, 2, 3, 2, 2, 0, 0, 3, 3, 0, 3, 3, 0, 0, 3, 2, 1, 3, 1, 0, 1, 3, 1, 2, 3}, "[0 1 3 4 2]", false},
	} {
		if got := pair(c.rows, c.cols, func(i, j int) float64 { return c.cost[i*c.cols+j] }); fmt.Sprint(got) != c.want {
			t.Errorf("%d x %d: %v, want %s", c.rows, c.cols, got, c.want)
		}
		if p, err := assign.Min(c.rows, c.cols, c.cost); err != nil || (fmt.Sprint(p.Of) == c.want) != c.same {
			t.Errorf("%d x %d: solve/assign has %v, %v", c.rows, c.cols, p.Of, err)
		}
	}
}

// The pairs cost what those of package solve/assign do.
func TestPairLeast(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		rows := rapid.IntRange(0, 8).Draw(t, "rows")
		cols := rows + rapid.IntRange(0, 8).Draw(t, "more")
		cost := make([]float64, rows*cols)
		for k := range cost {
			cost[k] = float64(rapid.IntRange(-9, 9).Draw(t, "cost"))
		}
		sum, taken := 0.0, map[int]bool{}
		for i, j := range pair(rows, cols, func(i, j int) float64 { return cost[i*cols+j] }) {
			if taken[j] {
				t.Fatalf("column %d has two rows", j)
			}
			taken[j] = true
			sum += cost[i*cols+j]
		}
		if p, err := assign.Min(rows, cols, cost); err != nil || p.Cost != sum {
			t.Errorf("costs %v, it could be %v (%v)", sum, p.Cost, err)
		}
	})
}

// jobs are jobs of these sizes that need these times, and came as long ago.
func jobs(gpus float64, sizes, left, age []float64) *policies.Problem {
	p := &policies.Problem{Capacity: []float64{gpus}}
	for i, s := range sizes {
		p.Jobs = append(p.Jobs, policies.Job{Size: s, Speed: []float64{1}, Left: left[i], Age: age[i]})
	}
	return p
}

// TestMatch holds who gets a share against the rules, by hand.
func TestMatch(t *testing.T) {
	ones := slices.Repeat([]float64{1}, 15)
	for _, c := range []struct {
		name string
		p    *policies.Problem
		was  []float64
		want string
	}{
		{"the older one, however long", jobs(1, ones[:2], []float64{5, 3}, []float64{9, 8}), []float64{0, 0}, "[[1] [0]]"},
		{"as many as GPUs, however long", jobs(2, ones[:3], []float64{5, 3, 1}, []float64{9, 8, 7}), []float64{0, 0, 0}, "[[1] [1] [0]]"},
		{"held to the end", jobs(1, ones[:2], []float64{5, 3}, []float64{9, 8}), []float64{0, 1}, "[[0] [1]]"},
		{"a fifth of fifteen, the shortest first", jobs(1, ones, slices.Concat([]float64{30, 20, 10}, ones[:12]), ones), make([]float64, 15),
			"[[0] [0] [1] [0] [0] [0] [0] [0] [0] [0] [0] [0] [0] [0] [0]]"},
		{"a share by size; who has it is matched again", jobs(2, []float64{4, 1, 1}, []float64{5, 3, 1}, []float64{9, 8, 7}), []float64{0.25, 0, 0}, "[[0.25] [1] [0]]"},
		{"larger ones keep it", jobs(1, []float64{2, 1}, []float64{5, 3}, []float64{9, 8}), []float64{0.5, 1}, "[[0.5] [1]]"},
		{"nobody", jobs(1, nil, nil, nil), nil, "[]"},
	} {
		for _, v := range []scipy{asTheyAre, aboveLeast} {
			if got := fmt.Sprint(match(c.p, c.was, v)); got != c.want {
				t.Errorf("%s: %s, want %s", c.name, got, c.want)
			}
		}
	}
}

// TestRounding: SciPy from 1.9 on takes costs as they are, the ones before took the least
// off each. Of three jobs on two GPUs the second or the third may be behind the first, and
// all end equally soon; sums of prices that are equal are not so in floating point. Twelve
// more are waiting, so that three are looked at.
func TestRounding(t *testing.T) {
	base, age := []float64{1.1, 2.1, 1.6}, []float64{7, 4, 2}
	cost := func(i, j int) float64 { return float64(float64(j/2+1)*base[i]) + age[i] }
	p := jobs(2, slices.Repeat([]float64{1}, 15), slices.Concat(base, make([]float64, 12)), slices.Concat(age, make([]float64, 12)))
	for _, c := range []struct {
		version     scipy
		pairs       []int
		want, share string // pairs as SciPy 1.10.1 has them, given costs as they are and less the least
	}{
		{asTheyAre, pair(3, 4, cost), "[2 0 1]", "[[1] [0] [1]]"},
		{aboveLeast, pair(3, 4, lessLeast(3, 4, cost)), "[2 1 0]", "[[1] [1] [0]]"},
	} {
		if got := fmt.Sprint(c.pairs); got != c.want {
			t.Errorf("%s, want %s", got, c.want)
		}
		if got := fmt.Sprint(match(p, make([]float64, 15), c.version)[:3]); got != c.share {
			t.Errorf("shares %s, want %s", got, c.share)
		}
	}
}

// TestDepth: places that are never taken may be left out.
func TestDepth(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		free := rapid.IntRange(1, 6).Draw(t, "free")
		base := rapid.SliceOfN(rapid.Custom(func(t *rapid.T) float64 { return float64(rapid.IntRange(1, 40).Draw(t, "tenths")) / 10 }), 1, 12).Draw(t, "base")
		age := rapid.SliceOfN(rapid.Float64Range(0, 1e5), len(base), len(base)).Draw(t, "age")
		cost := func(i, j int) float64 { return float64(float64(j/free+1)*base[i]) + age[i] }
		n := len(base)
		if some, all := pair(n, free*depth(base, free), cost), pair(n, free*n, cost); !slices.Equal(some, all) {
			t.Errorf("%v, with all places %v", some, all)
		}
	})
	if got := depth([]float64{1, -1, 1}, 2); got != 3 {
		t.Errorf("a job that is over has %d places", got)
	}
}
