package gen

import (
	"math/rand/v2"
	"strings"

	"github.com/norn-scheduler/norn/cluster/unit"
	"github.com/norn-scheduler/norn/perf"
	"github.com/norn-scheduler/norn/trace"
)

// AssumedRations is a trace in which jobs of whole GPUs train models whose need
// of cores and memory was measured. The model is that of the job's name if it
// is one of these, and otherwise drawn from a seed and the job's number,
// whatever its source calls it.
type AssumedRations struct {
	Source trace.Source
	Seed   uint64
	Mix    Mix // zero: DefaultMix
	Grids  map[string]*perf.Grid
	Jobs   int // given a model so far
}

// Next implements trace.Source.
func (a *AssumedRations) Next(e *trace.Entry) error {
	if err := a.Source.Next(e); err != nil {
		return err
	}
	if r := &e.Job.Demand.Roles[0]; r.GPU < unit.One || e.Job.Demand.Roles[1].Tasks > 0 || a.Grids[strings.ToLower(e.Job.Model)] != nil {
		return nil
	}
	mix := a.Mix
	if mix == (Mix{}) {
		mix = DefaultMix()
	}
	rng := rand.New(rand.NewPCG(a.Seed, uint64(e.Job.ID)))
	u, task := rng.IntN(100), 0
	for parts := mix.parts(); task < 2 && u >= parts[task]; task++ {
		u -= parts[task]
	}
	models := rationModels[task]
	e.Job.Model = models[rng.IntN(len(models))]
	a.Jobs++
	return nil
}
