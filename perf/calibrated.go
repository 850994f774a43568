package perf

import (
	"github.com/norn-scheduler/norn/cluster"
	"github.com/norn-scheduler/norn/job"
)

// Calibrated is the Sharing of workers that are each kept to a part of a
// device. The part is Share.Milli thousandths of the multiprocessors, for the
// part of the time for which the worker is not throttled. It can be changed at
// any time. A worker that holds nothing (Milli 0) yields: it computes only
// while the others do not, as they communicate.
//
// With u the part of the multiprocessors that a worker could keep busy
// (job.Hints.GPUUse; all where it tells nothing), b that of the bandwidth of memory
// (job.Hints.MemoryUse) and p its part:
//
//	worker with a part:      min(1, p/u) / (1 + Traffic x b x sum of b of the others)
//	beside one that yields:  1 / (1 + Turns), instead of the 1 / (1 + Traffic ...) of that one
//	worker that yields:      min(1, (1 - sum of u of the others) / u) / (1 + Turns)
//
// Source: "Taming Flexible Job Packing in Deep Learning Training Clusters" (Gimbal),
// TACO 2025, of which the abstract was at hand. The formulas are ours.
type Calibrated struct {
	Traffic float64 // what traffic on the memory costs; 0: 0.3
	Turns   float64 // what it costs to take turns; 0: 0.05
}

// Beside implements Sharing: everybody has an equal part.
func (m Calibrated) Beside(j *job.Job, others []*job.Job, t cluster.GPUType) float64 {
	part := cluster.Share{Milli: int32(1000 / (len(others) + 1))}
	all := make([]Sharer, len(others))
	for i, o := range others {
		all[i] = Sharer{Job: o, Share: part}
	}
	return m.Among(Sharer{Job: j, Share: part}, all, t)
}

// Among implements Portioned. On a device of a Host type nobody disturbs anybody.
func (m Calibrated) Among(s Sharer, others []Sharer, t cluster.GPUType) float64 {
	awake := 1 - s.Throttled()
	if t.Host || awake == 0 {
		return awake
	}
	busy, traffic, turns := 0.0, 0.0, false
	for _, o := range others {
		part := 1 - o.Throttled()
		if o.guest() {
			turns = turns || part > 0
			continue
		}
		busy += part * o.sm()
		traffic += part * o.bandwidth()
	}
	own := s.sm()
	if s.guest() {
		if own > 0 {
			awake *= min(1, max(0, 1-busy)/own)
		}
		return awake / (1 + orElse(m.Turns, 0.05))
	}
	if len(others) > 0 && own > 0 {
		awake *= min(1, float64(s.Share.Milli)/1000/own)
	}
	if turns {
		awake /= 1 + orElse(m.Turns, 0.05)
	}
	return awake / (1 + orElse(m.Traffic, 0.3)*s.bandwidth()*traffic)
}

// Busy implements Gauged.
func (m Calibrated) Busy(s Sharer, others []Sharer, t cluster.GPUType) float64 {
	return s.sm() * m.Among(s, others, t)
}
