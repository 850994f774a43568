package simtest

import (
	"fmt"

	"github.com/norn-scheduler/norn/cluster"
	"github.com/norn-scheduler/norn/job"
	"github.com/norn-scheduler/norn/perf"
	"github.com/norn-scheduler/norn/state"
)

// still is a model in which jobs of vgg16 stand still on GPUs of type A. Gangs
// of resnet50 of more than two stand still on GPUs of type B, where smaller
// ones have half of their speed.
type still struct{}

// On implements perf.Typed.
func (still) On(j *job.Job, c *cluster.Cluster, t cluster.TypeID, tasks int, _ bool) float64 {
	switch name := c.Type(t).Name; {
	case j.Model == "vgg16" && name == "A", j.Model == "resnet50" && name == "B" && tasks > 2:
		return 0
	case j.Model == "resnet50" && name == "B":
		return 0.5
	}
	return 1
}

// Speed implements perf.Model: a gang waits for its slowest member.
func (m still) Speed(j *job.Job, c *cluster.Cluster, a *cluster.Alloc) float64 {
	speed := 1.0
	for _, s := range a.Shares {
		speed = min(speed, m.On(j, c, c.TypeOf(s.Device), a.Tasks(0), false))
	}
	return speed
}

// moves checks that a job is on no GPUs of a type on which it is believed to stand still.
func moves(s *state.State, id job.ID, speeds perf.Typed) error {
	if speeds == nil {
		return nil
	}
	r, a := s.Record(id), s.Alloc(id)
	for _, share := range a.Shares {
		t := s.Cluster.TypeOf(share.Device)
		if speeds.On(r.Job, s.Cluster, t, a.Tasks(0), a.Nodes() > 1) <= 0 {
			return fmt.Errorf("job %s is on GPUs of type %s, where it is believed to stand still", r.Job.Key, s.Cluster.Type(t).Name)
		}
	}
	return nil
}
