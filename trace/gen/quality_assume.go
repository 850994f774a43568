package gen

import (
	"math"
	"math/rand/v2"
	"time"

	"github.com/norn-scheduler/norn/job"
	"github.com/norn-scheduler/norn/perf"
	"github.com/norn-scheduler/norn/perf/predict/loss"
	"github.com/norn-scheduler/norn/sim"
	"github.com/norn-scheduler/norn/trace"
)

// AssumedQuality is a trace in which training jobs of whole GPUs report how their loss falls.
// They become elastic, from one GPU to 64 or what they ask for. Other jobs are left as they
// are, and so are sizes of jobs that are elastic already.
type AssumedQuality struct {
	Source trace.Source
	Jobs   int // that report
	in     job.Interner
}

// mostQuality is the most tasks of jobs that become elastic.
const mostQuality = 64

// Next implements trace.Source.
func (a *AssumedQuality) Next(e *trace.Entry) error {
	if err := a.Source.Next(e); err != nil {
		return err
	}
	j := &e.Job
	if !improves(j) {
		return nil
	}
	if j.Demand.Plain() && !j.Demand.Elastic() {
		d := *j.Demand
		d.Roles[0].Min, d.Roles[0].Max = 1, max(mostQuality, d.Roles[0].Tasks)
		j.Demand = a.in.Get(d)
	}
	a.Jobs++
	return nil
}

// improves tells whether a job trains something and reports its loss.
func improves(j *job.Job) bool {
	return j.Kind != job.Inference && j.Demand.GPUs() > 0 && (j.Demand.Plain() || j.Demand.Elastic())
}

// QualityMeter measures how the losses of jobs fall. A job goes through its data 40 to 400
// times, and ends when 2 to 10 % of the loss that it can lose are left. Five of seven jobs
// converge as first-order methods do, as 1/(1+ak), the others linearly, as mu^k: so many of the
// algorithms of SLAQ's evaluation do. That is drawn from the seed and the key of the job.
// After each epoch a job knows its loss, with an error.
//
// A job also reports its accuracy, which is nine tenths of what its loss has fallen of all that it can.
type QualityMeter struct {
	Seed   uint64
	Epochs func(*job.Job) (samples, epochs float64) // how large an epoch is, and how many there are; nil: 10,000 samples, and drawn
}

const (
	qualityEvery   = 3 * time.Second // of reports
	qualitySamples = 10_000          // of an epoch
	qualityError   = 0.0005          // of a loss, at most
	qualityPoints  = 32              // of a report
	fewEpochs      = 40
	moreEpochs     = 10 // times as many at most
)

// Every implements sim.Reporter.
func (m QualityMeter) Every(*job.Job) time.Duration { return qualityEvery }

// quality is how the loss of a job truly falls.
type quality struct {
	samples float64 // of an epoch
	epochs  float64 // that it goes through
	form    loss.Form
	never   float64 // the loss that is left for ever
}

// accuracy is that with a loss.
func (q *quality) accuracy(l float64) float64 {
	return max(0, 0.9*(1-(l-q.never)/(q.form.Loss(0)-q.never)))
}

// of draws how the loss of a job falls.
func (m QualityMeter) of(j *job.Job) quality {
	rng := rand.New(rand.NewPCG(m.Seed, hash("quality "+j.Key)))
	q := quality{samples: qualitySamples, epochs: math.Round(fewEpochs * math.Pow(moreEpochs, rng.Float64()))}
	if m.Epochs != nil {
		q.samples, q.epochs = m.Epochs(j)
	}
	left := 0.02 + 0.08*rng.Float64()
	scale := math.Pow(10, 2*rng.Float64()-1)
	floor := 0.5 * rng.Float64() * scale
	q.never = floor
	if rng.IntN(7) < 5 {
		q.form = loss.Curve{B0: floor, B1: 1 / scale, B2: (1/left - 1) / q.epochs / scale}
	} else {
		q.form = loss.Geometric{Floor: floor, Height: scale, Rate: -math.Log(left) / q.epochs}
	}
	return q
}

// Measure implements sim.Meter: the losses after the epochs since the last report, as far as
// one was due, of the present allocation.
func (m QualityMeter) Measure(l *sim.Look, to *perf.Reading) {
	if l.Work <= 0 || !improves(l.Job) {
		return
	}
	q := m.of(l.Job)
	rng := rand.New(rand.NewPCG(m.Seed^hash(l.Job.Key), uint64(l.Number)))
	done := float64(l.Progress) / float64(l.Work) * q.epochs
	speed := l.Speed * q.epochs / l.Work.Seconds() // epochs in a second
	since := max(qualityEvery, l.Ran/8).Seconds()
	from := math.Floor(max(0, done-min(l.Ran.Seconds(), since)*speed))
	if l.Number > 0 {
		from++
	}
	var losses, at []float64
	for k, step := from, max(1, math.Ceil((done-from)/qualityPoints)); k <= done; k += step {
		losses = append(losses, q.form.Loss(k)*(1+qualityError*(2*rng.Float64()-1)))
		at = append(at, k*q.samples)
	}
	to.Add(perf.EpochSize, q.samples)
	if speed > 0 {
		to.Add(perf.Rate, speed*q.samples)
	}
	if n := len(losses); n > 0 {
		to.Add(perf.Accuracy, q.accuracy(losses[n-1]))
		to.Add(perf.Loss, losses...)
		to.Add(perf.Samples, at...)
	} else {
		to.Add(perf.Samples, math.Floor(done)*q.samples)
	}
}
