package perf

import (
	"iter"
	"math"

	"github.com/norn-scheduler/norn/cluster"
	"github.com/norn-scheduler/norn/job"
)

// StepTime is the time of a step of synchronous data-parallel training, as
// Pollux models it. A step has a forward and backward pass over the examples of
// one GPU, and the exchange of gradients, which overlap in part. Times are
// seconds.
//
// Source: Qiao et al., "Pollux", OSDI 2021, section 3.2.
type StepTime struct {
	Grad, GradEach   float64 // of a pass: constant, and for each example
	Node, NodeEach   float64 // of the exchange between nodes: of 2 replicas, and for each one more
	Local, LocalEach float64 // the same within a node
	Overlap          float64 // 1: none, one after the other; 10: as good as full
}

// alone is the exchange of a single replica: nothing, but above 0 for its logarithm.
const alone = 1e-8

// Pass is a forward and backward pass over so many examples on each GPU.
func (t *StepTime) Pass(local int) float64 { return t.Grad + t.GradEach*float64(local) }

// Sync is the exchange of gradients between so many replicas.
func (t *StepTime) Sync(replicas int, spread bool) float64 {
	further := max(float64(replicas-2), alone)
	switch {
	case spread:
		return t.Node + t.NodeEach*further
	case replicas > 1:
		return t.Local + t.LocalEach*further
	}
	return alone
}

// Step is a pass and the exchange, in which the gradients are used.
func (t *StepTime) Step(replicas int, spread bool, local int) float64 {
	return overlapped(t.Pass(local), t.Sync(replicas, spread), t.Overlap)
}

// overlapped is (a^g + b^g)^(1/g).
func overlapped(a, b, g float64) float64 {
	if a < b {
		a, b = b, a
	}
	if g == 1 || a <= 0 {
		return a + b
	}
	return a * math.Pow(1+math.Pow(b/a, g), 1/g)
}

// Noise is the noise of gradients: the square of the true gradient, and the trace of
// its covariance at the batch size with which the job begins. Their ratio, times that
// batch size, is the gradient noise scale.
type Noise struct{ Sqr, Var float64 }

// Gain is by how much more a step gets on whose batch is r times the first one.
func (n Noise) Gain(r float64) float64 {
	if d := n.Var/r + n.Sqr; d > 0 {
		return (n.Var + n.Sqr) / d
	}
	return 1
}

// Efficiency is how much each example of such a batch is worth, 1 at r = 1.
func (n Noise) Efficiency(r float64) float64 { return n.Gain(r) / r }

// Batches are the batch sizes with which a job may be trained, in examples.
type Batches struct {
	First, Most         int  // of all GPUs together: what it begins with, and the largest
	LocalMin, LocalMost int  // of a GPU in a pass
	Accumulate          bool // gradients of several passes may be added up before they are exchanged
}

// Doubled yields the first batch size, and each that is twice the one before.
func (l Batches) Doubled() iter.Seq[int] {
	return func(yield func(int) bool) {
		for batch := l.First; batch > 0 && batch <= l.Most && yield(batch); batch *= 2 {
		}
	}
}

// Batch is a batch size: examples on each GPU in a pass, and passes before the last one
// in which gradients are added up.
type Batch struct{ Local, Accum int }

// Goodput is how fast a job gets on that chooses its batch size for what it holds:
// examples in a second, each weighed by what it is worth.
type Goodput struct {
	Time    StepTime
	Noise   Noise
	Batches Batches
	Stages  []Stage // how the noise changes as the training goes on, from 0 on; nil: it does not
}

// Stage is a part of a training with a noise of its own.
type Stage struct {
	From  float64 // where it begins, as a part of the training, 0 to 1
	Noise float64 // the gradient noise scale, in samples
}

// At is the Goodput with a gradient noise scale in samples; 0: with Noise as it is.
func (g Goodput) At(noise float64) Goodput {
	if noise > 0 && g.Batches.First > 0 {
		g.Noise = Noise{Sqr: 1, Var: noise / float64(g.Batches.First)}
	}
	return g
}

// Throughput is the examples in a second.
func (g *Goodput) Throughput(replicas int, spread bool, b Batch) float64 {
	passes := float64(b.Accum) * g.Time.Pass(b.Local)
	return float64(replicas*b.Local*(b.Accum+1)) / (passes + g.Time.Step(replicas, spread, b.Local))
}

// With is the goodput with a batch size.
func (g *Goodput) With(replicas int, spread bool, b Batch) float64 {
	scale := float64(replicas*b.Local*(b.Accum+1)) / float64(g.Batches.First)
	return g.Throughput(replicas, spread, b) * g.Noise.Efficiency(scale)
}

// Fixed is the goodput with a batch of so many samples on all GPUs together. Those for
// which there would be too few samples in it stay idle.
func (g *Goodput) Fixed(replicas int, spread bool, batch int) float64 {
	if replicas < 1 || batch < 1 {
		return 0
	}
	k := min(replicas, max(1, batch/max(1, g.Batches.LocalMin)))
	return g.With(k, spread && k > 1, g.Batches.split(float64(batch), k))
}

// samples is the number of batch sizes among which Best chooses.
const samples = 50

// Best is the batch size with the best goodput among 50 between the least and the
// largest, spaced in proportion, and that goodput; 0 where none can be.
func (g *Goodput) Best(replicas int, spread bool) (Batch, float64) {
	lo := math.Max(float64(g.Batches.First), float64(g.Batches.LocalMin*replicas))
	hi := float64(g.Batches.Most)
	if replicas < 1 || lo > hi {
		return Batch{}, 0
	}
	var best Batch
	most := 0.0
	ratio := math.Pow(hi/lo, 1.0/(samples-1))
	for i, size := 0, lo; i < samples; i, size = i+1, size*ratio {
		if i == samples-1 {
			size = hi
		}
		b := g.Batches.split(size, replicas)
		if b.Local < g.Batches.LocalMin || b.Local > g.Batches.LocalMost {
			continue
		}
		if value := g.With(replicas, spread, b); value > most {
			best, most = b, value
		}
	}
	return best, most
}

// split divides a batch among GPUs and passes: as few passes as there can be.
func (l *Batches) split(size float64, replicas int) Batch {
	const slack = 1e-8
	local := size / float64(replicas)
	accum := 0
	if l.Accumulate {
		accum = int(math.Ceil(local/float64(l.LocalMost)-slack)) - 1
		if replicas == 1 && local > float64(l.First)+slack {
			accum = max(accum, 1) // the noise cannot be told from a single batch
		}
	}
	return Batch{Local: int(math.Ceil(local/float64(accum+1) - slack)), Accum: accum}
}

// Report is what the agent of a job tells that measures its own training.
type Report struct {
	Measurement
	Noise   Noise
	Batches Batches
}

// Reporter is a Typed whose jobs tell how their training goes.
type Reporter interface {
	Typed
	// Report is what a job tells that has run with so many tasks, on one node or
	// spread over several; ok is false for one that tells nothing.
	Report(j *job.Job, tasks int, spread bool) (r Report, ok bool)
}

// TypeReporter is a Reporter whose jobs tell how their training goes on each GPU type.
type TypeReporter interface {
	Reporter
	// ReportOn is what a job tells that has run with so many tasks on GPUs of type t, on
	// one node or spread over several. It had so many examples on each GPU in a pass; 0:
	// those that are best there. ok is false for one that tells nothing.
	ReportOn(j *job.Job, c *cluster.Cluster, t cluster.TypeID, tasks int, spread bool, local int) (r Report, ok bool)
}
