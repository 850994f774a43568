package topoaware

import (
	"math"

	"github.com/norn-scheduler/norn/cluster"
	"github.com/norn-scheduler/norn/cluster/fabric"
	"github.com/norn-scheduler/norn/perf"
)

// least is the smallest cost, so that no product of costs is 0.
const least = 0.01

// Weights are what the three costs count, together 1.
type Weights struct{ Communication, Interference, Fragmentation float64 }

// Preset is a set of weights of the paper's code.
type Preset uint8

// The presets.
const (
	Neutral   Preset = iota // all alike
	Locality                // GPUs of a job close together
	Isolation               // jobs apart that slow each other down
	Spread                  // sockets in full use
)

// Weights are those of a preset.
func (p Preset) Weights() Weights {
	switch p {
	case Locality:
		return Weights{0.8, 0.1, 0.1}
	case Isolation:
		return Weights{0.1, 0.8, 0.1}
	case Spread:
		return Weights{0.1, 0.1, 0.8}
	}
	return Weights{1. / 3, 1. / 3, 1. / 3}
}

// Reading is how a slowdown becomes a cost.
type Reading uint8

// The readings.
const (
	Ratio Reading = iota // the part of the speed that is left, as the paper's code has it: any slowdown costs nearly as much as can be
	Loss                 // the part that is lost: it grows with the slowdown
)

// cost of a run time alone, over a longer one beside others.
func (r Reading) cost(ratio float64) float64 {
	if r == Ratio {
		return ratio
	}
	return 1 - ratio
}

// distances between two GPUs by how they are linked: those over NVLink and across sockets are the paper's, the
// two between them are ours.
var distances = [cluster.CrossSocket + 1]float64{cluster.NVLink: 1, cluster.PCIeSwitch: 5, cluster.Socket: 10, cluster.CrossSocket: 20}

// layout is the GPUs of a node, of which there are at most fabric.MaxDevices.
type layout struct {
	sockets []fabric.Set
	apart   []float64 // by set: the distances between each two GPUs of it, added up
	best    []float64 // by number of GPUs: the least such sum
	worst   []float64 // by number of GPUs: what the sum less the least is divided by

	found map[string]choice // on nodes that are alike
}

// newLayout is the layout of linked GPUs.
func newLayout(l *cluster.Links) *layout {
	n := l.Devices()
	out := &layout{apart: make([]float64, 1<<n), best: make([]float64, n+1), worst: make([]float64, n+1)}
	far := 0.0
	for i, socket := range l.Sockets() {
		for socket >= len(out.sockets) {
			out.sockets = append(out.sockets, 0)
		}
		out.sockets[socket] |= 1 << i
		for j := range i {
			far = max(far, distances[l.Between(i, j).Class])
		}
	}
	for k := range out.best {
		out.best[k] = math.Inf(1)
	}
	for s := fabric.Set(0); s < 1<<n; s++ {
		k := s.Len()
		if k > 0 {
			first, rest := s.Low(), s&(s-1)
			out.apart[s] = out.apart[rest]
			for ; rest != 0; rest &= rest - 1 {
				out.apart[s] += distances[l.Between(first, rest.Low()).Class]
			}
		}
		out.best[k] = min(out.best[k], out.apart[s])
		out.worst[k] = max(out.worst[k], out.apart[s])
	}
	for k := range out.worst {
		out.worst[k] = max(out.worst[k]-out.best[k], far*float64(k))
	}
	return out
}

// flatLayout is that of a node whose links are not known: all GPUs are equally near, at one socket.
func flatLayout(n int) *layout {
	l := cluster.NewLinks(n)
	for i := range n {
		for j := range i {
			l.Connect(i, j, cluster.Link{Class: cluster.NVLink})
		}
	}
	return newLayout(l)
}

// uses are the sockets of a set of GPUs, a bit each.
func (l *layout) uses(s fabric.Set) (on uint32) {
	for i, socket := range l.sockets {
		if s&socket != 0 {
			on |= 1 << i
		}
	}
	return on
}

// neighbour is a job that runs on a node.
type neighbour struct {
	sort perf.Sized
	on   uint32 // the sockets that it uses
}

// node is what a place is judged by.
type node struct {
	*layout
	free    fabric.Set // GPUs that no job has and that work
	running []neighbour
}

// judge weighs places.
type judge struct {
	weights Weights
	reading Reading
	known   *perf.Sockets // nil: nobody slows anybody down
}

// costs are what a place costs, each from least to 1.
type costs struct{ communication, suffered, caused, fragmentation float64 }

// of are the costs of a job on a set of GPUs of a node (specification, section 2.2).
func (j *judge) of(k perf.Sized, n *node, s fabric.Set) costs {
	c := costs{communication: least, suffered: least, caused: least, fragmentation: n.fragmentation(s)}
	if size := s.Len(); size > 1 && n.worst[size] > 0 {
		c.communication = max(least, (n.apart[s]-n.best[size])/n.worst[size])
	}
	if j.known != nil && len(n.running) > 0 {
		c.suffered, c.caused = j.interference(k, n, n.uses(s))
	}
	return c
}

// interference is how a job on some sockets is slowed down by those that run on the node, over all of them, and
// how it slows these down, over those that it does.
func (j *judge) interference(k perf.Sized, n *node, on uint32) (suffered, caused float64) {
	slowed := 0
	for i := range n.running {
		o := &n.running[i]
		if o.on&on == 0 {
			continue
		}
		if r := j.ratio(k, o.sort, on); r < 1 {
			suffered += j.reading.cost(r)
		}
		if r := j.ratio(o.sort, k, o.on); r < 1 {
			caused += j.reading.cost(r)
			slowed++
		}
	}
	return max(least, suffered/float64(len(n.running))), max(least, caused/float64(max(1, slowed)))
}

// ratio is the run time of a job on some sockets alone, over that beside another; 1 where nothing is known.
func (j *judge) ratio(k, other perf.Sized, on uint32) float64 {
	alone, with := j.known.Solo(k, on&(on-1) != 0), j.known.With(k, other)
	if alone == 0 || with == 0 {
		return 1
	}
	return alone / with
}

// fragmentation is the mean over the sockets of the part of their GPUs that stays free; it costs nothing where
// all is free or nothing.
func (n *node) fragmentation(s fabric.Set) float64 {
	sum := 0.0
	for _, socket := range n.sockets {
		sum += float64((n.free & socket &^ s).Len()) / float64(socket.Len())
	}
	if part := sum / float64(len(n.sockets)); part > least && part < 1 {
		return part
	}
	return least
}

// system is what a place is worth to all, 0 to 1.
func (j *judge) system(c *costs, n *node) float64 {
	interference := c.suffered
	if len(n.running) > 0 {
		interference = (c.suffered + c.caused) / 2
	}
	w := &j.weights
	sum := math.Pow(c.communication, w.Communication) + math.Pow(interference, w.Interference) + math.Pow(c.fragmentation, w.Fragmentation)
	return 3 * math.Pow(least, 1./3) / sum
}

// own is what it is worth to the job, 0 to 1: fragmentation is nothing to it.
func (j *judge) own(c *costs) float64 {
	w := &j.weights
	return 2 * math.Pow(least, 1./2) / (math.Pow(c.communication, w.Communication*3/2) + math.Pow(c.suffered, w.Interference*3/2))
}
