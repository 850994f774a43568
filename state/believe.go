package state

import (
	"github.com/norn-scheduler/norn/cluster"
	"github.com/norn-scheduler/norn/job"
	"github.com/norn-scheduler/norn/perf"
)

// Believe tells how fast jobs are believed to run. A type on which a job would
// stand still, whatever its size, is not among those that it can have
// (Class.Mask). Without it every acceptable type will do. Earlier decisions for
// jobs stay as they are.
func (s *State) Believe(m perf.Typed) {
	s.speeds = m
	for i := range s.Jobs() {
		if r := s.Record(job.ID(i)); r.Job.Demand != nil {
			r.Class = s.class(r.Job.Demand, r.Pool, stillTypes(s.speeds, s.Cluster, r.Job))
			r.Mask = s.classes[r.Class].Mask
		}
	}
}

// stillTypes is the acceptable GPU types on which a job is believed to stand still.
func stillTypes(speeds perf.Typed, c *cluster.Cluster, j *job.Job) (m cluster.TypeMask) {
	if speeds == nil || j.Demand.Milli(j.Demand.Roles[0].Tasks) == 0 {
		return 0
	}
	j.Demand.EachType(c, func(t cluster.TypeID) bool {
		if !moves(speeds, c, j, t) {
			m |= 1 << t
		}
		return true
	})
	return m
}

// moves tells whether a job is believed to make progress on GPUs of a type, at the size
// that it asks for or at any other that it may have.
func moves(speeds perf.Typed, c *cluster.Cluster, j *job.Job, t cluster.TypeID) bool {
	at := func(tasks int32) bool {
		return speeds.On(j, c, t, int(tasks), false) > 0 || speeds.On(j, c, t, int(tasks), true) > 0
	}
	if at(j.Demand.Roles[0].Tasks) {
		return true
	}
	least, most := j.Demand.Roles[0].Range()
	for n := least; n <= most; n++ {
		if at(n) {
			return true
		}
	}
	return false
}

// without is the acceptable types of a demand but for some; 0: none is left.
func without(c *cluster.Cluster, d *job.Demand, mask, still cluster.TypeMask) (m cluster.TypeMask) {
	d.EachType(c, func(t cluster.TypeID) bool {
		if mask.Has(t) && !still.Has(t) {
			m |= 1 << t
		}
		return true
	})
	return m
}
