package perf

import (
	"math"

	"github.com/norn-scheduler/norn/cluster"
	"github.com/norn-scheduler/norn/job"
)

// ModelOn names jobs of a model on GPUs of a type, both as they are written; an empty
// model means all jobs for whose model nothing is said.
type ModelOn struct {
	Model, Type string
}

// Declared is declared speeds on GPU types, at least 0, where the type to which
// run times refer has 1. 0 means that the job cannot run there. Of types for
// which nothing is said, the speed is that of the type itself
// (cluster.GPUType.Speed). Speeds of elastic jobs grow in proportion to their
// size. A gang waits for its slowest member.
type Declared map[ModelOn]float64

// On implements Typed.
func (d Declared) On(j *job.Job, c *cluster.Cluster, t cluster.TypeID, tasks int, spread bool) float64 {
	name := c.Type(t).Name
	speed, ok := d[ModelOn{j.Model, name}]
	if !ok || j.Model == "" {
		speed, ok = d[ModelOn{"", name}]
	}
	linear := Analytic{Scaling: 1, Spread: 1}
	if !ok {
		return linear.On(j, c, t, tasks, spread)
	}
	return speed * linear.scaling(j, tasks)
}

// Speed implements Model.
func (d Declared) Speed(j *job.Job, c *cluster.Cluster, a *cluster.Alloc) float64 {
	slowest, seen := math.Inf(1), cluster.TypeMask(0)
	for i := range a.Shares {
		if t := c.TypeOf(a.Shares[i].Device); seen&(1<<t) == 0 {
			slowest = min(slowest, d.On(j, c, t, a.Tasks(0), a.Nodes() > 1))
			seen |= 1 << t
		}
	}
	if seen == 0 {
		return Analytic{Scaling: 1, Spread: 1}.Speed(j, c, a)
	}
	return slowest
}
