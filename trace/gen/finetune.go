package gen

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"time"

	"github.com/norn-scheduler/norn/job"
	"github.com/norn-scheduler/norn/perf"
	"github.com/norn-scheduler/norn/policy/ymir/estimator"
	"github.com/norn-scheduler/norn/trace"
)

// FineTuning says what workload of fine-tuning jobs is wanted, as the
// evaluation of Ymir (ICS 2024) describes it. Jobs tune a few foundation models
// on a few data sets each. They are elastic, and merge better the more their
// tasks have in common.
type FineTuning struct {
	Families []string // names of Families; none: all of them
	DataSets int      // of each family, the most used ones; 0: all nine
	Jobs     int
	GPUs     int     // of the cluster that it is meant for
	NodeGPUs int     // of a node; 0: 4
	Load     float64 // 1, 1.5 and 2 in the paper; see BaseLoad
	Seed     uint64

	// Pipelines is the share of the jobs, 0 to 1, that are pipelines, on 4 GPUs or more and
	// whole nodes of them. The paper does not say how many are.
	Pipelines float64

	// Measured has jobs tune MeasuredFamilies instead of Families.
	Measured bool

	// Foretold is how the gains that the scheduler believes in come about.
	Foretold Foretold
}

// Foretold is a way to foretell gains.
type Foretold uint8

// The ways to foretell gains.
const (
	Measured   Foretold = iota // the truth, as wrong as the paper measured K to be foretold
	Regressed                  // by a linear regression on similarities that are correlated with gains as the paper says
	Unforetold                 // not at all: tasks are strangers
)

// BaseLoad is the GPU time that is demanded at load 1 over that of the cluster, run
// times being those on one GPU. The paper names its loads only relative to each
// other.
const BaseLoad = 0.6

// Workload is a workload and what is true and believed of it.
type Workload struct {
	Entries []trace.Entry
	Speeds  *perf.Steps  // the truth; what a job is estimated to take is Job.Estimate
	Truth   *perf.Gains  // what merged jobs really gain
	Belief  *perf.Gains  // what the scheduler believes
	Meter   *TuningMeter // what can be measured of its jobs
	Switch  map[string]perf.Switch
	Span    time.Duration // from the first submission to the last
	Epochs  []float64     // by job: how often it really goes through its data
}

// tuned is one task: a family's backbone on one of its data sets.
type tuned struct {
	task   perf.Task
	set    DataSet
	curve  estimator.Curve // by tenths of an epoch
	k      int
	epochs float64
}

// stepsPerEpoch is the unit of a loss curve: tenths of an epoch.
const stepsPerEpoch = 10

// NewFineTuning makes a workload. Equal options make equal workloads. It fails on
// unknown families and on numbers that make no sense.
func NewFineTuning(o FineTuning) (*Workload, error) {
	if o.NodeGPUs == 0 {
		o.NodeGPUs = 4
	}
	families, err := o.families()
	if err != nil {
		return nil, err
	}
	if o.Jobs <= 0 || o.Jobs > maxJobs || o.GPUs <= 0 || o.GPUs > maxGPUs {
		return nil, fmt.Errorf("generator: say how many jobs and GPUs there are")
	}
	if !(o.Pipelines >= 0 && o.Pipelines <= 1) {
		return nil, fmt.Errorf("generator: a share of pipelines of %v: write 0 to 1", o.Pipelines)
	}
	if !(o.Load > 0 && o.Load <= 1000) {
		return nil, fmt.Errorf("generator: a load of %v: write a number above 0, such as 1.5", o.Load)
	}
	w, tasks := o.tasks(families)
	w.fill(&o, families, tasks)
	return w, nil
}

// tasks makes the tasks of families, and what is true and believed of them.
func (o *FineTuning) tasks(families []Family) (*Workload, [][]tuned) {
	w := &Workload{Speeds: &perf.Steps{ByBackbone: map[string]perf.Step{}, NodeGPUs: o.NodeGPUs}, Switch: map[string]perf.Switch{}}
	w.Meter = o.newMeter(w.Speeds)
	samples := map[perf.Task]float64{}
	var truth, belief []perf.Gain
	var tasks [][]tuned
	for _, f := range families {
		w.Speeds.ByBackbone[f.Name] = f.Step
		w.Switch[f.Name] = f.Cost
		rng := rand.New(rand.NewPCG(o.Seed, hash(f.Name)))
		of := f.tasks(rng)
		real, foretold := f.gains(rng, of, o.Foretold)
		w.Meter.add(&f, of, real)
		if o.DataSets > 0 {
			of = of[:o.DataSets]
		}
		truth, belief, tasks = append(truth, real...), append(belief, foretold...), append(tasks, of)
		for _, t := range of {
			samples[t.task] = t.set.Samples
		}
	}
	w.Truth, w.Belief = perf.NewGains(samples, truth), perf.NewGains(samples, belief)
	w.Truth.Rate, w.Belief.Rate = w.Speeds.Rate, w.Speeds.Rate
	return w, tasks
}

// Source is the workload as a stream of jobs. It can be asked for again and again.
func (w *Workload) Source() trace.Source { return trace.FromMemory(w.Entries) }

func (o *FineTuning) families() ([]Family, error) {
	all := Families()
	if o.Measured {
		all = MeasuredFamilies()
	}
	names := make([]string, len(all))
	for i := range all {
		names[i] = all[i].Name
	}
	switch {
	case o.NodeGPUs < 0:
		return nil, fmt.Errorf("generator: nodes of %d GPUs", o.NodeGPUs)
	case o.DataSets < 0 || o.DataSets > len(all[0].Sets):
		return nil, fmt.Errorf("generator: %d data sets; a family has %d", o.DataSets, len(all[0].Sets))
	case len(o.Families) == 0:
		return all, nil
	}
	var out []Family
	for _, name := range o.Families {
		i := slices.Index(names, name)
		if i < 0 {
			return nil, fmt.Errorf("generator: no family %q of foundation models; known are %s", name, strings.Join(names, ", "))
		}
		out = append(out, all[i])
	}
	return out, nil
}

func hash(s string) uint64 {
	h := uint64(0xcbf29ce484222325)
	for i := range len(s) {
		h = (h ^ uint64(s[i])) * 0x100000001b3
	}
	return h
}

// tasks makes the tasks of a family, the most used first: how their loss falls
// settles how many epochs they take.
func (f *Family) tasks(rng *rand.Rand) []tuned {
	sets := slices.Clone(f.Sets)
	slices.SortStableFunc(sets, func(a, b DataSet) int {
		switch {
		case a.Share > b.Share:
			return -1
		case a.Share < b.Share:
			return 1
		}
		return 0
	})
	out := make([]tuned, len(sets))
	for i, s := range sets {
		k := (f.Epochs[0] + (f.Epochs[1]-f.Epochs[0])*rng.Float64()) * stepsPerEpoch
		c := estimator.Curve{B0: 0.3 * rng.Float64(), B1: 1, B2: 1000 / (k * k)}
		t := tuned{task: perf.Task{Backbone: f.Name, Dataset: s.Name}, set: s, curve: c, k: c.Iterations(0)}
		if t.epochs = float64(t.k) / stepsPerEpoch; s.Epochs > 0 {
			t.curve.B2 = 1000 / (s.Epochs * s.Epochs * stepsPerEpoch * stepsPerEpoch)
			t.k, t.epochs = t.curve.Iterations(0), s.Epochs
		}
		out[i] = t
	}
	return out
}

// gains draws what tasks give each other, and what is believed of that.
func (f *Family) gains(rng *rand.Rand, tasks []tuned, how Foretold) (truth, belief []perf.Gain) {
	mu := (math.Log(f.Low) + math.Log(f.High)) / 2
	sigma := (math.Log(f.High) - math.Log(f.Low)) / (2 * 0.6744897501960817)
	cut := func(x float64) float64 { return min(10, max(0.5, x)) }
	if f.After != nil {
		truth = f.measured(tasks)
		return truth, truth
	}
	n := len(tasks)
	after := make([]float64, n*n)
	for i := range after {
		after[i] = cut(math.Exp(mu + sigma*rng.NormFloat64()))
	}
	for i := range n {
		for j := range n {
			// Together two tasks gain as much as each gives the other, nearly.
			both := math.Sqrt(after[i*n+j]*after[j*n+i]) * math.Exp(0.15*rng.NormFloat64())
			truth = append(truth, perf.Gain{From: tasks[i].task, To: tasks[j].task, After: after[i*n+j], Together: cut(both)})
		}
	}
	switch how {
	case Measured:
		for _, g := range truth {
			g.After, g.Together = g.After*f.Merged.draw(rng), g.Together*f.Merged.draw(rng)
			belief = append(belief, g)
		}
	case Regressed:
		belief = f.regress(rng, tasks, truth)
	}
	return truth, belief
}

// regress foretells gains as Ymir does: a similarity for each pair, the line from
// similarities to gains, and from the gain the iterations through the loss curve.
func (f *Family) regress(rng *rand.Rand, tasks []tuned, truth []perf.Gain) []perf.Gain {
	n := len(tasks)
	gain := make([]float64, len(truth))
	mean, square := 0.0, 0.0
	for i := range truth {
		to := &tasks[i%n]
		k := max(1, int(math.Round(float64(to.k)/truth[i].After)))
		gain[i] = to.curve.GainFor(k)
		mean, square = mean+gain[i], square+gain[i]*gain[i]
	}
	mean /= float64(len(gain))
	spread := math.Sqrt(max(1e-12, square/float64(len(gain))-mean*mean))
	similar := make([]float64, len(truth))
	for i := range similar {
		z := f.Correlation*(gain[i]-mean)/spread + math.Sqrt(1-f.Correlation*f.Correlation)*rng.NormFloat64()
		similar[i] = 0.5 + 0.15*z
	}
	line, err := estimator.FitLine(similar, gain)
	if err != nil {
		return nil // one task alone: nothing to learn from
	}
	ratio := func(to *tuned, s float64) float64 { return float64(to.k) / float64(to.curve.Iterations(line.Gain(s))) }
	out := slices.Clone(truth)
	for i := range out {
		from, j := i/n, i%n
		out[i].After = ratio(&tasks[j], similar[i])
		out[i].Together = ratio(&tasks[j], estimator.Both(similar[from*n+j], similar[j*n+from]))
	}
	return out
}

// draw is a factor that is as wrong as that.
func (w Wrong) draw(rng *rand.Rand) float64 {
	sigma := w.Mean * math.Sqrt(math.Pi/2)
	for {
		if e := sigma * rng.NormFloat64(); math.Abs(e) <= w.Most {
			return 1 + e
		}
	}
}

// fill draws the jobs.
func (w *Workload) fill(o *FineTuning, families []Family, tasks [][]tuned) {
	rng := rand.New(rand.NewPCG(o.Seed, 0x66696e65))
	type drawn struct {
		family    int
		task      *tuned
		epochs    float64
		one, rank float64 // GPU-seconds on one GPU; what its size is chosen by
	}
	jobs := make([]drawn, o.Jobs)
	total := 0.0
	for i := range jobs {
		d := &jobs[i]
		d.family = rng.IntN(len(families))
		d.task = choose(rng, tasks[d.family])
		d.epochs = d.task.epochs * (0.8 + 0.45*rng.Float64())
		d.one = d.epochs * d.task.set.Samples / float64(d.task.set.Batch) * families[d.family].Step.Seconds(float64(d.task.set.Batch), 1, false)
		d.rank = math.Log(d.one) + 0.5*rng.NormFloat64() // who has more work asks for more GPUs, mostly
		total += d.one
	}
	order := make([]int, len(jobs))
	for i := range order {
		order[i] = i
	}
	slices.SortStableFunc(order, func(a, b int) int {
		if jobs[a].rank < jobs[b].rank {
			return -1
		}
		return 1
	})
	asked := make([]int, len(jobs))
	for at, i := range order {
		share := (float64(at) + 0.5) / float64(len(order))
		asked[i] = askedSizes[pick(len(askedSizes), share, func(k int) float64 { return askedSizes[k].upTo })].gpus
	}
	rate := o.Load * BaseLoad * float64(o.GPUs) * float64(o.Jobs) / total // jobs a second
	var in job.Interner
	at := 0.0
	most := min(16, o.GPUs)
	plans := rand.New(rand.NewPCG(o.Seed, 0x70697065))
	for i := range jobs {
		d := &jobs[i]
		if i > 0 {
			at += rng.ExpFloat64() / rate
		}
		demand := job.GPUs(min(asked[i], most))
		demand.Roles[0].Min, demand.Roles[0].Max = 1, int32(most)
		j := job.Job{
			ID: job.ID(i), Key: fmt.Sprintf("%s-%s-%d", d.task.task.Backbone, d.task.task.Dataset, i), Submit: time.Duration(at * 1e9).Truncate(time.Millisecond),
			Demand: in.Get(demand), Kind: job.FineTuning, Model: d.task.task.Backbone, Backbone: d.task.task.Backbone, Dataset: d.task.task.Dataset,
			Batch: d.task.set.Batch, Unit: "epochs", Retries: -1,
		}
		j.Name = j.Backbone + "-" + j.Dataset
		if plans.Float64() < o.Pipelines {
			j.Hints, j.Demand = &job.Hints{Plan: job.Pipeline}, in.Get(o.stages(asked[i], most))
		}
		work := d.epochs * d.task.set.Samples / w.Speeds.Rate(&j)
		j.Estimate = seconds(work * families[d.family].Alone.draw(rng))
		j.Units = math.Round(100*d.epochs*float64(j.Estimate)/(work*1e9)) / 100
		w.Entries = append(w.Entries, trace.Entry{Job: j, Truth: trace.Truth{Work: seconds(work)}})
		w.Epochs = append(w.Epochs, d.epochs)
		w.Span = j.Submit
	}
}

// stages is what a pipeline demands that would ask for so many GPUs: whole nodes.
func (o *FineTuning) stages(asked, most int) job.Demand {
	node := min(o.NodeGPUs, most)
	d := job.GPUs(min(most/node, (asked+node-1)/node) * node)
	d.Roles[0].Min, d.Roles[0].Max = int32(node), int32(most/node*node)
	return d
}

func seconds(s float64) time.Duration {
	return max(time.Second, time.Duration(s*1e9).Truncate(time.Millisecond))
}

// choose draws a task by how much it is used.
func choose(rng *rand.Rand, tasks []tuned) *tuned {
	sum := 0.0
	for i := range tasks {
		sum += tasks[i].set.Share
	}
	x := rng.Float64() * sum
	for i := range tasks {
		if x -= tasks[i].set.Share; x < 0 {
			return &tasks[i]
		}
	}
	return &tasks[len(tasks)-1]
}
