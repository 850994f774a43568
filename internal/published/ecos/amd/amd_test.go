package amd

import (
	"slices"
	"testing"

	"pgregory.net/rapid"
)

// upper is the upper triangle of a system in which two unknowns meet where it is said.
func upper(n int, meet func(i, j int) bool) (start, index []int) {
	for j := range n {
		start = append(start, len(index))
		for i := range j {
			if meet(i, j) {
				index = append(index, i)
			}
		}
		index = append(index, j)
	}
	return append(start, len(index)), index
}

// fill counts the entries of a factor below its diagonal, by eliminating one unknown
// after the other from a full table.
func fill(n int, meet func(i, j int) bool, next func(beside [][]bool, left []bool) int) (entries int) {
	beside, left := make([][]bool, n), make([]bool, n)
	for i := range n {
		left[i], beside[i] = true, make([]bool, n)
		for j := range n {
			beside[i][j] = i != j && meet(min(i, j), max(i, j))
		}
	}
	for range n {
		k := next(beside, left)
		left[k] = false
		for i := range n {
			if !left[i] || !beside[k][i] {
				continue
			}
			entries++
			for j := range n {
				beside[i][j] = beside[i][j] || j != i && left[j] && beside[k][j]
			}
		}
	}
	return entries
}

// fewest is the unknown on which the fewest others depend, counted.
func fewest(beside [][]bool, left []bool) int {
	best, least := -1, len(left)
	for i := range left {
		degree := 0
		for j, on := range beside[i] {
			if on && left[j] {
				degree++
			}
		}
		if left[i] && degree < least {
			best, least = i, degree
		}
	}
	return best
}

// inOrder takes them one by one.
func inOrder(order []int) func([][]bool, []bool) int {
	return func([][]bool, []bool) int {
		k := order[0]
		order = order[1:]
		return k
	}
}

// TestKnown: the orders of the library itself, version 2.3.1. The middle of a star comes
// last, a chain is eliminated from its ends, squares of unknowns that are the same go
// together, and a dense row is left for the end.
func TestKnown(t *testing.T) {
	for _, c := range []struct {
		name string
		n    int
		meet func(i, j int) bool
		want []int
	}{
		{"star", 5, func(i, j int) bool { return i == 0 }, []int{4, 3, 2, 1, 0}},
		{"chain", 6, func(i, j int) bool { return j == i+1 }, []int{5, 4, 3, 2, 0, 1}},
		{"grid", 16, func(i, j int) bool { return j == i+4 || j == i+1 && j%4 > 0 }, []int{0, 4, 1, 3, 7, 15, 12, 13, 9, 14, 10, 2, 5, 8, 11, 6}},
		{"squares", 12, func(i, j int) bool { return i/3 == j/3 || i%3 == 0 && j%3 == 0 && j == i+3 }, []int{10, 11, 9, 7, 8, 6, 4, 5, 3, 1, 2, 0}},
		{"multiples", 14, func(i, j int) bool { return (i+1)*(j+1)%5 == 0 || (j+1)%(i+1) == 0 }, []int{6, 13, 12, 10, 8, 2, 5, 0, 3, 4, 7, 9, 11, 1}},
	} {
		if got := Order(upper(c.n, c.meet)); !slices.Equal(got, c.want) {
			t.Errorf("%s: %v, not %v", c.name, got, c.want)
		}
	}
	dense := Order(upper(150, func(i, j int) bool { return i == 7 || j == 7 || j == i+2 }))
	if dense[149] != 7 {
		t.Errorf("the dense row is not last in %v", dense)
	}
	if got := Order([]int{0}, nil); len(got) > 0 {
		t.Errorf("nothing in the order %v", got)
	}
}

// TestOrder: every unknown comes once, and the factor has hardly more entries than with
// exact degrees.
func TestOrder(t *testing.T) {
	more, exact := 0, 0
	rapid.Check(t, func(t *rapid.T) {
		n := rapid.IntRange(1, 30).Draw(t, "unknowns")
		on := map[[2]int]bool{}
		for range rapid.IntRange(0, 3*n).Draw(t, "meetings") {
			i, j := rapid.IntRange(0, n-1).Draw(t, "one"), rapid.IntRange(0, n-1).Draw(t, "other")
			on[[2]int{min(i, j), max(i, j)}] = true
		}
		meet := func(i, j int) bool { return on[[2]int{i, j}] }
		order := Order(upper(n, meet))
		sorted := slices.Sorted(slices.Values(order))
		for i, k := range sorted {
			if i != k || len(sorted) != n {
				t.Fatalf("%v is no order of %d unknowns", order, n)
			}
		}
		ours, best := fill(n, meet, inOrder(order)), fill(n, meet, fewest)
		if float64(ours) > 1.3*float64(best)+6 {
			t.Fatalf("%d entries with the order %v, %d with exact degrees", ours, order, best)
		}
		more, exact = more+ours, exact+best
	})
	if float64(more) > 1.02*float64(exact) {
		t.Errorf("%d entries in all, %d with exact degrees", more, exact)
	}
}
