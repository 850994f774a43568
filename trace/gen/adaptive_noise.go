package gen

import (
	"time"

	"github.com/norn-scheduler/norn/job"
	"github.com/norn-scheduler/norn/perf"
	"github.com/norn-scheduler/norn/trace"
)

// noises is the gradient noise scale of each model over its training: of up to twenty
// parts of it where the part begins, from 0 to 1, and the mean over its epochs at the first
// batch size, in samples.
//
// Source: grad_sqr and grad_var in the profiles published with Pollux (OSDI 2021). Where
// the measured gradient is 0, the noise is without bound, which 1e9 stands for.
var noises = map[string][][2]float64{
	"resnet18":    {{0, 102}, {0.05, 512}, {0.1, 1280}, {0.15, 1900}, {0.2, 2370}, {0.25, 2690}, {0.3, 3090}, {0.35, 3530}, {0.4, 4030}, {0.45, 4530}, {0.5, 5130}, {0.55, 5840}, {0.6, 7220}, {0.65, 8580}, {0.7, 11100}, {0.75, 15200}, {0.8, 19900}, {0.85, 24500}, {0.9, 26100}, {0.95, 33800}},
	"neumf":       {{0, 18600}, {0.1, 7.67e6}, {0.2, 2.97e5}, {0.3, 6.9e6}, {0.4, 7.49e6}, {0.5, 2.08e7}, {0.6, 1.83e7}, {0.7, 4.78e7}, {0.8, 3.92e7}, {0.9, 5.91e7}},
	"deepspeech2": {{0, 10.5}, {0.05, 110}, {0.1, 460}, {0.15, 963}, {0.2, 1780}, {0.25, 3340}, {0.3, 7430}, {0.35, 18000}, {0.4, 15200}, {0.45, 24800}, {0.5, 27900}, {0.55, 46200}, {0.6, 68500}, {0.65, 6.12e5}, {0.7, 1e9}, {0.75, 6.24e6}, {0.8, 2.39e5}, {0.85, 1.3e5}, {0.9, 1e9}, {0.95, 2.42e5}},
	"bert":        {{0, 423}, {0.5, 1120}},
	"yolov3":      {{0, 0.832}, {0.04, 221}, {0.1, 322}, {0.14, 333}, {0.2, 330}, {0.24, 419}, {0.3, 526}, {0.34, 520}, {0.4, 480}, {0.44, 459}, {0.5, 547}, {0.54, 633}, {0.6, 639}, {0.64, 770}, {0.7, 927}, {0.74, 1350}, {0.8, 1700}, {0.84, 2320}, {0.9, 4650}, {0.94, 5660}},
	"resnet50":    {{0, 1860}, {0.0444, 5000}, {0.1, 5540}, {0.144, 5800}, {0.2, 5940}, {0.244, 6020}, {0.3, 6810}, {0.344, 11800}, {0.4, 11500}, {0.444, 11400}, {0.5, 11300}, {0.544, 11300}, {0.6, 11300}, {0.644, 13200}, {0.7, 14600}, {0.744, 14200}, {0.8, 14200}, {0.844, 14300}, {0.9, 14300}, {0.944, 14400}},
}

// stages are the noises of a model.
func (m *adaptive) stages() (all []perf.Stage) {
	for _, s := range noises[m.model] {
		all = append(all, perf.Stage{From: s[0], Noise: s[1]})
	}
	return all
}

// tuned is the batch of a user who has tried the first one, twice, four times and so on as
// much of it, on so many GPUs of one node with the noise of the middle of the training.
func (m *adaptive) tuned(gpus int) (best int) {
	most := 0.0
	for batch := range m.Batches.Doubled() {
		if value := m.Fixed(gpus, false, batch); value > most {
			best, most = batch, value
		}
	}
	return best
}

// train gives a job the batch of a user who has tuned it for the GPUs that he asked for,
// unless it tells its own, and the noise of its gradients as it goes on, which it reports.
func (m *adaptive) train(j *job.Job, t *trace.Truth) {
	if j.Batch <= 0 {
		j.Batch = m.tuned(j.Demand.GPUs())
	}
	j.Batch = min(max(j.Batch, m.Batches.First), m.Batches.Most)
	if t.Course != nil {
		return
	}
	for _, s := range m.stages() {
		from := time.Duration(s.From * float64(t.Work))
		if n := len(t.Course); n == 0 || from > t.Course[n-1].From {
			t.Course = append(t.Course, trace.Turn{From: from, Reported: job.Reported{Noise: s.Noise}})
		}
	}
}
