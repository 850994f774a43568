package gen

import (
	"math"
	"math/rand/v2"
	"strings"
	"time"

	"github.com/norn-scheduler/norn/cluster/unit"
	"github.com/norn-scheduler/norn/job"
	"github.com/norn-scheduler/norn/trace"
)

// staged is how long an iteration of a model keeps each resource busy, in
// milliseconds. Loading and CPU work and the GPU take about equally long on any
// number of GPUs. The network and the whole iteration take longer on more of
// them.
//
// Source: the stage times in the traces of Muri (SIGCOMM 2022), V100s, on 1 to 32 GPUs,
// fitted by straight lines over the logarithm of the number of GPUs (least squares) and
// rounded.
type staged struct {
	model         string
	batch         int
	load, gpu     float64
	net2, net32   float64 // on 2 and on 32 GPUs; none on one
	iter1, iter32 float64 // on 1 and on 32 GPUs
}

var stagedModels = []staged{
	{"a2c", 64, 507, 13.3, 0.1, 1.7, 512, 582},
	{"bert", 4, 0.5, 164, 3.2, 122, 170, 250},
	{"dqn", 128, 440, 8, 0.3, 1.4, 485, 538},
	{"gpt2", 4, 0.6, 414, 0, 186, 423, 498},
	{"resnet18", 128, 726, 112, 83, 89, 807, 1094},
	{"shufflenet_v2_x1_0", 128, 750, 58, 15, 21, 802, 1037},
	{"vgg16", 16, 94, 70, 38, 128, 117, 343},
	{"vgg19", 16, 98, 82, 38, 138, 125, 345},
}

// stages are those of an iteration on so many GPUs, and the iteration.
func (m *staged) stages(gpus int) (stages [3]time.Duration, iteration time.Duration) {
	ms := func(x float64) time.Duration {
		return time.Duration(math.Round(10*max(0, x))) * (time.Millisecond / 10)
	}
	size := min(5, math.Log2(float64(gpus)))
	stages = [3]time.Duration{ms(m.load), ms(m.gpu), 0}
	if gpus > 1 {
		stages[2] = ms(m.net2 + (m.net32-m.net2)*max(0, size-1)/4)
	}
	return stages, ms(m.iter1 + (m.iter32-m.iter1)*size/5)
}

// AssumedStages is a trace in which jobs of whole GPUs that do not tell the
// stages of their iterations are given those of a model. The model is that of
// their name, if it is one of eight that were measured, and else one drawn from
// a seed and their number. Declarations of a job are left as they are, and so
// is every other job.
type AssumedStages struct {
	Source trace.Source
	Seed   uint64
	Jobs   int // given something so far
}

// Next implements trace.Source.
func (a *AssumedStages) Next(e *trace.Entry) error {
	if err := a.Source.Next(e); err != nil {
		return err
	}
	d := e.Job.Demand
	if r := &d.Roles[0]; r.GPU < unit.One || d.Roles[1].Tasks > 0 || d.Elastic() {
		return nil
	}
	var h job.Hints
	if e.Job.Hints != nil {
		h = *e.Job.Hints
	}
	if h.Stages != ([3]time.Duration{}) || h.Iteration != 0 {
		return nil
	}
	m := stagedModel(e.Job.Model)
	if m == nil {
		rng := rand.New(rand.NewPCG(a.Seed, uint64(e.Job.ID)))
		m = &stagedModels[rng.IntN(len(stagedModels))]
	}
	if e.Job.Model == "" {
		e.Job.Model, e.Job.Batch = m.model, m.batch
	}
	h.Stages, h.Iteration = m.stages(d.GPUs())
	e.Job.Hints = &h
	a.Jobs++
	return nil
}

// stagedModel finds a model by its name; nil when there is none.
func stagedModel(name string) *staged {
	for i := range stagedModels {
		if strings.EqualFold(stagedModels[i].model, name) {
			return &stagedModels[i]
		}
	}
	return nil
}
