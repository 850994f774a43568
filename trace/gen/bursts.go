package gen

import (
	"cmp"
	"math"
	"math/rand/v2"
	"strings"
	"time"

	"github.com/norn-scheduler/norn/cluster/unit"
	"github.com/norn-scheduler/norn/job"
	"github.com/norn-scheduler/norn/trace"
)

// bursty is how an iteration of a model computes and sends on a GPU of each node: all-reduce of gradients in single
// precision around a ring, when all are computed. Models with bursts of their own say them.
//
// Source: the thirteen models of CASSINI (NSDI 2024), of which neither the batches nor the measured profiles are
// published. Numbers of parameters are those of the models; the computation is an estimate, of an A100 that reaches
// some 60 TFLOP/s, and rounded.
type bursty struct {
	model   string
	params  float64 // millions
	compute float64 // milliseconds
	bursts  string  // of their own, over an iteration of compute milliseconds; empty: all-reduce
	pattern string  // ring where it is empty
}

var burstyModels = []bursty{
	{"vgg11", 132.9, 120, "", ""},
	{"vgg16", 138.4, 140, "", ""},
	{"vgg19", 143.7, 170, "", ""},
	{"resnet50", 25.6, 120, "", ""},
	{"wide_resnet101", 126.9, 180, "", ""},
	{"bert", 110, 140, "", ""},
	{"roberta", 125, 180, "", ""},
	{"camembert", 111, 140, "", ""},
	{"xlm", 570, 500, "", ""},
	{"gpt", 117, 140, "", ""},
	{"gpt2", 124, 200, "", ""},
	{"gpt3", 6700, 400, "60ms-80ms@2+140ms-160ms@2+220ms-240ms@2+300ms-390ms@5.6", ""}, // stages, then all-reduce between replicas
	{"dlrm", 540, 150, "20ms-50ms@5.6+110ms-150ms@5.6", "clique"},                      // all to all, of embeddings and of their gradients
}

// burstSpeed is the GB/s that a node sends in a burst of all-reduce: 90 % of an adapter of 50 Gbit/s.
const burstSpeed = 5.6

// of is the bursts of an iteration on so many GPUs, and the iteration, a multiple of a step: the batch is as large
// as makes up for the rest.
func (m *bursty) of(gpus int, step time.Duration) (b job.Bursts, iteration time.Duration) {
	if m.bursts != "" {
		b, _ = job.ParseBursts(m.bursts) // TestBurstsOfModels
		return b, (time.Duration(m.compute)*time.Millisecond + step - 1) / step * step
	}
	sends := time.Duration(math.Round(m.params*4/burstSpeed*2*float64(gpus-1)/float64(gpus))) * time.Millisecond
	iteration = (time.Duration(m.compute)*time.Millisecond + sends + step - 1) / step * step
	b[0] = job.Burst{From: iteration - sends, To: iteration, GBps: burstSpeed}
	return b, iteration
}

// AssumedBursts is a trace in which jobs of several whole GPUs that do not tell when they send are given the
// iterations of a model. The model is that of their name, if it is one of thirteen, and else one drawn from a seed
// and their number. Declarations of a job are left as they are, and so is every other job.
type AssumedBursts struct {
	Source trace.Source
	Seed   uint64
	Step   time.Duration // of which iterations are multiples; 0: 10 ms
	Jobs   int           // given something so far
}

// Next implements trace.Source.
func (a *AssumedBursts) Next(e *trace.Entry) error {
	if err := a.Source.Next(e); err != nil {
		return err
	}
	d := e.Job.Demand
	if r := &d.Roles[0]; r.GPU < unit.One || d.Roles[1].Tasks > 0 || d.GPUs() < 2 {
		return nil
	}
	var h job.Hints
	if e.Job.Hints != nil {
		h = *e.Job.Hints
	}
	if h.Bursts.Len() > 0 || h.Iteration != 0 {
		return nil
	}
	m := burstyModel(e.Job.Model)
	if m == nil {
		rng := rand.New(rand.NewPCG(a.Seed, uint64(e.Job.ID)))
		m = &burstyModels[rng.IntN(len(burstyModels))]
	}
	if e.Job.Model == "" {
		e.Job.Model = m.model
	}
	if h.Bursts, h.Iteration = m.of(d.GPUs(), cmp.Or(a.Step, 10*time.Millisecond)); h.Pattern == "" {
		h.Pattern = m.pattern
	}
	e.Job.Hints = &h
	a.Jobs++
	return nil
}

// burstyModel finds a model by its name; nil when there is none.
func burstyModel(name string) *bursty {
	name = strings.NewReplacer("-", "", "_", "").Replace(strings.ToLower(name))
	for i := range burstyModels {
		if strings.ReplaceAll(burstyModels[i].model, "_", "") == name {
			return &burstyModels[i]
		}
	}
	return nil
}
