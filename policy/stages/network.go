package stages

import (
	"fmt"
	"math"
	"math/rand/v2"
)

// slope is that of the leaky ReLU below 0.
const slope = 0.2

// layers is a perceptron whose weights lie in a common vector. Each layer has its matrix by rows of outputs, and then
// its biases.
type layers struct {
	sizes  []int // of the input, hidden layers, and output
	at     int   // of its weights in the vector
	linear bool  // the last layer has no ReLU
	acts   int   // values that forward keeps
}

func (l *layers) weights() int {
	n := 0
	for i := 1; i < len(l.sizes); i++ {
		n += l.sizes[i] * (l.sizes[i-1] + 1)
	}
	return n
}

// forward computes all layers into acts, which has room for l.acts values; the output are the last of them.
func (l *layers) forward(w, in, acts []float64) []float64 {
	at, out := l.at, acts
	for k := 1; k < len(l.sizes); k++ {
		n, m := l.sizes[k-1], l.sizes[k]
		out = acts[:m]
		acts = acts[m:]
		bias := w[at+n*m : at+n*m+m]
		for o := range out {
			row := w[at+o*n : at+o*n+n]
			x, sum, odd, i := in[:len(row)], bias[o], 0.0, 0
			for ; i+3 < len(row); i += 4 { // two sums side by side are twice as fast
				sum += row[i]*x[i] + row[i+1]*x[i+1]
				odd += row[i+2]*x[i+2] + row[i+3]*x[i+3]
			}
			for ; i < len(row); i++ {
				sum += row[i] * x[i]
			}
			sum += odd
			if sum < 0 && (!l.linear || k < len(l.sizes)-1) {
				sum *= slope
			}
			out[o] = sum
		}
		in = out
		at += n*m + m
	}
	return out
}

// backward adds the gradient of the weights to g, and that of the input to din, which may be nil. in and acts are
// those of forward, and dout is the gradient of the output.
func (l *layers) backward(w, g, in, acts, dout, din []float64) {
	var room [64]float64
	down := room[:]
	at, end := l.at+l.weights(), l.acts
	d := append(make([]float64, 0, 64), dout...)
	for k := len(l.sizes) - 1; k > 0; k-- {
		n, m := l.sizes[k-1], l.sizes[k]
		at -= n*m + m
		out := acts[end-m : end]
		end -= m
		below, to := in, din
		if k > 1 {
			below, to = acts[end-n:end], down[:n]
			clear(to)
		}
		for o := range m {
			e := d[o]
			if out[o] < 0 && (!l.linear || k < len(l.sizes)-1) {
				e *= slope
			}
			if e == 0 {
				continue
			}
			row, grow := w[at+o*n:at+o*n+n], g[at+o*n:at+o*n+n]
			g[at+n*m+o] += e
			if to == nil {
				for i, x := range below[:len(grow)] {
					grow[i] += e * x
				}
				continue
			}
			x, to := below[:len(grow)], to[:len(grow)]
			row = row[:len(grow)]
			for i := range grow {
				grow[i] += e * x[i]
				to[i] += e * row[i]
			}
		}
		if k > 1 {
			d = append(d[:0], to...)
		}
	}
}

// The sizes of the network.
const (
	nodeIn = 3 // features of a stage
	jobIn  = 3 // features of a job
	width  = 8 // of every embedding
)

// network is where the weights of each part are.
type network struct {
	prep, message, update  layers // of stages
	stageToJob, jobOut     layers
	jobToAll, allOut       layers
	stageScore, limitScore layers
	size                   int // of the vector
}

// theNetwork is the network of the paper: hidden layers of 16 and 8, and of 32, 16 and 8 before the scores.
func theNetwork() *network {
	n := new(network)
	add := func(l *layers, linear bool, sizes ...int) {
		*l = layers{sizes: sizes, at: n.size, linear: linear}
		for _, s := range sizes[1:] {
			l.acts += s
		}
		n.size += l.weights()
	}
	add(&n.prep, false, nodeIn, 16, 8, width)
	add(&n.message, false, width, 16, 8, width)
	add(&n.update, false, width, 16, 8, width)
	add(&n.stageToJob, false, nodeIn+width, 16, 8, width)
	add(&n.jobOut, false, width, 16, 8, width)
	add(&n.jobToAll, false, width, 16, 8, width)
	add(&n.allOut, false, width, 16, 8, width)
	add(&n.stageScore, true, nodeIn+jobIn+3*width, 32, 16, 8, 1)
	add(&n.limitScore, true, 2*width+jobIn+1, 32, 16, 8, 1)
	return n
}

// Weights is a network with its weights.
type Weights struct {
	net    *network
	Values []float64
}

// NewWeights is the network with these weights. It fails on a wrong number of them, and on one that is not finite.
func NewWeights(values []float64) (*Weights, error) {
	w := &Weights{net: theNetwork(), Values: values}
	if len(values) != w.net.size {
		return nil, fmt.Errorf("%d weights, and the network has %d", len(values), w.net.size)
	}
	for i, v := range values {
		if math.IsNaN(v) || math.IsInf(v, 0) {
			return nil, fmt.Errorf("weight %d is %g", i, v)
		}
	}
	return w, nil
}

// Draw is a network with weights drawn at random, as Glorot and Bengio have it.
func Draw(rng *rand.Rand) *Weights {
	w := &Weights{net: theNetwork()}
	w.Values = make([]float64, w.net.size)
	for _, l := range w.net.all() {
		at := l.at
		for k := 1; k < len(l.sizes); k++ {
			n, m := l.sizes[k-1], l.sizes[k]
			bound := math.Sqrt(6 / float64(n+m))
			for i := range n * m {
				w.Values[at+i] = bound * (2*rng.Float64() - 1)
			}
			at += n*m + m
		}
	}
	return w
}

func (n *network) all() []*layers {
	return []*layers{&n.prep, &n.message, &n.update, &n.stageToJob, &n.jobOut, &n.jobToAll, &n.allOut, &n.stageScore, &n.limitScore}
}

// embedding is what the network makes of one version of a job. It stays the same until the job changes, so gradients of
// many decisions are gathered in it before they go down once.
type embedding struct {
	version int
	of      *Weights
	nodes   []node // those with tasks to launch, children before parents
	index   []int  // of stages in nodes; -1: none
	sum     [width]float64
	job     []float64 // acts of jobOut
	all     []float64 // acts of jobToAll

	dJob, dAll [width]float64 // gradients of the outputs
	touched    bool
}

// node is a stage of an embedding.
type node struct {
	stage    int
	in       [nodeIn]float64
	prep     []float64
	gathered [width]float64 // messages of the children
	children []int          // in nodes
	update   []float64      // acts; nil without children
	x        [width]float64 // what comes of it
	message  []float64
	pair     [nodeIn + width]float64 // in and x
	toJob    []float64
	dx       [width]float64
}

// embed is the embedding of a job as it is now.
func (w *Weights) embed(a *Active) *embedding {
	if a.embed != nil && a.embed.version == a.Version && a.embed.of == w {
		return a.embed
	}
	n, v := w.net, w.Values
	e := &embedding{version: a.Version, of: w, index: make([]int, len(a.Stages)), job: make([]float64, n.jobOut.acts), all: make([]float64, n.jobToAll.acts)}
	e.nodes = make([]node, 0, len(a.Stages))
	for i := range e.index {
		e.index[i] = -1
	}
	for _, i := range a.order {
		if a.Progress[i].Left == 0 {
			continue
		}
		e.nodes = append(e.nodes, node{stage: i})
		e.index[i] = len(e.nodes) - 1
		d := &e.nodes[len(e.nodes)-1]
		d.in = [nodeIn]float64{float64(a.Held) / 20, a.left(i) / 100, float64(a.Progress[i].Left) / 200}
		acts := make([]float64, n.prep.acts+n.update.acts+n.message.acts+n.stageToJob.acts)
		take := func(k int) []float64 { out := acts[:k]; acts = acts[k:]; return out }
		d.prep = take(n.prep.acts)
		d.x = [width]float64(n.prep.forward(v, d.in[:], d.prep))
		for _, c := range a.below[i] {
			if k := e.index[c]; k >= 0 {
				d.children = append(d.children, k)
				m := e.nodes[k].message
				for q, y := range m[len(m)-width:] {
					d.gathered[q] += y
				}
			}
		}
		if len(d.children) > 0 {
			d.update = take(n.update.acts)
			for q, y := range n.update.forward(v, d.gathered[:], d.update) {
				d.x[q] += y
			}
		}
		d.message = take(n.message.acts)
		if len(a.Stages[i].Parents) > 0 {
			n.message.forward(v, d.x[:], d.message)
		}
		copy(d.pair[:], d.in[:])
		copy(d.pair[nodeIn:], d.x[:])
		d.toJob = take(n.stageToJob.acts)
		for q, y := range n.stageToJob.forward(v, d.pair[:], d.toJob) {
			e.sum[q] += y
		}
	}
	n.jobToAll.forward(v, n.jobOut.forward(v, e.sum[:], e.job), e.all)
	a.embed = e
	return e
}

func (e *embedding) y() []float64 { return e.job[len(e.job)-width:] }

// flush sends the gradients that were gathered in an embedding down into g.
func (e *embedding) flush(g []float64) {
	if !e.touched {
		return
	}
	n, v := e.of.net, e.of.Values
	var dSum [width]float64
	n.jobToAll.backward(v, g, e.y(), e.all, e.dAll[:], e.dJob[:])
	n.jobOut.backward(v, g, e.sum[:], e.job, e.dJob[:], dSum[:])
	for k := len(e.nodes) - 1; k >= 0; k-- { // parents before children
		d := &e.nodes[k]
		var dPair [nodeIn + width]float64
		n.stageToJob.backward(v, g, d.pair[:], d.toJob, dSum[:], dPair[:])
		for q, y := range dPair[nodeIn:] {
			d.dx[q] += y
		}
		n.prep.backward(v, g, d.in[:], d.prep, d.dx[:], nil)
		if d.update == nil {
			continue
		}
		var dGathered [width]float64
		n.update.backward(v, g, d.gathered[:], d.update, d.dx[:], dGathered[:])
		for _, c := range d.children {
			child := &e.nodes[c]
			n.message.backward(v, g, child.x[:], child.message, dGathered[:], child.dx[:])
		}
	}
	e.touched, e.dJob, e.dAll = false, [width]float64{}, [width]float64{}
	for k := range e.nodes {
		e.nodes[k].dx = [width]float64{}
	}
}
