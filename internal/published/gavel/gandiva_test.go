package gavel

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"
)

// The numbers are those of random.sample(range(n), 2) of Python 3.11.
func TestTwo(t *testing.T) {
	g := gandiva{random: newPython(0)}
	var got [][2]int
	for _, n := range []int{2, 3, 5, 21, 21, 22, 40, 22, 3, 60} {
		i, k := g.two(n)
		got = append(got, [2]int{i, k})
	}
	if s := fmt.Sprint(got); s != "[[1 0] [0 1] [4 3] [12 9] [15 11] [18 6] [32 8] [9 4] [0 1] [58 34]]" {
		t.Errorf("drawn %s", s)
	}
}

// beside writes a table of throughputs in which a does so many steps per second
// beside b, and b beside a.
func beside(t *testing.T, a, b float64) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "speeds.json")
	text := fmt.Sprintf(`{"v100": {
		"('a', 1)": {"null": 1, "('a', 1)": [0, 0], "('b', 1)": [%[1]v, %[2]v]},
		"('b', 1)": {"null": 1, "('a', 1)": [%[2]v, %[1]v], "('b', 1)": [0, 0]}}}`, a, b)
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// Two jobs that want one GPU are packed. A round lasts until the slower of two has
// ended its part, and so does the other one.
func TestGandivaPacks(t *testing.T) {
	trace, _ := world(t, []string{"a 80 1 0", "b 200 1 0"}, nil)
	r, err := Run(t.Context(), trace, "V100=1", "gandiva", Options{Speeds: beside(t, 0.8, 0.5)})
	if err != nil || len(r.Rows) != 2 {
		t.Fatalf("%v, %v", r, err)
	}
	// In the first round a does all of its steps in 100 s, and b 180 in 360 s.
	if a, b := r.Rows[0], r.Rows[1]; a.Start != 0 || b.Start != 0 || a.End != 360 || b.End != 380 {
		t.Errorf("from %v to %v and from %v to %v", a.Start, a.End, b.Start, b.End)
	}
}

// Jobs of which one does nothing beside the other take turns.
func TestGandivaTakesTurns(t *testing.T) {
	trace, _ := world(t, []string{"a 300 1 0", "b 300 1 0"}, nil)
	r, err := Run(t.Context(), trace, "V100=1", "gandiva", Options{Speeds: beside(t, 0, 0.5)})
	if err != nil || len(r.Rows) != 2 {
		t.Fatalf("%v, %v", r, err)
	}
	if a, b := r.Rows[0].End, r.Rows[1].End; a+b != 300+600 {
		t.Errorf("end at %v and %v", a, b)
	}
}
