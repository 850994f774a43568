// Package assign pairs rows with columns at the least cost: the assignment
// problem, exactly.
//
// Nouns: a row and a column may be a pair at a cost; a pair that costs +Inf is
// forbidden. There may be more of the one than of the other. As many pairs are
// made as can be, and among all ways to make so many the cheapest is found.
// Costs have whatever unit the caller gives them.
//
// Source: Jonker and Volgenant, "A shortest augmenting path algorithm for dense
// and sparse linear assignment problems", Computing 38, 1987; extended to
// rows that must stay alone because of forbidden pairs.
package assign

import (
	"fmt"
	"math"
	"slices"
)

// Alone is the column of a row without one.
const Alone = -1

// Pairing is who is paired with whom.
type Pairing struct {
	Of    []int // by row: its column, or Alone
	Pairs int
	Cost  float64 // of all pairs
}

// Min finds the cheapest pairing. cost has rows x cols numbers, row by row. It
// takes time in proportion to short² x long at worst, where short is the lesser
// of rows and cols. Of several optima it finds the same one always.
func Min(rows, cols int, cost []float64) (Pairing, error) {
	if rows < 0 || cols < 0 || len(cost) != rows*cols || (cols > 0 && len(cost)/cols != rows) {
		return Pairing{}, fmt.Errorf("assignment of %d rows to %d columns has %d costs", rows, cols, len(cost))
	}
	for k, c := range cost {
		if math.IsNaN(c) || c < -math.MaxFloat64/4 || c > math.MaxFloat64/4 && !math.IsInf(c, 1) {
			return Pairing{}, fmt.Errorf("row %d and column %d cost %v", k/cols, k%cols, c)
		}
	}
	p := Pairing{Of: slices.Repeat([]int{Alone}, rows)}
	if rows <= cols {
		t := newTask(rows, cols, cost)
		t.solve()
		copy(p.Of, t.col)
	} else {
		turned := make([]float64, len(cost))
		for i := range rows {
			for j := range cols {
				turned[j*rows+i] = cost[i*cols+j]
			}
		}
		t := newTask(cols, rows, turned)
		t.solve()
		copy(p.Of, t.row)
	}
	for i, j := range p.Of {
		if j != Alone {
			p.Pairs++
			p.Cost += cost[i*cols+j]
		}
	}
	return p, nil
}

// task is an assignment problem with at least as many columns as rows.
type task struct {
	n, m int
	cost []float64
	col  []int     // by row
	row  []int     // by column
	v    []float64 // by column: its price, at most 0, and 0 while it is free

	dist []float64 // by column: how far it is from the row that is being placed
	from []int     // by column: the row that it was reached from
	todo []int     // columns whose distance may still sink
	done []int     // those whose distance is final
}

func newTask(n, m int, cost []float64) *task {
	return &task{n: n, m: m, cost: cost, col: slices.Repeat([]int{Alone}, n), row: slices.Repeat([]int{Alone}, m),
		v: make([]float64, m), dist: make([]float64, m), from: make([]int, m), todo: make([]int, 0, m), done: make([]int, 0, m)}
}

func (t *task) solve() {
	for _, i := range t.reduce() {
		t.place(i)
	}
}

// reduce places rows as in an auction without increments: a row takes the column
// that is best for it, at a price at which the second best is as good, and who
// had that column looks for another. It returns the rows that are left.
func (t *task) reduce() []int {
	free := make([]int, t.n)
	for i := range free {
		free[i] = i
	}
	steps := 8 * t.n // rounding could make it go on for ever
	for pass := 0; pass < 2; pass++ {
		var left []int
		for k := 0; k < len(free); k++ {
			i := free[k]
			j, least, second := t.best(i)
			// A row with one column only would ask any price.
			if j == Alone || math.IsInf(second, 1) {
				left = append(left, i)
				continue
			}
			was := t.row[j]
			if was != Alone && least == second { // no price would keep the other away
				left = append(left, i)
				continue
			}
			t.v[j] -= second - least
			t.row[j], t.col[i] = i, j
			if was == Alone {
				continue
			}
			t.col[was] = Alone
			if steps--; steps > 0 {
				free[k] = was
				k--
			} else {
				left = append(left, was)
			}
		}
		free = left
	}
	return free
}

// best is the cheapest column of a row, what it costs at present prices, and
// what the second cheapest does.
func (t *task) best(i int) (at int, least, second float64) {
	at, least, second = Alone, math.Inf(1), math.Inf(1)
	for j, c := range t.cost[i*t.m : (i+1)*t.m] {
		switch d := c - t.v[j]; {
		case d < least:
			at, least, second = j, d, least
		case d < second:
			second = d
		}
	}
	return at, least, second
}

// place gives row i a column along the cheapest path of changes. Where no path
// leads to a free column, the row along the path that is the dearest to keep
// stays alone, for good: nothing that is placed later can bring it back.
func (t *task) place(i int) {
	end, far := t.reach(i)
	for _, j := range t.done {
		t.v[j] += t.dist[j] - far
	}
	if end == Alone {
		out, dearest := i, far // what each row of the tree pays at the new prices
		for _, j := range t.done {
			r := t.row[j]
			if pays := t.cost[r*t.m+j] - t.v[j]; pays > dearest {
				out, dearest, end = r, pays, j
			}
		}
		if out == i {
			return
		}
		t.col[out] = Alone
	}
	for {
		r := t.from[end]
		t.row[end] = r
		end, t.col[r] = t.col[r], end
		if r == i {
			return
		}
	}
}

// reach finds the nearest free column from row i, or none, and how far it is, or
// the last column that was reached. Columns nearer than that are in done.
func (t *task) reach(i int) (end int, far float64) {
	t.todo, t.done = t.todo[:0], t.done[:0]
	for j := range t.m {
		t.dist[j], t.from[j] = t.cost[i*t.m+j]-t.v[j], i
		t.todo = append(t.todo, j)
	}
	for {
		at, least := -1, math.Inf(1)
		for k, j := range t.todo {
			if d := t.dist[j]; d < least || d == least && at >= 0 && t.row[j] == Alone && t.row[t.todo[at]] != Alone {
				at, least = k, d
			}
		}
		if at < 0 {
			return Alone, far
		}
		j := t.todo[at]
		far = least
		if t.row[j] == Alone {
			return j, far
		}
		t.todo[at] = t.todo[len(t.todo)-1]
		t.todo = t.todo[:len(t.todo)-1]
		t.done = append(t.done, j)
		r := t.row[j]
		costs := t.cost[r*t.m : (r+1)*t.m]
		base := costs[j] - t.v[j] - least
		for _, k := range t.todo {
			if d := costs[k] - t.v[k] - base; d < t.dist[k] {
				t.dist[k], t.from[k] = d, r
			}
		}
	}
}
