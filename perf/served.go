package perf

import (
	"github.com/norn-scheduler/norn/cluster"
	"github.com/norn-scheduler/norn/job"
)

// Served is the Sharing of online services (jobs of kind job.Inference) and of
// other jobs beside them. The latter are confined to a part of the
// multiprocessors, as MPS does: Share.Milli thousandths of them, fixed while
// that share is.
//
// With a the part of the multiprocessors that a job could keep busy
// (job.Hints.GPUUse; all where it tells nothing) and b the part of the bandwidth of
// memory (job.Hints.MemoryUse), both times the load of the moment:
//
//	latency of a service x (1 + max(0, a + sum of min(share, a) of the others - 1) + Traffic x b x sum of b of the others)
//	speed of another job = min(1, share / a) / (1 + b x sum of b of those beside it)
//
// The factor on the speed of a service is one over that of its latency.
//
// Source: "MuxFlow: Efficient and Safe GPU Sharing in Large-Scale Production Deep
// Learning Clusters", arXiv 2303.13803, 2023, for the mechanism. The formulas are ours.
type Served struct {
	Traffic float64 // what traffic on the memory costs a service; 0: 0.1
}

// Beside implements Sharing: everybody has an equal part.
func (m Served) Beside(j *job.Job, others []*job.Job, t cluster.GPUType) float64 {
	part := cluster.Share{Milli: int32(1000 / (len(others) + 1))}
	all := make([]Sharer, len(others))
	for i, o := range others {
		all[i] = Sharer{Job: o, Share: part}
	}
	return m.Among(Sharer{Job: j, Share: part}, all, t)
}

// Among implements Portioned. On a device of a Host type nobody disturbs anybody.
func (m Served) Among(s Sharer, others []Sharer, t cluster.GPUType) float64 {
	awake := 1 - s.Throttled()
	if t.Host {
		return awake
	}
	var busy, traffic float64
	for _, o := range others {
		busy += (1 - o.Throttled()) * o.kept(false)
		traffic += (1 - o.Throttled()) * o.bandwidth()
	}
	if s.Job.Kind == job.Inference {
		return awake / (1 + max(0, s.sm()+busy-1) + orElse(m.Traffic, 0.1)*s.bandwidth()*traffic)
	}
	own := s.sm()
	if own == 0 {
		return awake / (1 + s.bandwidth()*traffic)
	}
	return awake * s.kept(len(others) == 0) / own / (1 + s.bandwidth()*traffic)
}

// Caps implements Capping: whoever is no service, and holds a part of the memory.
func (Served) Caps(s Sharer) bool { return s.Job.Kind != job.Inference && s.Share.Memory > 0 }

// kept is what a sharer keeps busy of the multiprocessors: no more than its share
// where it is no service and not alone.
func (s Sharer) kept(alone bool) float64 {
	if s.Job.Kind == job.Inference || alone {
		return s.sm()
	}
	return min(s.sm(), float64(s.Share.Milli)/1000)
}

// Busy implements Gauged.
func (m Served) Busy(s Sharer, others []Sharer, t cluster.GPUType) float64 {
	return s.kept(len(others) == 0) * (1 - s.Throttled()) / (1 + m.queued(s, others))
}

// queued is by how much traffic on the memory slows down what is no service.
func (m Served) queued(s Sharer, others []Sharer) (by float64) {
	if s.Job.Kind == job.Inference {
		return 0
	}
	for _, o := range others {
		by += s.bandwidth() * (1 - o.Throttled()) * o.bandwidth()
	}
	return by
}
