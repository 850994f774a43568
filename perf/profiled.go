package perf

import (
	"time"

	"github.com/norn-scheduler/norn/cluster"
	"github.com/norn-scheduler/norn/job"
)

// Profiled is the Sharing that suits what is known of the jobs on a device.
// They take turns at its resources if each declares the stages of its iteration
// (Interleave). Otherwise they share what each demands (Demands).
type Profiled struct {
	Turns  Interleave
	Others Demands
}

// Beside implements Sharing.
func (m Profiled) Beside(j *job.Job, others []*job.Job, t cluster.GPUType) float64 {
	staged := hasStages(j)
	for _, o := range others {
		staged = staged && hasStages(o)
	}
	if staged {
		return m.Turns.Beside(j, others, t)
	}
	return m.Others.Beside(j, others, t)
}

func hasStages(j *job.Job) bool { return j.Hints != nil && j.Hints.Stages != [3]time.Duration{} }
