// Package memory estimates how much GPU memory the training of a recommendation
// model takes at its peak, from the shapes of its layers.
//
// Nouns:
//   - A Shape is a model as far as memory is concerned: its embedding tables,
//     its linear layers, what else it keeps for each sample, its batch and
//     optimizer.
//   - An Estimate is the peak, part by part.
//   - A table has rows of dim numbers, and each sample looks some of them up.
//   - A family (Click, Sequence) makes Shapes from the hyperparameters in which
//     models are described.
//
// Units: bytes; numbers are 4-byte floats, ids 4-byte integers. Allocators hand out
// blocks of 2 MiB, so each part is rounded up to those; MB in the source are MiB.
//
// Source: Tian et al., "Sophisticated Orchestrating Concurrent DLRM Training on
// CPU/GPU Platform", IEEE TPDS 35(11), 2024 (RMixer), after the authors' code (MIT).
package memory

import "github.com/norn-scheduler/norn/cluster/unit"

const (
	block  = 2 * unit.MiB
	number = 4 // bytes
)

// Context is what CUDA and a framework take in each process, whatever it trains.
const Context = 735 * unit.MiB

// library is the workspace of the libraries behind linear layers.
const library = 140 * unit.MiB

// Optimizer is what updates the parameters.
type Optimizer uint8

// The optimizers.
const (
	SGD  Optimizer = iota // keeps nothing
	Adam                  // keeps two numbers for each parameter
)

// Linear is a layer from In to Out numbers, with a bias.
type Linear struct{ In, Out int64 }

// Table is an embedding table.
type Table struct {
	Rows, Dim int64
	Lookups   int64 // rows that a sample looks up
}

// Shape is a model as far as memory is concerned.
type Shape struct {
	Tables    []Table
	Linear    []Linear
	Slots     int64 // ids in a sample
	Small     int64 // other parameters
	Acts      int64 // numbers kept for each sample beside the outputs of tables and linear layers
	Fixed     int64 // numbers kept once
	Batch     int64 // samples
	Optimizer Optimizer
	Sparse    bool       // only rows that were looked up have gradients
	Workspace unit.Bytes // of further libraries, such as that for softmax
	Context   unit.Bytes // 0: Context
}

// Estimate is the peak memory of a model, part by part.
type Estimate struct {
	Input, Params, Forward, Backward, Optimizer, Context unit.Bytes

	Gradient unit.Bytes // a dense copy of the gradients of all tables, not rounded
}

// Total is the peak.
func (e Estimate) Total() unit.Bytes {
	return e.Input + e.Params + e.Forward + e.Backward + e.Optimizer + e.Context + e.Gradient
}

// Estimate is the peak memory of a model. The terms are those of the authors, and
// so is counting the outputs of linear layers eight times over (their forward and
// backward copy, each times the size of a number, which is multiplied in again).
func (s *Shape) Estimate() Estimate {
	var tables, looked, widths, outputs, weights int64
	for _, t := range s.Tables {
		tables += t.Rows * t.Dim
		looked += t.Lookups * t.Dim
		widths += t.Dim * t.Dim
	}
	for _, l := range s.Linear {
		outputs += l.Out
		weights += l.In * l.Out
	}
	e := Estimate{
		Input:    blocks(number * s.Batch * s.Slots),
		Params:   blocks(number * (tables + s.Small + weights + outputs)),
		Forward:  number * unit.Bytes(s.Batch*(2*number*outputs+2*looked+s.Acts)+s.Fixed),
		Backward: blocks(number * (2*widths*s.Batch + weights)),
		Context:  s.Context,
	}
	if len(s.Linear) > 0 {
		e.Forward += library
	}
	e.Forward = blocks(int64(e.Forward + s.Workspace))
	if s.Optimizer == Adam {
		e.Optimizer = 2 * e.Params
	}
	if e.Context == 0 {
		e.Context = Context
	}
	if !s.Sparse {
		e.Gradient = number * unit.Bytes(tables)
	}
	return e
}

// blocks rounds bytes up to whole blocks.
func blocks(bytes int64) unit.Bytes { return (unit.Bytes(bytes) + block - 1) / block * block }

// chain appends the layers through the given widths.
func chain(out []Linear, widths ...int64) []Linear {
	for i := range widths[:max(0, len(widths)-1)] {
		out = append(out, Linear{widths[i], widths[i+1]})
	}
	return out
}
