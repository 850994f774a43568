package perf

import (
	"github.com/norn-scheduler/norn/cluster"
	"github.com/norn-scheduler/norn/job"
)

// Configured is a Model that knows by itself how the speed of a job depends on what
// it trains with.
type Configured interface {
	Model
	// With is the speed of j on a, as Speed tells it, while it trains with cfg.
	With(j *job.Job, c *cluster.Cluster, a *cluster.Alloc, cfg job.Config) float64
}

// With is the speed of a job on an Alloc while it trains with cfg. A Model that is not
// Configured tells the speed with the batch that the user asked for, which the pace of
// the job is multiplied by. The workers of a job may take turns (On).
func With(m Model, j *job.Job, c *cluster.Cluster, a *cluster.Alloc, cfg job.Config) float64 {
	if j.Resize == job.TimeSliced {
		if speed, ok := slicedOn(m, j, c, a); ok {
			return speed * cfg.Reported.Times()
		}
	}
	if of, ok := m.(Configured); ok {
		return of.With(j, c, a, cfg)
	}
	return m.Speed(j, c, a) * cfg.Reported.Times()
}
