package gen

import (
	"math/rand/v2"
	"slices"
	"time"

	"github.com/norn-scheduler/norn/cluster/unit"
	"github.com/norn-scheduler/norn/job"
	"github.com/norn-scheduler/norn/policy/rmixer/memory"
	"github.com/norn-scheduler/norn/trace"
)

// Assumed is a trace in which jobs of one GPU, or a part of one, that do not
// tell what they demand are taken to train recommendation models. Each is given
// one of the networks of the task lists, drawn from a seed and its number. With
// it come its use, its memory (the truth is 0.8 to 1.19 times the estimate),
// and the time that the job would take without a GPU. Declarations of a job are
// left as they are, and so is every other job.
type Assumed struct {
	Source trace.Source
	Seed   uint64
	Jobs   int // given something so far

	models []memory.Model
	names  []string // of networks, sorted
}

// Next implements trace.Source.
func (a *Assumed) Next(e *trace.Entry) error {
	if err := a.Source.Next(e); err != nil {
		return err
	}
	d := e.Job.Demand
	if r := &d.Roles[0]; r.Tasks != 1 || r.GPU <= 0 || r.GPU > unit.One || d.Roles[1].Tasks > 0 {
		return nil
	}
	var h job.Hints
	if e.Job.Hints != nil {
		h = *e.Job.Hints
	}
	if h.GPUUse != 0 || h.MemoryUse != 0 || h.HostUse != 0 || h.CPUUse != 0 {
		return nil
	}
	if a.models == nil {
		a.models = memory.Models()
		for name := range networks {
			a.names = append(a.names, name)
		}
		slices.Sort(a.names)
	}
	a.Jobs++
	a.give(e, h)
	return nil
}

// give makes a job one of a network.
func (a *Assumed) give(e *trace.Entry, h job.Hints) {
	rng := rand.New(rand.NewPCG(a.Seed, uint64(e.Job.ID)))
	name := a.names[rng.IntN(len(a.names))]
	m, known := memory.Find(a.models, e.Job.Model)
	if known {
		_, name, _ = cutModel(m.Name)
	} else {
		m, _ = memory.Find(a.models, name)
	}
	n, ok := networks[name]
	if !ok { // a model of the authors that is in no list
		n = network{batch: memory.DefaultBatch, memory: 0.1, host: 0.05, cores: 1}
	}
	truth := 0.8 + 0.39*rng.Float64()
	if e.Job.Model == "" {
		e.Job.Model, e.Job.Batch = m.Name, n.batch
	}
	h.GPUUse, h.MemoryUse, h.HostUse, h.CPUUse = use(m), n.memory, n.host, min(1, n.cores/defaultCPUs)
	if h.GPUMemory == 0 && e.Job.Demand.Roles[0].GPUMemory == 0 {
		h.GPUMemory = m.Peak(int64(n.batch), 0)
		e.Truth.GPUMemory = unit.Bytes(truth * float64(h.GPUMemory))
	}
	if h.CPUTime == 0 {
		h.CPUTime = time.Duration(float64(e.Truth.Work) * withoutGPUs[m.Class+1])
	}
	e.Job.Hints = &h
}
