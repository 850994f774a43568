package gen

import (
	"math"
	"math/rand/v2"
	"strings"
	"time"

	"github.com/norn-scheduler/norn/cluster/unit"
	"github.com/norn-scheduler/norn/job"
	"github.com/norn-scheduler/norn/perf"
	"github.com/norn-scheduler/norn/trace"
)

// batched is a model whose batch can be changed: what a step of it takes alone, with its
// own batch on each GPU.
type batched struct {
	model string
	own   int     // samples of a step
	step  float64 // seconds
	use   float64 // of the multiprocessors
	band  float64 // of the bandwidth of memory
	asks  float64 // GiB of memory that it asks for
	fixed float64 // GiB that it takes with any batch
	full  float64 // GiB that it takes with its own batch

	steady, exchange float64 // parts of a pass: see perf.Stepping
	noise            float64 // gradient noise scale, in own batches; 0: it accumulates
	part             float64 // of the jobs

	pressure float64 // by which it makes those longer that share its GPU, see perf.Crowds
}

// tasks are the eight models of IADeep (SC 2023) and their parts of its workload.
//
// Sources: own batches and steps are those of its published profiles, rounded; the
// pressures are fitted to its 51 measured crowds (least squares) and rounded: half of
// the variance is explained. The use of vgg16, squeezenet, neumf, adgcl and lstm is as
// published. Nobody has published the other figures: that of resnet50, bert and yolov5,
// memory, and a noise scale of four batches for all are ours.
var tasks = []batched{
	{"vgg16", 512, 0.081, 0.53, 0.27, 9, 3, 6, 0.3, 0, 4, 0.14, 0.31},
	{"squeezenet", 512, 0.031, 0.10, 0.03, 5, 1.5, 3.5, 0.3, 0, 4, 0.14, 0.39},
	{"resnet50", 1024, 0.12, 0.30, 0.15, 10, 3, 7, 0.3, 0, 4, 0.14, 0.06},
	{"neumf", 1024, 0.0032, 0.03, 0.01, 3, 1, 2, 0.3, 0, 4, 0.12, 0.04},
	{"adgcl", 32, 0.06, 0.11, 0.04, 5, 1.5, 3.5, 0.3, 0, 4, 0.12, 0.62},
	{"lstm", 256, 0.012, 0.57, 0.29, 5, 1.5, 3.5, 0.3, 0, 4, 0.12, 0.34},
	{"bert", 8, 0.31, 0.40, 0.20, 8, 3, 5.5, 0.3, 0, 4, 0.10, 0.05},
	{"yolov5", 32, 0.17, 0.35, 0.15, 6, 2, 4, 0.3, 0, 4, 0.10, 0.14},
}

// accumulating are the six models of SJF-BSBF (2024), which add gradients up where their
// batch does not fit. The figures are ours: of the order that such models have on a GPU
// of 11 GiB.
var accumulating = []batched{
	{model: "bert", own: 8, step: 0.5, use: 0.9, band: 0.5, asks: 8, fixed: 4, full: 8, steady: 0.1, exchange: 0.3, part: 1},
	{model: "resnet18", own: 128, step: 0.1, use: 0.6, band: 0.3, asks: 2.5, fixed: 1.2, full: 2.5, steady: 0.1, exchange: 0.1, part: 1},
	{model: "deepspeech2", own: 20, step: 0.6, use: 0.7, band: 0.4, asks: 6.5, fixed: 2.5, full: 6.5, steady: 0.1, exchange: 0.3, part: 1},
	{model: "resnet50", own: 64, step: 0.18, use: 0.9, band: 0.6, asks: 9, fixed: 2, full: 9, steady: 0.07, exchange: 0.29, part: 1},
	{model: "ncf", own: 32768, step: 0.05, use: 0.3, band: 0.5, asks: 2.6, fixed: 1, full: 2.6, steady: 0.2, exchange: 0.4, part: 1},
	{model: "yolov3", own: 8, step: 0.25, use: 0.85, band: 0.5, asks: 9, fixed: 2.5, full: 9, steady: 0.08, exchange: 0.25, part: 1},
}

// stepping is what perf knows of a model.
func (m *batched) stepping() *perf.Stepping {
	sample := (m.full - m.fixed) * float64(unit.GiB) / float64(m.own)
	return &perf.Stepping{Own: m.own, Sample: unit.Bytes(sample), Steady: m.steady, Noise: m.noise * float64(m.own), Exchange: m.exchange, Overlap: 1}
}

// AssumedBatches is a trace in which jobs that do not tell what they demand of
// a GPU are given one of a few models whose batch can be changed. The model is
// that of the job's name, if it is one of them, or else drawn from a seed and
// the job's number. It gives the batch, the step, the use, and the memory asked
// for and taken. Declarations of a job are left as they are, and so is every
// other job. Make it with AssumeTasks or AssumeAccumulation.
type AssumedBatches struct {
	Source trace.Source
	Seed   uint64
	Jobs   int // given something so far

	models  []batched
	gangs   bool // of more than one GPU, too
	demands map[job.Demand]*job.Demand
}

// AssumeTasks has jobs of one GPU be the tasks of IADeep, which may train with other
// batches.
func AssumeTasks(src trace.Source, seed uint64) *AssumedBatches {
	return &AssumedBatches{Source: src, Seed: seed, models: tasks}
}

// AssumeAccumulation has jobs of whole GPUs be those of SJF-BSBF, which may add up the
// gradients of smaller batches.
func AssumeAccumulation(src trace.Source, seed uint64) *AssumedBatches {
	return &AssumedBatches{Source: src, Seed: seed, models: accumulating, gangs: true}
}

// Sharing is how such jobs disturb each other: tasks by their pressures, and others as
// otherwise says.
func (a *AssumedBatches) Sharing(otherwise perf.Sharing) perf.Rebatched {
	steps := map[string]*perf.Stepping{}
	pressure := map[string]float64{}
	for i := range a.models {
		m := &a.models[i]
		steps[m.model] = m.stepping()
		if m.pressure > 0 {
			pressure[m.model] = m.pressure
		}
	}
	if len(pressure) > 0 {
		otherwise = perf.Crowds{Pressure: pressure, Else: otherwise}
	}
	return perf.Rebatched{Of: otherwise, Steps: func(j *job.Job) *perf.Stepping {
		if s := steps[j.Model]; s != nil && j.Batch == s.Own*int(j.Demand.Roles[0].Tasks) {
			return s
		}
		return nil
	}}
}

// Next implements trace.Source.
func (a *AssumedBatches) Next(e *trace.Entry) error {
	if err := a.Source.Next(e); err != nil {
		return err
	}
	d := e.Job.Demand
	r := &d.Roles[0]
	if r.GPU != unit.One || d.Roles[1].Tasks > 0 || d.Elastic() || r.Tasks > 1 && !a.gangs || r.GPUMemory > 0 {
		return nil
	}
	var h job.Hints
	if e.Job.Hints != nil {
		h = *e.Job.Hints
	}
	if h.GPUUse != 0 || h.MemoryUse != 0 || h.GPUMemory != 0 {
		return nil
	}
	m := a.model(&e.Job)
	e.Job.Model, e.Job.Batch = m.model, m.own*int(r.Tasks)
	h.GPUUse, h.MemoryUse, h.GPUMemory = m.use, m.band, gib(m.full)
	h.Iteration, h.Stages = time.Duration(m.step*float64(time.Second)), [3]time.Duration{}
	e.Job.Hints = &h
	e.Truth.GPUMemory = 0
	e.Job.Demand = a.demand(*d, gib(m.asks))
	a.Jobs++
	return nil
}

func gib(n float64) unit.Bytes { return unit.Bytes(math.Round(n * float64(unit.GiB))) }

// model is that of a job.
func (a *AssumedBatches) model(j *job.Job) *batched {
	all := 0.0
	for i := range a.models {
		if strings.EqualFold(a.models[i].model, j.Model) {
			return &a.models[i]
		}
		all += a.models[i].part
	}
	at := rand.New(rand.NewPCG(a.Seed, uint64(j.ID))).Float64() * all
	for i := range a.models {
		if at -= a.models[i].part; at < 0 {
			return &a.models[i]
		}
	}
	return &a.models[len(a.models)-1]
}

// demand is a demand with the memory that is asked for, one for all jobs alike.
func (a *AssumedBatches) demand(d job.Demand, memory unit.Bytes) *job.Demand {
	if a.demands == nil {
		a.demands = map[job.Demand]*job.Demand{}
	}
	d.Roles[0].GPUMemory = memory
	if known := a.demands[d]; known != nil {
		return known
	}
	a.demands[d] = &d
	return &d
}
