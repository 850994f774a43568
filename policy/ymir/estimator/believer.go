package estimator

import (
	"fmt"
	"math"
	"time"

	"github.com/norn-scheduler/norn/cluster"
	"github.com/norn-scheduler/norn/job"
	"github.com/norn-scheduler/norn/perf"
	"github.com/norn-scheduler/norn/perf/predict/loss"
)

// Believer is what Ymir believes of jobs that tune foundation models, from what was measured of
// them. It implements perf.Believer, perf.RunTimes, perf.Typed, perf.Transfer and perf.Telling.
// Of other jobs it believes the prior, and of these until they are measured.
type Believer struct {
	prior perf.Prior
	rates rates
	jobs  map[job.ID]*belief
	shown gains
}

// NewBeliever makes a believer that has observed nothing.
func NewBeliever(prior perf.Prior) *Believer {
	if prior.Speeds == nil {
		prior.Speeds = perf.Analytic{Scaling: 1, Spread: 1}
	}
	b := &Believer{prior: prior, rates: rates{}, jobs: map[job.ID]*belief{}, shown: newGains()}
	if _, nothing := prior.Transfer.(perf.Strangers); !nothing {
		b.shown.prior = prior.Transfer
	}
	return b
}

// belief is what is believed of one job.
type belief struct {
	trace  []Sample // loss by steps of a tenth of an epoch, from the backbone
	curve  Curve
	k      int     // steps that it needs from the backbone; 0: not known yet
	off    float64 // mean distance of the trace from the curve, over the largest loss
	size   float64 // samples of its data set
	done   float64 // samples that it had gone through at the last measurement
	ref    float64 // samples in a second in its reference configuration; 0: not known yet
	how    job.Merge
	from   string  // data set of the job that it goes on from, or is trained with
	gain   float64 // that it showed in that; see sees
	sees   bool
	number int // measurements
}

// stepsPerEpoch is the unit of loss curves: k counts tenths of an epoch.
const stepsPerEpoch = 10

func task(j *job.Job) perf.Task { return perf.Task{Backbone: j.Backbone, Dataset: perf.TaskOf(j)} }

// Observe implements perf.Believer.
func (b *Believer) Observe(j *job.Job, m *perf.Reading) {
	if j.Backbone == "" {
		return
	}
	x := b.jobs[j.ID]
	if x == nil {
		x = &belief{}
		b.jobs[j.ID] = x
	}
	x.number++
	if rate, ok := m.Figure(perf.Rate); ok && rate > 0 && m.Setup.How != job.Together && len(m.Setup.Beside) == 0 {
		b.rates.observe(j, m.Setup.Type, m.Setup.Tasks, rate)
	}
	if size, ok := m.Figure(perf.EpochSize); ok && size > 0 {
		x.size = size
	}
	if e := m.Series(perf.Embedding); e != nil {
		b.shown.embed(task(j), e)
	}
	if m.When != perf.InProfile {
		if n, ok := m.Figure(perf.Samples); ok {
			x.done = max(0, n)
		}
		x.how, x.from = m.Setup.How, m.Setup.With
	}
	b.loss(j, x, m)
	if m.When == perf.AtEnd {
		b.ended(j, x)
	}
}

// loss takes in a loss trace. The trace of a job that trains apart shows how many steps
// it needs. That of a job that trains with another one shows how much this gains.
func (b *Believer) loss(j *job.Job, x *belief, m *perf.Reading) {
	loss, at := m.Series(perf.Loss), m.Series(perf.Samples)
	if len(loss) != len(at) || x.size <= 0 {
		return
	}
	step := x.size / stepsPerEpoch
	if m.Setup.How != job.Apart && m.When != perf.InProfile {
		if last := len(loss) - 1; x.k > 0 && last >= 0 && loss[last] > 0 && at[last] > 0 {
			b.show(j, x, x.curve.Loss(at[last]/step)*largest(x.trace)/loss[last]-1)
		}
		return
	}
	for i := range loss {
		if loss[i] > 0 && len(x.trace) < maxTrace {
			x.trace = append(x.trace, Sample{K: at[i] / step, Loss: loss[i]})
		}
	}
	if len(loss) > 0 {
		b.fit(j, x)
	}
}

// maxTrace bounds the points to which a curve is fitted.
const maxTrace = 1024

// fit foretells how many steps a job needs.
func (b *Believer) fit(j *job.Job, x *belief) {
	points := loss.Normalize(x.trace)
	c, err := loss.Fit(points)
	if err != nil {
		return
	}
	x.curve, x.k, x.off = c, c.Iterations(0), 0
	for _, p := range points {
		x.off += math.Abs(c.Loss(p.K)-p.Loss) / float64(len(points))
	}
	b.shown.curve(task(j), c, x.size)
}

func largest(trace []Sample) float64 {
	most := 0.0
	for _, s := range trace {
		most = max(most, s.Loss)
	}
	return most
}

// ended takes in that a job has done its work: a pair shows what it gains by the steps that
// it really needed.
func (b *Believer) ended(j *job.Job, x *belief) {
	if x.how == job.After && x.k > 0 && x.size > 0 {
		b.show(j, x, x.curve.GainFor(int(math.Round(x.done*stepsPerEpoch/x.size))))
	}
	x.trace = nil
}

// show takes in a gain that was seen, in place of what the same job showed before.
func (b *Believer) show(j *job.Job, x *belief, gain float64) {
	gain = min(maxGain, max(-0.9, gain))
	if x.from == "" {
		return
	}
	p := pair{task(j), perf.Task{Backbone: j.Backbone, Dataset: x.from}, x.how}
	if x.sees {
		b.shown.add(p, gain-x.gain, 0)
	} else {
		b.shown.add(p, gain, 1)
	}
	x.gain, x.sees = gain, true
}

// maxGain bounds a gain that is believed to have been seen.
const maxGain = 100

// RunTime implements perf.RunTimes.
func (b *Believer) RunTime(j *job.Job) (left time.Duration, why string, ok bool) {
	x := b.jobs[j.ID]
	if j.Backbone == "" || x == nil || x.k == 0 || x.size <= 0 {
		return -1, "", j.Backbone != ""
	}
	if x.ref == 0 {
		x.ref, _ = b.rates.at(j, "", max(1, int(j.Demand.Roles[0].Tasks)))
	}
	if x.ref <= 0 {
		return -1, "", true
	}
	alone, need := float64(x.k), float64(x.k)
	if x.how != job.Apart {
		need = float64(x.curve.Iterations(b.gain(j, x)))
	}
	done := min(1-leastLeft, x.done*stepsPerEpoch/x.size/need)
	samples := alone * (1 - done) * x.size / stepsPerEpoch
	return time.Duration(min(samples/x.ref, 1e9) * 1e9), b.steps(x), true
}

// leastLeft is the part of its work that a job is believed to have left that has already
// done more than was foretold.
const leastLeft = 0.02

// steps says how many steps a job is believed to need, and why.
func (b *Believer) steps(x *belief) string {
	points := fmt.Sprintf("%d points of its loss trace", len(x.trace))
	if len(x.trace) == 0 {
		points = "its loss trace"
	}
	return fmt.Sprintf("K = %d steps of a tenth of an epoch, from %s, which are off the curve by %.1f %%", x.k, points, 100*x.off)
}

// gain is what a merged job is believed to gain: what it has shown, or else what is foretold.
func (b *Believer) gain(j *job.Job, x *belief) float64 {
	if x.sees {
		return x.gain
	}
	g, _ := b.shown.gain(pair{task(j), perf.Task{Backbone: j.Backbone, Dataset: x.from}, x.how})
	return g
}

// Epochs is how often a job had gone through its data when it was measured last.
func (b *Believer) Epochs(j *job.Job) float64 {
	if x := b.jobs[j.ID]; x != nil && x.size > 0 {
		return x.done / x.size
	}
	return 0
}

// Speed implements perf.Model.
func (b *Believer) Speed(j *job.Job, c *cluster.Cluster, a *cluster.Alloc) float64 {
	if j.Backbone == "" || len(a.Shares) == 0 {
		return b.prior.Speeds.Speed(j, c, a)
	}
	return b.On(j, c, c.TypeOf(a.Shares[0].Device), a.Tasks(0), a.Nodes() > 1)
}

// On implements perf.Typed. Between sizes that were measured speeds are interpolated.
func (b *Believer) On(j *job.Job, c *cluster.Cluster, t cluster.TypeID, tasks int, spread bool) float64 {
	if j.Backbone == "" {
		return b.prior.Speeds.On(j, c, t, tasks, spread)
	}
	asked, typ := max(1, int(j.Demand.Roles[0].Tasks)), c.Type(t).Name
	ref := 0.0
	if x := b.jobs[j.ID]; x != nil {
		ref = x.ref
	}
	if ref == 0 {
		ref, _ = b.rates.at(j, typ, asked)
	}
	if rate, ok := b.rates.at(j, typ, tasks); ok && ref > 0 {
		return rate / ref
	}
	return b.prior.Speeds.On(j, c, t, tasks, spread)
}

// After implements perf.Transfer.
func (b *Believer) After(j, first *job.Job) float64 {
	if j.Backbone == "" || j.Backbone != first.Backbone {
		return perf.Strangers{}.After(j, first)
	}
	if x := b.jobs[j.ID]; x != nil && x.sees && x.how == job.After && x.k > 0 {
		return float64(x.k) / float64(x.curve.Iterations(x.gain))
	}
	return b.shown.table().AfterTask(b.Task(j), b.Task(first))
}

// Together implements perf.Transfer.
func (b *Believer) Together(j, o *job.Job, left [2]time.Duration) (fa, fb float64) {
	if j.Backbone == "" || j.Backbone != o.Backbone {
		return perf.Strangers{}.Together(j, o, left)
	}
	return b.shown.table().TogetherTask(b.Task(j), b.Task(o), b.Samples(j, left[0]), b.Samples(o, left[1]))
}

// Task is the number of the task of a job; -1 for one of which nothing was measured.
func (b *Believer) Task(j *job.Job) int { return b.shown.table().TaskOf(task(j)) }

// Samples is how many samples a job goes through in a run time in its reference
// configuration.
func (b *Believer) Samples(j *job.Job, d time.Duration) float64 {
	if x := b.jobs[j.ID]; x != nil && x.ref > 0 {
		return x.ref * d.Seconds()
	}
	return d.Seconds()
}

// AfterTask is After for numbers of tasks.
func (b *Believer) AfterTask(j, first int) float64 { return b.shown.table().AfterTask(j, first) }

// TogetherTask is Together for numbers of tasks with so many samples left.
func (b *Believer) TogetherTask(j, o int, left, other float64) (fa, fb float64) {
	return b.shown.table().TogetherTask(j, o, left, other)
}

// Grounds implements perf.Telling.
func (b *Believer) Grounds(j *job.Job) []string {
	if j.Backbone == "" {
		return nil
	}
	x := b.jobs[j.ID]
	if x == nil {
		return []string{"nothing was measured of it yet"}
	}
	out := []string{"it was measured, but its loss does not tell yet how many steps it needs"}
	if x.k > 0 {
		out[0] = "needs " + b.steps(x)
	}
	if text := b.rates.text(j); text != "" {
		out = append(out, text)
	}
	if x.sees {
		out = append(out, fmt.Sprintf("its loss shows a gain of %.2g from %s", x.gain, x.from))
	}
	return append(out, b.shown.text(j.Backbone))
}

// GainGrounds implements perf.Telling.
func (b *Believer) GainGrounds(j, first *job.Job) string {
	return b.shown.grounds(pair{task(j), task(first), job.After})
}
