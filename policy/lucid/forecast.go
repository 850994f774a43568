package lucid

import (
	"time"

	"github.com/norn-scheduler/norn/job"
	"github.com/norn-scheduler/norn/perf/predict/boost"
	"github.com/norn-scheduler/norn/sched"
)

// step is a period of the forecast, ahead is how many of them it is the mean of.
const (
	step  = 10 * time.Minute
	ahead = 5
	day   = 24 * time.Hour
)

// throughput foresees how many jobs will come in each of the next steps, or how many
// GPUs they will ask for. It is a function of what was submitted before the last step
// began and of the time.
type throughput struct {
	trees  boost.Config
	gpus   bool      // GPUs count, not jobs
	counts []float64 // of the steps that are over
	seen   int       // jobs that are counted
	at     int       // the step for which mean holds, + 1
	mean   float64
	model  *boost.Model
	grown  int // steps from which the model was grown
}

// next is the mean number of jobs, or GPUs, that come in each of the next steps.
func (f *throughput) next(v *sched.View) (float64, error) {
	now := int(v.Now / step)
	if f.at == now+1 {
		return f.mean, nil
	}
	for len(f.counts) < now {
		f.counts = append(f.counts, 0)
	}
	for ; f.seen < v.Jobs(); f.seen++ {
		j := v.Job(job.ID(f.seen))
		s := int(max(0, j.Submit()) / step)
		if s >= now {
			break // jobs are numbered in order of submission
		}
		if f.gpus {
			f.counts[s] += float64(j.GPUs())
		} else if j.GPUs() > 0 {
			f.counts[s]++
		}
	}
	f.at = now + 1
	var err error
	if today := now / perDay * perDay; today > f.grown {
		f.grown = today
		err = f.grow(f.counts[:today])
	}
	if f.model != nil {
		f.mean = max(0, f.model.Predict(f.features(nil, now)))
	} else {
		f.mean = mean(f.counts[max(0, now-6):now])
	}
	return f.mean, err
}

// perDay is the steps of a day.
const perDay = int(day / step)

// mostSteps bounds what is learnt from: 60 days.
const mostSteps = 60 * perDay

// grow learns from the steps before a day began.
func (f *throughput) grow(counts []float64) (err error) {
	var x, y []float64
	for s := max(6, len(counts)-mostSteps); s+ahead <= len(counts); s++ {
		x = f.features(x, s)
		y = append(y, mean(counts[s:s+ahead]))
	}
	if len(y) < 2*f.trees.Leaf {
		return nil
	}
	f.model, err = boost.Train(f.trees, x, y)
	return err
}

// features are what is known of the time before a step: the hour and the day, what
// came in the last step, the last hour, the hour before it and the same time a day
// ago.
func (f *throughput) features(x []float64, s int) []float64 {
	last := func(from, to int) float64 { return mean(f.counts[max(0, s-from):max(0, s-to)]) }
	return append(x, float64(s%perDay/6), float64(s/perDay%7), last(1, 0), last(6, 0), last(12, 6), last(perDay, perDay-ahead))
}

func mean(v []float64) float64 {
	sum := 0.0
	for _, x := range v {
		sum += x
	}
	return sum / max(1, float64(len(v)))
}
