package gen

import (
	"math"
	"math/rand/v2"

	"github.com/norn-scheduler/norn/cluster/unit"
	"github.com/norn-scheduler/norn/job"
	"github.com/norn-scheduler/norn/trace"
)

// The use of a GPU by training jobs of one GPU that are alone, as deciles from
// the least to the most, with the dependence between resources: the
// correlations of normal variables behind them.
//
// Source: 66 configurations of 14 models (vision, language, recommendation, graphs) on an
// RTX 3090, measured for Lucid (ASPLOS 2023); deciles and correlations are ours, rounded.
var (
	usedSM        = [11]float64{0.05, 0.1, 0.13, 0.31, 0.42, 0.48, 0.58, 0.73, 0.86, 0.99, 1}
	usedBandwidth = [11]float64{0, 0.02, 0.05, 0.08, 0.16, 0.2, 0.3, 0.37, 0.6, 0.7, 0.87}
	usedMemory    = [11]float64{2, 2, 2.3, 2.4, 2.6, 2.9, 3.3, 3.8, 5.2, 8.1, 19.7} // GiB
)

const (
	bandwidthBySM = 0.95
	memoryBySM    = 0.6
)

// AssumedUse is a trace in which jobs on GPUs that do not tell their use are
// each given a use, as measured training jobs have it. It covers the
// multiprocessors, the bandwidth of the memory and the memory, and is drawn
// from a seed and the job's number. Declarations of a job are left as they are,
// and so are jobs without GPUs.
type AssumedUse struct {
	Source trace.Source
	Seed   uint64
	Jobs   int // given something so far
}

// Next implements trace.Source.
func (a *AssumedUse) Next(e *trace.Entry) error {
	if err := a.Source.Next(e); err != nil {
		return err
	}
	d := e.Job.Demand
	var h job.Hints
	if e.Job.Hints != nil {
		h = *e.Job.Hints
	}
	if d.GPUs() == 0 || h.GPUUse != 0 || h.MemoryUse != 0 {
		return nil
	}
	use, bandwidth, memory := drawUse(rand.New(rand.NewPCG(a.Seed, uint64(e.Job.ID))))
	h.GPUUse, h.MemoryUse = use, bandwidth
	if h.GPUMemory == 0 && d.Roles[0].GPUMemory == 0 {
		h.GPUMemory = memory
	}
	e.Job.Hints = &h
	a.Jobs++
	return nil
}

// drawUse is what a job uses of a GPU when alone.
func drawUse(rng *rand.Rand) (use, bandwidth float64, memory unit.Bytes) {
	z := rng.NormFloat64()
	beside := func(correlation float64) float64 {
		return correlation*z + math.Sqrt(1-correlation*correlation)*rng.NormFloat64()
	}
	use, bandwidth = quantile(&usedSM, z), quantile(&usedBandwidth, beside(bandwidthBySM))
	return use, bandwidth, unit.Bytes(quantile(&usedMemory, beside(memoryBySM)) * float64(unit.GiB))
}

// quantile is the value of a distribution, given by its deciles, where a standard normal
// one has z.
func quantile(deciles *[11]float64, z float64) float64 {
	at := 10 * 0.5 * math.Erfc(-z/math.Sqrt2)
	i := min(9, int(at))
	return deciles[i] + (at-float64(i))*(deciles[i+1]-deciles[i])
}
