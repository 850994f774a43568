package perf

import (
	"math/bits"

	"github.com/norn-scheduler/norn/cluster"
	"github.com/norn-scheduler/norn/job"
)

// Trained names what a curve is of: a model, trained with a global batch.
type Trained struct {
	Model string
	Batch int
}

// Curve is what a job does in a second on 1, 2, 4, ... GPUs, in units of its own; 0 where it
// cannot run or was not measured.
type Curve []float64

// Rate is the units in a second on so many GPUs. Between two sizes that were measured it lies on
// the line between them. It is 0 outside of them.
func (c Curve) Rate(gpus int) float64 {
	if gpus <= 0 {
		return 0
	}
	i := bits.Len(uint(gpus)) - 1
	if i >= len(c) || c[i] <= 0 {
		return 0
	}
	below := 1 << i
	if gpus == below {
		return c[i]
	}
	if i+1 >= len(c) || c[i+1] <= 0 {
		return 0
	}
	return c[i] + (c[i+1]-c[i])*float64(gpus-below)/float64(below)
}

// Curves is how jobs scale: by what was measured of the model and batch that they train. The
// speed of an elastic job is its rate over that at the size its user asked for, times the
// speed of the GPU type. All other jobs, and those of which nothing was measured, scale without
// loss. Curves must not change once they are used.
type Curves map[Trained]Curve

// Of is the curve of a job; nil: nothing was measured of it.
func (m Curves) Of(j *job.Job) Curve { return m[Trained{j.Model, j.Batch}] }

// Speed implements Model.
func (m Curves) Speed(j *job.Job, c *cluster.Cluster, a *cluster.Alloc) float64 {
	return Analytic{Scaling: 1, Spread: 1}.Speed(j, c, a) * m.bend(j, a.Tasks(0))
}

// On implements Typed.
func (m Curves) On(j *job.Job, c *cluster.Cluster, t cluster.TypeID, tasks int, spread bool) float64 {
	return Analytic{Scaling: 1, Spread: 1}.On(j, c, t, tasks, spread) * m.bend(j, tasks)
}

// bend is the speed of a job with so many tasks over that with no loss.
func (m Curves) bend(j *job.Job, tasks int) float64 {
	asked := int(j.Demand.Roles[0].Tasks)
	curve := m.Of(j)
	if !j.Demand.Elastic() || tasks == asked || tasks <= 0 || curve.Rate(asked) == 0 {
		return 1
	}
	return curve.Rate(tasks) / curve.Rate(asked) * float64(asked) / float64(tasks)
}
