package perf

import (
	"fmt"
	"math"
	"strconv"
	"strings"

	"github.com/norn-scheduler/norn/cluster/unit"
	"github.com/norn-scheduler/norn/job"
)

// Peak is the GPU memory that training a model takes at its peak, part by part. The
// formulas are those of the authors of RMixer (Tian et al., IEEE TPDS 35(11), 2024).
type Peak struct {
	Input, Params, Forward, Backward, Optimizer, Context unit.Bytes

	Gradient unit.Bytes // a dense copy of the gradients of all tables, not rounded
}

// Total is the peak.
func (p Peak) Total() unit.Bytes {
	return p.Input + p.Params + p.Forward + p.Backward + p.Optimizer + p.Context + p.Gradient
}

const (
	number = 4            // bytes of a float, and of an id
	block  = 2 * unit.MiB // that allocators hand out; each part is rounded up to these

	// Context is what CUDA and a framework take in each process, whatever it trains.
	Context = 735 * unit.MiB

	// library is the workspace of the libraries behind linear layers.
	library = 140 * unit.MiB

	mostPeak = 1 << 55 // of one part, in bytes
)

// PeakOf is the peak memory of a model with batches of so many samples. The context is
// that of the shape, else the given one, else Context.
//
// The terms are those of the authors, and so is counting the outputs of linear layers
// eight times over (their forward and backward copy, each times the size of a number,
// which is multiplied in again).
func PeakOf(s *job.Shape, batch int64, context unit.Bytes) Peak {
	n := sizesOf(s)
	b := float64(batch)
	p := Peak{
		Input:    blocks(number * b * n.lookups),
		Params:   blocks(number * (n.tables + float64(s.Params) + n.weights + n.outputs)),
		Backward: blocks(number * (2*n.squares*b + n.weights)),
		Context:  s.Context,
	}
	forward := number * (b*(2*number*n.outputs+2*n.looked+float64(s.Kept)) + float64(s.Once))
	if len(s.Layers) > 0 {
		forward += float64(library)
	}
	p.Forward = blocks(forward + float64(s.Workspace))
	p.Optimizer = unit.Bytes(s.Optimizer.States()) * p.Params
	if p.Context == 0 {
		p.Context = context
	}
	if p.Context == 0 {
		p.Context = Context
	}
	if !s.Sparse {
		p.Gradient = unit.Bytes(min(mostPeak, number*n.tables))
	}
	return p
}

// blocks rounds bytes up to whole blocks.
func blocks(bytes float64) unit.Bytes {
	return (unit.Bytes(min(mostPeak, bytes)) + block - 1) / block * block
}

// sizes are numbers of numbers in a model.
type sizes struct {
	tables, squares float64 // in all tables; the sum of the squares of their widths
	lookups, looked float64 // ids of a sample, and the numbers that it looks up
	weights         float64 // of linear layers, without biases
	outputs         float64 // of linear layers, which is how many biases they have
}

func sizesOf(s *job.Shape) (n sizes) {
	for _, t := range s.Tables {
		rows, dim, lookups := float64(t.Rows), float64(t.Dim), float64(t.Lookups)
		n.tables += rows * dim
		n.squares += dim * dim
		n.lookups += lookups
		n.looked += lookups * dim
	}
	for _, l := range s.Layers {
		for i, out := range l.Widths[1:] {
			n.outputs += float64(out)
			n.weights += float64(l.Widths[i]) * float64(out)
		}
	}
	return n
}

// MemoryOf is the memory, in bytes, that a job takes on each of its GPUs, as far as is
// known before it runs. That is its demand, else its hints, else the estimate from the
// shapes of its layers; 0 is not known.
func MemoryOf(j *job.Job) unit.Bytes {
	switch {
	case j.Demand != nil && j.Demand.Roles[0].GPUMemory > 0:
		return j.Demand.Roles[0].GPUMemory
	case j.Hints == nil:
		return 0
	case j.Hints.GPUMemory > 0 || j.Hints.Shape == nil:
		return j.Hints.GPUMemory
	}
	return PeakOf(j.Hints.Shape, batchOf(j), 0).Total()
}

// batchOf is the samples of a batch that each task of a job has.
func batchOf(j *job.Job) int64 {
	tasks := int64(1)
	if j.Demand != nil {
		tasks = max(1, int64(j.Demand.Roles[0].Tasks))
	}
	return (int64(j.Batch) + tasks - 1) / tasks
}

// MemoryText says how much memory a job takes on each of its GPUs, as MemoryOf has it,
// and where that figure comes from; empty where nothing is known.
func MemoryText(j *job.Job) string {
	m := MemoryOf(j)
	switch {
	case m == 0:
		return ""
	case j.Demand != nil && j.Demand.Roles[0].GPUMemory > 0:
		return fmt.Sprintf("takes %v of the memory of each GPU, as it asks for", m)
	case j.Hints.GPUMemory > 0:
		return fmt.Sprintf("takes %v of the memory of each GPU, as its hints tell", m)
	}
	p := PeakOf(j.Hints.Shape, batchOf(j), 0)
	text := fmt.Sprintf("takes %s of the memory of each GPU, estimated from the shapes of its layers with %s a batch:", mebibytes(m), unit.Count(int(batchOf(j)), "sample"))
	for _, part := range []struct {
		bytes unit.Bytes
		of    string
	}{{p.Params, "parameters"}, {p.Optimizer, "optimizer state"}, {p.Forward, "activations"}, {p.Backward, "gradients"}, {p.Gradient, "dense gradients of tables"}, {p.Input, "input"}, {p.Context, "CUDA and framework"}} {
		if part.bytes > 0 {
			text += " " + mebibytes(part.bytes) + " of " + part.of + ","
		}
	}
	return strings.TrimSuffix(text, ",")
}

// mebibytes writes an amount of memory for a reader: 1041.33 MiB.
func mebibytes(b unit.Bytes) string {
	return strconv.FormatFloat(math.Round(100*float64(b)/float64(unit.MiB))/100, 'f', -1, 64) + " MiB"
}
