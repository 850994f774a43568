package parallel

import (
	"cmp"
	"math"
	"slices"
)

// Shape is what the time of an operator depends on.
type Shape struct {
	Hidden, Sequence, Tensor, MicroBatch int
}

// Operators is the seconds of the operators of a shape on one GPU. A backward pass takes
// twice a forward one.
type Operators struct {
	Layer  float64 // forward pass of one layer, without exchanges
	Embed  float64 // both passes of the table of tokens
	Head   float64 // both passes of logit and loss
	Update float64 // of the parameters of one layer
	Ends   float64 // of the parameters of table and head together
}

// Timed is operators that were timed.
type Timed struct {
	Shape
	Operators
}

// Rates tell the operators of shapes that were not timed: a roofline.
type Rates struct {
	Launch    float64 // seconds that the launches of the kernels of a layer take, below which it cannot be
	Math      float64 // FLOP/s of matrices
	Attention float64 // bytes/s over the scores of attention, which are heads x sequence^2
	Wide      float64 // bytes/s over activations of a layer, some of which are split over tensor ranks
	Logit     float64 // bytes/s over the logits
	Table     float64 // bytes/s over looked-up rows
	Update    float64 // parameters/s
}

// Point is a size and the seconds that an all-reduce of it took.
type Point struct{ Bytes, Seconds float64 }

// Network is what GPUs exchange data by.
type Network struct {
	NodeGPUs int             // in a node
	Inside   float64         // bytes/s of a GPU within a node
	Between  float64         // bytes/s of a node to others
	Sharing  float64         // factor of all-reduces between nodes, for what they share links with (alpha); 0: 1
	Measured map[int][]Point // all-reduces within a node by number of GPUs, sizes ascending
}

// Profile is what is known of a GPU type.
type Profile struct {
	GPU     string
	Peak    float64 // FLOP/s, for the utilisation
	Memory  float64 // bytes
	Timed   []Timed
	Rates   Rates
	Network Network
}

// Estimate is an iteration, in seconds and bytes.
type Estimate struct {
	Iteration   float64
	Pipeline    float64 // until the last backward pass ends
	Gradients   float64 // the slowest exchange of gradients
	Update      float64 // the slowest update of parameters
	Tensor      float64 // exchanges between tensor ranks, in the passes of the busiest rank
	Bubble      float64 // part of the pipeline's time in which ranks wait, 0 to 1
	Memory      float64 // of the GPU that needs most
	Fits        bool    // in the memory of the GPU; true where that is not known
	Utilisation float64 // FLOPs of the model over what the GPUs could do, 0 to 1
}

// AllReduce is the seconds that ranks need to sum up so many bytes within a node: as
// measured, on the line between measured sizes, and at the rate of the largest beyond.
func (n *Network) AllReduce(bytes float64, ranks int) float64 {
	points := n.Measured[ranks]
	if ranks < 2 {
		return 0
	}
	if len(points) == 0 {
		return bytes / n.Inside * ring(ranks)
	}
	last := points[len(points)-1]
	at, found := slices.BinarySearchFunc(points, bytes, func(p Point, b float64) int { return cmp.Compare(p.Bytes, b) })
	switch {
	case found:
		return points[at].Seconds
	case at == 0: // as good as all latency
		return points[0].Seconds
	case at == len(points):
		return last.Seconds * bytes / last.Bytes
	}
	a, b := points[at-1], points[at]
	return a.Seconds + (b.Seconds-a.Seconds)*(bytes-a.Bytes)/(b.Bytes-a.Bytes)
}

// ring is how many times its bytes each rank sends in an all-reduce.
func ring(ranks int) float64 { return 2 * float64(ranks-1) / float64(ranks) }

// tensor is the all-reduce of the activations of a micro-batch.
func (n *Network) tensor(bytes float64, ranks int) float64 {
	if ranks > n.NodeGPUs {
		return bytes / n.Between * ring(ranks)
	}
	return n.AllReduce(bytes, ranks)
}

// gradients is the all-reduce of so many bytes between data-parallel ranks, which are in
// one node as long as tensor x data ranks are.
func (n *Network) gradients(bytes float64, p Plan) float64 {
	switch {
	case p.Data < 2:
		return 0
	case p.Tensor*p.Data <= n.NodeGPUs:
		return n.AllReduce(bytes, p.Data)
	}
	return bytes / n.Between * ring(p.Data) * cmp.Or(n.Sharing, 1)
}

// send is one way between two pipeline ranks: twice the activations over a quarter of the
// node's link.
func (n *Network) send(activations float64) float64 { return 2 * activations / (n.Between / 4) }

// Operators is those that were timed with the shape, else those that the rates tell.
func (p *Profile) Operators(m Model, plan Plan) Operators {
	shape := Shape{m.Hidden, m.Sequence, plan.Tensor, plan.MicroBatch}
	for i := range p.Timed {
		if p.Timed[i].Shape == shape {
			return p.Timed[i].Operators
		}
	}
	return p.Rates.operators(m, shape)
}

// operators is what the rates tell. Attention goes over heads x sequence^2 scores.
func (r Rates) operators(m Model, s Shape) Operators {
	b, t, h, n := float64(s.MicroBatch), float64(s.Tensor), float64(s.Hidden), float64(s.Sequence)
	v := float64(m.Vocabulary)
	scores := half * b * float64(m.Heads) * n * n / t
	tokens, positions := m.ofTokens()
	return Operators{
		Layer:  max(r.Launch, m.forward(s.MicroBatch)/t/r.Math+scores/r.Attention+half*b*n*h*(1+1/t)/r.Wide),
		Embed:  half * b * n * h / r.Table,
		Head:   3*2*b*n*h*v/t/r.Math + half*b*n*v/t/r.Logit,
		Update: m.ofLayer() / t / r.Update,
		Ends:   (2*tokens + positions) / t / r.Update,
	}
}

// stages is what the ranks of a plan do for a micro-batch, and what of it is exchanges.
func (p *Profile) stages(m Model, plan Plan, op Operators) (stages []Stage, exchange float64) {
	activations := half * float64(plan.MicroBatch) * float64(m.Sequence) * float64(m.Hidden)
	layers := float64(m.Layers / plan.Pipeline)
	exchange = 2 * layers * p.Network.tensor(activations, plan.Tensor)
	stages = make([]Stage, plan.Pipeline)
	for r := range stages {
		s := Stage{Forward: layers*op.Layer + exchange, Backward: 2*layers*op.Layer + exchange}
		if plan.Recompute && r < plan.Pipeline-1 {
			s.Again = s.Forward
		}
		if r == 0 {
			s.Forward += op.Embed / 3
			s.Backward += op.Embed * 2 / 3
		}
		if r == plan.Pipeline-1 {
			s.Forward += op.Head / 3
			s.Backward += op.Head * 2 / 3
		}
		stages[r] = s
	}
	return stages, exchange
}

// Estimate simulates an iteration of the model under the plan. An error says why there is
// no such plan.
func (p *Profile) Estimate(m Model, plan Plan) (Estimate, error) {
	if err := plan.Check(m); err != nil {
		return Estimate{}, err
	}
	return p.estimate(m, plan, p.Operators(m, plan)), nil
}

func (p *Profile) estimate(m Model, plan Plan, op Operators) Estimate {
	stages, exchange := p.stages(m, plan, op)
	activations := half * float64(plan.MicroBatch) * float64(m.Sequence) * float64(m.Hidden)
	g := Pipeline{Stages: stages, MicroBatches: plan.MicroBatches(), Send: p.Network.send(activations), Schedule: plan.Schedule}
	ends, busy := g.Ends()
	e := Estimate{Pipeline: slices.Max(ends), Fits: true}
	worked := 0.0
	for r := range ends {
		worked += busy[r]
		share := p.Network.gradients(half*plan.held(m, r), plan)
		if plan.Overlap { // all but the last layer's go while the last backward pass computes
			share = max(share/float64(m.Layers/plan.Pipeline), share-stages[r].Backward)
		}
		update := float64(m.Layers/plan.Pipeline) * op.Update
		if r == 0 {
			update += op.Ends / 2
		}
		if r == plan.Pipeline-1 {
			update += op.Ends / 2
		}
		e.Gradients, e.Update = max(e.Gradients, share), max(e.Update, update)
		e.Iteration = max(e.Iteration, e.Pipeline+share+update)
		e.Memory = max(e.Memory, plan.Memory(m, r))
	}
	passes := 2.0
	if plan.Recompute && plan.Pipeline > 1 {
		passes++
	}
	e.Tensor = passes * exchange * float64(plan.MicroBatches())
	e.Bubble = 1 - worked/(e.Pipeline*float64(len(ends)))
	e.Utilisation = plan.FLOPs(m) / (e.Iteration * p.Peak * float64(plan.GPUs()))
	if p.Peak == 0 || math.IsInf(e.Utilisation, 0) {
		e.Utilisation = 0
	}
	if p.Memory > 0 {
		e.Fits = e.Memory <= p.Memory
	}
	return e
}
