package trace

import (
	"fmt"
	"math"
	"time"

	"github.com/norn-scheduler/norn/cluster/unit"
	"github.com/norn-scheduler/norn/internal/regime"
	"github.com/norn-scheduler/norn/job"
)

// Jobs of Shockwave's traces change their batch size as they go on. Run times are told
// for the batch with which they begin.

// shockwaveV100 is steps per second on 1, 2, 4 and 8 V100 GPUs of the throughputs that
// are published with Shockwave (NSDI 2023, tacc_throughputs), to four digits; 0 not
// measured.
var shockwaveV100 = map[string][4]float64{
	"LM (batch size 10)":               {94.91, 109.8, 175, 188.9},
	"LM (batch size 20)":               {68.05, 90.37, 146.9, 171.3},
	"LM (batch size 40)":               {46.82, 66.98, 114.9, 150.3},
	"LM (batch size 5)":                {133.8, 125.6, 198.9, 199.3},
	"LM (batch size 80)":               {21.71, 36.34, 68.13, 103.4},
	"Recommendation (batch size 1024)": {107.3, 0, 0, 0},
	"Recommendation (batch size 2048)": {59.26, 0, 0, 0},
	"Recommendation (batch size 4096)": {25.07, 0, 0, 0},
	"Recommendation (batch size 512)":  {169.3, 0, 0, 0},
	"Recommendation (batch size 8192)": {11.63, 0, 0, 0},
	"ResNet-18 (batch size 128)":       {11.78, 21.78, 43.01, 80.25},
	"ResNet-18 (batch size 16)":        {57.68, 84.83, 151.4, 194.5},
	"ResNet-18 (batch size 256)":       {6.32, 12.11, 23.53, 44.49},
	"ResNet-18 (batch size 32)":        {42.97, 66.71, 130.1, 184.9},
	"ResNet-18 (batch size 64)":        {21.43, 37.35, 72.91, 135},
	"ResNet-50 (batch size 128)":       {1.598, 3.079, 6.09, 11.68},
	"ResNet-50 (batch size 16)":        {10.6, 13.02, 36.88, 69.47},
	"ResNet-50 (batch size 32)":        {5.899, 6.969, 21.56, 42.16},
	"ResNet-50 (batch size 64)":        {3.108, 5.939, 11.64, 22.95},
	"Transformer (batch size 128)":     {1.151, 2.15, 4.073, 7.068},
	"Transformer (batch size 16)":      {8.713, 13.81, 27.53, 41.05},
	"Transformer (batch size 32)":      {4.531, 8.057, 15.14, 27.17},
	"Transformer (batch size 64)":      {2.075, 3.758, 7.162, 12.77},
}

// newShockwaveSpeed is the speed of a job type, of Options.Profile or as built in.
func newShockwaveSpeed(in *Input) (gavelSpeed, error) {
	if in.Options.Profile == "" {
		return func(jobType string, gpus int) (float64, bool) { return atGPUs(shockwaveV100[jobType], gpus) }, nil
	}
	table, err := readGavelProfile(in.Options.Profile, in.Options.GPU)
	if err != nil {
		return nil, err
	}
	return table.speed, nil
}

// mostEpochs bounds the epochs of a job whose course is worked out.
const mostEpochs = 1 << 20

// adapts gives a job its epochs, its course by the rules of its mode, and the batch
// sizes that come in it. A job whose model or speed is not known, or that never changes,
// has no course. Where a batch was not measured, the job keeps the one before.
func (each gavelSpeed) adapts(r *Row) {
	j, gpus := &r.Job, int(r.Shape.GPUs/unit.One)
	name := func(batch int) string { return fmt.Sprintf("%s (batch size %d)", j.Model, batch) }
	own, ok := each(name(j.Batch), gpus)
	if !ok || own <= 0 || j.Batch < 1 || regime.Samples(j.Model) == 0 {
		return
	}
	epochs := int(min(mostEpochs, math.Ceil(j.Units/float64(regime.Iterations(j.Model, j.Batch)))))
	if r.Hints().Epochs = int32(epochs); r.Truth.Work < time.Duration(epochs) {
		return
	}
	shape := regime.Shape{Model: j.Model, Batch: j.Batch, GPUs: gpus}
	turns := []Turn{{Reported: job.Reported{Batch: int32(j.Batch), Pace: 1}}}
	for e := 1; e < epochs; e++ {
		batch, last := j.Batch, &turns[len(turns)-1]
		switch r.Hints().Adapts {
		case "gns":
			batch = shape.GNS(e)
		case "accordion":
			batch = shape.Accordion(e, epochs)
		}
		if int32(batch) == last.Batch {
			continue
		}
		if speed, ok := each(name(batch), gpus); ok && speed > 0 {
			turns = append(turns, Turn{part(r.Truth.Work, e, epochs), job.Reported{
				Batch: int32(batch), Epoch: int32(e), Pace: math.Round(speed*float64(batch)/own/float64(j.Batch)*1e4) / 1e4,
			}})
		}
	}
	if len(turns) > 1 {
		r.Truth.Course, r.Hints().Modes = turns, modesOf(turns)
	}
}

// part is the work of so many epochs.
func part(work time.Duration, epoch, epochs int) time.Duration {
	return time.Duration(float64(work) / float64(epochs) * float64(epoch))
}

// modesOf lists the batch sizes of a course, in order of size.
func modesOf(turns []Turn) (modes [job.MaxModes]job.Mode) {
	n := 0
	for i := range turns {
		m := job.Mode{Batch: turns[i].Batch, Pace: turns[i].Pace}
		at := 0
		for at < n && modes[at].Batch < m.Batch {
			at++
		}
		if n == len(modes) || at < n && modes[at].Batch == m.Batch {
			continue
		}
		copy(modes[at+1:], modes[at:n])
		modes[at] = m
		n++
	}
	return modes
}
