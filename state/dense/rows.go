package dense

// rowsOf is how many entries of Rows lie together, and fewOf how many of the first ones: a short list
// is small, and a long one in few parts.
const (
	fewOf  = 16
	rowsOf = 4096
)

// Rows is a list that grows at its end, whose entries never move: a pointer to one stays
// good, and growing copies nothing. The zero Rows is empty and ready to use.
type Rows[T any] struct {
	few    [][]T // of the first rowsOf entries
	blocks [][]T // of the others
	n      int
}

// Len is the number of entries.
func (r *Rows[T]) Len() int { return r.n }

// At is entry i, from 0.
func (r *Rows[T]) At(i int) *T {
	if i < rowsOf {
		return &r.few[i/fewOf][i%fewOf]
	}
	return &r.blocks[i/rowsOf-1][i%rowsOf]
}

// Add puts an entry at the end, zero to begin with, and returns it.
func (r *Rows[T]) Add() *T {
	switch {
	case r.n < rowsOf && r.n%fewOf == 0:
		r.few = append(r.few, make([]T, fewOf))
	case r.n%rowsOf == 0:
		r.blocks = append(r.blocks, make([]T, rowsOf))
	}
	r.n++
	return r.At(r.n - 1)
}

// Slice is a copy of all entries.
func (r *Rows[T]) Slice() []T {
	out := make([]T, 0, r.n)
	for i := range r.n {
		out = append(out, *r.At(i))
	}
	return out
}
