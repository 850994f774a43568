package gen

import (
	"cmp"
	"math/rand/v2"

	"github.com/norn-scheduler/norn/job"
	"github.com/norn-scheduler/norn/perf"
	"github.com/norn-scheduler/norn/trace"
)

// AssumedScaling is a trace in which jobs of whole GPUs train a model whose speed was measured
// on 1, 2, 4, ... 64 GPUs, with a batch that stays as it is. A job that tells its model and its
// batch trains that, where it was measured. If a job tells no model, one that was measured at the
// size of the job is drawn from a seed and its name. These jobs become elastic, from one
// GPU to the most that were measured. How long they run as they asked is left as it is, and so is
// every other job.
type AssumedScaling struct {
	Source trace.Source
	Seed   uint64
	Jobs   int // given something so far

	curves perf.Curves
	in     job.Interner
}

// ScalingSpeeds is how fast the jobs of an AssumedScaling run.
func ScalingSpeeds() perf.Curves {
	all := perf.Curves{}
	for _, list := range [][]scaled{scaledBesides, scaledModels} { // those on A100s count where both are there
		for _, s := range list {
			all[s.Trained] = s.Curve
		}
	}
	return all
}

// Next implements trace.Source.
func (a *AssumedScaling) Next(e *trace.Entry) error {
	if err := a.Source.Next(e); err != nil {
		return err
	}
	if a.curves == nil {
		a.curves = ScalingSpeeds()
	}
	j := &e.Job
	if !j.Demand.Plain() || j.Kind == job.Inference || j.Demand.Elastic() {
		return nil
	}
	if j.Model == "" {
		a.draw(j)
	}
	curve := a.curves.Of(j)
	if curve.Rate(j.Demand.GPUs()) == 0 {
		return nil
	}
	d := *j.Demand
	least, most := 0, 1<<(len(curve)-1)
	for least < len(curve) && curve[least] == 0 {
		least++
	}
	if d.Roles[0].Min, d.Roles[0].Max = int32(1<<least), int32(most); d.Elastic() {
		j.Demand = a.in.Get(d)
		a.Jobs++
	}
	return nil
}

// draw gives a job that tells no model one of those that were measured at its size.
func (a *AssumedScaling) draw(j *job.Job) {
	var fit []*scaled
	for i := range scaledModels {
		if s := &scaledModels[i]; s.Rate(j.Demand.GPUs()) > 0 {
			fit = append(fit, s)
		}
	}
	if len(fit) == 0 {
		return
	}
	s := fit[rand.New(rand.NewPCG(a.Seed, hash(cmp.Or(j.Name, j.Key)))).IntN(len(fit))]
	j.Model, j.Batch = s.Model, s.Batch
}
