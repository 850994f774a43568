package memory

import "slices"

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
	Batch     int64
	Optimizer Optimizer
	Sparse    bool
}

// Shape is the model as far as memory is concerned.
func (c *Click) Shape() Shape {
	embedded := c.Slots * c.Dim
	width := embedded + c.Dense
	s := Shape{
		Tables: []Table{{c.Rows, c.Dim, c.Slots}}, Slots: c.Slots, Batch: c.Batch, Optimizer: c.Optimizer, Sparse: c.Sparse,
		Acts: width, // put together
	}
	s.Linear = chain(nil, slices.Concat([]int64{width}, c.FC)...)
	last := width
	if len(c.FC) > 0 {
		last = c.FC[len(c.FC)-1]
	}
	if c.Cross > 0 {
		// Beside the dense layers, the last layer reads the width of the cross
		// layers; the authors' code writes slots x dense fields instead.
		s.Fixed = last + c.Slots*c.Dense
		last = s.Fixed
		s.Small += width
		s.Acts += c.Cross * 4 * width
	}
	if c.Matrix {
		for range c.Cross {
			s.Linear = append(s.Linear, Linear{width, width})
		}
	}
	s.Linear = append(s.Linear, Linear{last, 1})
	if c.Wide {
		s.Tables = append(s.Tables, Table{c.Rows, 1, c.Slots})
	}
	if len(c.Bottom) > 0 {
		s.Linear = chain(s.Linear, slices.Concat([]int64{c.Dense}, c.Bottom)...)
		s.Acts += (c.Slots + 1) * (c.Slots + 1) // products between fields
	}
	if c.Attention > 0 {
		for range 4 { // query, key, value, residual
			s.Linear = append(s.Linear, Linear{c.Dim, c.Attention * c.Slots})
		}
		s.Acts += 2 * c.Slots * c.Slots
		s.Workspace = softmax
	}
	return s
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
	Batch             int64
	Optimizer         Optimizer
	Sparse            bool
}

// Shape is the model as far as memory is concerned.
func (q *Sequence) Shape() Shape {
	step := 2 * q.Dim // an item and its category
	s := Shape{
		Tables: []Table{{q.Items, q.Dim, q.Length + 1}, {q.Categories, q.Dim, q.Length + 1}},
		Slots:  2 * (q.Length + 1), Batch: q.Batch, Optimizer: q.Optimizer, Sparse: q.Sparse,
		Acts: 4 * step * q.Length, Workspace: softmax, // history against candidate
	}
	if q.Users > 0 {
		s.Tables = append(s.Tables, Table{q.Users, q.Dim, 1})
		s.Slots++
	}
	for range q.Layers {
		// Four maps of each step, then what lies inside.
		for range 4 {
			s.Linear = append(s.Linear, Linear{step, step})
		}
		s.Acts += q.Length * (8*step + 2*q.Length + 2*q.Inner)
		if q.Inner > 0 {
			s.Linear = chain(s.Linear, step, q.Inner, step)
		}
	}
	s.Linear = chain(s.Linear, slices.Concat([]int64{2 * step}, q.FC, []int64{1})...)
	return s
}
