package ecos

import (
	"bufio"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// recorded is a program, and what ECOS 2.0.10 made of it: the order in which it
// eliminates, and the answer; nil where it found none.
type recorded struct {
	cost         []float64
	rows         []Row
	cones, order []int
	x            []float64
}

// read reads lines of a word and numbers: cost, row (its limit, then coefficients by
// variable), cones, order, x or none.
func read(t *testing.T, path string) (r recorded) {
	f, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	number := func(s string) float64 {
		v, err := strconv.ParseFloat(s, 64)
		if err != nil {
			t.Fatal(err)
		}
		return v
	}
	for lines := bufio.NewScanner(f); lines.Scan(); {
		words := strings.Fields(lines.Text())
		for _, word := range words[1:] {
			switch i, v, pair := strings.Cut(word, ":"); {
			case words[0] == "cost":
				r.cost = append(r.cost, number(word))
			case words[0] == "x":
				r.x = append(r.x, number(word))
			case words[0] == "cones":
				r.cones = append(r.cones, int(number(word)))
			case words[0] == "order":
				r.order = append(r.order, int(number(word)))
			case pair:
				row := &r.rows[len(r.rows)-1]
				row.Index, row.Value = append(row.Index, int(number(i))), append(row.Value, number(v))
			case words[0] == "row":
				r.rows = append(r.rows, Row{Limit: number(word)})
			}
		}
	}
	return r
}

// TestDigits: the order of elimination is that of ECOS, and so is every digit of every
// answer.
func TestDigits(t *testing.T) {
	paths, err := filepath.Glob("testdata/*.txt")
	if err != nil || len(paths) < 6 {
		t.Fatal(paths, err)
	}
	for _, path := range paths {
		r := read(t, path)
		k := newSolver(r.cost, r.rows, r.cones).kkt
		order := make([]int, len(k.place))
		for i, at := range k.place {
			order[at] = i
		}
		if !slices.Equal(order, r.order) {
			t.Errorf("%s: eliminated in the order %v, not %v", path, order, r.order)
		}
		x, err := Solve(r.cost, r.rows, r.cones...)
		if r.x == nil && !errors.Is(err, ErrFailed) || r.x != nil && err != nil {
			t.Errorf("%s: %v, %v", path, x, err)
		}
		for i := range r.x {
			if x[i] != r.x[i] {
				t.Errorf("%s: variable %d is %v, not %v", path, i, x[i], r.x[i])
			}
		}
	}
}

// TestEmpty: programs without variables, or with rows that have none, do not panic.
func TestEmpty(t *testing.T) {
	if x, err := Solve(nil, nil); err == nil && len(x) > 0 {
		t.Errorf("%v, %v", x, err)
	}
	if x, err := Solve(nil, []Row{{Limit: 1}}); err != nil || len(x) > 0 {
		t.Errorf("%v, %v", x, err)
	}
	if x, err := Solve([]float64{1}, []Row{{Limit: 1}}); !errors.Is(err, ErrFailed) {
		t.Errorf("a variable without rows: %v, %v", x, err)
	}
}
