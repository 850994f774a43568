package trace

import (
	"strings"
	"time"

	"github.com/norn-scheduler/norn/cluster/unit"
	"github.com/norn-scheduler/norn/internal/titan"
	"github.com/norn-scheduler/norn/job"
)

// titanWorkload is the layout of the workloads of Titan (SoCC 2022): jobs that tune one of
// four models on one of nine data sets each, on any number of GPUs. Their run times follow
// from the passes that they need and the speeds that were measured.
func titanWorkload() Format {
	f := CSV("titan", "Titan workloads of jobs that tune models (SoCC 2022)", func(in *Input) *Table {
		in.Nominal("passes over their data at speeds fitted to Titan's measurements on V100s")
		return &Table{
			Columns: []Column{
				Col("name", Key),
				Col("submission_time", Submit(time.Second)),
				Col("application", Name),
				Col("num_gpus", GPUs),
				Col("target_batch_size", Batch),
				Col("target_lr", nil),
				Col("target_gradient_steps", nil),
				Col("target_metric", nil), // a task has one setting and one target
			},
			Finish: tunes,
		}
	})
	f.Order = Sorted
	return f
}

// tunes says of a job what it tunes, on how many GPUs, and how long that takes.
func tunes(r *Row) error {
	j := &r.Job
	name, task, _ := strings.Cut(j.Name, "@")
	m, ok := titan.Named(name)
	if !ok {
		return r.Wrong("application", "a model and its data set, such as vit@mnist; the models are vit, vit-large, roberta-base and roberta-large")
	}
	t, ok := m.Task(task)
	if !ok {
		return r.Wrong("application", "a data set on which "+name+" was measured, such as "+m.Tasks[0].Name)
	}
	if j.Batch < 1 {
		return r.Wrong("target_batch_size", "a batch size of 1 or more")
	}
	gpus, most := int(r.Shape.GPUs/unit.One), m.Most(j.Batch)
	if gpus < 1 || gpus > most {
		return r.Wrong("num_gpus", "as many GPUs as each has samples enough of a batch for, 32 at most")
	}
	j.Kind, j.Model, j.Backbone, j.Dataset = job.FineTuning, name, r.Text([]byte(name)), r.Text([]byte(task))
	j.Name, j.Units, j.Unit = name+"-"+task, t.Passes, "epochs"
	r.Shape.Tasks, r.Shape.Min, r.Shape.Max = int32(gpus), 1, int32(most)
	step := m.Step.Seconds(float64(j.Batch), gpus, gpus > titan.NodeGPUs)
	return r.setWork("target_batch_size", round(t.Passes*t.Samples/float64(j.Batch)*step, 1e-3))
}
