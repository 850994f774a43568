package gen

import (
	"github.com/norn-scheduler/norn/job"
	"github.com/norn-scheduler/norn/trace"
)

// AssumedSlices is a trace in which the workers of jobs of several whole GPUs take turns on fewer of
// them, one at least (job.TimeSliced). A job that is elastic as it is, or tells how it comes to
// another size, is left as it is, and so is every other job.
type AssumedSlices struct {
	Source trace.Source
	Jobs   int // changed so far

	in job.Interner
}

// Next implements trace.Source.
func (a *AssumedSlices) Next(e *trace.Entry) error {
	if err := a.Source.Next(e); err != nil {
		return err
	}
	j := &e.Job
	if tasks := j.Demand.Roles[0].Tasks; j.Demand.Plain() && tasks > 1 && !j.Demand.Elastic() && j.Kind != job.Inference && j.Resize == job.ByRestart {
		d := *j.Demand
		d.Roles[0].Min, d.Roles[0].Max = 1, tasks
		j.Demand, j.Resize = a.in.Get(d), job.TimeSliced
		a.Jobs++
	}
	return nil
}
