package simtest

import (
	"pgregory.net/rapid"

	"github.com/norn-scheduler/norn/job"
	"github.com/norn-scheduler/norn/perf"
)

// drawSockets draws run times of jobs of two models alone and beside each other. Jobs of no model are not
// measured.
func drawSockets(t *rapid.T) *perf.Sockets {
	s := &perf.Sockets{}
	var sorts []perf.Sized
	for _, model := range []string{"vgg16", "resnet50"} {
		for gpus := range 5 {
			k := perf.Sized{Model: model, GPUs: gpus + 1}
			s.Alone(k, 100, rapid.SampledFrom([]float64{0, 100, 130}).Draw(t, "across"))
			sorts = append(sorts, k)
		}
	}
	beside := rapid.SliceOfN(rapid.SampledFrom([]float64{0, 90, 105, 150, 200}), len(sorts)*len(sorts), len(sorts)*len(sorts)).Draw(t, "beside")
	for i, k := range sorts {
		for j, other := range sorts {
			s.Beside(k, other, beside[i*len(sorts)+j])
		}
	}
	return s
}

// drawLeast has a job ask for a place of some utility.
func drawLeast(t *rapid.T, spec func(*job.Job)) func(*job.Job) {
	least := rapid.SampledFrom([]float64{0, 0, 0.3, 0.6, 1}).Draw(t, "utility")
	return func(j *job.Job) {
		if spec(j); least > 0 {
			h := job.Hints{}
			if j.Hints != nil {
				h = *j.Hints
			}
			h.LeastUtility = least
			j.Hints = &h
		}
	}
}
