package gen

import (
	"math/rand/v2"

	"github.com/norn-scheduler/norn/cluster/unit"
	"github.com/norn-scheduler/norn/job"
	"github.com/norn-scheduler/norn/trace"
)

// AssumedModels is a trace in which gangs of whole GPUs that do not tell their
// model are each given one of those that were measured, drawn from a seed and
// their number. They also get its use alone, as far as that was measured and
// the job does not tell itself. Every other job is left as it is.
type AssumedModels struct {
	Source trace.Source
	Seed   uint64
	Models []trace.Profile // at least one
	Jobs   int             // given something so far
}

// Next implements trace.Source.
func (a *AssumedModels) Next(e *trace.Entry) error {
	if err := a.Source.Next(e); err != nil {
		return err
	}
	d := e.Job.Demand
	if r := &d.Roles[0]; e.Job.Model != "" || r.GPU < unit.One || d.Roles[1].Tasks > 0 {
		return nil
	}
	rng := rand.New(rand.NewPCG(a.Seed, uint64(e.Job.ID)))
	m := &a.Models[rng.IntN(len(a.Models))]
	e.Job.Model, e.Job.Dataset, e.Job.Batch = m.Model, m.Dataset, m.Batch
	var h job.Hints
	if e.Job.Hints != nil {
		h = *e.Job.Hints
	}
	h.Mixed = m.Mixed
	if h.GPUUse == 0 && h.MemoryUse == 0 {
		h.GPUUse, h.MemoryUse = m.GPUUse, m.MemoryUse
	}
	if h.GPUMemory == 0 && d.Roles[0].GPUMemory == 0 {
		h.GPUMemory = m.GPUMemory
	}
	e.Job.Hints = &h
	a.Jobs++
	return nil
}
