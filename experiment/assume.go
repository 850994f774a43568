package experiment

import (
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/norn-scheduler/norn/cluster"
	"github.com/norn-scheduler/norn/cluster/unit"
	"github.com/norn-scheduler/norn/perf"
	"github.com/norn-scheduler/norn/policy/param"
	"github.com/norn-scheduler/norn/sim"
	"github.com/norn-scheduler/norn/trace"
	"github.com/norn-scheduler/norn/trace/clusterspec"
	"github.com/norn-scheduler/norn/trace/gen"
)

// Assumption is what the jobs of a trace are taken to be that do not tell, so
// that any trace can be run under policies which need to know it. The empty one
// assumes nothing. Properties that a job declares are left as they are.
type Assumption string

// The assumptions. Some change the world, too: how fast jobs are, what starts cost, how
// jobs disturb each other.
const (
	AssumeBatches       Assumption = "batches"       // they train one of six models and add up gradients where their batch does not fit
	AssumeBursts        Assumption = "bursts"        // their iterations send in bursts, as those of one of thirteen models
	AssumeCommunication Assumption = "communication" // they synchronise by parameter servers or all-reduce, over what they are linked by
	AssumeCPU           Assumption = "cpu"           // they train one of ten models that need cores and memory beside their GPUs
	AssumeDatacenter    Assumption = "datacenter"    // what norn trace generate --like datacenter makes: services by the hour, jobs that tune, jobs that need cores
	AssumeDLRM          Assumption = "dlrm"          // they train one of twelve recommendation models
	AssumeGoodput       Assumption = "goodput"       // they train one of six models, on any number of GPUs, with the batch that is best there
	AssumeHybrid        Assumption = "hybrid"        // they train one of fourteen large models, on any GPU type, with the best parallel plan there
	AssumeScaling       Assumption = "scaling"       // they train one of seven models, on any number of GPUs, with a batch that stays
	AssumeQuality       Assumption = "quality"       // they report how their loss falls, on any number of GPUs
	AssumeServices      Assumption = "services"      // as AssumeUse, and an online service runs on each GPU
	AssumeSlices        Assumption = "slices"        // their workers take turns on fewer GPUs than they ask for
	AssumeStages        Assumption = "stages"        // they go through the stages of one of eight models
	AssumeTasks         Assumption = "tasks"         // they train one of eight models with the batch that they are told
	AssumeTransfer      Assumption = "transfer"      // they tune one of four foundation models, and gain from each other as was measured
	AssumeTuning        Assumption = "tuning"        // they tune one of three foundation models
	AssumeUse           Assumption = "use"           // they use as much of their GPUs as measured training jobs do
)

// assumption is one line of the table.
type assumption struct {
	name  Assumption
	title string // what jobs are taken to do

	// jobs gives the jobs of a source what is assumed. The remark says afterwards of how
	// many; it is empty for none.
	jobs func(src trace.Source, o *Preparation) (jobs trace.Source, remark func() string, err error)

	// world changes an experiment; nil: the world is as it was.
	world func(x *Experiment) error
}

// assumptions are all of them.
func assumptions() []assumption {
	return []assumption{
		{AssumeBatches, "gangs train one of six models, and add up the gradients of smaller batches", accumulating, func(x *Experiment) error { return x.rebatch(gen.AssumeAccumulation(nil, x.Seed)) }},
		{AssumeBursts, "gangs send in bursts over the network, in iterations of one of thirteen models", bursting, nil},
		{AssumeCommunication, "gangs synchronise by parameter servers or all-reduce, as in PAI, over the links of a node or the network", communicating, func(x *Experiment) error {
			of, ok := x.Model.(perf.Typed)
			if !ok {
				of = perf.Analytic{Scaling: 1, Spread: 1}
			}
			x.Model = &gen.Communication{Seed: x.Seed, Of: of}
			return nil
		}},
		{AssumeCPU, "jobs train one of ten models that need cores and memory beside GPUs", rationed, func(x *Experiment) error { return x.ration() }},
		{AssumeDatacenter, "jobs train, tune, serve and compute graphs, as norn trace generate --like datacenter has them", using, func(x *Experiment) error { return x.mix() }},
		{AssumeDLRM, "jobs of one GPU train one of twelve recommendation models", recommending, nil},
		{AssumeGoodput, "jobs train one of six models on 1 to 64 GPUs, and their gradients get noisier", adaptive, func(x *Experiment) error { return x.adapt() }},
		{AssumeHybrid, "jobs train one of fourteen large models, on 1 to 16 GPUs of any type, with the best parallel plan there", planned, func(x *Experiment) error {
			if _, told := x.Model.(*perf.Plans); !told {
				x.Model = &perf.Plans{}
			}
			return nil
		}},
		{AssumeQuality, "jobs report how their loss falls, on 1 to 64 GPUs", improving, func(x *Experiment) error {
			x.alter(func(c *sim.Config) {
				if c.Meter == nil {
					c.Meter = lossMeter{gen.QualityMeter{Seed: x.Seed}}
				}
			})
			return nil
		}},
		{AssumeScaling, "jobs train one of seven models on 1 to 64 GPUs, with a batch that stays", scaling, func(x *Experiment) error {
			x.Model = gen.ScalingSpeeds()
			return nil
		}},
		{AssumeServices, "as use, with an online service on each GPU", besideServices, func(x *Experiment) error { return x.serve() }},
		{AssumeSlices, "workers of jobs of several GPUs take turns on fewer of them", slicing, nil},
		{AssumeStages, "jobs go through the stages of one of eight models, on all their GPUs", staged, nil},
		{AssumeTasks, "jobs of one GPU train one of eight models with the batch that they are told", tasked, func(x *Experiment) error { return x.rebatch(gen.AssumeTasks(nil, x.Seed)) }},
		{AssumeTransfer, "jobs of whole GPUs fine-tune ViT or RoBERTa, and gain from each other as was measured", transferring, func(x *Experiment) error { return x.tune(true) }},
		{AssumeTuning, "jobs of whole GPUs fine-tune one of three foundation models, on 1 to 16 GPUs", tuning, func(x *Experiment) error { return x.tune(false) }},
		{AssumeUse, "jobs use their GPUs as much as measured training jobs do", using, func(x *Experiment) error {
			x.alter(func(c *sim.Config) { c.Meter = useMeter{x.Seed} })
			return nil
		}},
	}
}

// Assumptions are all that can be assumed of jobs, by name.
func Assumptions() []string {
	var names []string
	for _, a := range assumptions() {
		names = append(names, string(a.name))
	}
	return names
}

// About says in a clause what an assumption takes jobs to do; it is empty for one that is
// not known.
func (a Assumption) About() string {
	for _, known := range assumptions() {
		if known.name == a {
			return known.title
		}
	}
	return ""
}

// ParseAssumption reads the name of an assumption; the empty one assumes nothing. It
// fails on another name, and says which there are.
func ParseAssumption(s string) (Assumption, error) {
	if s == "" {
		return "", nil
	}
	_, err := Assumption(s).find()
	return Assumption(s), err
}

func (a Assumption) find() (assumption, error) {
	all := assumptions()
	if i := slices.IndexFunc(all, func(o assumption) bool { return o.name == a }); i >= 0 {
		return all[i], nil
	}
	return assumption{}, fmt.Errorf("%s cannot be assumed: write %s%s", a, oneOf(Assumptions()), param.Near(string(a), Assumptions()))
}

// oneOf lists names of which one is to be chosen.
func oneOf(names []string) string {
	last := len(names) - 1
	return strings.Join(names[:last], ", ") + " or " + names[last]
}

// assuming is the experiment in the world that its assumption makes. It fails on what
// is not known of an assumption or a slowdown.
func (x *Experiment) assuming() (*Experiment, error) {
	if err := x.Slowdown.Check(); err != nil {
		return nil, err
	}
	if x.Assume == "" {
		return x, nil
	}
	a, err := x.Assume.find()
	if err != nil || a.world == nil {
		return x, err
	}
	y := *x
	return &y, a.world(&y)
}

// alter has the simulated world changed, after all that changes it already.
func (x *Experiment) alter(change func(*sim.Config)) {
	before := x.World
	x.World = func(c *sim.Config) {
		if before != nil {
			before(c)
		}
		change(c)
	}
}

// told is the remark about an assumption: what of the jobs was not told, and what they
// are taken to do.
func (o *Preparation) told(jobs *int, what, taken string) func() string {
	return func() string {
		if *jobs == 0 {
			return ""
		}
		return fmt.Sprintf("what %s %s was not told: each was taken to %s (--assume %s, --seed %d)", unit.CountOrNo(*jobs, "job"), what, taken, o.Assume, o.Seed)
	}
}

// namedText is the remark about jobs that were given a model which was measured.
func (o *Preparation) namedText(jobs int) string {
	if jobs == 0 {
		return ""
	}
	return fmt.Sprintf("what %s train was not told: each was taken to train one of the %s in %s, drawn by its number (--seed %d)",
		unit.CountOrNo(jobs, "job"), unit.CountOrNo(len(o.Pairs.Models), "model"), o.Pairs.File, o.Seed)
}

func recommending(src trace.Source, o *Preparation) (trace.Source, func() string, error) {
	a := &gen.Assumed{Source: src, Seed: o.Seed}
	return a, o.told(&a.Jobs, "demand", "train a recommendation model, drawn by its number"), nil
}

func using(src trace.Source, o *Preparation) (trace.Source, func() string, error) {
	a := &gen.AssumedUse{Source: src, Seed: o.Seed}
	return a, o.told(&a.Jobs, "use of their GPUs", "use as much as training jobs do that were measured, drawn by its number"), nil
}

func bursting(src trace.Source, o *Preparation) (trace.Source, func() string, error) {
	a := &gen.AssumedBursts{Source: src, Seed: o.Seed}
	return a, o.told(&a.Jobs, "send in an iteration", "send when one of thirteen models does, that of its name or one drawn by its number"), nil
}

func communicating(src trace.Source, o *Preparation) (trace.Source, func() string, error) {
	a := &gen.AssumedCommunication{Source: src, Of: &gen.Communication{Seed: o.Seed}}
	return a, o.told(&a.Jobs, "compute, load and synchronise", "do so as a job of PAI may, drawn by its number"), nil
}

func staged(src trace.Source, o *Preparation) (trace.Source, func() string, error) {
	a := &gen.AssumedStages{Source: src, Seed: o.Seed}
	return a, o.told(&a.Jobs, "do in an iteration", "go through the stages of one of eight models, that of its name or one drawn by its number"), nil
}

func adaptive(src trace.Source, o *Preparation) (trace.Source, func() string, error) {
	a := &gen.AssumedAdaptive{Source: src, Seed: o.Seed}
	said := o.told(&a.Jobs, "train, or how it scales,", "train one of six models on 1 to 64 GPUs, with its own batch size or one that suits what it asks for, and gradients that get noisier; that of its name or one drawn by its name")
	return a, func() string {
		text := said()
		if a.Others > 0 {
			text += fmt.Sprintf("; %s that train other models (such as %s) scale without loss and report nothing", unit.Count(a.Others, "elastic job"), a.Other)
		}
		return strings.TrimPrefix(text, "; ")
	}, nil
}

func slicing(src trace.Source, o *Preparation) (trace.Source, func() string, error) {
	a := &gen.AssumedSlices{Source: src}
	return a, o.told(&a.Jobs, "do on fewer GPUs", "have its workers take turns there, on one GPU or more"), nil
}

func scaling(src trace.Source, o *Preparation) (trace.Source, func() string, error) {
	a := &gen.AssumedScaling{Source: src, Seed: o.Seed}
	return a, o.told(&a.Jobs, "scale to other numbers of GPUs", "scale as was measured of one of seven models on 1 to 64 GPUs, that of its name and batch or one drawn by its name"), nil
}

func planned(src trace.Source, o *Preparation) (trace.Source, func() string, error) {
	site, err := o.Spec.Build()
	if err != nil {
		return nil, nil, err
	}
	a := &gen.AssumedHybrid{Source: src, Seed: o.Seed, Cluster: site.Cluster, Plans: o.Plans}
	return a, o.told(&a.Jobs, "could run on otherwise", "train a large model with the best parallel plan on any power of two of GPUs up to 16, of any type; that of its name or one drawn by its name"), nil
}

// adapt has jobs be as fast as their models are with their batches, on each GPU type, and their
// steps be measured, unless something else is measured.
func (x *Experiment) adapt() error {
	site, err := x.Spec.Build()
	if err != nil {
		return err
	}
	meter := stepMeter{x.Seed, gen.AdaptiveSpeeds(), map[string]cluster.GPUType{}}
	for t := range cluster.TypeID(site.Cluster.Types()) {
		of := site.Cluster.Type(t)
		meter.types[of.Name] = of
	}
	x.Model = meter.truth
	x.alter(func(c *sim.Config) {
		if c.Meter == nil {
			c.Meter = meter
		}
	})
	return nil
}

func improving(src trace.Source, o *Preparation) (trace.Source, func() string, error) {
	a := &gen.AssumedQuality{Source: src}
	return a, o.told(&a.Jobs, "lose as they train", "report a loss that falls as those of first-order methods or linearly, on 1 to 64 GPUs, drawn by its key"), nil
}

func tasked(src trace.Source, o *Preparation) (trace.Source, func() string, error) {
	a := gen.AssumeTasks(src, o.Seed)
	return a, o.told(&a.Jobs, "train", "train one of eight models with the batch that it is told, that of its name or one drawn by its number"), nil
}

func accumulating(src trace.Source, o *Preparation) (trace.Source, func() string, error) {
	a := gen.AssumeAccumulation(src, o.Seed)
	return a, o.told(&a.Jobs, "train", "train one of six models and add up gradients where its batch does not fit, that of its name or one drawn by its number"), nil
}

// rebatch has jobs train with the batches that they are told, as those of a trace do.
func (x *Experiment) rebatch(a *gen.AssumedBatches) error {
	x.alter(func(c *sim.Config) {
		if c.Sharing == nil {
			c.Sharing = perf.Demands{}
		}
		c.Sharing, c.Measure = a.Sharing(c.Sharing), true
	})
	return nil
}

func tuning(src trace.Source, o *Preparation) (trace.Source, func() string, error) {
	return tuningOne(src, o, false, "tune a foundation model, on 1 to 16 GPUs or as many as it asked for, drawn by its name")
}

func transferring(src trace.Source, o *Preparation) (trace.Source, func() string, error) {
	return tuningOne(src, o, true, "tune ViT or RoBERTa, base or large, on 1 to 16 GPUs or as many as it asked for, drawn by its name")
}

func tuningOne(src trace.Source, o *Preparation, measured bool, taken string) (trace.Source, func() string, error) {
	a, err := gen.AssumeTuning(src, gen.FineTuning{Seed: o.Seed, Measured: measured})
	if err != nil {
		return nil, nil, err
	}
	return a, o.told(&a.Jobs, "tune", taken), nil
}

// tune has jobs tune foundation models: how fast they are at each size, what they learn
// from each other, and what it costs to begin one with and without a runtime, unless the
// experiment says what transitions cost. The models are those that were measured with their
// gains, or those of Ymir's evaluation.
func (x *Experiment) tune(measured bool) error {
	tuned, err := gen.AssumeTuning(nil, gen.FineTuning{Seed: x.Seed, Measured: measured})
	if err != nil {
		return err
	}
	x.Model, x.Transfer = tuned.Speeds, tuned.Belief
	if x.Costs == nil {
		x.Costs = &perf.Costs{Switch: tuned.Switch}
	}
	x.alter(func(c *sim.Config) { c.Transfer, c.Meter = tuned.Truth, tuned.Meter })
	return nil
}

func rationed(src trace.Source, o *Preparation) (trace.Source, func() string, error) {
	a := &gen.AssumedRations{Source: src, Seed: o.Seed, Grids: perf.MeasuredGrids()}
	taken := "train one of ten models, drawn by its number"
	if _, _, filled := fill(o.Spec); filled > 0 {
		taken += fmt.Sprintf("; and %s to have %v cores and %v for each GPU", unit.CountOrNo(filled, "node"), perf.FairShare().CPU, perf.FairShare().Memory)
	}
	return a, o.told(&a.Jobs, "train, or what it needs of cores and memory,", taken), nil
}

// ration has the speed of jobs depend on the cores and the memory that they have, as was
// measured. A job is as fast as its trace says with what the GPUs of the cluster have on
// average.
func (x *Experiment) ration() error {
	spec, share, _ := fill(x.Spec)
	of, _ := x.Model.(perf.Typed)
	truth := &perf.Grids{Of: of, Models: perf.MeasuredGrids(), Share: share}
	x.Spec, x.Model = spec, truth
	x.alter(func(c *sim.Config) { c.Meter = rationMeter{truth, x.Seed} })
	return nil
}

// fill is a cluster whose nodes all tell cores and memory: those that tell neither have
// what the servers had on which the needs of jobs were measured. It returns what there
// is for each GPU on average, and how many nodes were filled.
func fill(of *clusterspec.Spec) (spec *clusterspec.Spec, share perf.Ration, filled int) {
	c := *of
	c.Nodes = slices.Clone(of.Nodes)
	var all perf.Ration
	gpus := 0
	for i := range c.Nodes {
		n, each := &c.Nodes[i], 0
		for _, g := range n.GPUs {
			each += g.Count
		}
		if each > 0 && n.CPU == 0 && n.Memory == 0 {
			n.CPU, n.Memory = perf.FairShare().CPU*unit.Milli(each), perf.FairShare().Memory*unit.Bytes(each)
			filled += n.Count
		}
		if each > 0 {
			gpus += each * n.Count
			all.CPU, all.Memory = all.CPU+n.CPU*unit.Milli(n.Count), all.Memory+n.Memory*unit.Bytes(n.Count)
		}
	}
	if gpus > 0 {
		share = perf.Ration{CPU: all.CPU / unit.Milli(gpus), Memory: all.Memory / unit.Bytes(gpus)}
	}
	return &c, share, filled
}

// servicesFor is for how long services run at least.
const servicesFor = 7 * 24 * time.Hour

// lasting gives services the time of a trace: they run for seven days, or for longer until a
// day after the last job was submitted, in whole days. The trace is read whole before the first
// of them.
type lasting struct {
	all *gen.AssumedServices
	ran bool
}

// Next implements trace.Source.
func (l *lasting) Next(e *trace.Entry) error {
	if !l.ran {
		l.ran = true
		var jobs []trace.Entry
		var last time.Duration
		for {
			var e trace.Entry
			if err := l.all.Source.Next(&e); errors.Is(err, io.EOF) {
				break
			} else if err != nil {
				return err
			}
			last = max(last, e.Job.Submit)
			jobs = append(jobs, e)
		}
		const day = 24 * time.Hour
		l.all.Source, l.all.Of.For = trace.FromMemory(jobs), max(servicesFor, (last/day+2)*day)
	}
	return l.all.Next(e)
}

// services are one for each GPU of a cluster.
func services(spec *clusterspec.Spec, seed uint64) (gen.Services, error) {
	of := gen.Services{For: servicesFor, Seed: seed}
	site, err := spec.Build()
	if err != nil {
		return of, err
	}
	for p := range cluster.PoolID(site.Cluster.Pools()) {
		of.Services += site.Cluster.TotalGPUs(p, 0)
	}
	for t := range cluster.TypeID(site.Cluster.Types()) {
		if m := site.Cluster.Type(t).Memory; m > 0 && (of.Memory == 0 || m < of.Memory) {
			of.Memory = m
		}
	}
	if of.Memory == 0 {
		of.Memory = 32 * unit.GiB
	}
	return of, nil
}

// besideServices puts a service on each GPU, ahead of the jobs of a trace, which use as
// much of their GPUs as is assumed where they tell nothing.
func besideServices(src trace.Source, o *Preparation) (trace.Source, func() string, error) {
	of, err := services(o.Spec, o.Seed)
	if err != nil {
		return nil, nil, err
	}
	use := &gen.AssumedUse{Source: src, Seed: o.Seed}
	all := &gen.AssumedServices{Source: use, Of: of}
	return &lasting{all: all}, func() string {
		return fmt.Sprintf("%s were put on the GPUs, each of which uses a part of one for %s, more by day than by night; what %s use of their GPUs was not told, and was drawn (--assume %s, --seed %d)",
			unit.CountOrNo(all.Jobs, "service"), unit.Human(all.Of.For), unit.CountOrNo(use.Jobs, "job"), o.Assume, o.Seed)
	}, nil
}

// mix has services run beside jobs that tune foundation models and jobs that need cores: the worlds
// of AssumeServices, AssumeTuning and AssumeCPU together.
func (x *Experiment) mix() error {
	tune := func() error { return x.tune(false) }
	for _, world := range []func() error{tune, x.ration, x.serve} {
		if err := world(); err != nil {
			return err
		}
	}
	tuned, err := gen.AssumeTuning(nil, gen.FineTuning{Seed: x.Seed})
	if err != nil {
		return err
	}
	truth, _ := x.Model.(*perf.Grids)
	x.alter(func(c *sim.Config) {
		c.Meter = mixMeter{servedMeter{useMeter{x.Seed}}, rationMeter{truth, x.Seed}, tuned.Meter}
	})
	return nil
}

// serve has services run. A job that shares with a service is kept to its part, and a
// part of the jobs that fail take the service down.
func (x *Experiment) serve() error {
	of, err := services(x.Spec, x.Seed)
	if err != nil {
		return err
	}
	x.alter(func(c *sim.Config) {
		c.Sharing, c.Measure, c.Load = perf.Served{}, true, of.Load()
		c.Crash, c.Reset = 0.01, 20*time.Second
		c.Meter = servedMeter{useMeter{x.Seed}}
	})
	return nil
}
