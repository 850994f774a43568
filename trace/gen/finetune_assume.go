package gen

import (
	"cmp"
	"math/rand/v2"

	"github.com/norn-scheduler/norn/job"
	"github.com/norn-scheduler/norn/trace"
)

// AssumedTuning is a trace in which jobs that are just a number of GPUs, and do
// not tell what they tune, are taken to tune a foundation model. Each is given
// a family and a data set, drawn by their frequency, with the batch size and
// the epochs of that. Jobs of one name are given the same. They become elastic,
// from one GPU to 16 or what they ask for. How long they run as they asked is
// left as it is, and so is every other job.
//
// Requests to a base model that is served, which name the model but no data
// set, are played as if each tuned a model. Those of one base model are given
// one family, and those of one user of it one data set.
type AssumedTuning struct {
	*Workload // what is true and believed of the tasks; it has no entries

	From  trace.Source
	Jobs  int // given something so far
	seed  uint64
	tasks [][]tuned
	in    job.Interner
}

// AssumeTuning makes such a trace of another one. Of the options, Families, DataSets,
// NodeGPUs, Seed and Foretold count.
func AssumeTuning(from trace.Source, o FineTuning) (*AssumedTuning, error) {
	if o.NodeGPUs == 0 {
		o.NodeGPUs = 4
	}
	families, err := o.families()
	if err != nil {
		return nil, err
	}
	a := &AssumedTuning{From: from, seed: o.Seed}
	a.Workload, a.tasks = o.tasks(families)
	a.Meter.sized = false
	return a, nil
}

// Next implements trace.Source.
func (a *AssumedTuning) Next(e *trace.Entry) error {
	if err := a.From.Next(e); err != nil {
		return err
	}
	j := &e.Job
	served := j.Kind == job.Inference && j.Backbone != "" && j.Dataset == ""
	if !served && (j.Backbone != "" || j.Kind == job.Inference) || !j.Demand.Plain() {
		return nil
	}
	family, task := cmp.Or(j.Name, j.Key), cmp.Or(j.Name, j.Key)
	if served {
		family, task = j.Backbone, j.Backbone+" "+j.User
	}
	rng := rand.New(rand.NewPCG(a.seed, hash(family)))
	tasks := a.tasks[rng.IntN(len(a.tasks))]
	if task != family {
		rng = rand.New(rand.NewPCG(a.seed, hash(task)))
	}
	t := choose(rng, tasks)
	d := *j.Demand
	if !d.Elastic() {
		d.Roles[0].Min, d.Roles[0].Max = 1, max(16, d.Roles[0].Tasks)
		j.Demand = a.in.Get(d)
	}
	j.Kind, j.Backbone, j.Dataset, j.Batch = job.FineTuning, t.task.Backbone, t.task.Dataset, t.set.Batch
	j.Units, j.Unit = t.epochs, "epochs"
	a.Jobs++
	return nil
}
