package perf

import "github.com/norn-scheduler/norn/cluster/unit"

// measuredCPUs and measuredMemory are the rations at which Synergy measured, cores
// and GiB for each GPU.
var (
	measuredCPUs   = []float64{1, 2, 3, 4, 5, 6, 9, 12, 24}
	measuredMemory = []float64{62.5 / 3, 62.5, 125, 187.5, 250}
)

// hungry is a model that is held up by cores or memory. It has the rate by the
// number of cores, from 62.5 GiB on. If memory makes a difference besides, it
// does so from some number of cores on.
type hungry struct {
	names []string
	rates [9]float64
	more  []rise
}

// rise is what more memory makes of the rate, from so many cores on.
type rise struct{ cpus, memory, rate float64 }

// starved is the rate of a hungry model with the least memory, whatever the cores.
const starved = 0.1

// The models that Synergy measured: throughput on a V100, relative to that with 3 cores
// and 62.5 GB for each GPU.
//
// Source: the profiles in Synergy's repository (simulator/models, MIT licence), which
// the paper (Mohan et al., OSDI 2022, section 5.1) measured on servers of 8 V100, 24
// cores and 500 GB.
var (
	hungryModels = []hungry{
		{[]string{"alexnet"}, [9]float64{.3, .66, 1, 1.25, 1.53, 1.75, 2, 2, 2}, []rise{{12, 125, 2.94}}},
		{[]string{"shufflenet", "shufflenet_v2_x1_0"}, [9]float64{.3, .66, 1, 1.25, 1.53, 1.75, 2, 2, 2}, []rise{{12, 125, 2.89}}},
		{[]string{"resnet18", "res18"}, [9]float64{.37, .72, 1, 1.3, 1.53, 1.75, 2.4, 2.4, 2.4}, nil},
		{[]string{"mobilenet"}, [9]float64{.37, .72, 1, 1.3, 1.49, 1.55, 1.55, 1.55, 1.55}, nil},
		{[]string{"resnet50", "res50"}, [9]float64{.4, .74, 1, 1.15, 1.15, 1.15, 1.15, 1.15, 1.15}, nil},
		{[]string{"m5"}, [9]float64{.3, .66, 1, 1.2, 1.4, 1.5, 1.5, 1.5, 1.5}, []rise{{6, 125, 2}, {6, 187.5, 2.5}}},
		{[]string{"deepspeech"}, [9]float64{.3, .66, 1, 1, 1, 1, 1, 1, 1}, nil},
	}
	modestModels = []string{"transformer", "gnmt", "lstm", "bert", "vae"} // as fast with the least of both
)

// MeasuredGrids are the grids of the models that Synergy measured, by name.
func MeasuredGrids() map[string]*Grid {
	out := map[string]*Grid{}
	for _, name := range modestModels {
		out[name] = newGrid(func(int, int) float64 { return 1 })
	}
	for _, m := range hungryModels {
		g := newGrid(func(i, k int) float64 {
			if k == 0 {
				return starved
			}
			rate := m.rates[i]
			for _, r := range m.more {
				if measuredCPUs[i] >= r.cpus && measuredMemory[k] >= r.memory {
					rate = r.rate
				}
			}
			return rate
		})
		for _, name := range m.names {
			out[name] = g
		}
	}
	return out
}

func newGrid(rate func(i, k int) float64) *Grid {
	g := &Grid{}
	for _, c := range measuredCPUs {
		g.CPUs = append(g.CPUs, unit.Milli(c*float64(unit.One)))
	}
	for _, m := range measuredMemory {
		g.Memory = append(g.Memory, gib(m))
	}
	for i := range g.CPUs {
		row := make([]float64, len(g.Memory))
		for k := range row {
			row[k] = rate(i, k)
		}
		g.Rates = append(g.Rates, row)
	}
	return g
}
