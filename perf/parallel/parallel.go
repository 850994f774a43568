// Package parallel tells how long an iteration of a large language model takes under a
// parallel plan, and which plan is best. It follows vTrain (Bang et al., MICRO 2024): the
// operators of one layer are timed once, a graph of the whole iteration is laid out, and
// the graph is simulated.
//
// Nouns:
//   - A Model is a transformer: layers, width, heads, sequence, vocabulary.
//   - A Plan splits a global batch of it over GPUs: tensor x data x pipeline ranks, and
//     micro-batches that go through the pipeline one after the other.
//   - A Stage is what one pipeline rank computes for one micro-batch.
//   - A Profile is what is known of a GPU type: operators that were timed, rates for
//     those that were not, and the network.
//   - An Estimate is what the simulation of an iteration says.
//
// Times are seconds, sizes bytes, rates FLOP/s or bytes/s, batches sequences.
package parallel

import "fmt"

// Model is a transformer as GPT has it: each layer is an attention and a perceptron four
// times as wide as the layer.
type Model struct {
	Layers     int
	Hidden     int // width of a layer
	Heads      int
	Sequence   int // tokens
	Vocabulary int // tokens that are told apart
}

// Schedule is the order in which a pipeline rank does its work.
type Schedule uint8

const (
	OneForwardOneBackward Schedule = iota // at most as many micro-batches in flight as there are ranks after this one
	AllForward                            // all forward passes, then all backward ones, as in GPipe
)

// Plan is how a model is trained. The GPUs are Tensor x Data x Pipeline.
type Plan struct {
	Tensor, Data, Pipeline int

	GlobalBatch, MicroBatch int // sequences

	Recompute bool // activations are computed a second time before the backward pass
	Overlap   bool // gradients of a layer are exchanged while those of others are computed
	Schedule  Schedule
}

// GPUs is how many the plan needs.
func (p Plan) GPUs() int { return p.Tensor * p.Data * p.Pipeline }

// MicroBatches is how many go through each pipeline.
func (p Plan) MicroBatches() int { return p.GlobalBatch / (p.Data * p.MicroBatch) }

// most bounds every size of a model or plan, so that no product overflows.
const most = 1 << 20

// Check says why there is no such model, or nil.
func (m Model) Check() error {
	for _, n := range []struct {
		name  string
		value int
	}{{"layers", m.Layers}, {"hidden", m.Hidden}, {"heads", m.Heads}, {"sequence", m.Sequence}, {"vocabulary", m.Vocabulary}} {
		if n.value < 1 || n.value > most {
			return fmt.Errorf("%s is %d: write a number from 1 to %d", n.name, n.value, most)
		}
	}
	if m.Hidden%m.Heads != 0 {
		return fmt.Errorf("a width of %d is not divisible by %d heads", m.Hidden, m.Heads)
	}
	return nil
}

// Check says why the model cannot be trained by the plan, or nil.
func (p Plan) Check(m Model) error {
	if err := m.Check(); err != nil {
		return err
	}
	for _, n := range []struct {
		name  string
		value int
	}{{"tensor", p.Tensor}, {"data", p.Data}, {"pipeline", p.Pipeline}, {"global batch", p.GlobalBatch}, {"micro-batch", p.MicroBatch}} {
		if n.value < 1 || n.value > most {
			return fmt.Errorf("%s is %d: write a number from 1 to %d", n.name, n.value, most)
		}
	}
	switch {
	case p.GlobalBatch%p.Data != 0:
		return fmt.Errorf("a global batch of %d is not divisible by %d data-parallel ranks", p.GlobalBatch, p.Data)
	case p.GlobalBatch/p.Data%p.MicroBatch != 0:
		return fmt.Errorf("the %d sequences of a data-parallel rank are not divisible by a micro-batch of %d", p.GlobalBatch/p.Data, p.MicroBatch)
	case m.Layers%p.Pipeline != 0:
		return fmt.Errorf("%d layers are not divisible by %d pipeline ranks", m.Layers, p.Pipeline)
	case m.Heads%p.Tensor != 0:
		return fmt.Errorf("%d heads are not divisible by %d tensor-parallel ranks", m.Heads, p.Tensor)
	}
	return nil
}

// ofLayer is the parameters of a layer: 12 h^2 of matrices, 13 h of biases and norms.
func (m Model) ofLayer() float64 {
	h := float64(m.Hidden)
	return 12*h*h + 13*h
}

// ofTokens is the parameters of the table of tokens, which the head has as well, and of
// positions.
func (m Model) ofTokens() (tokens, positions float64) {
	return float64(m.Vocabulary) * float64(m.Hidden), float64(m.Sequence) * float64(m.Hidden)
}

// Parameters is how many numbers the model learns. The head shares the table of tokens.
func (m Model) Parameters() float64 {
	tokens, positions := m.ofTokens()
	return float64(m.Layers)*m.ofLayer() + tokens + positions
}

// held is the parameters that each GPU of a pipeline rank holds. The last rank has a copy
// of the table of tokens.
func (p Plan) held(m Model, rank int) float64 {
	tokens, positions := m.ofTokens()
	n := float64(m.Layers/p.Pipeline) * m.ofLayer()
	if rank == 0 {
		n += tokens + positions
	}
	if rank == p.Pipeline-1 {
		n += tokens
	}
	return n / float64(p.Tensor)
}

// FLOPs is the arithmetic that an iteration needs, without what is computed twice.
func (p Plan) FLOPs(m Model) float64 {
	tokens := float64(p.GlobalBatch) * float64(m.Sequence)
	return 3 * tokens * (float64(m.Layers)*m.forward(1)/float64(m.Sequence) + 2*float64(m.Hidden)*float64(m.Vocabulary))
}

// forward is the FLOPs of the forward pass of a layer for so many sequences.
func (m Model) forward(sequences int) float64 {
	h, s := float64(m.Hidden), float64(m.Sequence)
	return 2 * float64(sequences) * s * (12*h*h + 2*s*h)
}

const (
	half      = 2  // bytes of a number in training
	optimizer = 12 // bytes that Adam keeps of each parameter: a copy and two moments, of four each
)

// Memory is what a GPU of a pipeline rank needs, at the peak, in bytes: parameters,
// gradients, optimizer and the activations of the micro-batches in flight. Activations are
// those of Korthikanti et al. (Reducing Activation Recomputation, 2022); with
// recomputation only the inputs of layers are kept, and one layer is computed in full.
func (p Plan) Memory(m Model, rank int) float64 {
	s, h, a, b, t := float64(m.Sequence), float64(m.Hidden), float64(m.Heads), float64(p.MicroBatch), float64(p.Tensor)
	layer := s * b * h * (10 + 24/t + 5*a*s/(h*t))
	layers := float64(m.Layers / p.Pipeline)
	inFlight := float64(min(p.Pipeline-rank, p.MicroBatches()))
	if p.Schedule == AllForward {
		inFlight = float64(p.MicroBatches())
	}
	kept := inFlight * layers * layer
	if p.Recompute {
		kept = inFlight*layers*half*s*b*h + layer
	}
	if rank == p.Pipeline-1 {
		kept += 4 * s * b * float64(m.Vocabulary) / t // of the head, in single precision
	}
	return p.held(m, rank)*(half+half+optimizer) + kept
}
