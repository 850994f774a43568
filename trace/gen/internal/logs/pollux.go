package logs

import (
	"fmt"
	"math"
	"path/filepath"
	"sort"
)

// nodeGPUs is the size of a node of the cluster that Pollux was measured on.
const nodeGPUs = 4

// maxEpochs is how many rows of an application's validation file a job runs
// for, as in the published simulator.
var maxEpochs = map[string]int{"bert": 2, "cifar10": 100, "ncf": 10, "imagenet": 90, "deepspeech2": 80, "yolov3": 50}

// Pollux reads the eight workloads in pollux_sia/workloads_pollux/workloads. It
// gives each job the run time that the measured profiles of its application
// imply for the number of replicas and the batch size in the workload, packed
// on nodes of four GPUs. The run time is the number of iterations of its epochs
// at that batch size times the time of one step. The clock starts on a Monday
// at midnight.
func Pollux(data string) ([]Job, error) {
	files, err := filepath.Glob(filepath.Join(data, "pollux_sia/workloads_pollux/workloads/*.csv"))
	if err != nil || len(files) == 0 {
		return nil, fmt.Errorf("%s: no Pollux workloads", data)
	}
	sort.Strings(files)
	known := map[string]float64{}
	var all []Job
	for _, file := range files {
		jobs, err := read(file, func(r row) (Job, error) {
			return Job{Submit: r.float("time"), Model: r.text("application"), GPUs: r.int("num_replicas"), Batch: r.int("batch_size")}, r.err()
		})
		if err != nil {
			return nil, err
		}
		for i := range jobs {
			j := &jobs[i]
			key := fmt.Sprint(j.Model, j.GPUs, j.Batch)
			if known[key] == 0 {
				if known[key], err = polluxRun(filepath.Join(data, "pollux_sia/profiles", j.Model), j.Model, j.GPUs, j.Batch); err != nil {
					return nil, err
				}
			}
			j.Run = known[key]
		}
		all = append(all, jobs...)
	}
	return all, nil
}

// polluxRun is the run time in seconds of a configuration.
func polluxRun(dir, app string, gpus, batch int) (float64, error) {
	iterations := 0.0
	epochs := 0
	err := each(filepath.Join(dir, fmt.Sprintf("validation-%d.csv", batch)), func(r row) error {
		if epochs++; epochs <= maxEpochs[app] {
			iterations = r.float("iteration")
		}
		return r.err()
	})
	if err != nil {
		return 0, err
	}
	step, err := polluxStep(dir, gpus, float64(batch)/float64(gpus))
	return math.Round(iterations * step), err
}

// sample is one measured time of a step.
type sample struct{ gpus, local, step float64 }

// polluxStep is the time of one step in seconds with a local batch on packed
// nodes. Where the exact number of GPUs or local batch was not measured it is
// interpolated between the nearest that were, linearly in GPUs and in the local
// batch; beyond the largest local batch, gradients are accumulated.
func polluxStep(dir string, gpus int, local float64) (float64, error) {
	samples, err := polluxSamples(dir)
	if err != nil {
		return 0, err
	}
	byGPUs := map[float64][]sample{}
	var counts []float64
	for _, s := range samples {
		if byGPUs[s.gpus] == nil {
			counts = append(counts, s.gpus)
		}
		byGPUs[s.gpus] = append(byGPUs[s.gpus], s)
	}
	sort.Float64s(counts)
	steps := make([]float64, len(counts))
	for i, n := range counts {
		steps[i] = atLocal(byGPUs[n], local)
	}
	return between(counts, steps, float64(gpus)), nil
}

// polluxSamples reads the packed placements (4, 44, 444, ... and a last node
// with fewer) and, for more than 16 GPUs, the scalability measurements.
func polluxSamples(dir string) ([]sample, error) {
	var samples []sample
	err := each(filepath.Join(dir, "placements.csv"), func(r row) error {
		digits := r.text("placement")
		gpus, full := 0, 0
		for _, d := range digits {
			gpus += int(d - '0')
			if d == '0'+nodeGPUs {
				full++
			}
		}
		if len(digits) == (gpus+nodeGPUs-1)/nodeGPUs && full == gpus/nodeGPUs {
			samples = append(samples, sample{float64(gpus), r.float("local_bsz"), r.float("step_time")})
		}
		return r.err()
	})
	if err != nil {
		return nil, err
	}
	err = each(filepath.Join(dir, "scalability.csv"), func(r row) error {
		nodes, gpus := r.int("num_nodes"), r.int("num_replicas")
		if gpus > 16 && nodes == (gpus+nodeGPUs-1)/nodeGPUs {
			samples = append(samples, sample{float64(gpus), r.float("local_bsz"), r.float("step_time")})
		}
		return r.err()
	})
	return samples, err
}

// atLocal is the time of a step at a local batch among samples of one number of
// GPUs. A local batch that does not fit is split into equal passes that do.
func atLocal(samples []sample, local float64) float64 {
	sort.Slice(samples, func(i, k int) bool { return samples[i].local < samples[k].local })
	passes := math.Ceil(local / samples[len(samples)-1].local)
	var xs, ys []float64
	for _, s := range samples {
		xs, ys = append(xs, s.local), append(ys, s.step)
	}
	return passes * between(xs, ys, local/passes)
}

// between interpolates linearly in sorted xs, and holds the ends beyond them.
func between(xs, ys []float64, x float64) float64 {
	i := sort.SearchFloat64s(xs, x)
	switch {
	case i < len(xs) && xs[i] == x:
		return ys[i]
	case i == 0:
		return ys[0]
	case i == len(xs):
		return ys[len(ys)-1]
	}
	return ys[i-1] + (ys[i]-ys[i-1])*(x-xs[i-1])/(xs[i]-xs[i-1])
}
