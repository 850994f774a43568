package gen

import (
	"math"
	"math/rand/v2"

	"github.com/norn-scheduler/norn/job"
	"github.com/norn-scheduler/norn/perf"
	"github.com/norn-scheduler/norn/perf/predict/loss"
	"github.com/norn-scheduler/norn/sim"
)

// TuningMeter measures jobs that tune foundation models as a trainer would report them. A
// stay to be measured gives a loss trace, from a part of the data, the embedding of the task,
// the size of the data set, and the speed. A look at a running job gives its loss, the samples
// that it has gone through, and its speed. All of them have errors. Those of the loss are such
// that K is foretold from it as wrongly as the paper says.
type TuningMeter struct {
	tasks map[perf.Task]*metered
	gains map[[2]perf.Task]perf.Gain
	speed *perf.Steps
	seed  uint64
	sized bool // work follows from the sizes of data sets; else data sets are as large as the work says
}

// metered is what a meter shows of a task.
type metered struct {
	tuned
	embedding []float64
	noise     float64 // of each loss
}

const (
	profilePoints = 31   // of a loss trace, from a stay of profileTime or longer
	profileTime   = 60.0 // seconds
	speedNoise    = 0.02 // of measured speeds
	fisherNoise   = 0.05 // of each number of an embedding
)

// newMeter makes the meter of a workload. Gains are the true ones of all pairs of tasks.
func (o *FineTuning) newMeter(speed *perf.Steps) *TuningMeter {
	return &TuningMeter{tasks: map[perf.Task]*metered{}, gains: map[[2]perf.Task]perf.Gain{}, speed: speed, seed: o.Seed, sized: true}
}

// add makes known the tasks of a family, and what they truly gain from each other.
func (m *TuningMeter) add(f *Family, tasks []tuned, real []perf.Gain) {
	rng := rand.New(rand.NewPCG(m.seed, hash("embedding "+f.Name)))
	embeddings := f.embed(rng, tasks, real)
	for i := range tasks {
		m.tasks[tasks[i].task] = &metered{tasks[i], embeddings[i], f.LossNoise}
	}
	for _, g := range real {
		m.gains[[2]perf.Task{g.From, g.To}] = g
	}
}

// embed gives tasks embeddings whose similarities are correlated with the gains of pairs, as
// far as similarities can be: they are nearly the same in both directions, and gains are not.
// Each pair of tasks has a number that both are alike in, the more the higher it is.
func (f *Family) embed(rng *rand.Rand, tasks []tuned, real []perf.Gain) [][]float64 {
	n := len(tasks)
	both := make([]float64, 0, n*n/2) // mean gains of pairs
	gain := func(from, to int) float64 {
		k := max(1, int(math.Round(float64(tasks[to].k)/real[from*n+to].After)))
		return tasks[to].curve.GainFor(k)
	}
	mean, square := 0.0, 0.0
	for i := range n {
		for j := range i {
			g := (gain(i, j) + gain(j, i)) / 2
			both = append(both, g)
			mean, square = mean+g, square+g*g
		}
	}
	mean /= float64(len(both))
	spread := math.Sqrt(max(1e-12, square/float64(len(both))-mean*mean))
	r := min(1, f.Correlation*math.Sqrt2)
	out := make([][]float64, n)
	for i := range out {
		out[i] = make([]float64, len(both)+n)
		out[i][len(both)+i] = 1
	}
	at := 0
	for i := range n {
		for j := range i {
			z := r*(both[at]-mean)/spread + math.Sqrt(1-r*r)*rng.NormFloat64()
			out[i][at], out[j][at] = 1, min(1, max(0.01, 0.15+0.08*z))
			at++
		}
	}
	return out
}

// Measure implements sim.Meter.
func (m *TuningMeter) Measure(l *sim.Look, to *perf.Reading) {
	t, known := m.tasks[perf.Task{Backbone: l.Job.Backbone, Dataset: l.Job.Dataset}]
	if !known || l.Work <= 0 {
		return
	}
	rng := rand.New(rand.NewPCG(m.seed^hash(l.Job.Key), uint64(l.Number)))
	noisy := func(x, noise float64) float64 { return x * max(0.1, 1+noise*rng.NormFloat64()) }
	size, steps := m.size(l, t)
	curve := lossCurve(steps, t.curve.B0)
	to.Add(perf.EpochSize, size)
	if to.When == perf.InProfile {
		rate := m.speed.Rate(l.Job) * m.speed.On(l.Job, nil, 0, to.Setup.Tasks, to.Setup.Spread)
		to.Add(perf.Rate, noisy(rate, speedNoise))
		var loss, at []float64
		for k := range int(profilePoints * min(1, l.Ran.Seconds()/profileTime)) {
			loss = append(loss, noisy(curve.Loss(float64(k)), t.noise))
			at = append(at, float64(k)*size/stepsPerEpoch)
		}
		if len(loss) > 0 {
			to.Add(perf.Loss, loss...)
			to.Add(perf.Samples, at...)
		}
		to.Add(perf.Embedding, m.fisher(rng, t)...)
		return
	}
	if rate := l.Speed / l.Gain * m.speed.Rate(l.Job); rate > 0 {
		to.Add(perf.Rate, noisy(rate, speedNoise))
	}
	done := l.Gone.Seconds() * m.speed.Rate(l.Job)
	if l.With != nil && to.Setup.How == job.Together {
		if o, known := m.tasks[perf.Task{Backbone: l.With.Job.Backbone, Dataset: l.With.Job.Dataset}]; known {
			other, _ := m.size(l.With, o)
			done *= size / (size + other) // an epoch is one of both data sets
		}
	}
	to.Add(perf.Samples, done)
	to.Add(perf.Loss, noisy(curve.Loss(done/size*stepsPerEpoch), t.noise)/(1+m.gain(l, to.Setup.How, curve, steps)))
}

// size is how many samples the data set of a job has, and how many steps the job truly needs.
func (m *TuningMeter) size(l *sim.Look, t *metered) (samples, steps float64) {
	work := l.Work.Seconds() * m.speed.Rate(l.Job)
	if m.sized && t.set.Samples > 0 {
		return t.set.Samples, stepsPerEpoch * work / t.set.Samples
	}
	return work / t.epochs, stepsPerEpoch * t.epochs
}

// gain is the true gain of a merged job, through which its loss is lower.
func (m *TuningMeter) gain(l *sim.Look, how job.Merge, curve loss.Curve, steps float64) float64 {
	if how == job.Apart || l.With == nil {
		return 0
	}
	g, known := m.gains[[2]perf.Task{{Backbone: l.With.Job.Backbone, Dataset: l.With.Job.Dataset}, {Backbone: l.Job.Backbone, Dataset: l.Job.Dataset}}]
	factor := g.After
	if how == job.Together {
		factor = g.Together
	}
	if !known || factor <= 0 {
		return 0
	}
	return max(-0.9, curve.GainFor(int(math.Round(steps/factor))))
}

// fisher is the embedding of a task as it is measured.
func (m *TuningMeter) fisher(rng *rand.Rand, t *metered) []float64 {
	out := make([]float64, len(t.embedding))
	for i, x := range t.embedding {
		out[i] = x * max(0, 1+fisherNoise*rng.NormFloat64())
	}
	return out
}

// lossCurve is the loss, 1 at first, of a job that needs so many steps, and nearly keeps b0
// of it for ever.
func lossCurve(steps, b0 float64) loss.Curve {
	b0 = min(b0/(1+b0), max(0, 0.9*(1-steps*4*loss.Stop)))
	c := loss.Curve{B0: b0, B1: 1 / (1 - b0)}
	// The loss falls by B2/(B2 k + B1)² within a step, which is Stop after all steps.
	u := 1 + math.Sqrt(max(0, 1-4*steps*c.B1*loss.Stop))
	u /= 2 * steps * loss.Stop
	c.B2 = u * u * loss.Stop
	return c
}
