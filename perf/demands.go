package perf

import (
	"github.com/norn-scheduler/norn/cluster"
	"github.com/norn-scheduler/norn/job"
)

// Demands is a Sharing made from what each job keeps busy when it is alone. The
// resources are the multiprocessors of the GPU, the bandwidth of its memory,
// the way to the host, and the processors. The numbers are job.Hints.GPUUse,
// MemoryUse, HostUse and CPUUse, each from 0 to 1.
//
// A resource is overloaded if all jobs on a device together would keep it busy
// for more than all of the time, sum d > 1. It then takes sum d times as long,
// and a job feels that during the part of its time in which it uses the
// resource:
//
//	slowdown of j = 1 + sum over resources r of d[j,r] x (max(1, sum d[r]) - 1)
//	              + Switch x number of others
//
// So whoever uses what is short is slowed down, and whoever uses nothing of it is
// not. The zero Demands has no cost of switching, as under MPS. A job that tells
// no demands at all is taken to keep the multiprocessors busy all of the time.
type Demands struct {
	Switch float64 // cost of switching between processes, for each other one: 0.03 without MPS

	// Of tells what a job demands, in place of its hints; nil: the hints.
	Of func(*job.Job) Demand
}

// Demand is what a job keeps busy when it is alone, as parts of the device or
// node: multiprocessors, bandwidth of GPU memory, way to the host, processors.
type Demand [4]float64

// The places in a Demand.
const (
	SM = iota
	Bandwidth
	HostLink
	Processors
)

// Hinted is the demand that a job's hints tell; ok is false when they tell none.
func Hinted(j *job.Job) (d Demand, ok bool) {
	if h := j.Hints; h != nil {
		d = Demand{h.GPUUse, h.MemoryUse, h.HostUse, h.CPUUse}
	}
	return d, d != Demand{}
}

// Beside implements Sharing. On a device of a Host type only the processors
// count, and switching costs nothing.
func (m Demands) Beside(j *job.Job, others []*job.Job, t cluster.GPUType) float64 {
	if len(others) == 0 {
		return 1
	}
	own := m.of(j, t)
	sum := own
	for _, o := range others {
		for r, d := range m.of(o, t) {
			sum[r] += d
		}
	}
	return m.factor(own, sum, len(others), t)
}

// factor is what becomes of a job that demands own where all together demand sum.
func (m Demands) factor(own, sum Demand, others int, t cluster.GPUType) float64 {
	slowdown := 1.0
	for r, d := range own {
		slowdown += d * max(0, sum[r]-1)
	}
	if !t.Host {
		slowdown += m.Switch * float64(others)
	}
	return 1 / slowdown
}

// of is what a job demands on a device of a type, each part within 0 and 1.
func (m Demands) of(j *job.Job, t cluster.GPUType) Demand {
	var d Demand
	if m.Of != nil {
		d = m.Of(j)
	} else if told, ok := Hinted(j); ok {
		d = told
	} else if h := j.Hints; h != nil && h.Shape != nil {
		d = StepOf(h.Shape, batchOf(j)).Demand(PAIHardware())
	} else {
		d = Demand{SM: 1}
	}
	for r := range d {
		if d[r] = min(1, max(0, d[r])); t.Host && r != Processors {
			d[r] = 0
		}
	}
	return d
}
