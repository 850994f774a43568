package state

import (
	"github.com/norn-scheduler/norn/cluster"
	"github.com/norn-scheduler/norn/job"
	"github.com/norn-scheduler/norn/perf"
)

// Believe tells how fast jobs are believed to run. A type on which a job would stand still,
// whatever its size, is not among those that it can have (Class.Mask). Without it every
// acceptable type will do. What was decided for jobs before stays as it is.
func (s *State) Believe(m perf.Typed) {
	s.speeds = m
	for i := range s.Jobs() {
		if r := s.Record(job.ID(i)); r.Job.Demand != nil {
			r.Class = s.class(r.Job.Demand, r.Pool, s.still(r.Job))
			r.Mask = s.classes[r.Class].Mask
		}
	}
}

// still is the acceptable GPU types on which a job is believed to stand still.
func (s *State) still(j *job.Job) (m cluster.TypeMask) {
	if s.speeds == nil || j.Demand.Milli(j.Demand.Roles[0].Tasks) == 0 {
		return 0
	}
	j.Demand.EachType(s.Cluster, func(t cluster.TypeID) bool {
		if !s.moves(j, t) {
			m |= 1 << t
		}
		return true
	})
	return m
}

// moves tells whether a job is believed to get on with GPUs of a type, at the size that it
// asks for or at any other that it may have.
func (s *State) moves(j *job.Job, t cluster.TypeID) bool {
	at := func(tasks int32) bool {
		return s.speeds.On(j, s.Cluster, t, int(tasks), false) > 0 || s.speeds.On(j, s.Cluster, t, int(tasks), true) > 0
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
func (s *State) without(d *job.Demand, mask, still cluster.TypeMask) (m cluster.TypeMask) {
	d.EachType(s.Cluster, func(t cluster.TypeID) bool {
		if mask.Has(t) && !still.Has(t) {
			m |= 1 << t
		}
		return true
	})
	return m
}
