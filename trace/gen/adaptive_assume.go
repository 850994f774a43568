package gen

import (
	"math/rand/v2"
	"strings"

	"github.com/norn-scheduler/norn/job"
	"github.com/norn-scheduler/norn/perf"
	"github.com/norn-scheduler/norn/trace"
)

// adaptive is how fast a model trains on any number of GPUs with any batch size, and
// how often it is found.
//
// Source: the profiles published with Pollux (OSDI 2021), T4s, 4 to a node.
// Step times are fitted by perf.Fit to measurements on 108 placements of up to
// 16 GPUs, 7 to 9 % off on average. Batch sizes are the measured ones. The
// noise of gradients is that at the first batch size in the middle of the
// epochs, and changes as in noises. Shares are those of the workload in the paper (section 5.1).
type adaptive struct {
	model string
	also  string // as Pollux' own workloads call the application; empty: by its model
	share float64
	perf.Goodput
}

var adaptiveModels = []adaptive{
	{"resnet18", "cifar10", 0.36, goodput([7]float64{0.01733, 0.0007018, 0.1211, 0.002393, 0.03179, 0.0008007, 1.999}, 38.62, 128, 4096, 32, 1024)},
	{"neumf", "ncf", 0.36, goodput([7]float64{0.006926, 6.314e-07, 0.01549, 0.0004135, 0.003908, 0.0004298, 1}, 71510, 256, 32768, 32, 32768)},
	{"deepspeech2", "", 0.10, goodput([7]float64{0.3042, 0.02423, 0.377, 0.02848, 0.08306, 0.001258, 1.43}, 1273, 20, 640, 10, 80)},
	{"bert", "", 0.10, goodput([7]float64{0.1692, 0.0586, 1.352, 0.01426, 0.2884, 0.009597, 1.9}, 93.69, 12, 384, 4, 12)},
	{"yolov3", "", 0.06, goodput([7]float64{0.1827, 0.02595, 0.6989, 0.02335, 0.1388, 0.02146, 1.163}, 69.93, 8, 512, 4, 8)},
	{"resnet50", "imagenet", 0.02, goodput([7]float64{0.06446, 0.004474, 0.2988, 0.005562, 0.07438, 0.0003895, 2.486}, 56.98, 200, 12800, 20, 200)},
}

func goodput(t [7]float64, noise float64, first, most, localMin, localMost int) perf.Goodput {
	return perf.Goodput{
		Time:    perf.StepTime{Grad: t[0], GradEach: t[1], Node: t[2], NodeEach: t[3], Local: t[4], LocalEach: t[5], Overlap: t[6]},
		Noise:   perf.Noise{Sqr: 1, Var: noise},
		Batches: perf.Batches{First: first, Most: most, LocalMin: localMin, LocalMost: localMost, Accumulate: true},
	}
}

// mostAdaptive is the most GPUs on which such a job runs.
const mostAdaptive = 64

// named tells whether a job that gives its model this name trains the model.
func (m *adaptive) named(model string) bool {
	return strings.EqualFold(m.model, model) || m.also != "" && strings.EqualFold(m.also, model)
}

// AssumedAdaptive is a trace in which jobs of whole GPUs, at most 64, are taken
// to train one of six models, whose gradients get noisier as the training goes on. They
// have their own batch size, or one that is tuned for the GPUs that they ask for, unless
// the policy tells them another one. A
// job trains its own model, if that is one of them, also by the name of Pollux' application. If a job does not tell what
// it trains, its model is drawn from a seed and its name. They become elastic,
// from one GPU to 64. How long they run as they asked is left as it is, and so
// is every other job.
type AssumedAdaptive struct {
	Source trace.Source
	Seed   uint64
	Jobs   int    // given something so far
	Others int    // elastic jobs so far that train another model; they scale as the run says otherwise
	Other  string // the model of the first of them

	in job.Interner
}

// AdaptiveSpeeds is how fast the jobs of an AssumedAdaptive run: on the GPU types of Sia's
// clusters as was measured there.
func AdaptiveSpeeds() *perf.Adaptive {
	models := map[string]perf.Goodput{}
	types := map[string]map[string]perf.Goodput{}
	for _, m := range adaptiveModels {
		m.Stages = m.stages()
		m.put(models, m.Goodput)
		for gpu, all := range adaptiveTypes {
			if types[gpu] == nil {
				types[gpu] = map[string]perf.Goodput{}
			}
			for i := range all {
				if all[i].model == m.model {
					m.put(types[gpu], m.on(&all[i]))
				}
			}
		}
	}
	speeds := perf.NewAdaptive(models)
	for gpu, all := range types {
		speeds.Measured(gpu, all)
	}
	return speeds
}

// put adds what the model reaches under all its names.
func (m *adaptive) put(to map[string]perf.Goodput, g perf.Goodput) {
	to[m.model] = g
	if m.also != "" {
		to[m.also] = g
	}
}

// Next implements trace.Source.
func (a *AssumedAdaptive) Next(e *trace.Entry) error {
	if err := a.Source.Next(e); err != nil {
		return err
	}
	j := &e.Job
	if !j.Demand.Plain() || j.Demand.GPUs() > mostAdaptive || j.Kind == job.Inference {
		return nil
	}
	if j.Model == "" {
		j.Model = a.draw(j)
	}
	for i := range adaptiveModels {
		m := &adaptiveModels[i]
		if !m.named(j.Model) {
			continue
		}
		if d := *j.Demand; !d.Elastic() {
			d.Roles[0].Min, d.Roles[0].Max = 1, mostAdaptive
			j.Demand = a.in.Get(d)
		}
		m.train(j, &e.Truth)
		a.Jobs++
		return nil
	}
	if j.Demand.Elastic() {
		if a.Others++; a.Others == 1 {
			a.Other = j.Model
		}
	}
	return nil
}

// draw is the model of a job that does not tell.
func (a *AssumedAdaptive) draw(j *job.Job) string {
	name := j.Name
	if name == "" {
		name = j.Key
	}
	x := rand.New(rand.NewPCG(a.Seed, hash(name))).Float64()
	for _, m := range adaptiveModels {
		if x -= m.share; x < 0 {
			return m.model
		}
	}
	return adaptiveModels[0].model
}
