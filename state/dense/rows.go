package dense

import "slices"

// rowsOf is how many entries of Rows lie together.
const rowsOf = 4096

// Rows is a list that grows at its end, whose entries never move: a pointer to one stays
// good, and growing copies nothing. The zero Rows is empty and ready to use.
type Rows[T any] struct {
	blocks [][]T
	n      int
}

// Len is the number of entries.
func (r *Rows[T]) Len() int { return r.n }

// At is entry i, from 0.
func (r *Rows[T]) At(i int) *T { return &r.blocks[i/rowsOf][i%rowsOf] }

// Add puts an entry at the end, zero to begin with, and returns it.
func (r *Rows[T]) Add() *T {
	if r.n%rowsOf == 0 {
		r.blocks = append(r.blocks, make([]T, rowsOf))
	}
	r.n++
	return r.At(r.n - 1)
}

// Slice is a copy of all entries.
func (r *Rows[T]) Slice() []T { return slices.Concat(r.blocks...)[:r.n] }
