package memory

import (
	"slices"

	"github.com/norn-scheduler/norn/job"
)

// Click is the family of models that look one row up for each field of a click log
// and put them through dense layers: DCN, DCN-v2, wide & deep, DeepFM, DIFM, FLEN,
// DLRM. All fields share one table.
type Click struct {
	Rows, Dim int64   // of the table
	Slots     int64   // sparse fields
	Dense     int64   // dense fields
	FC        []int64 // widths of the dense layers, before the last one
	Bottom    []int64 // widths of layers for the dense fields alone (DLRM)
	Cross     int64   // cross layers (DCN)
	Matrix    bool    // of which each has a matrix (DCN-v2), not only a vector
	Wide      bool    // a linear part over all rows (wide & deep, DeepFM, FLEN)
	Attention int64   // width of attention between fields (DIFM)
	Optimizer job.Optimizer
	Sparse    bool
}

// Shape is the model as far as memory is concerned.
func (c *Click) Shape() job.Shape {
	embedded := c.Slots * c.Dim
	width := embedded + c.Dense
	s := job.Shape{
		Tables: []job.Table{{Name: "fields", Rows: c.Rows, Dim: c.Dim, Lookups: c.Slots}}, Optimizer: c.Optimizer, Sparse: c.Sparse,
		Kept: width, // put together
	}
	stack(&s, "deep", slices.Concat([]int64{width}, c.FC)...)
	last := width
	if len(c.FC) > 0 {
		last = c.FC[len(c.FC)-1]
	}
	if c.Cross > 0 {
		// Beside the dense layers, the last layer reads the width of the cross
		// layers; the authors' code writes slots x dense fields instead.
		s.Once = last + c.Slots*c.Dense
		last = s.Once
		s.Params += width
		s.Kept += c.Cross * 4 * width
	}
	if c.Matrix {
		for range c.Cross {
			stack(&s, "cross", width, width)
		}
	}
	stack(&s, "last", last, 1)
	if c.Wide {
		s.Tables = append(s.Tables, job.Table{Name: "wide", Rows: c.Rows, Dim: 1, Lookups: c.Slots})
	}
	if len(c.Bottom) > 0 {
		stack(&s, "bottom", slices.Concat([]int64{c.Dense}, c.Bottom)...)
		s.Kept += (c.Slots + 1) * (c.Slots + 1) // products between fields
	}
	if c.Attention > 0 {
		for range 4 { // query, key, value, residual
			stack(&s, "attention", c.Dim, c.Attention*c.Slots)
		}
		s.Kept += 2 * c.Slots * c.Slots
		s.Workspace = softmax
	}
	return s
}

// stack adds linear layers through the given widths to a model, if there are any.
func stack(s *job.Shape, name string, widths ...int64) {
	if len(widths) > 1 {
		s.Layers = append(s.Layers, job.Layers{Name: name, Widths: widths})
	}
}

// softmax is the workspace of the library behind softmax layers, as the authors
// measured it.
const softmax = 80 << 20

// Sequence is the family of models that read the history of a user: DIN, DIEN, BST,
// BERT4Rec, DMR, DPIN. Each step of the history is an item and a category.
type Sequence struct {
	Items, Categories int64
	Users             int64 // rows of a table of users, 0: none
	Dim               int64 // of an item and of a category
	Length            int64 // steps of the history
	Layers            int64 // attention layers or recurrent cells over the history
	Inner             int64 // width inside an attention layer, 0: none
	FC                []int64
	Optimizer         job.Optimizer
	Sparse            bool
}

// Shape is the model as far as memory is concerned.
func (q *Sequence) Shape() job.Shape {
	step := 2 * q.Dim // an item and its category
	s := job.Shape{
		Tables:    []job.Table{{Name: "items", Rows: q.Items, Dim: q.Dim, Lookups: q.Length + 1}, {Name: "categories", Rows: q.Categories, Dim: q.Dim, Lookups: q.Length + 1}},
		Optimizer: q.Optimizer, Sparse: q.Sparse,
		Kept: 4 * step * q.Length, Workspace: softmax, // history against candidate
	}
	if q.Users > 0 {
		s.Tables = append(s.Tables, job.Table{Name: "users", Rows: q.Users, Dim: q.Dim, Lookups: 1})
	}
	for range q.Layers {
		// Four maps of each step, then what lies inside.
		for range 4 {
			stack(&s, "maps", step, step)
		}
		s.Kept += q.Length * (8*step + 2*q.Length + 2*q.Inner)
		if q.Inner > 0 {
			stack(&s, "inner", step, q.Inner, step)
		}
	}
	stack(&s, "deep", slices.Concat([]int64{2 * step}, q.FC, []int64{1})...)
	return s
}
