package perf

import (
	"github.com/norn-scheduler/norn/cluster"
	"github.com/norn-scheduler/norn/job"
)

// Paced is the Sharing of jobs that own their devices and guests. Kernels of
// guests are launched in the gaps that the owners leave. A guest holds nothing
// of the device (Share.Milli is 0), and Share.Throttle slows its launches down.
//
// With u the part of the multiprocessors that a job could keep busy
// (job.Hints.GPUUse; all of them where it tells nothing), and p the part of the time
// for which a guest is not throttled:
//
//	owner: 1 / (1 + Disturb x max(0, sum of u of all owners + sum of p x u of all guests - 1))
//	guest: p x min(1, (1 - sum of u of owners) / u) x (1 - Spill x spilled part)
//
// Several guests share the gap in proportion to p x u. Memory of a guest beyond
// its share (Share.Memory) lies in main memory, and so does memory for which
// owners leave no room.
//
// Source: Xiao et al., "AntMan: Dynamic Scaling on GPU Clusters for Deep Learning",
// OSDI 2020, for the mechanism. The formulas are ours.
type Paced struct {
	Disturb float64 // what overlap costs an owner; 0: 1
	Spill   float64 // what spilled memory costs a guest; 0: 0.5
}

// guest tells whether a sharer runs in the gaps of others.
func (s Sharer) guest() bool { return s.Share.Milli == 0 }

// Beside implements Sharing: all own the device.
func (m Paced) Beside(j *job.Job, others []*job.Job, t cluster.GPUType) float64 {
	all := make([]Sharer, len(others))
	for i, o := range others {
		all[i] = Sharer{Job: o, Share: cluster.Share{Milli: 1}}
	}
	return m.Among(Sharer{Job: j, Share: cluster.Share{Milli: 1}}, all, t)
}

// Among implements Portioned. On a device of a Host type nobody disturbs anybody.
func (m Paced) Among(s Sharer, others []Sharer, t cluster.GPUType) float64 {
	awake := 1 - s.Throttled()
	if t.Host {
		return awake
	}
	var owners, guests float64
	for _, o := range others {
		if o.guest() {
			guests += (1 - o.Throttled()) * o.sm()
		} else {
			owners += (1 - o.Throttled()) * o.sm()
		}
	}
	own := s.sm()
	if !s.guest() {
		return awake / (1 + orElse(m.Disturb, 1)*max(0, awake*own+owners+guests-1))
	}
	gap := max(0, 1-owners)
	if want := max(own, awake*own+guests); want > gap {
		awake *= gap / want
	}
	return awake * (1 - min(1, orElse(m.Spill, 0.5))*m.Spilled(s))
}

// Spilled is the part of a guest's memory that lies in main memory, as far as it
// tells what it takes, from 0 to 1.
func (Paced) Spilled(s Sharer) float64 {
	takes := MemoryOf(s.Job)
	if !s.guest() || takes <= 0 || s.Share.Memory >= takes {
		return 0
	}
	return float64(takes-s.Share.Memory) / float64(takes)
}

// Spills implements Spilling: guests do.
func (Paced) Spills(s Sharer) bool { return s.guest() }

// Busy implements Gauged.
func (m Paced) Busy(s Sharer, others []Sharer, t cluster.GPUType) float64 {
	return s.sm() * m.Among(s, others, t)
}

func orElse(x, other float64) float64 {
	if x <= 0 {
		return other
	}
	return x
}
